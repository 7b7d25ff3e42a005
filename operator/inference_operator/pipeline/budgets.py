"""The part of disruption budgets, of all roles and of the routers, whether or not something is decided about them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.manifest import DISRUPTION_BUDGET, STATEFUL_SET, Manifest, Owner, Ref
from inference_operator.objects.child import child
from inference_operator.objects.names import ROUTER, router_name, selector_labels, workload_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome, Planned
from inference_operator.pipeline.part import Feature, Part
from inference_operator.pipeline.routers import kept_routers
from inference_operator.roles.context import LiveRole
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.raw import mapping
from inference_operator.workload.eviction.budget import Disruption

FEWEST_REPLICAS = 2
"""With one replica a budget could only hold a drain for ever, unless the operator may open it."""


def budgets(inputs: Inputs, verdict: Outcome, roles: Sequence[LiveRole]) -> Part:
    """The budgets that go with a decision, and those that open for a drain where nothing is decided."""
    decided: Mapping[Ref, Manifest] = {}
    if isinstance(verdict, Planned) and not verdict.hold.holds_others:
        decided = _decided(inputs, verdict)
    return Part(feature=Feature.BUDGETS, desired={**decided, **_opened(inputs, verdict, roles, decided)})


def _decided(inputs: Inputs, planned: Planned) -> Mapping[Ref, Manifest]:
    budgets: dict[Ref, Manifest] = {}
    for role in planned.roles:
        most = role.context.spec.stated.most_replicas
        has_groups = any(manifest["kind"] == STATEFUL_SET.name for manifest in role.workload.objects)
        if most >= FEWEST_REPLICAS or has_groups or (most and role.change.move.may_refuse):
            serving = _serving(role.context.live.engines)
            disruption = role.change.move.disruption(serving, planned_pods=role.plan.plan.parallel.nodes)
            budgets.update(_budget(inputs, role.name, disruption))
    router, move = planned.shared.stated.router, planned.router_move
    routes = router.strategy is not RouterStrategy.EXTERNAL
    if routes and (router.replicas >= FEWEST_REPLICAS or move.may_refuse):
        budgets.update(_budget(inputs, ROUTER, move.disruption(_serving(_routers(inputs)))))
    return budgets


def _opened(
    inputs: Inputs, verdict: Outcome, roles: Sequence[LiveRole], decided: Mapping[Ref, Manifest]
) -> Mapping[Ref, Manifest]:
    """Budgets that let pods go where no successor can start.

    That is so where nothing new is decided: the resource is paused or refused, or waits for its model, or its routers
    stay only until something else routes. A drain would wait for ever. The same holds where the operator cannot see
    nodes any more.
    """
    spec = inputs.resource.spec
    asked = spec.scheduling.eviction_wait if isinstance(spec, Spec) else None
    guards = inputs.settings.single_engine_budgets and asked != timedelta(0)
    opened: dict[Ref, Manifest] = {}
    for component, engines, wanted in _undecided(inputs, verdict, roles):
        ref = _ref(inputs, component)
        live, desired = inputs.child(ref), decided.get(ref) or _kept(inputs, verdict, ref)
        leaves = inputs.leaving is None or any(node in inputs.leaving for engine in engines for node in engine.nodes)
        if not (desired and engines and (live or leaves)):
            continue
        disruption = Disruption(
            wanted=wanted,
            serving=_serving(engines),
            leaves=leaves,
            refuses=guards,
            existing=len(engines),
            kept=_kept_now(live),
        )
        if disruption.keeps != _kept_now(desired):
            opened.update(_budget(inputs, component, disruption))
    return opened


def _kept(inputs: Inputs, verdict: Outcome, ref: Ref) -> Manifest | None:
    """The live budget, if it stays: of routers while requests go through them, and of all where nothing changes."""
    if not isinstance(verdict, Planned) or verdict.hold.holds_others:
        return inputs.child(ref)
    return kept_routers(inputs, verdict).get(ref)


def _undecided(
    inputs: Inputs, verdict: Outcome, roles: Sequence[LiveRole]
) -> Iterator[tuple[str, Sequence[EngineView], int]]:
    """The components whose moves are not carried out, with their engines and how many are wanted."""
    spec = inputs.resource.spec
    planned = verdict if isinstance(verdict, Planned) else None
    for role in roles if planned is None or planned.hold.holds_engines else ():
        yield role.name, role.engines, role.view.desired
    is_external = isinstance(spec, Spec) and spec.router.strategy is RouterStrategy.EXTERNAL
    if planned is None or planned.is_frozen or is_external:
        yield ROUTER, _routers(inputs), inputs.routers.desired


def _serving(engines: Sequence[EngineView]) -> Sequence[int]:
    return [len(engine.pods) for engine in engines if engine.is_serving]


def _routers(inputs: Inputs) -> Sequence[EngineView]:
    return engines_of(inputs.pods_of(ROUTER))


def _ref(inputs: Inputs, component: str) -> Ref:
    key = inputs.resource.key
    name = router_name(key.name) if component == ROUTER else workload_name(key.name, component)
    return Ref(DISRUPTION_BUDGET, key.namespace, name)


def _budget(inputs: Inputs, component: str, disruption: Disruption) -> Mapping[Ref, Manifest]:
    """One pod of the component at a time, or a number of pods that stay; one that is not ready never blocks a drain.

    `maxUnavailable` counts all pods that the workloads ask for, also those that are there only for a time (Kubernetes
    1.36, pkg/controller/disruption/disruption.go, `getExpectedPodCount`).
    """
    ref = _ref(inputs, component)
    return {ref: disruption_budget(ref.name, component, keeps=disruption.keeps, owner=inputs.owner)}


def disruption_budget(name: str, component: str, *, keeps: int | None = None, owner: Owner) -> Manifest:
    """Of a component's pods `keeps` stay, or (None) all but one."""
    spec = {
        **({"maxUnavailable": 1} if keeps is None else {"minAvailable": keeps}),
        "selector": {"matchLabels": selector_labels(owner.key.name, component)},
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return child(DISRUPTION_BUDGET, name, owner=owner, component=component, content={"spec": spec})


def _kept_now(budget: Manifest | None) -> int | None:
    """The number of pods that a budget keeps; None if it has none, or if somebody wrote a percentage."""
    least = mapping(budget or {}, "spec").get("minAvailable")
    return least if isinstance(least, int) else None
