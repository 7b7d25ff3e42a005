"""What can only be looked up when it is wanted, since no watch shows it; and what was found.

Pure code names a `Look` and later finds the answer in `Inputs.seen`. The process carries looks out between rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from inference_operator.observed.node import NodeView


@dataclass(frozen=True, slots=True)
class LogTail:
    """The last lines of a container's log.

    Two looks at the same container are equal, whichever of its runs they mean: what one run said stays known until
    the next has been read, so that a status does not forget its cause each time a container is started again.
    """

    namespace: str
    pod: str
    uid: str
    container: str
    run: int = field(compare=False)
    """Which run of the container, counted from 0."""
    previous: bool = field(compare=False)
    """Whether the kubelet calls it the previous run, because another has begun or is awaited."""
    running: bool = field(compare=False)
    """Whether it still writes; the log of a run that has ended never changes."""


@dataclass(frozen=True, slots=True)
class Log:
    """What was found of a log: its last lines, oldest first, without secrets."""

    text: str


@dataclass(frozen=True, slots=True)
class EventsOf:
    """What Kubernetes tells about a pod or a Job in Events, and nowhere else."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ToldEvent:
    """One thing told about an object, however often."""

    reason: str
    message: str
    """One line, without secrets."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of an object, the latest first."""

    events: tuple[ToldEvent, ...]


@dataclass(frozen=True, slots=True)
class FreeGpus:
    """The GPUs of one resource name that no pod has, on all nodes that offer it."""

    resource: str


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of one node."""

    node: NodeView
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class Gpus:
    """What was found of GPUs."""

    nodes: tuple[NodeGpus, ...]
    awaited: int
    """GPUs that pods of this operator ask for which have no node yet."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """A look that brought nothing, and why, in words that complete "cannot be read: …"."""

    why: str


Look: TypeAlias = LogTail | EventsOf | FreeGpus
Found: TypeAlias = Log | Told | Gpus | Unseen

Seen: TypeAlias = Mapping[Look, Found]
"""What has been found so far of what is wanted."""
