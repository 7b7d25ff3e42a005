"""The download of a model to a claim: its objects, and which workloads wait for it."""

from collections.abc import Mapping
from dataclasses import replace

from inference_operator.api.cache import CacheSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.jobs.download import DownloadInputs, download_state
from inference_operator.jobs.inspection_result import inspection_refusal
from inference_operator.jobs.placement import placement
from inference_operator.jobs.result import Failure
from inference_operator.jobs.state import without_jobs
from inference_operator.manifest import CLAIM, Manifest, Ref
from inference_operator.models.facts import ModelFacts
from inference_operator.objects.cache_claim import cache_claim, claim_size
from inference_operator.objects.names import DOWNLOAD, cache_claim_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import cache_volume, keeps_model, one_node_claim
from inference_operator.pipeline.model_wait import after_task, job_inputs, observed_jobs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.pipeline.role import Role
from inference_operator.planning.healing import ended_output
from inference_operator.views.lookups import ClaimLookup, Lookup


def with_download(inputs: Inputs, planned: Planned) -> Planned | Refused:
    """The outcome with the objects of the download; until it has ended, workloads stay as they are."""
    first = planned.roles[0]
    spec = first.context.spec.stated
    cache = cache_volume(inputs, spec, first.plan)
    if cache is None or spec.cache is None or not keeps_model(spec):
        return planned
    claim = own_claim(inputs, spec.cache, planned)
    if isinstance(claim, Refusal):
        return Refused(desired=inputs.children, refusal=claim, model=planned.model)
    planned = replace(planned, desired={**claim, **planned.desired})
    if not inputs.jobs:
        return planned
    foreign = claim_lookups(inputs, spec.cache)
    download = DownloadInputs(
        job_inputs(first.context),
        first.plan.commit,
        cache,
        empties_kernels=_broken_kernels(inputs, first),
        placement=job_placement(inputs, spec, first),
        claim_known=all(lookup in inputs.lookups for lookup in foreign),
    )
    state = download_state(download, observed_jobs(inputs))
    planned = replace(planned, one_node_claim=one_node_claim(inputs, spec), lookups=(*planned.lookups, *foreign))
    kept = {**without_jobs(inputs.children, DOWNLOAD), **claim}
    found = after_task(inputs, planned, state, Reason.DOWNLOADING_MODEL, kept=kept)
    return replace(found, desired={**claim, **found.desired})  # pods that mount it wait until it is written


def claim_lookups(inputs: Inputs, cache: CacheSpec) -> tuple[Lookup, ...]:
    """The lookup of a claim that the operator did not create, whose access modes decide where a Job may run."""
    return (ClaimLookup(inputs.owner.key.namespace, cache.claim_name),) if cache.claim_name else ()


def own_claim(inputs: Inputs, cache: CacheSpec, planned: Planned) -> Mapping[Ref, Manifest] | Refusal:
    """The claim that the cache creates, empty if it has another one; refused if its size does not fit the model."""
    spec = planned.roles[0].context.spec.stated
    facts = planned.model.facts if planned.model else None
    model_bytes = max(facts.weight_bytes, facts.download_bytes) if isinstance(facts, ModelFacts) else None
    if not keeps_model(spec):
        model_bytes = 0
    live = inputs.child(Ref(CLAIM, inputs.owner.key.namespace, cache_claim_name(inputs.owner.key.name)))
    size = claim_size(cache, model_bytes, live["spec"]["resources"]["requests"]["storage"] if live else None)
    if cache.claim_name:
        return {}
    if isinstance(size, Refusal):
        return _unknown_size(size, planned.model_failure) if model_bytes is None and planned.model_failure else size
    return cache_claim(cache, inputs.owner, size)


def _unknown_size(size: Refusal, failure: Failure) -> Refusal:
    """The refusal of a claim without a size, with the reason why the size of the model's files is not known."""
    why = inspection_refusal(failure)
    return replace(why, field=size.field, problem=f"{size.problem} {why.problem}", cure=f"{size.cure} {why.cure}")


def job_placement(inputs: Inputs, spec: Spec, role: Role) -> Manifest | None:
    """Where a Job that writes to the claim may run, if one node only can mount it at a time; None if any node may."""
    claim = one_node_claim(inputs, spec)
    if not claim:
        return None
    live = role.context.live
    return placement(claim, live.pods, live.view.pod_spec, role.workload.pod)


def _broken_kernels(inputs: Inputs, role: Role) -> bool:
    """Whether engines of the live template end because the kernels that they find are broken; False while one answers.

    Engines of a former template have other kernels, and serve on while their successors fail.
    """
    live = role.context.live
    own = [engine for engine in live.engines if engine.template == live.view.template]
    if any(engine.has_answered for engine in own):
        return False
    pods = (pod for engine in own for pod in engine.pods)
    found = (role.context.engine.diagnose(text) for pod in pods for text in ended_output(pod, inputs.lookups))
    return any(one is not None and one.reason is Reason.KERNELS_BROKEN for one in found)
