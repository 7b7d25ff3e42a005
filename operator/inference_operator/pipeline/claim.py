"""The part of the claim that `spec.cache` creates: it keeps the model, its adapters, or both."""

from dataclasses import replace

from inference_operator.api.cache import CacheSpec
from inference_operator.api.refusal import Refusal
from inference_operator.jobs.inspection_result import inspection_refusal
from inference_operator.jobs.result import Failure
from inference_operator.manifest import CLAIM, Manifest, Ref
from inference_operator.models.facts import ModelFacts
from inference_operator.objects.cache_volume import cache_claim, claim_size
from inference_operator.objects.names import cache_claim_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import keeps_model
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part


def claim(inputs: Inputs, planned: Planned, cache: CacheSpec) -> Part | Refusal:
    """The claim, none if the cache names another one; refused if its size does not fit the model."""
    spec = planned.shared.stated
    facts = planned.model.facts if planned.model else None
    model_bytes = max(facts.weight_bytes, facts.download_bytes) if isinstance(facts, ModelFacts) else None
    if not keeps_model(spec):
        model_bytes = 0
    size = claim_size(cache, model_bytes, _live_size(inputs))
    if cache.claim_name:
        return Part(feature=Feature.CLAIM)
    if isinstance(size, Refusal):
        return _unknown_size(size, planned.model_failure) if model_bytes is None and planned.model_failure else size
    return Part(feature=Feature.CLAIM, desired=cache_claim(cache, inputs.owner, size))


def _live_size(inputs: Inputs) -> str | None:
    live = inputs.child(Ref(CLAIM, inputs.owner.key.namespace, cache_claim_name(inputs.owner.key.name)))
    return _requested(live) if live else None


def _requested(live: Manifest) -> str:
    size: str = live["spec"]["resources"]["requests"]["storage"]
    return size


def _unknown_size(size: Refusal, failure: Failure) -> Refusal:
    """The refusal of a claim without a size, with the reason why the size of the model's files is not known."""
    why = inspection_refusal(failure)
    return replace(why, field=size.field, problem=f"{size.problem} {why.problem}", cure=f"{size.cure} {why.cure}")
