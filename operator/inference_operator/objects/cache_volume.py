"""The volume of `spec.cache`: the model's files read-only, and a writable folder of compiled kernels.

Folders of the claim: `hub` in the layout of the hub's cache, `compiled/KEY`, and `complete` with one record for each
finished download. `adapters` has LoRA adapters with a `hub` and a `complete` of its own: of a repository it has the
files of an adapter only, and `complete` of the model's must not count these.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.api.cache import CacheSpec, WhenDeleted
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import CLAIM, Manifest, Owner, Ref
from inference_operator.objects.child import child
from inference_operator.objects.names import CACHE, cache_claim_name
from inference_operator.quantity import canonical, value
from inference_operator.units import GIB

HUB_FOLDER, COMPILED_FOLDER = "hub", "compiled"
COMPILED_GIB = 10
"""Most GiB of all compiled kernels on a claim; docs/how-to/caches.md reserves as much."""
HUB_CACHE = "/model-cache"
"""Mount path of the model's files in engines."""
ADAPTERS_FOLDER, ADAPTER_CACHE = "adapters", "/adapter-cache"
"""Folder of the adapters on the claim, and mount path of their files in engines."""
BUCKET_SCHEME = "s3://"
ROOT = "/cache"
"""Mount path of the whole claim in the Job that fills it."""
_VOLUME = "model-cache"


_HUB_REPOSITORY, _BUCKET = "models--", "s3--"
_COPIED = re.compile("(pvc|oci)://(.+)")
"""Adapters that a Job copies from a volume."""
_LONGEST_FOLDER = 200
"""Characters of a folder's name, of which one has at most 255."""


def folder_of(model: str) -> str:
    """The folder of a model in `hub`: that of the hub's cache, or one of the same form for other sources.

    Two sources may have one folder. Their snapshots differ, since a listing's digest depends on the source.

    Examples:
        >>> folder_of("org/name"), folder_of("s3://bucket/a/b"), folder_of("pvc://claim/a"), folder_of("oci://a.b/c:1")
        ('models--org--name', 's3--bucket--a--b', 'pvc--claim--a', 'oci--a.b--c--1')
    """
    if model.startswith(BUCKET_SCHEME):
        return f"{_BUCKET}{model.removeprefix(BUCKET_SCHEME).replace('/', '--')}"
    if copied := _COPIED.fullmatch(model):
        return f"{copied[1]}--{re.sub('[/:@]', '--', copied[2])}"[:_LONGEST_FOLDER]
    return f"{_HUB_REPOSITORY}{model.replace('/', '--')}"


def model_of_folder(folder: str) -> str:
    """The model of such a folder, for messages, since names with `--` are ambiguous; empty for another folder.

    Examples:
        >>> model_of_folder("models--org--name"), model_of_folder("s3--bucket--a--b"), model_of_folder("x")
        ('org/name', 's3://bucket/a/b', '')
    """
    if folder.startswith(_BUCKET):
        return f"{BUCKET_SCHEME}{folder.removeprefix(_BUCKET).replace('--', '/')}"
    return folder.removeprefix(_HUB_REPOSITORY).replace("--", "/", 1) if folder.startswith(_HUB_REPOSITORY) else ""


def snapshot_path(model: str, commit: str, root: str = HUB_CACHE) -> str:
    """Path of a model's or an adapter's files in engines, where the hub's client does not look for them.

    Examples:
        >>> snapshot_path("s3://bucket/a", "0123"), snapshot_path("org/name", "0123", ADAPTER_CACHE)
        ('/model-cache/s3--bucket--a/snapshots/0123', '/adapter-cache/models--org--name/snapshots/0123')
    """
    return f"{root}/{folder_of(model)}/snapshots/{commit}"


@dataclass(frozen=True, slots=True)
class CacheVolume:
    claim: str
    """Name of the PersistentVolumeClaim, in the namespace of the engines."""
    key: str
    """Folder of the compiled kernels: one for each model, image and set of GPUs. Empty: they are not kept."""
    adapters: bool = False


def claim_name(cache: CacheSpec | None, resource: str) -> str:
    return (cache.claim_name or cache_claim_name(resource)) if cache else ""


def cache_volumes(cache: CacheVolume | None) -> list[Manifest]:
    return [{"name": _VOLUME, "persistentVolumeClaim": {"claimName": cache.claim}}] if cache else []


def cache_mounts(cache: CacheVolume | None, compiled: str) -> list[Manifest]:
    """The mounts of an engine, with its folder of compiled kernels, if it has one.

    Engines of other resources read the same files. So an engine can write only to the folder of its own kernels.
    """
    if cache is None:
        return []
    mounts: list[Manifest] = [{"name": _VOLUME, "mountPath": HUB_CACHE, "subPath": HUB_FOLDER, "readOnly": True}]
    if compiled and cache.key:
        mounts.append({"name": _VOLUME, "mountPath": compiled, "subPath": f"{COMPILED_FOLDER}/{cache.key}"})
    if cache.adapters:
        folder = f"{ADAPTERS_FOLDER}/{HUB_FOLDER}"
        mounts.append({"name": _VOLUME, "mountPath": ADAPTER_CACHE, "subPath": folder, "readOnly": True})
    return mounts


def whole_mount() -> Manifest:
    return {"name": _VOLUME, "mountPath": ROOT}


def cache_claim(cache: CacheSpec, owner: Owner, size: str) -> Mapping[Ref, Manifest]:
    """The claim of this size; none where `claimName` names another one."""
    if cache.claim_name:
        return {}
    spec: Manifest = {
        "accessModes": [cache.access_mode.value],
        "resources": {"requests": {"storage": canonical(size)}},
        **({"storageClassName": cache.storage_class_name} if cache.storage_class_name else {}),
    }
    made = child(
        CLAIM,
        claim_name(cache, owner.key.name),
        owner=owner,
        component=CACHE,
        content={"spec": spec},
        retain=True,
        outlives_owner=cache.when_deleted is WhenDeleted.RETAIN,
    )
    return {Ref.of(made): made}


def claim_size(cache: CacheSpec, model_bytes: int | None, live: str | None) -> str | Refusal:
    """The size of the claim; refused if the model does not fit, or if nothing says how large it must be.

    A live claim keeps its size unless a larger one is asked for or needed: a claim cannot shrink.
    """
    if model_bytes is None:
        return cache.size or live or _UNKNOWN
    needed_gib = -(-model_bytes // GIB) + COMPILED_GIB
    if cache.size is None:
        return max(live or "0", f"{needed_gib}Gi", key=value)
    if value(cache.size) >= needed_gib * GIB:
        return cache.size
    problem = (
        f"`{cache.size}` is too small: the model has {model_bytes / GIB:.1f} GiB, and {COMPILED_GIB} GiB are for"
        " compiled kernels."
    )
    return Refusal(Reason.INVALID_SPEC, "spec.cache.size", problem, f"Set at least `{needed_gib}Gi`, or remove it.")


_UNKNOWN = Refusal(
    Reason.INVALID_SPEC,
    "spec.cache.size",
    "is needed: the size of the model's files is not known.",
    f"Set the size of the files and {COMPILED_GIB} GiB for compiled kernels.",
)
