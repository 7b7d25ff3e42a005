"""One role as decided: its process, its pod template in use, its Deployment and the objects around that."""

from dataclasses import dataclass
from datetime import timedelta

from inference_operator.api.refusal import Refusal
from inference_operator.engines.process import EngineProcess
from inference_operator.fleet.rollout_slots import next_turn
from inference_operator.manifest import Manifest, Ref
from inference_operator.pipeline.engine_key import unguarded
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_claim import OneNode, one_node
from inference_operator.pipeline.replicas import ObservedScaling, desired_replicas, observed_scaling
from inference_operator.pipeline.templates import RoleTemplates, role_templates
from inference_operator.pipeline.turn_inputs import turn_inputs
from inference_operator.planning.capacity import capped, disk_shortfall, refusal_of_network, unused_fields
from inference_operator.planning.role_plan import RolePlan
from inference_operator.roles.context import RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sentences import sentences
from inference_operator.views.lookups import FreeGpusLookup, Lookup
from inference_operator.workload.change import WorkloadChange
from inference_operator.workload.children import children as workload_children
from inference_operator.workload.deployment import progress_deadline_seconds
from inference_operator.workload.eviction.drain import move
from inference_operator.workload.eviction.half_placed import yielding
from inference_operator.workload.eviction.hardware_errors import move_due, moved_pods
from inference_operator.workload.eviction.rollout import (
    EngineSet,
    creation_lookups,
    lasting_obstacle,
    refusal_of_groups,
    rollout,
    surge_cure,
    switch_due,
)
from inference_operator.workload.pinned_template import PinnedTemplate
from inference_operator.workload.pod_spec import WorkloadInputs
from inference_operator.workload.workload import Workload, engine_workload


@dataclass(frozen=True, slots=True)
class Role:
    sized: RolePlan
    used: RoleTemplates
    change: WorkloadChange
    workload: Workload
    scaling: ObservedScaling
    objects: dict[Ref, Manifest]
    notice: str = ""
    disk_shortfall: str = ""
    """Which nodes lack the disk that an engine requests, in a sentence; empty if one has it."""
    network_refusal: Refusal | None = None
    """Why no nodes have the network that the pods of an engine ask for; None if they have."""

    @property
    def context(self) -> RoleContext:
        return self.used.inputs.context

    @property
    def name(self) -> str:
        return self.context.spec.name

    @property
    def plan(self) -> PinnedPlan:
        return self.used.inputs.plan

    @property
    def process(self) -> EngineProcess:
        return self.used.inputs.process

    @property
    def template(self) -> PinnedTemplate:
        return self.used.template

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        return (*self.sized.lookups, *self.change.lookups)

    @property
    def advisories(self) -> str:
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
    """
    used = role_templates(inputs, context, plan.pinned, open_to_all=open_to_all)
    workload_inputs, pinned = used.inputs, used.inputs.plan
    scaling = observed_scaling(inputs, context.spec.stated, context.live)
    change = _change(inputs, used, scaling)
    workload = engine_workload(workload_inputs, change, inputs.samples)
    pod_spec = used.template.content.template["spec"]
    return Role(
        sized=plan,
        used=used,
        change=change,
        workload=workload,
        scaling=scaling,
        objects=workload_children(workload_inputs, workload.objects, open_to_all=open_to_all),
        notice=_notice(inputs, used, change, scaling),
        disk_shortfall=disk_shortfall(context.nodes, pod_spec, pinned.plan.resource),
        network_refusal=refusal_of_network(context, pinned.plan, pod_spec),
    )


def _change(inputs: Inputs, used: RoleTemplates, scaling: ObservedScaling) -> WorkloadChange:
    """The decisions, which need each other in this order: how many engines, how they roll, from where they move."""
    context, template = used.inputs.context, used.template
    live, lookups, now = context.live, context.lookups, context.now
    wanted, replicas = desired_replicas(context, used.inputs.plan, scaling, template.content.template["spec"])
    mounts = _one_node(inputs, context, template)
    engines = _engine_set(inputs, used.inputs, template, replicas, one_node=mounts.applies)
    decided = rollout(engines, lookups, nodes_visible=not context.settings.namespaces, now=now)
    moving = move(engines, lookups, now)
    moved = moved_pods(live.workload, live.engines, lookups, context.engine, context.nodes)
    yielded = yielding(context, inputs.shared.half_placed)
    drill_end = scaling.drill.until if scaling.drill else None
    due = (switch_due(engines, lookups), move_due(live.workload, moved, now), yielded.due, moving.due, drill_end)
    looks = (decided,) if isinstance(decided, FreeGpusLookup) else ()
    return WorkloadChange(
        template=template,
        rollout=None if isinstance(decided, FreeGpusLookup) else decided,
        surge_cure=surge_cure(engines, lookups),
        obstacle=lasting_obstacle(engines, lookups),
        refusal=refusal_of_groups(engines, lookups),
        moved=moved,
        wanted=wanted,
        replicas=replicas,
        yielding=yielded,
        move=moving,
        turn=next_turn(turn_inputs(inputs), used.use, template.template_hash, live.workloads),
        lookups=(*looks, *creation_lookups(engines), *mounts.lookups, *yielded.lookups, *moving.lookups),
        due=min(filter(None, due), default=None),
    )


def _notice(inputs: Inputs, used: RoleTemplates, change: WorkloadChange, scaling: ObservedScaling) -> str:
    context, plan = used.inputs.context, used.inputs.plan
    return sentences(
        used.older,
        f"`infd drill` asks for at most {scaling.drill.text}." if scaling.drill else "",
        capped(change.wanted, change.replicas),
        change.moved.notice,
        unused_fields(context.spec.stated, plan.plan),
        change.yielding.notice,
        unguarded(inputs, context, used.template, has_policy=used.inputs.has_network_policy),
        context.engine.advisories(plan.image),
    )


def _one_node(inputs: Inputs, context: RoleContext, template: PinnedTemplate) -> OneNode:
    """Whether its engines can be on one node only; claims are looked up while a rollout or a move needs to know it."""
    leaving = inputs.leaving or {}
    matters = any(
        engine.template != template.template_hash or not leaving.keys().isdisjoint(engine.nodes)
        for engine in context.live.engines
    )
    return one_node(inputs, context.spec.stated, template.content.template["spec"], matters=matters)


def _engine_set(
    inputs: Inputs, workload: WorkloadInputs, template: PinnedTemplate, wanted: int, *, one_node: bool | None
) -> EngineSet:
    context, plan, settings = workload.context, workload.plan.plan, workload.settings
    stated = context.spec.stated
    return EngineSet(
        engines=context.live.engines,
        workloads=context.live.workloads,
        template=template.template_hash,
        pod=template.content.template["spec"],
        gpu_resource=plan.resource,
        pods_per_engine=plan.parallel.nodes,
        wanted=wanted,
        strategy=stated.rollout.strategy,
        leaving=inputs.leaving,
        node_wait=settings.surge_wait,
        one_node=one_node,
        longest_start=timedelta(seconds=progress_deadline_seconds(stated, workload.process)),
        eviction_wait=stated.scheduling.eviction_wait,
        longest_wait=settings.longest_eviction_wait,
        budgets=settings.single_engine_budgets,
        can_record=inputs.can_write,
    )
