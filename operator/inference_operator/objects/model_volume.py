"""The volume with the model's files, and their path in the container."""

from inference_operator.manifest import Manifest
from inference_operator.models.source import DOWNLOADED, BucketModel, ClaimModel, HubModel, ImageModel, ModelSource
from inference_operator.objects.cache_volume import snapshot_path

MODEL_PATH = "/models"
_VOLUME = "model"


def model_argument(source: ModelSource, commit: str = "") -> str:
    """The model that the engine is started with: a hub repository or a path.

    Args:
        commit: its revision, which is a part of the path of a model from a bucket.

    Examples:
        >>> model_argument(HubModel("Qwen/Qwen3-8B")), model_argument(ClaimModel("models", "llama/8b"))
        ('Qwen/Qwen3-8B', '/models/llama/8b')
        >>> model_argument(BucketModel("models", "qwen"), "0123")
        '/model-cache/s3--models--qwen/snapshots/0123'
    """
    match source:
        case HubModel(repository, _):
            return repository
        case BucketModel():
            return snapshot_path(source.name, commit)
        case ClaimModel(_, path, _):
            return f"{MODEL_PATH}/{path}" if path else MODEL_PATH
        case ImageModel():
            return MODEL_PATH


def model_volumes(source: ModelSource, *, pull_policy: str) -> list[Manifest]:
    """The volume of the model; none for one that is downloaded."""
    match source:
        case HubModel() | BucketModel():
            return []
        case ClaimModel(claim, _, _):
            return [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}]
        case ImageModel(reference):
            return [{"name": _VOLUME, "image": {"reference": reference, "pullPolicy": pull_policy}}]


def model_mounts(source: ModelSource) -> list[Manifest]:
    if isinstance(source, DOWNLOADED):
        return []
    return [{"name": _VOLUME, "mountPath": MODEL_PATH, "readOnly": True}]
