"""The volume of `spec.cache`: the model's files read-only, and a writable folder of compiled kernels.

Folders of the claim: `hub` in the layout of the hub's cache, `compiled/KEY`, and `complete` with one record for each
finished download.
"""

from dataclasses import dataclass

from inference_operator.api.cache import CacheSpec
from inference_operator.manifest import Manifest
from inference_operator.objects.names import cache_claim_name

HUB_FOLDER, COMPILED_FOLDER = "hub", "compiled"
COMPILED_GIB = 10
"""Most GiB of all compiled kernels on a claim; docs/how-to/caches.md reserves as much."""
HUB_CACHE = "/model-cache"
"""Mount path of the model's files in engines."""
ROOT = "/cache"
"""Mount path of the whole claim in the Job that fills it."""
_VOLUME = "model-cache"


@dataclass(frozen=True, slots=True)
class CacheVolume:
    """The claim as engines mount it."""

    claim: str
    """Name of the PersistentVolumeClaim, in the namespace of the engines."""
    key: str
    """Folder of the compiled kernels: one for each model, image and set of GPUs."""


def claim_name(cache: CacheSpec, resource: str) -> str:
    """Name of the claim of `spec.cache`; empty without one.

    Examples:
        >>> claim_name(CacheSpec(size="200Gi"), "qwen"), claim_name(CacheSpec(pvc="models"), "qwen")
        ('qwen-cache', 'models')
    """
    return cache_claim_name(resource) if cache.size is not None else cache.pvc or ""


def cache_volumes(cache: CacheVolume | None) -> list[Manifest]:
    """The volume of the claim; none without one."""
    return [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": cache.claim}}] if cache else []


def cache_mounts(cache: CacheVolume | None, compiled: str) -> list[Manifest]:
    """The mounts of an engine.

    Engines of other resources read the same files. So an engine can write only to the folder of its own kernels.

    Args:
        cache: the claim; None without one.
        compiled: the engine's folder of compiled kernels; empty if it has none.
    """
    if cache is None:
        return []
    mounts: list[Manifest] = [{"name": _VOLUME, "mountPath": HUB_CACHE, "subPath": HUB_FOLDER, "readOnly": True}]
    if compiled:
        mounts.append({"name": _VOLUME, "mountPath": compiled, "subPath": f"{COMPILED_FOLDER}/{cache.key}"})
    return mounts


def whole_mount() -> Manifest:
    """The mount of the whole claim, for the Job that fills it."""
    return {"name": _VOLUME, "mountPath": ROOT}
