"""The pipeline: from everything requested and observed to the desired objects.

The reconciler, `infd plan` and `infd render` all call `outcome`, and nothing else composes the rooms below. So what
`infd plan` shows is what the operator does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from inference_operator.api.affinity import Affinity
from inference_operator.api.pod_defaults import over, with_engine_defaults, with_router_defaults
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.router import RouterStrategy
from inference_operator.api.scheduling import PodScheduling
from inference_operator.api.spec import Device, Spec
from inference_operator.engines.base import Engine
from inference_operator.engines.process import EngineProcess, ServedModel
from inference_operator.inspection.inspection import (
    InspectionRequest,
    InspectionState,
    inspection_state,
    without_inspection_jobs,
)
from inference_operator.inspection.result import refusal_of
from inference_operator.manifest import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    HORIZONTAL_POD_AUTOSCALER,
    HTTP_ROUTE,
    INGRESS,
    NETWORK_POLICY,
    SCALED_OBJECT,
    SERVICE,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import DOWNLOADED, HubModel, ModelSource, model_source
from inference_operator.objects.cache_volume import HUB_CACHE, CacheVolume
from inference_operator.objects.child import content_hash
from inference_operator.objects.compute_resources import refusal_of_resources
from inference_operator.objects.model_volume import model_argument
from inference_operator.objects.names import ROUTER, router_name
from inference_operator.objects.pod_additions import PodParts, refusal_of_additions
from inference_operator.objects.scheduling import scheduling
from inference_operator.objects.volumes import engine_mounts
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_download import cache_volume, one_node_claim, with_download
from inference_operator.pipeline.model_verification import with_verification
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.pipeline.roles import Role, RoleRequest
from inference_operator.pipeline.scaling import autoscaler, engines_wanted, scaled
from inference_operator.planning.capacity import capped
from inference_operator.planning.disk import DISK_CURE, disk_shortfall
from inference_operator.planning.engine_plan import PlanRequest, asked_of_sizes, engine_plan, older_image, wanted_image
from inference_operator.planning.gpu_offers import GpuOffers, usable_offers
from inference_operator.planning.healing import learned_from, same_sizes
from inference_operator.planning.known_model import KnownModel, fallback_model, inspected_model, known_model
from inference_operator.planning.timeouts import timeouts
from inference_operator.router.children import RouterObjects
from inference_operator.router.children import children as router_children
from inference_operator.router.deployment import own_parts as router_parts
from inference_operator.router.exposure import refusal_of_exposure
from inference_operator.router.haproxy import RouterRequest, slots
from inference_operator.router.resources import refusal_of_router_resources
from inference_operator.router.waiting import refusal_of_queue
from inference_operator.settings import Capacity, ModelInspection
from inference_operator.sizing.plan import SIZING_RULES
from inference_operator.views.raw import annotations
from inference_operator.views.workload import workload_view
from inference_operator.workload.children import children as workload_children
from inference_operator.workload.children import engines_selector, selects_traffic, service_host
from inference_operator.workload.deployment import engine_deployment, progress_deadline_seconds
from inference_operator.workload.hardware_errors import move_due, moved_pods, pods_to_move
from inference_operator.workload.pinned_plan import PLAN_ANNOTATION, PinnedPlan, pinned_plan
from inference_operator.workload.pinned_template import (
    PinnedTemplate,
    older_template,
    template_in_use,
    template_inputs_hash,
)
from inference_operator.workload.pod_spec import WorkloadRequest, engine_template
from inference_operator.workload.rollout import RolloutRequest, Undecided, rollout, switch_due
from inference_operator.workload.stall import Removal, stalled_engines
from inference_operator.workload.traffic import TrafficChange, traffic_changes


@dataclass(frozen=True, slots=True)
class _RoleState:
    """A requested role with its recorded plans."""

    request: RoleRequest
    engine: Engine
    latest: PinnedPlan | None
    """The latest plan that was made for the current specification."""
    kept: PinnedPlan | None
    """The same, unless all engine pods are unschedulable: then the role is sized again."""
    image: str


@dataclass(frozen=True, slots=True)
class _Model:
    """The model, as far as it is known."""

    source: ModelSource
    known: KnownModel | None
    unavailable: Refusal | None
    """Why the inspection has no result."""


_APPLIED_LATE: Mapping[Kind, int] = {
    SERVICE: 1,
    DEPLOYMENT: 2,
    NETWORK_POLICY: 3,
    DISRUPTION_BUDGET: 4,
    INGRESS: 5,
    HTTP_ROUTE: 6,
    HORIZONTAL_POD_AUTOSCALER: 7,
    SCALED_OBJECT: 8,
}
"""Kinds in the order in which they are applied: ConfigMaps first, since Deployments mount them."""

_SWITCH_RECHECK = timedelta(seconds=1)
"""Time after the main Service was switched until the live one is looked at again. kube-proxy needs about as long."""


def outcome(inputs: Inputs) -> Outcome:
    """Decide which objects an InferenceDeployment should have, and what to do about stalled pods."""
    decided = _decided(inputs)
    if isinstance(decided, Paused):
        return decided
    return replace(decided, removals=_removals(inputs), traffic=_traffic(inputs))


def _decided(inputs: Inputs) -> Outcome:
    # 1. The specification and the model source must be valid.
    spec = inputs.resource.spec
    if isinstance(spec, Refusal):
        return Refused(desired=inputs.children, refusal=spec)
    source = model_source(spec.model.source)
    if isinstance(source, Refusal):
        return Paused(desired=inputs.children) if spec.paused else Refused(desired=inputs.children, refusal=source)
    # 2. What is known about the model, from the catalogue or from its inspection.
    states = [_role_state(inputs, spec, request) for request in inputs.role_requests]
    inspected = _inspection(inputs, spec, source, states)
    model = _known_model(source, states[0].engine.access(spec.engine, spec.model).revision, inspected)
    if spec.paused:
        return Paused(desired=inputs.children, model=model)
    # 3. Every engine must accept the specification.
    if refusal := _refusal(inputs, spec, source, states):
        return Refused(desired=inputs.children, refusal=refusal, model=model)
    # 4. Plans that are pinned stay. Other roles are sized, which needs the model.
    if inspected.running and any(state.kept is None for state in states):
        waiting = NeedsInspection(desired=inputs.children, message=inspected.message)
        return _with_inspection(inputs, inspected, waiting)
    failure = inspected.progress.failure
    known = _Model(source, model, refusal_of(failure) if failure else None)
    roles: list[Role] = []
    for state in states:
        role = _role(inputs, spec, known, state)
        if isinstance(role, Refusal):
            refused = Refused(desired=inputs.children, refusal=role, model=model)
            return _with_inspection(inputs, inspected, refused)
        roles.append(role)
    # 5. The desired objects of all roles and of the router; engines wait until their model is downloaded or verified.
    router = _router(inputs, spec, roles[0])
    planned = Planned(
        desired=_children(roles, router, autoscaler(inputs, spec, roles[0])),
        roles=tuple(roles),
        router_notice=router.notice,
        model=model,
        lookups=tuple(lookup for role in roles for lookup in role.lookups),
        recheck_at=_recheck_at(inputs, spec, roles),
    )
    return _with_inspection(inputs, inspected, _with_model(inputs, spec, scaled(inputs, spec, planned)))


def _with_model(inputs: Inputs, spec: Spec, planned: Planned) -> Planned | Refused:
    """The outcome with what engines wait for: an image is verified, and all other models may be downloaded."""
    return with_verification(inputs, spec, planned) if spec.model.verify else with_download(inputs, spec, planned)


def _role_state(inputs: Inputs, spec: Spec, request: RoleRequest) -> _RoleState:
    engine = inputs.engines[request.engine]
    current = _spec_hash(spec, engine)
    plans = (
        plan
        for plan in inputs.pinned_plans(request.name)
        if plan.spec_hash == current and plan.engine == request.engine
    )
    latest = next(plans, None)
    kept = None if _all_unschedulable(inputs, request.name) else latest
    return _RoleState(
        request, engine, latest, kept, kept.image if kept else wanted_image(spec, engine, inputs.settings)
    )


def _spec_hash(spec: Spec, engine: Engine) -> str:
    """Hash of everything that a plan depends on; another hash means that the role is sized again."""
    revision = engine.access(spec.engine, spec.model).revision
    revisions = [revision] if revision else []
    pickle = ["pickle"] if spec.model.allow_pickle else []
    return content_hash([spec.model.source, spec.engine.image, asked_of_sizes(spec, engine), *revisions, *pickle])


def _all_unschedulable(inputs: Inputs, role: str) -> bool:
    pods = inputs.pods_of(role)
    return bool(pods) and all(pod.problem and pod.problem.reason is Reason.UNSCHEDULABLE for pod in pods)


def _inspection(inputs: Inputs, spec: Spec, source: ModelSource, states: list[_RoleState]) -> InspectionState:
    """The state of the inspection; empty where nothing needs it: on CPUs, only what is downloaded has a commit."""
    access = states[0].engine.access(spec.engine, spec.model)
    catalogued = known_model(source, access.revision) if _is_catalogue_first(inputs) else None
    on_cpus = spec.hardware.device is Device.CPU and not isinstance(source, DOWNLOADED)
    if on_cpus or (catalogued and isinstance(catalogued.facts, ModelFacts)):
        return InspectionState()
    wanted, decided = any(_needs_facts(state, source) for state in states), all(state.kept for state in states)
    effective = with_engine_defaults(spec, inputs.settings.engine_defaults)
    reading = states[0].engine.access(effective.engine, spec.model)
    request = InspectionRequest(effective, source, reading, inputs.owner, inputs.settings)
    live, now, results = inputs.children, inputs.now, inputs.lookups
    return inspection_state(request, live, inputs.pods, now, results, wanted=wanted, decided=decided)


def _known_model(source: ModelSource, revision: str | None, inspected: InspectionState) -> KnownModel | None:
    """The model as its own files say, else as the catalogue says, unless its files were refused."""
    entry, failure = inspected.progress.entry, inspected.progress.failure
    if entry:
        return inspected_model(entry)
    if failure is None:
        return known_model(source, revision)
    return fallback_model(source, revision, failure.why.problem) if failure.was_unanswered else None


def _is_catalogue_first(inputs: Inputs) -> bool:
    return inputs.settings.model_inspection is ModelInspection.WHEN_UNKNOWN


def _needs_facts(state: _RoleState, source: ModelSource) -> bool:
    """Whether a role needs the model's files: to be sized, or to show what it was sized from.

    A plan of a hub model without a commit was made from the catalogue, or by an operator that stored no commit. It
    needs nothing, so that an update of the operator inspects no model of a running engine.
    """
    if state.kept is None:
        return True
    return not state.kept.plan.unchecked_reason and (bool(state.kept.commit) or not isinstance(source, HubModel))


_Decided = TypeVar("_Decided", bound=Planned | Refused | NeedsInspection)


def _with_inspection(inputs: Inputs, inspected: InspectionState, decided: _Decided) -> _Decided:
    """The outcome with the objects and lookups of the inspection; Jobs that it no longer needs are not desired."""
    times = [moment for moment in (decided.recheck_at, inspected.recheck_at(inputs.now)) if moment]
    return replace(
        decided,
        desired={**without_inspection_jobs(decided.desired), **inspected.desired},
        lookups=(*decided.lookups, *inspected.lookups),
        recheck_at=min(times, default=None),
    )


def _refusal(inputs: Inputs, spec: Spec, source: ModelSource, states: list[_RoleState]) -> Refusal | None:
    """Why an engine cannot run what is specified; None if all can."""
    router = with_router_defaults(spec.router, inputs.settings.router_defaults)
    effective = with_engine_defaults(spec, inputs.settings.engine_defaults).engine
    for state in states:
        access = state.engine.access(spec.engine, spec.model)
        claim = CacheVolume("", "") if spec.cache.wanted else None
        mounts = engine_mounts(source, access.writable, claim, access.compiled)
        refusal = (
            state.engine.check(spec.engine, image=state.image, settings=inputs.settings)
            or state.engine.check_model(spec.engine, spec.model, cached=spec.cache.wanted)
            or _of_owner(state.engine.check_model(effective, spec.model, cached=spec.cache.wanted))
            or refusal_of_resources(spec.engine.resources)
            or refusal_of_router_resources(router.resources)
            or refusal_of_exposure(spec.router)
            or refusal_of_queue(router)
            or refusal_of_additions(spec.pod_template, PodParts("spec.podTemplate", {state.request.name}, mounts))
            or refusal_of_additions(spec.router.pod_template, router_parts("spec.router.podTemplate"))
        )
        if refusal:
            return refusal
    return None


def _of_owner(refusal: Refusal | None) -> Refusal | None:
    """The refusal of what the specification has from the owner's defaults."""
    said = "It comes from the operator's setting `engineDefaults`."
    return replace(refusal, problem=f"{refusal.problem} {said}") if refusal else None


