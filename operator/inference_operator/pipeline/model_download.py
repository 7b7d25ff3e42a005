"""The part of the download of a model to a claim: engines wait for it."""

from dataclasses import replace

from inference_operator.api.cache import CacheSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.jobs.download import DownloadInputs, download_state
from inference_operator.jobs.placement import placement
from inference_operator.manifest import Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import cache_volume, one_node_claim
from inference_operator.pipeline.model_wait import ModelStep, job_inputs, observed_jobs, task_part
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Hold, Part
from inference_operator.pipeline.role import Role
from inference_operator.planning.healing import ended_output
from inference_operator.views.lookups import ClaimLookup, Lookup


def download(inputs: Inputs, planned: Planned, cache: CacheSpec) -> ModelStep:
    """The objects of the download; until it has ended, new engines wait."""
    first = planned.roles[0]
    spec = first.context.spec.stated
    volume = cache_volume(inputs, spec, first.plan)
    if volume is None or not inputs.jobs:
        return ModelStep(Part(feature=Feature.DOWNLOAD))
    foreign = claim_lookups(inputs, cache)
    request = DownloadInputs(
        job_inputs(first.context),
        first.plan.commit,
        volume,
        empties_kernels=_broken_kernels(inputs, first),
        placement=job_placement(inputs, spec, first),
        claim_known=all(lookup in inputs.lookups for lookup in foreign),
    )
    state = download_state(request, observed_jobs(inputs))
    part = task_part(inputs, planned, Feature.DOWNLOAD, state, Reason.DOWNLOADING_MODEL)
    part = replace(part, lookups=(*foreign, *part.lookups), one_node_claim=one_node_claim(inputs, spec))
    if state.refusal:
        return ModelStep(part, state.refusal, Hold.OTHERS)
    return ModelStep(part, hold=Hold.NOTHING if state.complete else Hold.NEW_ENGINES)


def claim_lookups(inputs: Inputs, cache: CacheSpec) -> tuple[Lookup, ...]:
    """The lookup of a claim that the operator did not create, whose access modes decide where a Job may run."""
    return (ClaimLookup(inputs.owner.key.namespace, cache.claim_name),) if cache.claim_name else ()


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
    diagnoses = (role.context.engine.diagnose(text) for pod in pods for text in ended_output(pod, inputs.lookups))
    return any(diagnosis is not None and diagnosis.reason is Reason.KERNELS_BROKEN for diagnosis in diagnoses)
