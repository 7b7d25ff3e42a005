"""The part of the adapters: the Jobs that copy them, whether they fit, and the list for engines and routers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from inference_operator.api.adapters import AdapterSpec
from inference_operator.api.cache import CacheSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.api.status import AdapterPhase
from inference_operator.jobs.adapter import access_of, adapter_state, field_of
from inference_operator.jobs.attempts import JobWait
from inference_operator.jobs.download_result import StoredAdapter
from inference_operator.jobs.state import JobState
from inference_operator.manifest import Ref
from inference_operator.models.adapter import base_problem
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import ModelSource, file_of, model_source, repository_of, stored_name
from inference_operator.objects.adapter_list import TELL_AFTER, adapter_list, adapter_list_ref, listed_adapters
from inference_operator.objects.cache_volume import ADAPTER_CACHE, snapshot_path
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.adapter_lists import Adapter, decided_list, is_awaited, list_updates
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_download import claim_lookups, writable_claim
from inference_operator.pipeline.model_wait import ModelStep, job_wait, observed_jobs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Hold, Part

_TELL_AGAIN_AFTER = timedelta(seconds=2)
"""When to look whether an engine has got the list that its pod was told to read."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """One adapter, and how far its copy is; no state where its source is invalid, or nothing is done."""

    adapter: Adapter
    state: JobState[StoredAdapter] | None = None


def adapters(inputs: Inputs, planned: Planned, cache: CacheSpec) -> ModelStep:
    """The objects of the adapters. A first engine waits until the slots for them are known."""
    spec = planned.shared.stated
    if planned.hold.holds_others:  # none is copied or loaded before it is verified
        return ModelStep(Part(feature=Feature.ADAPTERS, adapters=_without_files(spec)))
    copies = [_copy(inputs, planned, cache, adapter) for adapter in spec.model.adapters] if inputs.jobs else []
    states = [copy.state for copy in copies if copy.state]
    part = Part(
        feature=Feature.ADAPTERS,
        desired={ref: manifest for state in states for ref, manifest in state.desired.items()},
        lookups=(*(look for state in states for look in state.lookups), *claim_lookups(inputs, cache)),
        due=_earliest(*(state.recheck_at(inputs.now) for state in states)),
        adapters=tuple(copy.adapter for copy in copies) or _without_files(spec),
    )
    if _decides_slots(inputs, planned, copies):
        return ModelStep(replace(part, model_wait=_wait(copies)), hold=Hold.NEW_ENGINES)
    return ModelStep(_with_list(inputs, planned, part))


def _without_files(spec: Spec) -> tuple[Adapter, ...]:
    return tuple(Adapter(adapter.name) for adapter in spec.model.adapters)


def _wait(copies: Sequence[_Copy]) -> JobWait:
    copying = ((copy.adapter, copy.state) for copy in copies if copy.state and copy.adapter.progress)
    adapter, state = next(copying)
    return replace(job_wait(state, Reason.DOWNLOADING_MODEL), message=adapter.progress)


def _copy(inputs: Inputs, planned: Planned, cache: CacheSpec, adapter: AdapterSpec) -> _Copy:
    shared, spec = planned.shared, planned.shared.stated
    if any(adapter.name in role.process.model_names for role in planned.roles):
        field, problem = f"spec.model.adapters[{adapter.name}].name", "It is a name of the model itself."
        taken = Refusal(Reason.INVALID_SPEC, field, problem, "Use another name.")
        return _Copy(Adapter(adapter.name, refusal=taken, keeps_former=False))
    source = _source(adapter)
    if isinstance(source, Refusal):
        return _Copy(Adapter(adapter.name, refusal=source))
    access = planned.scaled_role.context.engine.access(shared.effective.engine, access_of(adapter, spec.model))
    claim = writable_claim(inputs, planned, cache)
    state = adapter_state(replace(shared, access=access), adapter, source, claim, observed_jobs(inputs))
    stored = state.progress.result
    if stored is None:
        progress = "" if state.refusal else state.message or f"The adapter `{adapter.name}` is copied to the claim."
        waiting = None if state.refusal else state.progress.waiting
        return _Copy(Adapter(adapter.name, refusal=state.refusal, progress=progress, wait=waiting), state)
    if refusal := _of_another_model(planned, adapter, stored):
        return _Copy(Adapter(adapter.name, refusal=refusal, keeps_former=False), state)
    if refusal := _too_large(spec, adapter, stored):
        return _Copy(Adapter(adapter.name, refusal=refusal), state)
    return _Copy(Adapter(adapter.name, snapshot_path(stored_name(source), stored.commit, ADAPTER_CACHE)), state)


def _source(adapter: AdapterSpec) -> ModelSource | Refusal:
    source = model_source(adapter.source, field_of(adapter))
    if isinstance(source, Refusal) or not file_of(source):
        return source
    return Refusal(
        Reason.INVALID_SPEC, field_of(adapter), "Its source is a file in GGUF.", "Name the adapter's folder."
    )


def _of_another_model(planned: Planned, adapter: AdapterSpec, stored: StoredAdapter) -> Refusal | None:
    facts = planned.model.facts if planned.model else None
    known = (facts.hidden_size, facts.layers) if isinstance(facts, ModelFacts) else (0, 0)
    repository = repository_of(planned.shared.source)
    problem = base_problem(stored.facts, repository, hidden_size=known[0], layers=known[1])
    cure = "Use an adapter of this model."
    return Refusal(Reason.INVALID_MODEL, field_of(adapter), problem, cure) if problem else None


def _too_large(spec: Spec, adapter: AdapterSpec, stored: StoredAdapter) -> Refusal | None:
    rank, most = stored.facts.rank, spec.engine.max_adapter_rank or 0
    if rank > most:
        cure = f"Set `spec.engine.maxAdapterRank` to {rank} or more, which restarts the engines, or remove it."
        problem = f"It has rank {rank}, and the slots have rank {most}."
        return Refusal(Reason.INVALID_SPEC, field_of(adapter), problem, cure)
    return None


def _decides_slots(inputs: Inputs, planned: Planned, copies: Sequence[_Copy]) -> bool:
    """Whether a first engine waits for adapters whose rank decides its slots. One that failed does not count."""
    stated = inputs.resource.spec
    fixed = isinstance(stated, Spec) and stated.engine.max_adapter_rank is not None
    has_engines = any(role.context.live.workloads for role in planned.roles)
    return not (fixed or has_engines) and any(copy.adapter.progress for copy in copies)


def _with_list(inputs: Inputs, planned: Planned, part: Part) -> Part:
    """The part with the list, and with the pods to tell once it is written."""
    owner = inputs.owner
    live = inputs.child(adapter_list_ref(owner))
    engines = [engine for role in planned.roles for engine in role.context.live.engines]
    reports = inputs.samples.adapters
    statuses = inputs.resource.status.adapters
    failed = frozenset(adapter.name for adapter in statuses if adapter.phase is AdapterPhase.FAILED)
    content = decided_list(part.adapters, listed_adapters(live), engines, reports, failed)
    desired = adapter_list(content, owner)
    part = replace(
        part, desired={Ref.of(desired): desired, **part.desired}, awaits_adapters=is_awaited(content, engines, reports)
    )
    if live is None or live.get("data") != desired["data"]:
        return replace(part, due=_earliest(part.due, inputs.now + TELL_AFTER))
    routers = inputs.pods_of(ROUTER)
    updates = list_updates(content, engines, routers, reports)
    again = inputs.now + _TELL_AGAIN_AFTER if updates else None
    return replace(part, pods=updates, due=_earliest(part.due, again))


def _earliest(*moments: datetime | None) -> datetime | None:
    return min(filter(None, moments), default=None)