def _role(inputs: Inputs, spec: Spec, model: _Model, state: _RoleState) -> Role | Refusal:
    """The role with its pinned plan, or sized now."""
    if state.kept:
        healed = _healed(inputs, spec, model, state, state.kept)
        return _planned_role(inputs, spec, model.source, state, healed)
    offers = _offers(inputs, spec, state)
    request = PlanRequest(spec, model.source, model.known, model.unavailable, offers, state.image)
    plan = _sized(inputs, request, state)
    if isinstance(plan, Refusal):
        return _said_of_owner(plan, inputs.settings.engine_defaults.scheduling)
    role = _planned_role(inputs, spec, model.source, state, plan)
    if role.disk_shortfall and inputs.settings.capacity is Capacity.FIXED:
        return Refusal(Reason.INSUFFICIENT_DISK, "spec.model.source", role.disk_shortfall, DISK_CURE)
    return replace(role, missing_gpu_kind=offers.missing_gpu_kind(plan.plan.gpu))


def _offers(inputs: Inputs, spec: Spec, state: _RoleState) -> GpuOffers:
    defaults = inputs.settings.engine_defaults
    pod = scheduling(over(spec.scheduling, defaults.scheduling), gpus=1, selector={})
    needs = state.engine.gpu_needs(with_engine_defaults(spec, defaults).engine, state.image)
    return usable_offers(inputs.nodes, pod, spec.hardware.gpu, inputs.settings, needs)


