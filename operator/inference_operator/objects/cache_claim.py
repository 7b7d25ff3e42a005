"""The claim that `spec.cache` creates: it stays through edits, and goes with its resource unless it is retained."""

from collections.abc import Mapping

from inference_operator.api.cache import CacheSpec, WhenDeleted
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import CLAIM, Manifest, Owner, Ref
from inference_operator.objects.cache_volume import COMPILED_GIB, claim_name
from inference_operator.objects.child import child
from inference_operator.objects.names import CACHE
from inference_operator.quantity import canonical, value
from inference_operator.units import GIB


def cache_claim(cache: CacheSpec, owner: Owner, size: str) -> Mapping[Ref, Manifest]:
    """The claim of this size; none where `claimName` names another one."""
    if cache.claim_name:
        return {}
    content: Manifest = {
        "spec": {
            "accessModes": [cache.access_mode.value],
            "resources": {"requests": {"storage": canonical(size)}},
            **({"storageClassName": cache.storage_class_name} if cache.storage_class_name else {}),
        }
    }
    made = child(
        CLAIM,
        claim_name(cache, owner.key.name),
        owner=owner,
        component=CACHE,
        content=content,
        retain=True,
        outlives_owner=cache.when_deleted is WhenDeleted.RETAIN,
    )
    return {Ref.of(made): made}


def claim_size(cache: CacheSpec, model_bytes: int | None, live: str | None) -> str | Refusal:
    """The size of the claim; refused if the model does not fit, or if nothing says how large it must be.

    A live claim keeps its size unless a larger one is asked for or needed: a claim cannot shrink.

    Args:
        live: the size that the claim requests now; None without one.

    Examples:
        >>> claim_size(CacheSpec(), 141 * 10**9, None), claim_size(CacheSpec(size="200Gi"), 141 * 10**9, None)
        ('142Gi', '200Gi')
        >>> claim_size(CacheSpec(), 141 * 10**9, "300Gi"), claim_size(CacheSpec(), None, "300Gi")
        ('300Gi', '300Gi')
        >>> claim_size(CacheSpec(size="100Gi"), 141 * 10**9, None).cure
        'Set at least `142Gi`, or remove it.'
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
