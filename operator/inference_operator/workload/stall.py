"""Stall watchdog: finds an engine that has requests and makes no progress, so that its pods are deleted.

The kubelet's probes cannot find it. vLLM's `/health` only reads an error flag (vLLM 0.32.0,
vllm/v1/engine/async_llm.py, check_health), and so answers 200 while the engine core hangs.
"""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.objects.pod_patch import PodDeletion, PodPatch
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

    Args:
        engines: those of one role.
        samples: their latest samples.
        desired: how many engines the workload should have.
        stall_seconds: how long an engine may have requests and make no progress.
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