def _healed(inputs: Inputs, spec: Spec, model: _Model, state: _RoleState, kept: PinnedPlan) -> PinnedPlan:
    """The pinned plan; decided once more if its engines reported too little memory (see `planning/healing.py`)."""
    live = inputs.workload(state.request.name)
    pods, template = inputs.pods_of(state.request.name), workload_view(live).template
    learned = learned_from(kept.plan, pods, inputs.lookups, state.engine, template=template)
    if learned is None:
        return kept
    annotated = pinned_plan(annotations(live).get(PLAN_ANNOTATION))
    if annotated is None or (annotated.spec_hash, annotated.plan.revision) != (kept.spec_hash, kept.plan.revision):
        return kept
    request = PlanRequest(
        spec,
        model.source,
        model.known,
        model.unavailable,
        _offers(inputs, spec, state),
        state.image,
        previous_kind=kept.plan.gpu,
        learned=learned,
    )
    sizes = engine_plan(request, state.engine)
    if isinstance(sizes, Refusal) or same_sizes(sizes, kept.plan):
        return kept
    if sizes.unchecked_reason and not kept.plan.unchecked_reason:
        return kept  # facts or nodes are unknown now: this plan would bind to no GPU
    return replace(kept, plan=replace(sizes, revision=kept.plan.revision + 1), rules=SIZING_RULES)


