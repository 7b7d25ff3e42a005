"""The plan of a role: the pinned one, the pinned one corrected, or one that is sized now.

These rules apply, in this order:

1. A plan recorded for the same specification and engine stays, unless all pods of the role are unschedulable.
2. A plan that stays is decided once more if its engines reported too little memory (`planning/healing.py`).
3. A plan that stays gets the image of this release when the user asks for new engines (`RENEWED_ANNOTATION`).
4. Otherwise the role is sized; if its pods are unschedulable, for the GPUs that are free (`placeable`). The kind
   of GPU of its earlier plan stays if the model still fits on it. A recorded plan stays if no other one is possible,
   or if the new one is equal to it.

A plan is made for what nodes have, whether other pods use it or not: a kind that is full today may be free when the
engine starts. If the scheduler then finds no node, the free GPUs are looked up, and the engines are sized again for
what is free. GPUs that no node has yet, because they are declared or named in the spec, count as free: a node may
come.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from inference_operator.api.affinity import Affinity
from inference_operator.api.pod_template import RENEWED_ANNOTATION
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.scheduling import PodScheduling
from inference_operator.api.spec import Spec
from inference_operator.diagnosis.unschedulable import lacked_resources
from inference_operator.engines.base import Engine
from inference_operator.hardware.offers import GpuOffer
from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.objects.child import content_hash
from inference_operator.objects.scheduling import scheduling
from inference_operator.planning.advice import advice
from inference_operator.planning.engine_plan import ModelFindings, PlanInputs, doubt_of, engine_plan, requested_of_sizes
from inference_operator.planning.gpu_offers import GpuOffers, usable_offers
from inference_operator.planning.healing import learned_from, same_sizes
from inference_operator.roles.context import RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.sizing.plan import SIZING_RULES
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, Lookup, LookupResults, NodeGpus
from inference_operator.views.node_fit import schedulable_now
from inference_operator.views.raw import annotations, mapping


@dataclass(frozen=True, slots=True)
class PlanState:
    context: RoleContext
    spec_hash: str
    latest: PinnedPlan | None
    """The recorded plan, if it was made for the present specification; with the image of this release in a renewal."""
    kept: PinnedPlan | None
    """The same, unless all engine pods are unschedulable: then the role is sized again."""
    image: str


@dataclass(frozen=True, slots=True)
class RolePlan:
    pinned: PinnedPlan
    is_kept: bool
    """Whether it was recorded before, so that engines of it may run."""
    missing_gpu_kind: str = ""
    """The kind of GPU that it needs and no node has; empty if a node has it, or if the plan is kept."""
    doubt: str = ""
    """Why this release would refuse the plan that is kept, in a sentence; empty if it would not."""
    lookups: tuple[Lookup, ...] = ()
    """Lookups that tell more: which GPUs are free, if no engine can be scheduled."""


def plan_state(context: RoleContext) -> PlanState:
    spec, settings = context.spec.stated, context.settings
    current = spec_hash(spec, context.engine)
    recorded = context.live.recorded
    is_present = recorded is not None and (recorded.spec_hash, recorded.engine) == (current, context.spec.engine)
    latest = recorded if is_present and _keeps_stages(spec, recorded) else None
    if latest and _is_renewed(context):
        latest = replace(latest, image=context.engine.desired_image(spec, settings))
    engines = context.live.engines
    kept = None if engines and all(engine.is_unschedulable for engine in engines) else latest
    image = kept.image if kept else context.engine.desired_image(spec, settings)
    return PlanState(context, current, latest, kept, image)


def _is_renewed(context: RoleContext) -> bool:
    """Whether the user asks for new engines, and the workload does not know it yet.

    The live template tells, and no hash: so the annotation of a former renewal restarts nothing.
    """
    asked = context.spec.stated.pod_template.annotations.get(RENEWED_ANNOTATION)
    live = mapping(context.live.workload or {}, "spec", "template")
    return bool(asked and live) and annotations(live).get(RENEWED_ANNOTATION) != asked


def _keeps_stages(spec: Spec, recorded: PinnedPlan | None) -> bool:
    """Whether a plan over several nodes has the requested stages. Hashes do not tell one stage from none requested."""
    asked = spec.parallelism
    spread = recorded is not None and recorded.plan.parallel.nodes > 1
    return not (spread and asked.pipeline == 1 and asked.nodes is None)


def spec_hash(spec: Spec, engine: Engine) -> str:
    revision = engine.access(spec.engine, spec.model).revision
    revisions = [revision] if revision else []
    pickle = ["pickle"] if spec.model.allow_pickle else []
    return content_hash([spec.model.source, spec.engine.image, requested_of_sizes(spec, engine), *revisions, *pickle])


def role_plan(state: PlanState, model: ModelFindings) -> RolePlan | Refusal:
    if state.kept:
        healed, context, facts = _healed(state, model, state.kept), state.context, model.facts
        if not isinstance(facts, ModelFacts):
            return RolePlan(healed, is_kept=True)
        doubt = doubt_of(healed.plan, context.spec.stated, facts, context.engine, state.image)
        return RolePlan(healed, is_kept=True, doubt=doubt)
    inputs = _plan_inputs(state, model)
    lookups = free_gpus_lookups(inputs.offers) if state.latest and _lack_gpus(state.context, inputs.offers) else ()
    if lookups:
        free = placeable(inputs.offers, state.context.lookups, _pod(state.context))
        inputs = replace(inputs, offers=free)
    plan = _sized(state, inputs)
    if isinstance(plan, Refusal):
        return _with_defaults_named(plan, state.context.settings.engine_defaults.scheduling)
    missing = inputs.offers.missing_gpu_kind(plan.plan.gpu)
    return RolePlan(plan, is_kept=False, missing_gpu_kind=missing, lookups=lookups)


def _lack_gpus(context: RoleContext, offers: GpuOffers) -> bool:
    problems = (pod.problem for engine in context.live.engines for pod in engine.pods)
    lacked = {name for problem in problems if problem for name in lacked_resources(problem.cause)}
    return not context.settings.namespaces and not lacked.isdisjoint(offer.resource for offer in offers.live)


def _plan_inputs(state: PlanState, model: ModelFindings) -> PlanInputs:
    context, stated = state.context, state.context.spec.stated
    needs = context.engine.gpu_needs(context.spec.effective.engine, state.image)
    offers = usable_offers(context.nodes, _pod(context), stated, context.settings, needs)
    return PlanInputs(stated, context.source, model, offers, state.image, choice=context.choice)


def _pod(context: RoleContext) -> Manifest:
    return scheduling(context.spec.effective.scheduling, gpus=1, selector={})


def _healed(state: PlanState, model: ModelFindings, kept: PinnedPlan) -> PinnedPlan:
    context = state.context
    live, engine = context.live, context.engine
    learned = learned_from(kept.plan, live.engines, context.lookups, engine, template=live.view.template)
    if learned is None:
        return kept
    asked, before = _plan_inputs(state, model), kept.plan
    asked = replace(asked, previous_kind=before.gpu, learned=learned, pinned_cache=before.kv_cache_dtype)
    sizes = engine_plan(asked, context.engine)
    if isinstance(sizes, Refusal) or same_sizes(sizes, kept.plan):
        return kept
    if sizes.unchecked_reason and not kept.plan.unchecked_reason:
        return kept  # facts or nodes are unknown now: this plan would bind to no GPU
    return replace(kept, plan=replace(sizes, revision=kept.plan.revision + 1), rules=SIZING_RULES)


def _sized(state: PlanState, inputs: PlanInputs) -> PinnedPlan | Refusal:
    latest, context = state.latest, state.context
    earlier = context.live.recorded
    kind = earlier.plan.gpu if earlier and not latest else ""
    learned = latest.plan.learned if latest else None
    cache = latest.plan.kv_cache_dtype if latest else None
    asked = replace(inputs, previous_kind=kind, learned=learned, pinned_cache=cache)
    sizes = engine_plan(asked, context.engine)
    if isinstance(sizes, Refusal):
        return latest or sizes
    facts = inputs.model.facts
    commit = facts.commit if isinstance(facts, ModelFacts) else ""
    plan = PinnedPlan(state.spec_hash, inputs.image, sizes, engine=context.spec.engine, commit=commit)
    if latest is None:
        return _advised(plan, inputs, context.engine)
    before = latest.plan
    alike = replace(sizes, revision=before.revision, step=before.step, runner_up=before.runner_up, advice=before.advice)
    unchanged = replace(plan, plan=alike, rules=latest.rules) == latest
    if unchanged:
        return latest
    return _advised(replace(plan, plan=replace(sizes, revision=before.revision + 1)), inputs, context.engine)


def _advised(pinned: PinnedPlan, inputs: PlanInputs, engine: Engine) -> PinnedPlan:
    """The plan with its advice, for which the model is sized again: so only a plan that is new gets it."""
    return replace(pinned, plan=replace(pinned.plan, advice=advice(inputs, pinned.plan, engine)))


def _with_defaults_named(refusal: Refusal, default: PodScheduling) -> Refusal:
    """The refusal; it also names the administrator's defaults if these keep engines away from nodes."""
    if refusal.reason is not Reason.NO_SUITABLE_GPU or not (default.node_selector or default.affinity != Affinity()):
        return refusal
    return replace(refusal, cure=f"{refusal.cure} The operator's setting `engineDefaults` limits the nodes as well.")


