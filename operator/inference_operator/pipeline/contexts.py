"""The roles of an InferenceDeployment as observed, and the contexts of the decisions about them.

The slots for adapters: how many an engine can use in one batch, and their largest rank.

1. A field of the specification counts as it is.
2. Without it there are `DEFAULT_SLOTS` if the specification has adapters, and none otherwise.
3. Without it the rank is that of the largest adapter whose files were read, and at least `DEFAULT_ADAPTER_RANK`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from inference_operator.api.effective_spec import effective_spec
from inference_operator.api.engine import ADAPTER_RANKS, DEFAULT_ADAPTER_RANK
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.jobs.adapter import adapter_record
from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import ModelSource
from inference_operator.objects.cache_volume import claim_name
from inference_operator.objects.names import COMPONENT_LABEL, ENGINE, component_of, is_role
from inference_operator.pipeline.inputs import Inputs
from inference_operator.planning.engine_plan import ModelFindings
from inference_operator.planning.role_plan import PlanState, plan_state
from inference_operator.roles.context import LiveRole, RoleContext, SharedContext
from inference_operator.roles.engine_choice import EngineChoice, engine_choice
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.roles.spec import RoleSpec
from inference_operator.views.engine import engines_of
from inference_operator.views.workload import WORKLOAD_KINDS, role_view


def role_specs(inputs: Inputs) -> Sequence[RoleSpec]:
    """The roles that the specification requests, with the slots for its adapters; none if it is invalid.

    `/scale` is about the role that says so, or about the only one.
    """
    spec = inputs.resource.spec
    if not isinstance(spec, Spec):
        return ()
    with_slots = slotted_spec(spec, inputs.owner, inputs.children)
    roles = inputs.roles(with_slots, inputs.settings, inputs.engines)
    return [replace(role, has_scale=True) for role in roles] if len(roles) == 1 else roles


def shared_context(inputs: Inputs, spec: Spec, contexts: Sequence[RoleContext]) -> SharedContext:
    settings, with_slots = inputs.settings, slotted_spec(spec, inputs.owner, inputs.children)
    effective = effective_spec(with_slots, settings.engine_defaults, settings.router_defaults)
    reader = next(context for context in contexts if context.spec.has_scale)
    access = reader.engine.access(effective.engine, effective.model)
    return SharedContext(
        effective=effective, source=reader.source, access=access, owner=inputs.owner, settings=inputs.settings
    )


def live_roles(inputs: Inputs, specs: Sequence[RoleSpec]) -> Mapping[str, LiveRole]:
    """The roles as observed, by name: those that are requested, else those of the live workloads."""
    if specs:
        return {role.name: _live_role(inputs, role.name, role.engine, has_scale=role.has_scale) for role in specs}
    names, engine = _live_names(inputs), inputs.engines.default
    return {name: _live_role(inputs, name, engine, has_scale=_had_scale(inputs, name, names)) for name in names}


def observed_again(inputs: Inputs, role: LiveRole) -> LiveRole:
    """The role after the writes of a round. What was recorded for it before the round stays."""
    workloads = inputs.workloads(role.name)
    return replace(
        role,
        workloads=workloads,
        view=role_view(workloads),
        service=inputs.engines_service(role.name),
        engines=engines_of(inputs.pods_of(role.name)),
    )


def role_contexts(
    inputs: Inputs, specs: Sequence[RoleSpec], live: Mapping[str, LiveRole], source: ModelSource
) -> tuple[RoleContext, ...]:
    return tuple(
        RoleContext(
            spec=spec,
            engine=inputs.engines[spec.engine],
            source=source,
            live=live[spec.name],
            owner=inputs.owner,
            settings=inputs.settings,
            now=inputs.now,
            lookups=inputs.lookups,
            nodes=inputs.nodes,
            unavailable_kinds=inputs.unavailable_kinds.keys(),
        )
        for spec in (_with_recorded_engine(inputs, spec, live[spec.name]) for spec in specs)
    )


def _with_recorded_engine(inputs: Inputs, spec: RoleSpec, live: LiveRole) -> RoleSpec:
    recorded = live.recorded
    if not spec.is_automatic or recorded is None or recorded.engine not in inputs.engines:
        return spec
    return replace(spec, engine=recorded.engine)


def with_chosen_engines(
    inputs: Inputs, states: Sequence[PlanState], model: ModelFindings
) -> Sequence[PlanState] | Refusal:
    chosen: list[PlanState] = []
    for state in states:
        decided = _with_chosen_engine(inputs, state, model)
        if isinstance(decided, Refusal):
            return decided
        chosen.append(decided)
    return chosen


def _with_chosen_engine(inputs: Inputs, state: PlanState, model: ModelFindings) -> PlanState | Refusal:
    context = state.context
    if state.latest:
        return replace(state, context=replace(context, choice=EngineChoice.of_plan(state.latest)))
    facts = model.facts if isinstance(model.facts, ModelFacts) else None
    choice = engine_choice(context.spec, model.architecture, facts, inputs.engines, inputs.settings)
    if isinstance(choice, Refusal):
        return choice
    spec = replace(context.spec, engine=choice.name)
    return plan_state(replace(context, spec=spec, engine=inputs.engines[choice.name], choice=choice))


def _live_names(inputs: Inputs) -> Sequence[str]:
    live = [component_of(manifest) for ref, manifest in sorted(inputs.children.items()) if ref.kind in WORKLOAD_KINDS]
    return [name for name in live if is_role(name)] or [ENGINE]


def _had_scale(inputs: Inputs, name: str, names: Sequence[str]) -> bool:
    """Whether the status says that `/scale` is about a role; the only one has it."""
    selected = (inputs.resource.status.selector or "").split(",")
    return len(set(names)) == 1 or f"{COMPONENT_LABEL}={name}" in selected


def _live_role(inputs: Inputs, name: str, requested: str, *, has_scale: bool) -> LiveRole:
    workloads = inputs.workloads(name)
    recorded = PLAN_ANNOTATION.read(next(iter(workloads), None))
    candidates = [*([recorded.engine] if recorded else []), requested, inputs.engines.default]
    return LiveRole(
        name=name,
        engine=next(inputs.engines[kind] for kind in candidates if kind in inputs.engines),
        workloads=workloads,
        view=role_view(workloads),
        service=inputs.engines_service(name),
        engines=engines_of(inputs.pods_of(name)),
        recorded=recorded,
        has_scale=has_scale,
    )


DEFAULT_SLOTS = 4
"""Adapters in one batch. More may be listed: requests of a fifth wait until one of the four has none in the batch."""


def slotted_spec(spec: Spec, owner: Owner, live: Mapping[Ref, Manifest]) -> Spec:
    """The specification with the fields of the slots filled in; unchanged if it has no adapters and no slots."""
    slots = spec.engine.adapter_slots
    if slots is None:
        slots = DEFAULT_SLOTS if spec.model.adapters else 0
    if not slots:
        return spec
    rank = spec.engine.max_adapter_rank or _rank(spec, owner, live)
    engine = spec.engine.model_copy(update={"adapter_slots": slots, "max_adapter_rank": rank})
    return spec.model_copy(update={"engine": engine})


def _rank(spec: Spec, owner: Owner, live: Mapping[Ref, Manifest]) -> int:
    records = (
        adapter_record(owner, adapter, claim_name(spec.cache, owner.key.name)) for adapter in spec.model.adapters
    )
    known = [stored.facts.rank for record in records if (stored := record.stored(live))]
    needed = max([DEFAULT_ADAPTER_RANK, *known])
    return next((rank for rank in ADAPTER_RANKS if rank >= needed), ADAPTER_RANKS[-1])
