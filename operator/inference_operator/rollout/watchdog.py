"""The stall watchdog's verdict: which engine has work, makes no progress, and is to be replaced.

vLLM's `/health` only reads an error flag (vLLM 0.32.0, vllm/v1/engine/async_llm.py, check_health): it stays 200 while
the engine's core hangs, and so the kubelet's probes see nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.manifest import POD, Ref
from inference_operator.observed.pod import PodView
from inference_operator.observed.samples import Asked, Samples, Watched

ASK_SHARE = 0.5
"""The share of the time allowed after which an engine is asked: it then has as long to answer."""

STALLED_GRACE_SECONDS = 1
"""What hangs has nothing to finish, and its requests are better off failed, so that they can be sent again. The least
that still lets the kubelet say when the processes, and so their hold on the GPUs, have ended."""


@dataclass(frozen=True, slots=True)
class Removal:
    """A pod of ours that is to be deleted, and why."""

    ref: Ref
    uid: str
    why: str
    grace_seconds: int = STALLED_GRACE_SECONDS


def is_suspect(engine: Watched, *, stall_seconds: float) -> bool:
    """Whether an engine has stood still for so long that it should be asked."""
    return engine.asked is Asked.NOT and engine.still_seconds >= ASK_SHARE * stall_seconds


def has_stalled(engine: Watched, *, stall_seconds: float) -> bool:
    """Whether an engine stands still.

    A router's session proves no work: its client may not have sent the request yet. Nor does every standstill prove a
    hung engine. So an engine has stalled only if a request of our own goes without an answer too. One that does not
    take such a request, such as one that only embeds, has stalled if it says itself that it has work.
    """
    if engine.still_seconds < stall_seconds:
        return False
    if engine.asked is Asked.UNFIT:
        return engine.sample.running + engine.sample.waiting > 0
    return engine.unanswered_seconds >= (1 - ASK_SHARE) * stall_seconds


def stalled_engines(
    engines: Sequence[PodView], samples: Samples, *, wanted: int, namespace: str, stall_seconds: float
) -> tuple[Removal, ...]:
    """The engine to replace, at most one at a time.

    None while a replacement is missing or loading; a pod that cannot start for another reason, such as one that waits
    for a node, delays nothing.

    Args:
        engines: the engines' pods.
        samples: what was seen of them last.
        wanted: how many engines are asked for.
        namespace: where the pods are.
        stall_seconds: for how long an engine may have work and make no progress.
    """
    staying = [pod for pod in engines if not (pod.terminating or pod.failed)]
    if len(staying) < wanted or any(not pod.ready and pod.problem is None for pod in staying):
        return ()
    known = [(pod, samples.engines[pod.uid]) for pod in staying if pod.ready and pod.uid in samples.engines]
    stalled = [(pod, engine) for pod, engine in known if has_stalled(engine, stall_seconds=stall_seconds)]
    if not stalled:
        return ()
    pod, engine = max(stalled, key=lambda one: (one[1].still_seconds, one[0].name))
    why = f"Pod `{pod.name}` had {engine.outstanding} requests and made no progress for {stall_seconds:.0f} s"
    return (Removal(Ref(POD, namespace, pod.name), pod.uid, why),)
