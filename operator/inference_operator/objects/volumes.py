"""Volumes and mounts of an engine: the model, writable paths, and shared memory."""

from collections.abc import Sequence

from inference_operator.engines.process import EngineProcess
from inference_operator.manifest import Manifest
from inference_operator.models.source import ModelSource
from inference_operator.objects.cache_volume import CacheVolume, cache_mounts, cache_volumes
from inference_operator.objects.model_volume import model_mounts, model_volumes
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
