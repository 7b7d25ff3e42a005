"""The cause of an engine's restart, as one of a few words: what its metric counts."""

from enum import StrEnum

from inference_operator.engines.group.ends import FirstEnd, first_end
from inference_operator.engines.group.options import EXIT, LOST, SILENT, SLOW, STOPPED
from inference_operator.views.engine import EngineView
from inference_operator.views.pod import PodView

_STOPPED_BY_KUBELET = (0, 137, 143)
"""Exit codes of a container that the kubelet stopped: those of an end in order, of SIGKILL and of SIGTERM."""


class RestartCause(StrEnum):
    ENDED = "ended"
    OUT_OF_MEMORY = "out_of_memory"
    PROBE = "probe"
    """The kubelet stopped it: a probe failed, because the engine answered no more or did not start in time."""
    SLOW_START = "slow_start"
    """A group's engine was not healthy in time."""
    SILENT = "silent"
    """A member of the group did not answer, for example because its node was cut off."""
    LOST = "lost"
    """The connection to a member broke: its container was killed, or its node is gone."""
    STOPPED = "stopped"
    """A member's pod was deleted, for example evicted."""
    UNKNOWN = "unknown"


_HOW = {
    EXIT: RestartCause.ENDED,
    LOST: RestartCause.LOST,
    SILENT: RestartCause.SILENT,
    SLOW: RestartCause.SLOW_START,
    STOPPED: RestartCause.STOPPED,
}


def restart_cause(engine: EngineView) -> RestartCause:
    """The cause of the last restart of an engine: that of the pod which ended first.

    The leader of a group tells its workers who was first. Its own pod may be new; then the workers name the former one.
    """
    leader, restart = engine.leader, engine.leader.restart
    ends = [end for pod in engine.workers if (end := _reported_end(pod))]
    if restart is None:
        return _HOW[ends[0].how] if ends else RestartCause.UNKNOWN
    if end := _reported_end(leader):
        named = next((pod.restart for pod in engine.workers if pod.name == end.pod), None)
        return RestartCause.OUT_OF_MEMORY if named and named.out_of_memory else _HOW[end.how]
    if any((end.pod, end.how) == (leader.name, SLOW) for end in ends):
        return RestartCause.SLOW_START
    if restart.out_of_memory:
        return RestartCause.OUT_OF_MEMORY
    if restart.exit_code is None:
        return RestartCause.UNKNOWN
    return RestartCause.PROBE if restart.exit_code in _STOPPED_BY_KUBELET else RestartCause.ENDED


def _reported_end(pod: PodView) -> FirstEnd | None:
    return first_end(pod.restart.message) if pod.restart else None
