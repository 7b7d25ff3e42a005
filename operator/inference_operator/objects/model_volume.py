"""Where the model's files are inside the engine's container."""

from inference_operator.manifest import Manifest
from inference_operator.models.source import ClaimModel, HubModel, ImageModel, ModelSource

MODEL_PATH = "/models"
_VOLUME = "model"


def model_argument(source: ModelSource) -> str:
    """What the engine is told to load.

    Examples:
        >>> model_argument(HubModel("Qwen/Qwen3-8B")), model_argument(ClaimModel("models", "llama/8b"))
        ('Qwen/Qwen3-8B', '/models/llama/8b')
    """
    match source:
        case HubModel(repository):
            return repository
        case ClaimModel(_, path):
            return f"{MODEL_PATH}/{path}" if path else MODEL_PATH
        case ImageModel():
            return MODEL_PATH


def model_volumes(source: ModelSource, *, pull_policy: str) -> list[Manifest]:
    """The volume that holds the model, if it is in one."""
    match source:
        case HubModel():
            return []
        case ClaimModel(claim, _):
            return [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": claim, "readOnly": True}}]
        case ImageModel(reference):
            return [{"name": _VOLUME, "image": {"reference": reference, "pullPolicy": pull_policy}}]


def model_mounts(source: ModelSource) -> list[Manifest]:
    """Where that volume is mounted, read-only."""
    if isinstance(source, HubModel):
        return []
    return [{"name": _VOLUME, "mountPath": MODEL_PATH, "readOnly": True}]
