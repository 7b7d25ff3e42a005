"""The part of the download of a model to a claim: engines wait for it."""

from dataclasses import replace

from inference_operator.api.cache import CacheSpec
from inference_operator.api.reasons import Reason
from inference_operator.jobs.download import Download, download_state
from inference_operator.jobs.placement import WritableClaim, mounted_claims, placement
from inference_operator.manifest import Manifest
from inference_operator.objects.cache_volume import claim_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import cache_volume, one_node_claim
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
    mounting = (role.context.live for role in planned.roles if _mounts(claim, role.context.live.view.pod_spec))
    return placement([pod for live in mounting for pod in live.pods], planned.scaled_role.workload.pod)


def _mounts(claim: str, pod_spec: Manifest | None) -> bool:
    return pod_spec is not None and claim in mounted_claims(pod_spec).values()


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