def _said_of_owner(refusal: Refusal, default: PodScheduling) -> Refusal:
    """The refusal, which also names the operator's defaults if these keep engines away from nodes."""
    if refusal.reason is not Reason.NO_SUITABLE_GPU or not (default.node_selector or default.affinity != Affinity()):
        return refusal
    return replace(refusal, cure=f"{refusal.cure} The operator's setting `engineDefaults` limits the nodes as well.")


def _sized(inputs: Inputs, request: PlanRequest, state: _RoleState) -> PinnedPlan | Refusal:
    """A new plan. The GPU kind stays if the model still fits on it; `latest` stays if nothing changes."""
    latest = state.latest
    recorded = inputs.pinned_plans(state.request.name)
    kind = "" if latest else next((pinned.plan.gpu for pinned in recorded), "")
    learned = latest.plan.learned if latest else None
    sizes = engine_plan(replace(request, previous_kind=kind, learned=learned), state.engine)
    if isinstance(sizes, Refusal):
        return latest or sizes
    facts = request.model.facts if request.model else None
    commit = facts.commit if isinstance(facts, ModelFacts) else ""
    spec_hash, engine = _spec_hash(request.spec, state.engine), state.request.engine
    plan = PinnedPlan(spec_hash, request.image, sizes, engine=engine, commit=commit)
    if latest is None:
        return plan
    unchanged = replace(plan, plan=replace(sizes, revision=latest.plan.revision)) == latest
    return latest if unchanged else replace(plan, plan=replace(sizes, revision=latest.plan.revision + 1))


