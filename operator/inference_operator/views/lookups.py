"""Lookups: requests for what no watch delivers (logs, Events, free GPUs), sent only when needed, and their results.

Pure code names a `Lookup` and finds its result in `Inputs.lookups` of a later decision. The lookup poller carries
lookups out in between.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from inference_operator.manifest import Manifest, controller_of
from inference_operator.views.node import NodeView
from inference_operator.views.raw import mapping


@dataclass(frozen=True, slots=True, order=True)
class ForeignAutoscaler:
    """An autoscaler that the operator did not create."""

    kind: str
    """`HorizontalPodAutoscaler`, or the kind of its controlling owner, such as `ScaledObject` of KEDA."""
    name: str
    target_kind: str
    target_name: str

    def __str__(self) -> str:
        return f"{self.kind} `{self.name}`"


def foreign_autoscaler(manifest: Manifest) -> ForeignAutoscaler | None:
    """The view of a HorizontalPodAutoscaler; None for one that is being deleted."""
    meta, target = mapping(manifest, "metadata"), mapping(manifest, "spec", "scaleTargetRef")
    if "deletionTimestamp" in meta:
        return None
    owner = controller_of(manifest) or {"kind": "HorizontalPodAutoscaler", "name": meta.get("name")}
    return ForeignAutoscaler(
        str(owner.get("kind")), str(owner.get("name")), str(target.get("kind")), str(target.get("name"))
    )


@dataclass(frozen=True, slots=True)
class LogLookup:
    """The last lines of a container's log.

    Two lookups of one container are equal, whichever run they are for. So the log of the last run stays known until
    the log of the next run has been read, and a status does not lose its cause at each restart.
    """

    namespace: str
    pod: str
    uid: str
    container: str
    run: int = field(compare=False)
    """Which run of the container, counted from 0."""
    previous: bool = field(compare=False)
    """Whether the kubelet calls it the previous run."""
    running: bool = field(compare=False)
    """Whether the container still runs; the log of a terminated run never changes."""


@dataclass(frozen=True, slots=True)
class LogText:
    """The last lines of a log, oldest first, without secrets."""

    text: str
    whole: bool = True
    """Whether the run had ended when the log was read. If not, the cause of its end may be missing."""


@dataclass(frozen=True, slots=True)
class EventsLookup:
    """The Events about a pod or a Job."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class EventSummary:
    """An Event, or several with the same text."""

    reason: str
    message: str
    """One line, without secrets."""


@dataclass(frozen=True, slots=True)
class ObjectEvents:
    """The Events about an object, the latest first."""

    events: tuple[EventSummary, ...]


@dataclass(frozen=True, slots=True)
class FreeGpusLookup:
    resource: str


@dataclass(frozen=True, slots=True)
class NodeGpus:
    node: NodeView
    total: int
    free: int


@dataclass(frozen=True, slots=True)
class ClusterGpus:
    """The GPUs of all nodes that have any."""

    nodes: tuple[NodeGpus, ...]
    pending: int
    """GPUs that this operator's pending pods request."""


@dataclass(frozen=True, slots=True)
class ClaimLookup:
    """A PersistentVolumeClaim that is not the operator's own."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ClaimView:
    access_modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigMapLookup:
    """One key of a ConfigMap that is not the operator's own."""

    namespace: str
    name: str
    key: str
    often: bool = field(default=False, compare=False)
    """Whether something waits for it, so that it is read more often."""


@dataclass(frozen=True, slots=True)
class ConfigMapText:
    text: str
    """Empty without the ConfigMap, or without the key."""


@dataclass(frozen=True, slots=True)
class ForeignAutoscalersLookup:
    namespace: str
    name: str
    """The InferenceDeployment; for a role that `/scale` is not about, its workload."""
    seen: str = field(default="", compare=False)
    """A possible trace of an autoscaler; when it changes, they are listed again at once."""
    often: bool = field(default=False, compare=False)
    """Whether there is such a trace, so that they are listed more often."""


@dataclass(frozen=True, slots=True)
class ForeignAutoscalers:
    seen: str
    """The trace for which they were listed."""
    autoscalers: tuple[ForeignAutoscaler, ...]


@dataclass(frozen=True, slots=True)
class Unavailable:
    why: str
    """Words that complete "cannot be read: …"."""


Lookup: TypeAlias = LogLookup | EventsLookup | FreeGpusLookup | ClaimLookup | ConfigMapLookup | ForeignAutoscalersLookup
LookupResult: TypeAlias = (
    LogText | ObjectEvents | ClusterGpus | ClaimView | ConfigMapText | ForeignAutoscalers | Unavailable
)

LookupResults: TypeAlias = Mapping[Lookup, LookupResult]
