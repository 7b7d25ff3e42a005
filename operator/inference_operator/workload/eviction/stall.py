"""Stalled engines: they have requests and make no progress. They get no new requests, and later their pods are deleted.

The kubelet's probes cannot find them. vLLM's `/health` only reads an error flag (vLLM 0.32.0,
vllm/v1/engine/async_llm.py, check_health), and so answers 200 while the engine core hangs.

In traffic a stalled engine would collect all clients: each request that another engine finishes frees its client for
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

from inference_operator.api.reasons import Reason
from inference_operator.objects.pod_patch import PodDeletion, PodPatch, traffic_label
from inference_operator.views.engine import EngineView
from inference_operator.views.samples import EngineActivity, ProbeState, Samples

PROBE_SHARE = 0.5
"""Part of a time without progress after which the operator sends a probe request. The rest is the time to respond."""

STALLED_GRACE_SECONDS = 1
"""Grace period of a stalled pod. It finishes no request, and clients can retry sooner. One second is the least with
which the kubelet still reports when the processes, and so their use of the GPUs, have ended."""


def is_suspect(engine: EngineActivity, *, seconds: float) -> bool:
    """Whether an engine has made no progress for long enough to ask it with a probe request."""
    return engine.seconds_without_progress >= PROBE_SHARE * seconds


def needs_probe(engine: EngineActivity, *, seconds: float, in_traffic: bool) -> bool:
    """Whether to send an engine a probe request: it is suspect, or its response would bring it back into traffic."""
    if engine.probe is ProbeState.NOT_SENT and not in_traffic:
        return True
    return engine.probe in {ProbeState.NOT_SENT, ProbeState.RESPONDED} and is_suspect(engine, seconds=seconds)


def has_stalled(engine: EngineActivity, *, seconds: float) -> bool:
    """Whether an engine has stalled for so many seconds.

    A router session is no proof of work, since its client may not have sent the request yet. So an engine has stalled
    only if the probe request has no response either. An engine that does not support the probe request, such as one
    for embeddings, has stalled if its own metrics count requests.
    """
    if engine.seconds_without_progress < seconds:
        return False
    if engine.probe is ProbeState.UNSUPPORTED:
        return engine.sample.unfinished > 0
    return engine.unanswered_seconds >= (1 - PROBE_SHARE) * seconds


def stalled_engines(
    engines: Sequence[EngineView], samples: Samples, *, desired: int, stall_seconds: float
) -> tuple[PodPatch, ...]:
    """The pods of the stalled engine to delete, at most one engine at a time.

    None is deleted while a replacement is missing or loading. An engine that cannot start for another reason, such as
    one that is unschedulable, delays nothing.
    """
    staying = [engine for engine in engines if not (engine.terminating or engine.failed)]
    if len(staying) < desired or any(not engine.ready and engine.problem is None for engine in staying):
        return ()
    sampled = [
        (engine, samples.engines[engine.uid]) for engine in staying if engine.ready and engine.uid in samples.engines
    ]
    stalled = [(engine, activity) for engine, activity in sampled if has_stalled(activity, seconds=stall_seconds)]
    if not stalled:
        return ()
    engine, worst = max(stalled, key=lambda pair: (pair[1].seconds_without_progress, pair[0].name))
    what = f"had {worst.outstanding} requests and made no progress" if worst.outstanding else "answered no request"
    why = f"Pod `{engine.name}` {what} for {stall_seconds:.0f} s"
    deletion = PodDeletion(why, Reason.ENGINE_STALLED, STALLED_GRACE_SECONDS)
    return tuple(PodPatch(pod=pod, delete=deletion) for pod in engine.pods)


def traffic_changes(engines: Sequence[EngineView], samples: Samples, *, seconds: float) -> tuple[PodPatch, ...]:
    """The engines to take out of traffic that made no progress for these seconds, and those to take back in."""
    ready = [engine for engine in engines if engine.is_serving]
    inside = [engine for engine in ready if engine.traffic]
    outside = [engine for engine in ready if not engine.traffic]
    sampled = [(engine, samples.engines[engine.uid]) for engine in inside if engine.uid in samples.engines]
    stalled: list[EngineView] = []
    if not inside:
        returning, why = outside, "no other engine is ready"
    else:
        known = ((engine, samples.engines.get(engine.uid)) for engine in outside)
        returning = [engine for engine, activity in known if activity and has_responded(activity, seconds=seconds)]
        why = "it responds again"
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


def has_responded(engine: EngineActivity, *, seconds: float) -> bool:
    if engine.probe is ProbeState.UNSUPPORTED:
        return not has_stalled(engine, seconds=seconds)
    return engine.probe is ProbeState.RESPONDED
