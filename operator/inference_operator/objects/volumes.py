"""The volumes of an engine: its model, what it writes, and the memory that its processes share."""

from collections.abc import Sequence

from inference_operator.engines.base import EngineProcess
from inference_operator.manifest import Manifest
from inference_operator.models.source import ModelSource
from inference_operator.objects.model_volume import model_mounts, model_volumes
from inference_operator.sizing.plan import Plan

_SHARED_MEMORY = "shm"


def engine_volumes(source: ModelSource, process: EngineProcess, plan: Plan, *, pull_policy: str) -> list[Manifest]:
    """The pod's volumes."""
    return [
        *model_volumes(source, pull_policy=pull_policy),
        *writable_volumes(process.writable),
        {"name": _SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": plan.shared_memory}},
    ]


def engine_mounts(source: ModelSource, writable: Sequence[str]) -> list[Manifest]:
    """Where the engine sees them."""
    return [
        *model_mounts(source),
        *writable_mounts(writable),
        {"name": _SHARED_MEMORY, "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own
    ]


def writable_volumes(paths: Sequence[str]) -> list[Manifest]:
    """An empty volume for each path that a container writes to."""
    return [{"name": _volume_name(path), "emptyDir": {}} for path in paths]


def writable_mounts(paths: Sequence[str]) -> list[Manifest]:
    """Where the container sees them."""
    return [{"name": _volume_name(path), "mountPath": path} for path in paths]


def _volume_name(path: str) -> str:
    """A volume for each writable path, named after it.

    Examples:
        >>> _volume_name("/home/vllm")
        'home-vllm'
    """
    return path.strip("/").replace("/", "-")
