"""One role as decided: its process, its pod template in use, its Deployment and the objects around that."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from inference_operator.api.container import Environment
from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Device
from inference_operator.engines.environment import with_defaults
from inference_operator.engines.group.network import INTERFACE_VARIABLES, network_variables
from inference_operator.engines.process import EngineProcess, ServedModel, wanted_image
from inference_operator.fleet.turn import next_turn, recorded_turn
from inference_operator.manifest import Manifest, Ref
from inference_operator.models.source import HubModel, stored_name
from inference_operator.objects.cache_volume import HUB_CACHE, snapshot_path
from inference_operator.objects.model_volume import model_argument
from inference_operator.objects.pinned import Pinned, PinUse
from inference_operator.pipeline.engine_key import key_to_ask_for, must_stop_asking, unguarded
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import cache_volume, one_node_claim
from inference_operator.pipeline.renewal import is_renewed_at, renewal_due, renewal_notice
from inference_operator.pipeline.replicas import ObservedScaling, desired_replicas, observed_scaling
from inference_operator.pipeline.turn_inputs import turn_inputs
from inference_operator.planning.capacity import capped
from inference_operator.planning.disk import disk_shortfall
from inference_operator.planning.engine_plan import older_image
from inference_operator.planning.network import NetworkInputs, refusal_of_network, unused_fields
from inference_operator.planning.role_plan import RolePlan
from inference_operator.planning.timeouts import timeouts
from inference_operator.roles.context import RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sentences import sentences
from inference_operator.sizing.plan import Plan
from inference_operator.views.lookups import Lookup
from inference_operator.workload.change import WorkloadChange
from inference_operator.workload.children import children as workload_children
from inference_operator.workload.deployment import progress_deadline_seconds
from inference_operator.workload.half_placed import yielding
from inference_operator.workload.hardware_errors import move_due, moved_pods
from inference_operator.workload.moving import Move, MoveInputs, move
from inference_operator.workload.pinned_template import (
    ENGINE_PIN,
    EngineContent,
    PinnedTemplate,
    older_template,
    template_inputs_hash,
)
from inference_operator.workload.pod_spec import WorkloadInputs, engine_template
from inference_operator.workload.rollout import Rollout, RolloutInputs, Undecided, rollout, switch_due
from inference_operator.workload.workload import Workload, engine_workload, live_workload


@dataclass(frozen=True, slots=True)
class Role:
    """One role as decided."""

    context: RoleContext
    plan: PinnedPlan
    template: PinnedTemplate
    """The pod template in use."""
    template_use: PinUse
    """Why engines get it."""
    process: EngineProcess
    workload: Workload
    """The desired Deployment, or the StatefulSets of groups."""
    rollout: Rollout | None
    """How its pods are replaced; None until the lookup that decides it has a result."""
    scaling: ObservedScaling
    """Its autoscaling as observed."""
    move: Move
    """How its engines move away from nodes that are leaving."""
    objects: dict[Ref, Manifest]
    """All desired objects of the role, the workload included."""
    replicas: int = 1
    """Engines that are wanted; the workload may have fewer where nodes limit them."""
    notice: str = ""
    """A notice for users about the decision; may be empty."""
    advisories: str = ""
    """A notice about known vulnerabilities of the engine's version; empty if none is known."""
    gave_way: str = ""
    """Which groups gave their nodes back for others, in sentences; empty if none did."""
    missing_gpu_kind: str = ""
    """The kind of GPU that the plan needs and no node has; empty if a node has it."""
    disk_shortfall: str = ""
    """Which nodes lack the disk that an engine requests, in a sentence; empty if one has it."""
    network_refusal: Refusal | None = None
    """Why no nodes have the network that the pods of an engine ask for; None if they have."""
    lookups: tuple[Lookup, ...] = ()
    recheck_at: datetime | None = None
    """When the role has to be decided again without an event."""

    @property
    def name(self) -> str:
        """Name of the role."""
        return self.context.spec.name


