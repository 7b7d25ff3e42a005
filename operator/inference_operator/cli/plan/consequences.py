"""The consequences of predicted writes for engines, routers, GPUs and requests, as figures and sentences."""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import RolloutStrategy
from inference_operator.autoscaling.inputs import start_seconds
from inference_operator.cli.plan.prediction import Prediction
from inference_operator.manifest import DEPLOYMENT, Ref
from inference_operator.objects.names import router_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.role import Role
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.router.pinned_router import live_cold_start_seconds
from inference_operator.sentences import counted
from inference_operator.views.engine import engines_of
from inference_operator.views.workload import role_view, workload_view
from inference_operator.workload.eviction.rollout import WHY

NO_LOSS, HELD, UNANSWERED = "NoLoss", "Held", "MayBeRefused"
"""What becomes of requests during the change: all are answered as usual; they wait at the routers; or some may be
answered 503, or reach nothing."""


@dataclass(frozen=True, slots=True)
class RoleConsequence:
    name: str
    engines_before: int
    engines_after: int
    gpus_before: int
    gpus_after: int
    gpus_most: int
    """At most while engines are replaced."""
    restarts: int
    """Engines that run and are replaced."""
    strategy: str = ""
    """`Surge` or `Replace`; empty if none is replaced."""
    why: str = ""
    start_seconds: float | None = None
    """A start as measured; None if none was measured."""
    requests: str = NO_LOSS
    held_seconds: int = 0
    """How long routers hold a request while no engine is up."""

    @property
    def seconds(self) -> float | None:
        """About how long the replacement takes; None if no start was measured, or nothing is replaced."""
        return self.restarts * self.start_seconds if self.restarts and self.start_seconds else None

    def sentences(self) -> Iterator[str]:
        if self.restarts:
            yield (
                f"{counted(self.restarts, 'engine')} {'restarts' if self.restarts == 1 else 'restart'}, one at a time"
                f" ({self.strategy}): {self.why}. {self._requests}"
            )
            yield self._time
        elif self.engines_before == self.engines_after:
            yield "No engine restarts."
        if self.engines_before != self.engines_after:
            yield f"Engines: {self.engines_before} -> {self.engines_after}."
        if self.gpus_before or self.gpus_after:
            most = f" ({self.gpus_most} while engines are replaced)" if self.gpus_most > self.gpus_after else ""
            yield f"GPUs: {self.gpus_before} -> {self.gpus_after}{most}."

    @property
    def _requests(self) -> str:
        if self.requests == NO_LOSS:
            return "No request is lost."
        if self.requests == HELD:
            return f"No engine answers in between: routers hold requests for up to {self.held_seconds} s."
        if not self.held_seconds:
            return "No engine answers in between, and no router holds requests: they are refused."
        length = f" of {self.start_seconds:,.0f} s" if self.start_seconds else " of unknown length"
        return (
            f"No engine answers in between, for a start{length}. Routers hold requests for up to {self.held_seconds} s;"
            " then they answer 503."
        )

    @property
    def _time(self) -> str:
        if self.start_seconds is None:
            return "Time: unknown, because no start of an engine was measured."
        total, each = f"{self.restarts * self.start_seconds:,.0f} s", f"{self.start_seconds:,.0f} s"
        return f"Time: about {total} ({each} for each start, as measured), and the end of old ones."


@dataclass(frozen=True, slots=True)
class Consequences:
    roles: tuple[RoleConsequence, ...] = ()
    routers: str = ""
    """What becomes of the routers, in a sentence; empty without a decision about them."""
    waits: str = ""
    """What engines wait for first, in sentences; empty if they wait for nothing."""

    def sentences(self) -> Iterator[str]:
        for role in self.roles:
            prefix = f"Role {role.name}: " if len(self.roles) > 1 else ""
            yield from (f"{prefix}{one}" for one in role.sentences())
        if self.routers:
            yield self.routers
        if self.waits:
            yield f"First: {self.waits}"


def consequences(before: Inputs, predicted: Prediction) -> Consequences:
    decided = predicted.outcome
    if not isinstance(decided, Planned):
        return Consequences()
    held = live_cold_start_seconds(predicted.inputs.router_deployment)
    return Consequences(
        roles=tuple(_of_role(before, role, held) for role in decided.roles),
        routers=_routers(before, predicted),
        waits=decided.model_wait.message if decided.model_wait else "",
    )


def _of_role(before: Inputs, role: Role, held: int) -> RoleConsequence:
    workloads = before.workloads(role.name)
    live, recorded = role_view(workloads), PLAN_ANNOTATION.read(next(iter(workloads), None))
    template = next((workload_view(one).template for one in role.workload.objects), None)
    engines = [one for one in engines_of(before.pods_of(role.name)) if not (one.terminating or one.failed)]
    old = sum(one.template != template for one in engines)
    per_engine = role.plan.plan.gpus_per_replica
    gpus_before = live.desired * (recorded.plan.gpus_per_replica if recorded else per_engine)
    gpus_after = role.workload.replicas * per_engine
    rollout = role.change.rollout if old else None
    surges = rollout is not None and rollout.strategy is RolloutStrategy.SURGE
    start = start_seconds(before.resource.status.autoscaling, engines)
    is_external = role.context.spec.stated.router.strategy is RouterStrategy.EXTERNAL
    holds = 0 if is_external else held
    is_held = start is not None and start <= holds
    stays = not rollout or surges or sum(one.is_serving for one in engines) > 1
    return RoleConsequence(
        name=role.name,
        engines_before=live.desired,
        engines_after=role.workload.replicas,
        gpus_before=gpus_before,
        gpus_after=gpus_after,
        gpus_most=max(gpus_before, gpus_after) + per_engine * surges,
        restarts=old if rollout else 0,
        strategy=str(rollout.strategy) if rollout else "",
        why=WHY[rollout.why].removeprefix("because ") if rollout else "",
        start_seconds=start,
        requests=NO_LOSS if stays else HELD if is_held else UNANSWERED,
        held_seconds=holds,
    )


def _routers(before: Inputs, predicted: Prediction) -> str:
    key = before.resource.key
    ref = Ref(DEPLOYMENT, key.namespace, router_name(key.name))
    live, then = before.child(ref), predicted.inputs.child(ref)
    if live is None or then is None:
        return "Routers: created." if then else "Routers: deleted; requests go to the engines." if live else ""
    was, becomes = workload_view(live), workload_view(then)
    if was.template != becomes.template:
        routers = f"{counted(was.desired, 'router')} {'is' if was.desired == 1 else 'are'}"
        return f"{routers} replaced one by one, a new one first. No request is lost."
    if was.desired != becomes.desired:
        return f"Routers: {was.desired} -> {becomes.desired}."
    return "Routers stay."