def free_gpus_lookups(offers: GpuOffers) -> tuple[FreeGpusLookup, ...]:
    return tuple(FreeGpusLookup(resource) for resource in sorted({offer.resource for offer in offers.live}))


def placeable(offers: GpuOffers, results: LookupResults, pod: Manifest) -> GpuOffers:
    """The offers with as many GPUs in a node as are free on one; all of them while that is not known, or if none is.

    Args:
        pod: the scheduling fields of the engine's pod; nodes that it may not use have nothing for it.
    """
    known = {look.resource: results.get(look) for look in free_gpus_lookups(offers)}
    gpus = {
        resource: [node for node in result.nodes if schedulable_now(node.node, pod)]
        for resource, result in known.items()
        if isinstance(result, ClusterGpus)
    }
    left = tuple(usable for offer in offers.possible if (usable := _left(offer, offers, gpus.get(offer.resource))))
    return replace(offers, possible=left) if left and gpus else offers


def _left(offer: GpuOffer, offers: GpuOffers, nodes: Iterable[NodeGpus] | None) -> GpuOffer | None:
    """The offer with the most GPUs that are free on one of its nodes, and these nodes alone; None if none is."""
    if nodes is None or offer not in offers.live:
        return offer
    alike = (node for node in nodes if node.total == offer.per_node)
    counts = [node.free for node in alike if not offer.product or node.node.labels.get(offer.label) == offer.product]
    free = max(counts, default=0)
    if free <= 0:
        return None
    gpus = min(offer.per_node, free)
    memory = offer.host_memory_gib * gpus / offer.per_node  # pods on the other GPUs have their part
    return replace(offer, per_node=gpus, fixed_nodes=counts.count(free), host_memory_gib=memory)
