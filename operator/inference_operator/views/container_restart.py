"""The last restart of a pod's main container, and how the run before it ended."""

from dataclasses import dataclass

from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping

MAX_LINE_LENGTH = 256
"""Characters that are kept of a termination message: more than a sentence of a group's member has."""


@dataclass(frozen=True, slots=True)
class ContainerRestart:
    count: int
    """Its number: restarts of this pod's container so far."""
    exit_code: int | None
    """Exit code of the run before; None if it is not known."""
    out_of_memory: bool = False
    """Whether the kernel killed that run, because it used more memory than its limit."""
    message: str = ""
    """The first line of that run's termination message."""


def container_restart(container: Manifest) -> ContainerRestart | None:
    count = container.get("restartCount")
    if not isinstance(count, int) or count <= 0:
        return None
    ended = mapping(mapping(container, "lastState"), "terminated")
    code, message = ended.get("exitCode"), str(ended.get("message") or "")
    return ContainerRestart(
        count,
        code if isinstance(code, int) else None,
        out_of_memory=ended.get("reason") == "OOMKilled",
        message=message.partition("\n")[0][:MAX_LINE_LENGTH],
    )
