"""The demand for one InferenceDeployment: one round of scrapes of its pods becomes one `ScalingSample`."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.autoscaling.decision import ScalingSample
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples

NO_ROUTER = "any router"
"""Stands among the missing pods where no router is ready: requests may wait that nobody counts."""


@dataclass(frozen=True, slots=True)
class Total:
    """A counter summed over pods, which only grows: pods that come, go, restart or do not answer do not change it."""

    value: float = 0.0
    last: Mapping[str, float] = field(default_factory=dict)
    """The last reading of each pod, by its uid."""

    def after(self, readings: Mapping[str, float], *, staying: Container[str]) -> "Total":
        """The total after these readings. The first one of a pod only says where its counter stands."""
        growth = sum(_growth(self.last.get(uid), reading) for uid, reading in readings.items())
        kept = {uid: reading for uid, reading in self.last.items() if uid in staying}
        return Total(self.value + growth, {**kept, **readings})


def _growth(before: float | None, now: float) -> float:
    """The growth of a counter. A value that is smaller than before means a restart at zero."""
    if before is None:
        return 0.0
    return now - before if now >= before else now


@dataclass(frozen=True, slots=True)
class Totals:
    arrivals: Total = field(default_factory=Total)
    completions: Total = field(default_factory=Total)
    failed: Total = field(default_factory=Total)


def scaling_sample(
    engines: Sequence[EngineView],
    routers: Sequence[PodView],
    samples: Samples,
    totals: Totals,
    *,
    at: float,
    bypasses_routers: bool,
    share: float = 1.0,
    of_prompts: bool = False,
) -> tuple[ScalingSample, Totals]:
    """The sample of a round of scrapes, and the counters after it.

    A request counts once: at its engine, as the engine or the routers count it, whichever is more; else as queued or
    held.

    Args:
        samples: those of the pods that have answered in this round.
        bypasses_routers: whether something else than the operator's routers sends requests; only engines know of them
            then.
        share: the part of the requests in routers that counts. Where it is not all, engines tell what has arrived at
            this role.
        of_prompts: whether its requests are the prompts that other engines send. What no engine computed in this round
            counts as waiting: engines that answer compute it meanwhile, and nobody would ask for a first engine else.
    """
    routing = [] if bypasses_routers else [pod for pod in routers if pod.is_serving]
    serving = [engine for engine in engines if engine.is_serving]
    routed = {pod.uid: samples.routers[pod.uid] for pod in routing if pod.uid in samples.routers}
    served = {engine.uid: samples.engines[engine.uid] for engine in serving if engine.uid in samples.engines}
    staying = {*(engine.uid for engine in engines), *(pod.uid for pod in routers)}
    finished = {uid: engine.sample.finished for uid, engine in served.items()}
    completions = totals.completions.after(finished, staying=staying)
    came = {uid: float(router.prompts if of_prompts else router.arrivals) for uid, router in routed.items()}
    arrivals = totals.arrivals.after(came, staying=staying)
    failed = totals.failed.after({uid: float(router.prompts_failed) for uid, router in routed.items()}, staying=staying)
    waiting = share * sum(router.queued + router.held for router in routed.values())
    prompts = failed.value - totals.failed.value + sum(router.prompts_queued for router in routed.values())
    outstanding = (prompts if of_prompts else waiting) + sum(engine.outstanding for engine in served.values())
    sample = ScalingSample(
        at=at,
        outstanding=outstanding,
        arrivals=completions.value + outstanding if bypasses_routers or share < 1 else arrivals.value,
        completions=completions.value,
        running=sum(engine.sample.running for engine in served.values()),
        ready=len(serving),
        starting=sum(not (engine.ready or engine.terminating or engine.failed) for engine in engines),
        missing=(
            *(pod.name for pod in routing if pod.uid not in routed),
            *(engine.name for engine in serving if engine.uid not in served),
            *([] if bypasses_routers or routing else [NO_ROUTER]),
        ),
    )
    return sample, Totals(arrivals, completions, failed)