def role(inputs: Inputs, context: RoleContext, plan: RolePlan, *, open_to_all: bool) -> Role:
    """The role's desired objects.

    1. The process, and the pod template built from it, both over the administrator's defaults of engine pods.
    2. The template in use: the pinned one while it serves, and in the owner's window the one of this release.
    3. The rollout strategy. While that is undecided, the live workload is desired.
    4. The workload with its replicas, and the objects around it.

    Args:
        inputs: everything that was observed.
        context: the role.
        plan: its plan.
        open_to_all: whether something else than the routers may send requests to its engines.
    """
    stated, settings, live = context.spec.stated, context.settings, context.live
    scaling = observed_scaling(inputs, stated, live)
    used = _renewed(inputs, _templates(inputs, context, plan.pinned, open_to_all=open_to_all), open_to_all=open_to_all)
    workload_inputs, template = used.inputs, used.template
    pinned, process = workload_inputs.plan, workload_inputs.process
    turn = next_turn(turn_inputs(inputs), used.use, template.template_hash, live.workloads)
    pod_spec = template.content.template["spec"]
    rollout_inputs = _rollout_inputs(inputs, context, template, pinned)
    decided = rollout(rollout_inputs, context.lookups, nodes_visible=not settings.namespaces, now=context.now)
    wanted, replicas = desired_replicas(context, pinned, scaling, pod_spec)
    moving = move(_move_inputs(inputs, workload_inputs, rollout_inputs, replicas), context.lookups, context.now)
    moved = moved_pods(live.workload, live.engines, context.lookups, context.engine, context.nodes)
    yielded = yielding(context, inputs.half_placed)
    change = None
    if not isinstance(decided, Undecided):
        change = WorkloadChange(template, decided, moved, replicas, yielded, moving, turn)
    workload = engine_workload(workload_inputs, change, inputs.samples) if change else live_workload(live)
    switch, shift = switch_due(rollout_inputs), move_due(live.workload, moved, context.now)
    due = (switch, shift, yielded.due, moving.due, renewal_due(settings, context.now))
    network = NetworkInputs(context.spec.effective, pinned.plan, context.nodes, pod_spec, settings.capacity)
    older, unused = _older(used), unused_fields(stated, pinned.plan)
    open_engines = unguarded(inputs, context, template, has_policy=workload_inputs.has_network_policy)
    advisories = context.engine.advisories(pinned.image)
    told = (
        older,
        capped(wanted, replicas),
        moved.notice,
        unused,
        yielded.notice,
        moving.notice,
        open_engines,
        advisories,
    )
    return Role(
        context=context,
        plan=pinned,
        template=template,
        template_use=used.use,
        process=process,
        workload=workload,
        rollout=change.rollout if change else None,
        scaling=scaling,
        replicas=wanted,
        move=moving,
        objects=workload_children(workload_inputs, workload.objects, moving, open_to_all=open_to_all),
        notice=sentences(*told),
        advisories=advisories,
        gave_way=yielded.notice,
        missing_gpu_kind=plan.missing_gpu_kind,
        disk_shortfall=disk_shortfall(context.nodes, pod_spec, pinned.plan.resource),
        network_refusal=refusal_of_network(network),
        lookups=(*plan.lookups, *_looks(decided), *yielded.lookups, *moving.lookups),
        recheck_at=min(filter(None, due), default=None),
    )


def _looks(decided: Rollout | Undecided) -> tuple[Lookup, ...]:
    """The lookup that the strategy of a rollout needs; none once it is decided."""
    return (decided.lookup,) if isinstance(decided, Undecided) else ()


@dataclass(frozen=True, slots=True)
class _Templates:
    """The pod template of a role in use, and what it is built from."""

    inputs: WorkloadInputs
    built: PinnedTemplate
    """The template as this release builds it."""
    template: PinnedTemplate
    """The one in use."""
    use: PinUse


def _renewed(inputs: Inputs, used: _Templates, *, open_to_all: bool) -> _Templates:
    """The templates in the owner's window: image and template of this release, as soon as the brake lets them begin.

    1. A renewal begins in the window, and only where nothing else is under way: an edit of the user stays the user's.
    2. One that has begun ends, and follows the owner's settings, also after the window.
    3. Sizes stay, since nodes that come and go would change them from one look to the next.
    4. An image that cannot run the specification renews nothing. Neither is a group renewed that nobody needs now.
    """
    context = used.inputs.context
    live, stated, settings = context.live, context.spec.stated, context.settings
    pinned = ENGINE_PIN.pinned(live.workload)
    is_at_rest = pinned is not None and pinned.inputs_hash == used.built.inputs_hash and not live.view.rolling
    begins = is_at_rest and is_renewed_at(settings, context.now)
    is_idle_group = used.inputs.plan.plan.parallel.nodes > 1 and not live.engines
    if is_idle_group or not (begins or recorded_turn(live.workload)):
        return used
    image = wanted_image(stated, context.engine, settings)
    if context.engine.check(stated.engine, image=image, settings=settings):
        return used
    latest = _templates(inputs, context, replace(used.inputs.plan, image=image), open_to_all=open_to_all)
    if latest.built.template_hash == used.template.template_hash:
        return used
    if not turn_inputs(inputs).may_begin:
        return replace(used, use=PinUse.HELD)
    return replace(latest, template=latest.built, use=PinUse.SETTINGS)


