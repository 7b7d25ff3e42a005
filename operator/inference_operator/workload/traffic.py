"""Which engines get new requests: a stalled one is taken out of the engines' Service until it responds again.

Without this, a stalled engine collects all clients: each request that another engine finishes frees its client for
the stalled one. Deletion by the stall watchdog comes later, since a new engine has to load the model.

1. An engine has stalled if it has had requests, made no progress for `seconds`, and not answered a probe request for
   half of them.
2. A stalled engine is taken out only while another one stays in that is ready, has a sample and makes progress or is
   idle. So where all stall, for example because their storage is slow, all stay.
3. An engine that is out comes back with its response to the probe request. One that does not support this request
   comes back with its progress, or when its own metrics count no request.
4. If no ready engine is left in traffic, all that are out come back.

The decision reads labels and samples and nothing else, so a new leader decides the same once it has samples. Until
then an engine that is out stays out; one that does not support the probe request comes back with its first sample.
An engine comes back at most once for each stall, and each stall takes `seconds`. So it changes at most twice in that
time.
"""

from collections.abc import Sequence

from inference_operator.objects.pod_patch import PodPatch, traffic_label
from inference_operator.views.engine import EngineView
from inference_operator.views.samples import EngineActivity, ProbeState, Samples
from inference_operator.workload.stall import has_stalled, is_suspect


def traffic_changes(engines: Sequence[EngineView], samples: Samples, *, seconds: float) -> tuple[PodPatch, ...]:
    """The engines to take out of traffic, and those to take back in.

    Args:
        engines: those of one role.
        samples: their latest samples.
        seconds: how long an engine may make no progress.
    """
    ready = [engine for engine in engines if engine.is_serving]
    inside = [engine for engine in ready if engine.traffic]
    outside = [engine for engine in ready if not engine.traffic]
    sampled = [(engine, samples.engines[engine.uid]) for engine in inside if engine.uid in samples.engines]
    stalled: list[EngineView] = []
    if not inside:
        returning, why = outside, "no other engine is ready"
    else:
        returning, why = [engine for engine in outside if _serves_again(samples, engine, seconds)], "it responds again"
        if any(not is_suspect(activity, seconds=seconds) for _, activity in sampled):
            stalled = [engine for engine, activity in sampled if has_stalled(activity, seconds=seconds)]
    out = f"it made no progress for {seconds:.0f} s"
    return (
        *(_change(engine, in_traffic=False, why=out) for engine in stalled),
        *(_change(engine, in_traffic=True, why=why) for engine in returning),
    )


def _change(engine: EngineView, *, in_traffic: bool, why: str) -> PodPatch:
    """A new value of the traffic label of an engine's leader, which serves its requests."""
    return PodPatch(pod=engine.leader, labels=traffic_label(in_traffic=in_traffic), why=why)


def _serves_again(samples: Samples, engine: EngineView, seconds: float) -> bool:
    activity = samples.engines.get(engine.uid)
    return activity is not None and has_responded(activity, seconds=seconds)


def has_responded(engine: EngineActivity, *, seconds: float) -> bool:
    """Whether an engine that is out of traffic serves again."""
    if engine.probe is ProbeState.UNSUPPORTED:
        return not has_stalled(engine, seconds=seconds)
    return engine.probe is ProbeState.RESPONDED