def _process(inputs: Inputs, spec: Spec, source: ModelSource, state: _RoleState, plan: PinnedPlan) -> EngineProcess:
    """The process of an engine of the role."""
    settings = inputs.settings
    model, name = spec.model, spec.model.served_name or inputs.resource.key.name
    hub_cache = HUB_CACHE if spec.cache.wanted else ""
    commit, revision = (plan.commit, model.revision) if isinstance(source, HubModel) else ("", None)
    path = model_argument(source, plan.commit)
    served = ServedModel(path, name, commit, revision, model.token_secret, hub_cache)
    limits = timeouts(spec, plan.plan, settings)
    of_image = spec.engine.model_copy(update={"image": plan.image})
    listen, traces = settings.listen_address, settings.traces_endpoint
    return state.engine.process(of_image, plan.plan, served, limits, host=listen, traces=traces)


def _planned_role(inputs: Inputs, spec: Spec, source: ModelSource, state: _RoleState, plan: PinnedPlan) -> Role:
    """The role's desired objects.

    1. The process, and the pod template built from it, both over the operator's defaults of engine pods.
    2. The template in use: the pinned one while it serves.
    3. The rollout strategy. While that is undecided, the live Deployment is desired.
    4. The Deployment with its replicas, and the objects around it.
    """
    owner, settings, name = inputs.owner, inputs.settings, state.request.name
    effective = with_engine_defaults(spec, settings.engine_defaults)
    process = _process(inputs, effective, source, state, plan)
    request = WorkloadRequest(name, effective, source, plan, process, owner, settings, cache_volume(inputs, spec, plan))
    built = engine_template(request)
    pods, live = inputs.pods_of(name), inputs.workload(name)
    template = template_in_use(PinnedTemplate(template_inputs_hash(spec, plan), built), live, pods)
    pod_spec = template.template["spec"]
    rollout_request = _rollout_request(inputs, spec, state, template, plan)
    decided = rollout(rollout_request, inputs.lookups, nodes_visible=not settings.namespaces, now=inputs.now)
    wanted, replicas = engines_wanted(inputs, spec, plan, pods, pod_spec, live=live)
    moved = moved_pods(live, pods, inputs.lookups, state.engine, inputs.nodes)
    workload = (
        decided.live
        if isinstance(decided, Undecided)
        else engine_deployment(request, template, decided, moved, replicas=replicas)
    )
    return Role(
        name=name,
        engine=state.engine,
        plan=plan,
        process=process,
        workload=workload,
        pods=pods,
        rollout=None if isinstance(decided, Undecided) else decided,
        replicas=wanted,
        objects=workload_children(request, workload, pods, open_to_all=inputs.is_direct or _is_direct(inputs, spec)),
        notice=_sentences(
            older_image(plan.image, spec, state.engine, settings),
            older_template(template.template, built),
            capped(wanted, replicas),
            moved.notice,
        ),
        disk_shortfall=disk_shortfall(inputs.nodes, pod_spec, plan.plan.resource),
        lookups=(decided.lookup,) if isinstance(decided, Undecided) else (),
        recheck_at=min(filter(None, (switch_due(rollout_request), move_due(live, moved, inputs.now))), default=None),
    )


def _rollout_request(
    inputs: Inputs, spec: Spec, state: _RoleState, template: PinnedTemplate, plan: PinnedPlan
) -> RolloutRequest:
    name = state.request.name
    return RolloutRequest(
        requested=spec.rollout.strategy,
        template=template.template_hash,
        pod=template.template["spec"],
        live=inputs.workload(name),
        pods=inputs.pods_of(name),
        gpu_resource=plan.plan.resource,
        node_wait=inputs.settings.surge_wait,
        one_node=bool(one_node_claim(inputs, spec)),
    )