def _templates(inputs: Inputs, context: RoleContext, plan: PinnedPlan, *, open_to_all: bool) -> _Templates:
    """The templates of a plan: what serves keeps the one that it has."""
    live, inputs_hash = context.live, template_inputs_hash(context.spec.stated, plan)
    key = key_to_ask_for(inputs, context, inputs_hash, open_to_all=open_to_all)
    process = _process(context, plan, asks_for_key=bool(key))
    found = WorkloadInputs(context, plan, process, cache_volume(inputs, context.spec.stated, plan), key)
    built = Pinned(inputs_hash, EngineContent(engine_template(found)))
    serving = [] if must_stop_asking(context) else [one.template for one in live.engines if one.has_answered]
    template, use = ENGINE_PIN.use(built, live.workload, serving)
    return _Templates(found, built, template, use)


def _older(used: _Templates) -> str:
    """Sentences about what is older in use than this release would make it; empty if nothing is."""
    context = used.inputs.context
    image = older_image(used.inputs.plan.image, context.spec.stated, context.engine, context.settings)
    found = sentences(image, older_template(used.template, used.built))
    return sentences(found, renewal_notice(context.settings, context.now)) if found else ""


def _process(context: RoleContext, plan: PinnedPlan, *, asks_for_key: bool) -> EngineProcess:
    """The process of an engine of the role."""
    spec, settings = context.spec.effective, context.settings
    model, name = spec.model, spec.model.served_name or context.owner.key.name
    hub_cache = HUB_CACHE if spec.stated.cache else ""
    commit, revision = (plan.commit, model.revision) if isinstance(context.source, HubModel) else ("", None)
    path = model_argument(context.source, plan.commit)
    folder = path
    if isinstance(context.source, HubModel):
        folder = _hub_folder(context.source, plan.commit) if hub_cache else ""
    served = ServedModel(path, name, commit, revision, model.token_secret_ref, folder, hub_cache)
    limits = timeouts(spec.stated, plan.plan, settings)
    running = spec.running_engine(plan.image, _with_network(spec, plan.plan))
    listen, traces = settings.listen_address, settings.traces_endpoint
    return context.engine.process(
        running, plan.plan, served, limits, host=listen, traces=traces, asks_for_key=asks_for_key
    )


def _with_network(spec: EffectiveSpec, plan: Plan) -> Environment:
    """The variables of the engine, with those of the network between its pods.

    A variable of the user stays, and one of the administrator unless the user names the interface.
    """
    if plan.parallel.nodes == 1:
        return spec.engine.env
    replaced = INTERFACE_VARIABLES if spec.stated.hardware.network.interface else ()
    env = [one for one in spec.engine.env if one.name not in replaced]
    network, on_gpus = spec.network, plan.device is Device.GPU
    has_devices = network.resource is not None
    return with_defaults(env, network_variables(network.interface, on_gpus=on_gpus, has_devices=has_devices))


def _hub_folder(source: HubModel, commit: str) -> str:
    """The folder on a claim with the files of a model of a hub; that of its file, if the source names one."""
    folder = source.file.rpartition("/")[0]
    return f"{snapshot_path(stored_name(source), commit)}{f'/{folder}' if folder else ''}"


def _rollout_inputs(inputs: Inputs, context: RoleContext, template: PinnedTemplate, plan: PinnedPlan) -> RolloutInputs:
    stated = context.spec.stated
    return RolloutInputs(
        requested=stated.rollout.strategy,
        template=template.template_hash,
        pod=template.content.template["spec"],
        live=context.live.workload,
        engines=context.live.engines,
        gpu_resource=plan.plan.resource,
        node_wait=context.settings.surge_wait,
        one_node=bool(one_node_claim(inputs, stated)),
        pods_per_engine=plan.plan.parallel.nodes,
    )


_WRITE_FAILS = frozenset({Reason.NAME_CONFLICT, Reason.CHILD_REJECTED, Reason.REQUEST_FAILED})
"""Reasons for which an object of the resource was not written at the last try."""


def _move_inputs(inputs: Inputs, workload: WorkloadInputs, rolled: RolloutInputs, replicas: int) -> MoveInputs:
    """The inputs of the decision about the nodes of the role's engines; most are those of a rollout."""
    stated = workload.spec.stated
    return MoveInputs(
        engines=rolled.engines,
        template=rolled.template,
        pod=rolled.pod,
        wanted=replicas,
        workloads=workload.context.live.workloads,
        leaving=inputs.leaving,
        gpu_resource=rolled.gpu_resource,
        pods_per_engine=rolled.pods_per_engine,
        node_wait=rolled.node_wait,
        one_node=rolled.one_node,
        longest_start=timedelta(seconds=progress_deadline_seconds(stated, workload.process)),
        asked=stated.scheduling.eviction_wait,
        budgets=workload.settings.single_engine_budgets,
        can_record=not any(one.reason in _WRITE_FAILS for one in inputs.resource.status.conditions),
    )
