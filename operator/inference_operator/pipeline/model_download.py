"""The download of a model to a claim: its objects, and which workloads wait for it."""

from dataclasses import replace

from inference_operator.api.pod_defaults import with_engine_defaults
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest, Ref
from inference_operator.model_cache.claim import cache_claim, refusal_of_size
from inference_operator.model_cache.download import download_state, without_downloads
from inference_operator.model_cache.job import DownloadRequest
from inference_operator.models.facts import ModelFacts
from inference_operator.objects.cache_volume import CacheVolume, claim_name
from inference_operator.objects.child import content_hash
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.pipeline.roles import Role
from inference_operator.planning.healing import ended_output
from inference_operator.views.lookups import ClaimLookup, ClaimView, Lookup
from inference_operator.views.pod import has_answered
from inference_operator.workload.pinned_plan import PinnedPlan

_SHARED = frozenset({"ReadWriteMany", "ReadOnlyMany"})
"""Access modes with which pods on several nodes can mount a claim."""


def with_download(inputs: Inputs, spec: Spec, planned: Planned) -> Planned | Refused:
    """The outcome with the objects of the download; until it has ended, workloads stay as they are."""
    first = planned.roles[0]
    cache = cache_volume(inputs, spec, first.plan)
    if cache is None:
        return planned
    facts = planned.model.facts if planned.model else None
    if isinstance(facts, ModelFacts) and (refusal := refusal_of_size(spec.cache, facts.weight_bytes)):
        return Refused(desired=inputs.children, refusal=refusal, model=planned.model)
    planned = replace(planned, desired={**cache_claim(spec.cache, inputs.owner), **planned.desired})
    if not inputs.downloads:
        return planned
    effective = with_engine_defaults(spec, inputs.settings.engine_defaults)
    access = first.engine.access(effective.engine, effective.model)
    request = DownloadRequest(
        effective, access, first.plan.commit, cache, inputs.owner, inputs.settings, _broken_kernels(inputs, first)
    )
    read_logs = inputs.settings.read_logs
    state = download_state(request, inputs.children, inputs.pods, inputs.now, inputs.lookups, read_logs=read_logs)
    foreign: tuple[Lookup, ...] = (ClaimLookup(inputs.owner.key.namespace, spec.cache.pvc),) if spec.cache.pvc else ()
    lookups = (*planned.lookups, *state.lookups, *foreign)
    times = [moment for moment in (planned.recheck_at, state.recheck_at(inputs.now)) if moment]
    recheck_at = min(times, default=None)
    if state.refusal:
        desired = {**without_downloads(inputs.children), **cache_claim(spec.cache, inputs.owner), **state.desired}
        return Refused(
            desired=desired, refusal=state.refusal, model=planned.model, lookups=lookups, recheck_at=recheck_at
        )
    desired = {**state.desired, **(planned.desired if state.complete else _without_new_engines(inputs, planned))}
    return replace(
        planned,
        desired=desired,
        one_node_claim=one_node_claim(inputs, spec),
        download=_message(inputs, first.name, state.message),
        lookups=lookups,
        recheck_at=recheck_at,
    )


def _message(inputs: Inputs, role: str, progress: str) -> str:
    """The progress; and if engines run, that they stay until the switch."""
    if not progress or inputs.workload(role) is None:
        return progress
    return f"{progress} The running engines serve until the switch, which follows."


def _broken_kernels(inputs: Inputs, role: Role) -> bool:
    """Whether engines end because the kernels that they find are broken; False while one answers."""
    if any(has_answered(pod) for pod in role.pods):
        return False
    found = (role.engine.diagnose(text) for pod in role.pods for text in ended_output(pod, inputs.lookups))
    return any(one is not None and one.reason is Reason.KERNELS_BROKEN for one in found)


def _without_new_engines(inputs: Inputs, planned: Planned) -> dict[Ref, Manifest]:
    """The desired objects with the live workloads; without workloads that do not exist yet."""
    workloads = {Ref.of(role.workload) for role in planned.roles}
    others = {ref: one for ref, one in planned.desired.items() if ref not in workloads}
    return {**others, **{ref: live for ref in workloads if (live := inputs.child(ref)) is not None}}


def one_node_claim(inputs: Inputs, spec: Spec) -> str:
    """The name of the claim, if pods on one node only can mount it at a time; empty if not, or not known yet."""
    name = claim_name(spec.cache, inputs.owner.key.name)
    modes: tuple[str, ...] = ()
    if spec.cache.size is not None:
        modes = (spec.cache.access_mode,)
    elif isinstance(found := inputs.lookups.get(ClaimLookup(inputs.owner.key.namespace, name)), ClaimView):
        modes = found.access_modes
    return name if modes and not _SHARED.intersection(modes) else ""


def cache_volume(inputs: Inputs, spec: Spec, plan: PinnedPlan) -> CacheVolume | None:
    """The claim of engines of this plan; None without `spec.cache`. Kernels depend on model, image and GPUs."""
    claim = claim_name(spec.cache, inputs.owner.key.name)
    if not claim:
        return None
    sizes = plan.plan
    key = content_hash([spec.model.source, plan.commit, plan.image, sizes.gpu, sizes.gpus_per_replica])
    return CacheVolume(claim, key)
