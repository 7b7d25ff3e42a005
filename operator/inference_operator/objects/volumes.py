"""Volumes and mounts of an engine: the model, writable paths, and shared memory."""

from collections.abc import Sequence

from inference_operator.engines.process import EngineProcess
from inference_operator.manifest import Manifest
from inference_operator.models.source import DOWNLOADED, BucketModel, ClaimModel, HubModel, ImageModel, ModelSource
from inference_operator.objects.cache_volume import CacheVolume, cache_mounts, cache_volumes, snapshot_path
from inference_operator.sizing.plan import Plan

_SHARED_MEMORY = "shm"


def engine_volumes(
    source: ModelSource, process: EngineProcess, plan: Plan, cache: CacheVolume | None = None, *, pull_policy: str
) -> list[Manifest]:
    return [
        *model_volumes(source, pull_policy=pull_policy),
        *writable_volumes(process.writable),
        *cache_volumes(cache),
        {"name": _SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": plan.shared_memory}},
    ]


def engine_mounts(
    source: ModelSource, writable: Sequence[str], cache: CacheVolume | None = None, compiled: str = ""
) -> list[Manifest]:
    return [
        *model_mounts(source),
        *writable_mounts(writable),
        *cache_mounts(cache, compiled),
        {"name": _SHARED_MEMORY, "mountPath": "/dev/shm"},  # noqa: S108 - a volume of the pod
    ]


def writable_volumes(paths: Sequence[str]) -> list[Manifest]:
    return [{"name": _volume_name(path), "emptyDir": {}} for path in paths]


def writable_mounts(paths: Sequence[str]) -> list[Manifest]:
    return [{"name": _volume_name(path), "mountPath": path} for path in paths]


def _volume_name(path: str) -> str:
    return path.strip("/").replace("/", "-")


MODEL_PATH = "/models"
_VOLUME = "model"


def model_argument(source: ModelSource, commit: str = "") -> str:
    """The model that the engine is started with: a hub repository or a path, with the commit of one from a bucket.

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
