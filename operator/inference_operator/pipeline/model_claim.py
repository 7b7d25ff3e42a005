"""The claim that keeps a model between starts, as engines and Jobs mount it."""

from collections.abc import Collection
from dataclasses import dataclass

from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.jobs.placement import mounted_claims
from inference_operator.manifest import Manifest
from inference_operator.models.source import is_downloaded, model_source
from inference_operator.objects.cache_volume import CacheVolume, claim_name
from inference_operator.objects.child import content_hash
from inference_operator.pipeline.inputs import Inputs
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.views.lookups import ClaimLookup, ClaimView

_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
"""Access modes with which pods on several nodes can mount a claim."""


def one_node_claim(inputs: Inputs, spec: Spec) -> str:
    """The name of the claim, if pods on one node only can mount it at a time; empty if not, or not known yet."""
    name = claim_name(spec.cache, inputs.owner.key.name)
    modes: tuple[str, ...] = ()
    if spec.cache and not spec.cache.claim_name:
        modes = (spec.cache.access_mode,)
    elif isinstance(lookup := inputs.lookups.get(ClaimLookup(inputs.owner.key.namespace, name)), ClaimView):
        modes = lookup.access_modes
    return name if is_of_one_node(modes) else ""


@dataclass(frozen=True, slots=True)
class OneNode:
    """Whether pods on one node only can mount the claims of an engine at a time."""

    applies: bool | None
    """None until the lookups tell."""
    lookups: tuple[ClaimLookup, ...] = ()


def one_node(inputs: Inputs, spec: Spec, pod: Manifest, *, matters: bool) -> OneNode:
    """Whether that holds for any claim of a pod: of the cache, of its model, of adapters, and those that users add.

    Those that the operator has not made are looked up only where it `matters`.
    """
    if one_node_claim(inputs, spec):
        return OneNode(applies=True)
    others = sorted({*mounted_claims(pod).values()} - {claim_name(spec.cache, inputs.owner.key.name)})
    lookups = tuple(ClaimLookup(inputs.owner.key.namespace, name) for name in others) if matters else ()
    views = [inputs.lookups.get(lookup) for lookup in lookups]
    if any(isinstance(view, ClaimView) and is_of_one_node(view.access_modes) for view in views):
        return OneNode(applies=True, lookups=lookups)
    return OneNode(applies=None if None in views else False, lookups=lookups)


def is_of_one_node(modes: Collection[str]) -> bool:
    return bool(modes) and not _SHARED.intersection(modes)


def cache_volume(inputs: Inputs, spec: Spec, plan: PinnedPlan) -> CacheVolume | None:
    """The claim of engines of this plan; None without `spec.cache`. Kernels depend on model, image and GPUs.

    The Job that downloads a model makes the folder of its kernels. Beside a model of a volume only adapters are kept.
    """
    claim = claim_name(spec.cache, inputs.owner.key.name)
    if not claim:
        return None
    sizes = plan.plan
    key = content_hash([spec.model.source, plan.commit, plan.image, sizes.gpu, sizes.gpus_per_replica])
    return CacheVolume(claim, key if keeps_model(spec) else "", adapters=bool(spec.engine.adapter_slots))


def keeps_model(spec: Spec) -> bool:
    """Whether the claim keeps the model itself: one from a hub or a bucket."""
    source = model_source(spec.model.source)
    return not isinstance(source, Refusal) and is_downloaded(source)