def _sentences(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def _router(inputs: Inputs, spec: Spec, first: Role) -> RouterObjects:
    """The router, which sends requests to the first role."""
    owner, settings = inputs.owner, inputs.settings
    request = RouterRequest(
        engines_host=service_host(owner, first.name, cluster_domain=settings.cluster_domain),
        engine_port=first.process.port,
        engine_health_path=first.process.health_path,
        engine_max_concurrency=first.process.max_concurrency,
        slots=slots(spec.most_replicas, inputs.router_slots),
        spec=with_router_defaults(spec.router, settings.router_defaults),
        model_names=tuple(first.process.model_names),
        api_paths=tuple(first.process.api_paths),
        drain_seconds=int(spec.drain_timeout.total_seconds()),
        progress_deadline_seconds=progress_deadline_seconds(spec, first.process),
        owner=owner,
        settings=settings,
        engines_selector=engines_selector(first.objects, owner, first.name),
        direct=_is_direct(inputs, spec),
        has_http_routes=HTTP_ROUTE not in inputs.unavailable_kinds,
    )
    router = router_children(request, inputs.router_deployment, inputs.pods_of(ROUTER))
    return replace(router, objects={**_kept(inputs, spec), **router.objects})


def _kept(inputs: Inputs, spec: Spec) -> dict[Ref, Manifest]:
    """Live objects that stay, so that traffic goes on.

    - All of the router until the live Service selects the engines: that write may fail.
    - The HTTPRoute while its kind cannot be listed: one refused listing must not end the traffic.
    """
    if spec.router.strategy is RouterStrategy.EXTERNAL and not inputs.is_direct:
        names = (router_name(inputs.resource.key.name), inputs.main_service.name)
        return {ref: live for ref, live in inputs.children.items() if ref.name in names}
    if not spec.router.http_route or HTTP_ROUTE not in inputs.unavailable_kinds:
        return {}
    return {ref: live for ref, live in inputs.children.items() if ref.kind == HTTP_ROUTE}


def _children(roles: list[Role], router: RouterObjects, others: Mapping[Ref, Manifest]) -> Mapping[Ref, Manifest]:
    """The objects of all roles, of the router and of autoscaling, in the order of applying."""
    objects = {ref: manifest for role in roles for ref, manifest in role.objects.items()}
    found = {**objects, **router.objects, **others}
    return dict(sorted(found.items(), key=lambda item: _APPLIED_LATE.get(item[0].kind, 0)))


def _is_direct(inputs: Inputs, spec: Spec) -> bool:
    """Whether the main Service selects the engines: with `External`, and after it until a router is ready."""
    return spec.router.strategy is RouterStrategy.EXTERNAL or (inputs.is_direct and not inputs.routers.ready)


def _recheck_at(inputs: Inputs, spec: Spec, roles: list[Role]) -> datetime | None:
    """When to decide again if no event comes before.

    As a role or another autoscaler needs it, or after the main Service was switched: what the other way of a switch
    needed goes only then. The watch event of an own write starts no reconcile.
    """
    is_switched = inputs.main_service in inputs.children and _is_direct(inputs, spec) is not inputs.is_direct
    times = [inputs.now + _SWITCH_RECHECK] if is_switched else []
    other = inputs.autoscaler.due if inputs.autoscaler else None
    return min(filter(None, [*times, other, *(role.recheck_at for role in roles)]), default=None)


def _removals(inputs: Inputs) -> tuple[Removal, ...]:
    namespace = inputs.resource.key.namespace
    removals: list[Removal] = []
    for role in inputs.role_requests:
        live, pods = inputs.workload(role.name), inputs.pods_of(role.name)
        removals += stalled_engines(
            pods,
            inputs.samples,
            desired=workload_view(live).desired,
            namespace=namespace,
            stall_seconds=inputs.settings.stall_seconds,
        )
        removals += pods_to_move(live, pods, namespace=namespace)
    return tuple(removals)


def _traffic(inputs: Inputs) -> tuple[TrafficChange, ...]:
    return tuple(
        change
        for role in inputs.role_requests
        for change in traffic_changes(
            inputs.pods_of(role.name),
            inputs.samples,
            selected=selects_traffic(inputs.engines_service(role.name)),
            namespace=inputs.resource.key.namespace,
            seconds=inputs.settings.no_progress_seconds,
        )
    )
