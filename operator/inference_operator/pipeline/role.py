"""One role as decided: its process, its pod template in use, its Deployment and the objects around that."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.process import EngineProcess
from inference_operator.fleet.turn import next_turn
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.pinned import PinUse
from inference_operator.pipeline.engine_key import unguarded
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import one_node_claim
from inference_operator.pipeline.replicas import ObservedScaling, desired_replicas, observed_scaling
from inference_operator.pipeline.templates import RoleTemplates, role_templates
from inference_operator.pipeline.turn_inputs import turn_inputs
from inference_operator.planning.capacity import capped
from inference_operator.planning.disk import disk_shortfall
from inference_operator.planning.network import NetworkInputs, refusal_of_network, unused_fields
from inference_operator.planning.role_plan import RolePlan
from inference_operator.roles.context import RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sentences import sentences
from inference_operator.views.lookups import Lookup
from inference_operator.workload.change import WorkloadChange
from inference_operator.workload.children import children as workload_children
from inference_operator.workload.deployment import progress_deadline_seconds
from inference_operator.workload.half_placed import Yielding, yielding
from inference_operator.workload.hardware_errors import MovedPods, move_due, moved_pods
from inference_operator.workload.moving import Move, MoveInputs, move
from inference_operator.workload.pinned_template import (
    PinnedTemplate,
)
from inference_operator.workload.pod_spec import WorkloadInputs
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
    outdated: Reason | None = None
    """Why a renewal would change engines; None if they are as this release builds them."""
    gang_backoff: str = ""
    """Which groups gave their nodes back for others, in sentences; empty if none did."""
    missing_gpu_kind: str = ""
    """The kind of GPU that the plan needs and no node has; empty if a node has it."""
    doubt: str = ""
    """Why this release would refuse the plan that is kept, in a sentence; empty if it would not."""
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

    @property
    def advisories(self) -> str:
        """A notice about known vulnerabilities of the engine's version; empty if none is known."""
        return self.context.engine.advisories(self.plan.image)

    @property
    def shared_prefixes(self) -> str:
        """A notice that users with keys share a cache of prefixes; empty if they do not, or there are no keys."""
        cure = self.process.prefix_cure if self.context.spec.stated.router.keys else ""
        return sentences(_SHARED_PREFIXES, cure) if cure else ""


_SHARED_PREFIXES = (
    "All users with a key share the engines' cache of prefixes: response times can tell one of them whether another has"
    " sent the same text."
)


def role(inputs: Inputs, context: RoleContext, plan: RolePlan, *, open_to_all: bool) -> Role:
    """The role's desired objects.

    1. The pod template in use (`pipeline/templates.py`).
    2. The rollout strategy. While that is undecided, the live workload is desired.
    3. The workload with its replicas, and the objects around it.

    Args:
        inputs: everything that was observed.
        context: the role.
        plan: its plan.
        open_to_all: whether something else than the routers may send requests to its engines.
    """
    settings, live = context.settings, context.live
    used = role_templates(inputs, context, plan.pinned, open_to_all=open_to_all)
    workload_inputs, pinned = used.inputs, used.inputs.plan
    made = _decisions(inputs, used)
    workload = live_workload(live)
    if made.change:
        workload = engine_workload(workload_inputs, made.change, inputs.samples)
    pod_spec = used.template.content.template["spec"]
    network = NetworkInputs(context.spec.effective, pinned.plan, context.nodes, pod_spec, settings.capacity)
    return Role(
        context=context,
        plan=pinned,
        template=used.template,
        template_use=used.use,
        process=workload_inputs.process,
        workload=workload,
        rollout=made.change.rollout if made.change else None,
        scaling=made.scaling,
        replicas=made.wanted,
        move=made.moving,
        objects=workload_children(workload_inputs, workload.objects, open_to_all=open_to_all),
        notice=_notice(inputs, used, made),
        outdated=used.outdated,
        gang_backoff=made.yielded.notice,
        missing_gpu_kind=plan.missing_gpu_kind,
        doubt=plan.doubt,
        disk_shortfall=disk_shortfall(context.nodes, pod_spec, pinned.plan.resource),
        network_refusal=refusal_of_network(network),
        lookups=(*plan.lookups, *made.lookups),
        recheck_at=made.due,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Decisions:
    """The decisions about the engines of a role."""

    scaling: ObservedScaling
    wanted: int
    replicas: int
    moving: Move
    moved: MovedPods
    yielded: Yielding
    change: WorkloadChange | None
    """None until the rollout strategy is decided."""
    lookups: tuple[Lookup, ...]
    due: datetime | None


def _decisions(inputs: Inputs, used: RoleTemplates) -> _Decisions:
    """The decisions, which need each other in this order: how many engines, from where they move, how they roll."""
    context, template, pinned = used.inputs.context, used.template, used.inputs.plan
    live, settings, now = context.live, context.settings, context.now
    scaling = observed_scaling(inputs, context.spec.stated, live)
    rolled = _rollout_inputs(inputs, context, template, pinned)
    decided = rollout(rolled, context.lookups, nodes_visible=not settings.namespaces, now=now)
    wanted, replicas = desired_replicas(context, pinned, scaling, template.content.template["spec"])
    moving = move(_move_inputs(inputs, used.inputs, rolled, replicas), context.lookups, now)
    moved = moved_pods(live.workload, live.engines, context.lookups, context.engine, context.nodes)
    yielded = yielding(context, inputs.shared.half_placed)
    turn = next_turn(turn_inputs(inputs), used.use, template.template_hash, live.workloads)
    change = None
    if not isinstance(decided, Undecided):
        change = WorkloadChange(template, decided, moved, replicas, yielded, moving, turn)
    switch, shift = switch_due(rolled), move_due(live.workload, moved, now)
    due = (switch, shift, yielded.due, moving.due)
    return _Decisions(
        scaling=scaling,
        wanted=wanted,
        replicas=replicas,
        moving=moving,
        moved=moved,
        yielded=yielded,
        change=change,
        lookups=(*_looks(decided), *yielded.lookups, *moving.lookups),
        due=min(filter(None, due), default=None),
    )


def _notice(inputs: Inputs, used: RoleTemplates, made: _Decisions) -> str:
    """The notices about a role, in sentences; empty if there are none."""
    context, plan = used.inputs.context, used.inputs.plan
    return sentences(
        used.older,
        capped(made.wanted, made.replicas),
        made.moved.notice,
        unused_fields(context.spec.stated, plan.plan),
        made.yielded.notice,
        unguarded(inputs, context, used.template, has_policy=used.inputs.has_network_policy),
        context.engine.advisories(plan.image),
    )


def _looks(decided: Rollout | Undecided) -> tuple[Lookup, ...]:
    """The lookup that the strategy of a rollout needs; none once it is decided."""
    return (decided.lookup,) if isinstance(decided, Undecided) else ()


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
        can_record=inputs.can_write,
    )
