"""The claim that `spec.cache.size` creates: it stays through edits, and goes with its resource unless retained."""

from collections.abc import Mapping

from inference_operator.api.cache import CacheSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.manifest import CLAIM, Manifest, Owner, Ref
from inference_operator.objects.cache_volume import COMPILED_GIB, claim_name
from inference_operator.objects.child import child
from inference_operator.objects.names import CACHE
from inference_operator.objects.quantity import canonical, value
from inference_operator.units import GIB


def cache_claim(cache: CacheSpec, owner: Owner) -> Mapping[Ref, Manifest]:
    """The claim; none without `size`."""
    if cache.size is None:
        return {}
    content: Manifest = {
        "spec": {
            "accessModes": [cache.access_mode.value],
            "resources": {"requests": {"storage": canonical(cache.size)}},
            **({"storageClassName": cache.storage_class} if cache.storage_class else {}),
        }
    }
    made = child(
        CLAIM,
        claim_name(cache, owner.key.name),
        owner=owner,
        component=CACHE,
        content=content,
        retain=True,
        outlives_owner=cache.retain,
    )
    return {Ref.of(made): made}


def refusal_of_size(cache: CacheSpec, model_bytes: int) -> Refusal | None:
    """Why the model does not fit on the claim, or None.

    Examples:
        >>> refusal_of_size(CacheSpec(size="100Gi"), 141 * 10**9).cure
        'Set at least `142Gi`.'
        >>> refusal_of_size(CacheSpec(size="200Gi"), 141 * 10**9)
    """
    if cache.size is None:
        return None
    needed_gib = -(-model_bytes // GIB) + COMPILED_GIB
    if value(cache.size) >= needed_gib * GIB:
        return None
    problem = (
        f"`{cache.size}` is too small: the model has {model_bytes / GIB:.1f} GiB, and {COMPILED_GIB} GiB are for"
        " compiled kernels."
    )
    return Refusal(Reason.INVALID_SPEC, "spec.cache.size", problem, f"Set at least `{needed_gib}Gi`.")
