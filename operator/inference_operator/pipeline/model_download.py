"""The claim that `spec.cache` creates for a model and adapters, and the download of a model to it: engines await it."""

from dataclasses import replace

from inference_operator.api.cache import CacheSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.jobs.download import Download, download_state
from inference_operator.jobs.inspection_result import inspection_refusal
from inference_operator.jobs.placement import WritableClaim, mounted_claims, placement
from inference_operator.jobs.result import Failure
from inference_operator.manifest import CLAIM, Manifest, Ref
from inference_operator.models.facts import ModelFacts
from inference_operator.objects.cache_volume import cache_claim, claim_name, claim_size
from inference_operator.objects.names import cache_claim_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import cache_volume, keeps_model, one_node_claim
from inference_operator.pipeline.model_wait import ModelStep, observed_jobs, task_part
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Hold, Part
from inference_operator.pipeline.role import Role
from inference_operator.planning.healing import ended_output
from inference_operator.views.lookups import ClaimLookup, Lookup


def download(inputs: Inputs, planned: Planned, cache: CacheSpec) -> ModelStep:
    """The objects of the download; until it has ended, new engines wait."""
    if not inputs.jobs:
        return ModelStep(Part(feature=Feature.DOWNLOAD))
    drafting = planned.plan.plan.drafting
    request = Download(
        planned.shared,
        planned.plan.commit,
        writable_claim(inputs, planned, cache),
        drafting.draft if drafting else "",
        drafting.draft_revision if drafting else "",
        _kernels(inputs, planned),
        empties_kernels=any(_broken_kernels(inputs, role) for role in planned.roles),
    )
    state = download_state(request, observed_jobs(inputs))
    part = task_part(inputs, planned, Feature.DOWNLOAD, state, Reason.DOWNLOADING_MODEL)
    lookups = (*claim_lookups(inputs, cache), *part.lookups)
    part = replace(part, lookups=lookups, one_node_claim=one_node_claim(inputs, planned.shared.stated))
    if state.refusal:
        return ModelStep(part, state.refusal, Hold.OTHERS)
    return ModelStep(part, hold=Hold.NOTHING if state.complete else Hold.NEW_ENGINES)


def claim_lookups(inputs: Inputs, cache: CacheSpec) -> tuple[Lookup, ...]:
    """The lookup of a claim that the operator did not create, whose access modes decide where a Job may run."""
    return (ClaimLookup(inputs.owner.key.namespace, cache.claim_name),) if cache.claim_name else ()


def _kernels(inputs: Inputs, planned: Planned) -> tuple[str, ...]:
    volumes = (cache_volume(inputs, role.context.spec.stated, role.plan) for role in planned.roles)
    return tuple(dict.fromkeys(volume.key for volume in volumes if volume))


def writable_claim(inputs: Inputs, planned: Planned, cache: CacheSpec) -> WritableClaim:
    name, foreign = claim_name(cache, inputs.owner.key.name), claim_lookups(inputs, cache)
    return WritableClaim(name, _placement(inputs, planned), all(lookup in inputs.lookups for lookup in foreign))


def _placement(inputs: Inputs, planned: Planned) -> Manifest | None:
    """Where a Job that writes to the claim may run, if one node only can mount it at a time; None if any node may.

    Engines of all roles mount it: where any of them has it mounted, the Job can run too.
    """
    claim = one_node_claim(inputs, planned.shared.stated)
    if not claim:
        return None
    lives = (role.context.live for role in planned.roles)
    mounting = (live for live in lives if claim in mounted_claims(live.view.pod_spec or {}).values())
    return placement([pod for live in mounting for pod in live.pods], planned.scaled_role.workload.pod)


def _broken_kernels(inputs: Inputs, role: Role) -> bool:
    """Whether engines of the live template end because the kernels that they find are broken; False while one answers.

    Engines of a former template have other kernels, and serve on while their successors fail.
    """
    live = role.context.live
    own = [engine for engine in live.engines if engine.template == live.view.template]
    if any(engine.has_answered for engine in own):
        return False
    pods = (pod for engine in own for pod in engine.pods)
    diagnoses = (role.context.engine.diagnose(text) for pod in pods for text in ended_output(pod, inputs.lookups))
    return any(diagnosis is not None and diagnosis.reason is Reason.KERNELS_BROKEN for diagnosis in diagnoses)


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
    return str(live["spec"]["resources"]["requests"]["storage"]) if live else None


def _unknown_size(size: Refusal, failure: Failure) -> Refusal:
    """The refusal of a claim without a size, with the reason why the size of the model's files is not known."""
    why = inspection_refusal(failure)
    return replace(why, field=size.field, problem=f"{size.problem} {why.problem}", cure=f"{size.cure} {why.cure}")
