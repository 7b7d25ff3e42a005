"""Pods that wait for volumes or images, and Jobs that have no pod yet: causes that only Events show.

A lookup of Events costs a request, so it is made only after a wait that is longer than usual.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.views.lookups import EventsLookup, ObjectEvents
from inference_operator.views.pod import PodProblem, PodView
from inference_operator.views.pod_startup import StartupStage
from inference_operator.views.raw import mapping, timestamp

VOLUME_LOOKUP_AFTER = timedelta(seconds=60)
"""How long a pod may wait for its volumes before its Events are looked up. A network disk takes up to half of this time
to be attached, so a usual start costs no request."""

CREATION_LOOKUP_AFTER = timedelta(seconds=15)
"""How long a Job may have no pod before its Events are looked up. Its controller creates a pod within a second, and
those of a hundred Jobs within this time (kube-controller-manager 1.36: 20 requests a second)."""


@dataclass(frozen=True, slots=True)
class PendingWait:
    lookup: EventsLookup
    """The Events that show why."""
    due: datetime
    """When the lookup is worth a request."""


def volume_wait(pod: PodView, *, namespace: str) -> PendingWait | None:
    """The wait of a pod for its volumes, or for what its node cannot tell from them; None if it does not wait."""
    if pod.start is None or pod.start.stage is not StartupStage.SANDBOX or pod.start.placed is None:
        return None
    return PendingWait(EventsLookup(namespace, pod.name, pod.uid), pod.start.placed + VOLUME_LOOKUP_AFTER)


def creation_wait(owner: Manifest) -> PendingWait | None:
    """The wait of a Job or a StatefulSet for its pods; None if its creation time is unknown."""
    meta = mapping(owner, "metadata")
    created = timestamp(meta.get("creationTimestamp"))
    name, namespace, uid = (str(meta.get(field, "")) for field in ("name", "namespace", "uid"))
    return PendingWait(EventsLookup(namespace, name, uid), created + CREATION_LOOKUP_AFTER) if created else None


_PULLING = "Pulling"
_OF_IMAGES = frozenset({_PULLING, "Pulled", "Failed", "BackOff"})
"""Reasons of Events about images (Kubernetes 1.36, pkg/kubelet/events/event.go)."""


def is_pulling(events: ObjectEvents) -> bool:
    """Whether the latest Event of a pod about images is "Pulling".

    On a node before Kubernetes 1.36 only Events show that: the pod's status does not change while images are pulled.

    Examples:
        >>> from inference_operator.views.lookups import EventSummary
        >>> is_pulling(ObjectEvents((EventSummary("Pulling", "Pulling image"), EventSummary("Scheduled", "..."))))
        True
    """
    return next((event.reason for event in events.events if event.reason in _OF_IMAGES), "") == _PULLING


def problem_from_events(events: ObjectEvents) -> PodProblem | None:
    return _not_created(events) or _not_mounted(events)


_FAILED, _CREATED = "FailedCreate", "SuccessfulCreate"
"""Reasons of a Job's Events about its pod (Kubernetes 1.36, pkg/controller/controller_utils.go), and of a StatefulSet's
(pkg/controller/statefulset/stateful_pod_control.go)."""

_BEFORE_CAUSE = re.compile(
    r'^(?:\(combined from similar events\): )?Error creating: (?:[Pp]ods? "[^"]{0,253}" is (?:forbidden|invalid): )?'
)
"""Removed from messages, since each attempt gives the pod another name."""


def _not_created(events: ObjectEvents) -> PodProblem | None:
    message = creation_failure(events)
    if not message:
        return None
    cause = _BEFORE_CAUSE.sub("", message)
    return PodProblem(rejection_reason(cause), f"Kubernetes refuses it: {cause}", cure=rejection_cure(cause))


def creation_failure(events: ObjectEvents) -> str:
    """Why the last attempt to create a pod failed, as Kubernetes says it; empty if it did not."""
    last = next((event for event in events.events if event.reason in (_FAILED, _CREATED)), None)
    return last.message if last and last.reason == _FAILED else ""


def rejection_reason(message: str) -> Reason:
    of_quota = any(words in message for words in _QUOTA)
    return Reason.QUOTA_EXCEEDED if of_quota else Reason.POD_REJECTED


_QUOTA = ("exceeded quota", "failed quota")
"""Kubernetes 1.36, pkg/admission/plugin/resourcequota/controller.go: over a quota, or without what one counts."""
_UNSTATED = re.compile(r"(?:must specify |; )(?P<resource>[-.a-z]{1,60}) for: (?P<containers>[-,a-z0-9]{1,500})")
"""Kubernetes 1.36, pkg/quota/v1/evaluator/core/pods.go, Constraints."""


_ROUTER = "router"
"""Name of a router's container."""


def rejection_cure(message: str) -> str:
    """What helps where the API server rejects a pod; empty where the message suffices."""
    unstated = list(_UNSTATED.finditer(message)) if "failed quota" in message else []
    if not unstated:
        return EXPLANATIONS[Reason.QUOTA_EXCEEDED].cure if rejection_reason(message) is Reason.QUOTA_EXCEEDED else ""
    is_router = _ROUTER in unstated[0]["containers"].split(",")
    part, default = (
        ("router", "routerDefaults.resources") if is_router else ("engine", "engineDefaults.limitRequestRatio")
    )
    names = (entry["resource"] if "." in entry["resource"] else f"requests.{entry['resource']}" for entry in unstated)
    fields = " and ".join(f"`spec.{part}.resources.{name}`" for name in names)
    return f"Set {fields}, or the operator's `{default}`."


_ATTACHED_ELSEWHERE = re.compile(
    r'Multi-Attach error for volume "(?P<volume>[^"]{1,253})"'
    r"(?: Volume is already used by (?P<users>pod\(s\) .{1,500}?|\d+ pod\(s\) in different namespaces)$)?"
)
"""Kubernetes 1.36, pkg/controller/volume/attachdetach/reconciler/reconciler.go."""

_UNAVAILABLE = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
"""Reasons of Events about volumes (Kubernetes 1.36, pkg/kubelet/events/event.go), the most specific first."""

_GENERAL = "Unable to attach or mount volumes"
"""How the kubelet's summary of all volumes begins, which it repeats every two minutes; another Event has the cause."""


def _not_mounted(events: ObjectEvents) -> PodProblem | None:
    message = _mount_message(events)
    if attached := _ATTACHED_ELSEWHERE.search(message):
        users = f" by {attached['users']}" if attached["users"] else ""
        return PodProblem(
            Reason.VOLUME_UNAVAILABLE,
            f"its volume `{attached['volume']}` is in use on another node{users}, and only one node at a time can"
            " mount it",
            cure="Delete the pods that use it there, or use a claim of the access mode ReadOnlyMany or ReadWriteMany.",
        )
    if not message:
        return None
    return PodProblem(Reason.VOLUME_UNAVAILABLE, f"a volume cannot be mounted: {message}", cure=_cure_of_mount(message))


def _mount_message(events: ObjectEvents) -> str:
    """The most specific Event about volumes after the last Event about images; empty without one.

    A kubelet pulls images only once all volumes are mounted (Kubernetes 1.36, pkg/kubelet/kubelet.go, SyncPod).
    """
    since = list(takewhile(lambda event: event.reason not in _OF_IMAGES, events.events))
    messages = [event.message for reason in _UNAVAILABLE for event in since if event.reason == reason]
    return next((message for message in messages if not message.startswith(_GENERAL)), next(iter(messages), ""))


def attached_elsewhere(events: ObjectEvents) -> Sequence[str] | None:
    """The pods that use a volume on another node, empty where Kubernetes names none; None if no volume is in use."""
    attached = _ATTACHED_ELSEWHERE.search(_mount_message(events))
    if attached is None:
        return None
    users = str(attached["users"] or "")
    return users.removeprefix("pod(s) ").split(", ") if users.startswith("pod(s) ") else ()


_NO_OBJECT = re.compile(r'(?P<kind>secret|configmap) "(?P<name>[^"]{1,253})" not found')
_NO_ENTRY = re.compile(r"references non-existent (?P<kind>secret|config) key: (?P<key>[-._a-zA-Z0-9]{1,253})")
"""Kubernetes 1.36, pkg/volume/secret/secret.go and pkg/volume/configmap/configmap.go, MakePayload."""

_KINDS = {"secret": "Secret", "configmap": "ConfigMap", "config": "ConfigMap"}


def _cure_of_mount(message: str) -> str:
    """The cure where an object or an entry is missing; empty for every other cause.

    Examples:
        >>> _cure_of_mount('MountVolume.SetUp failed for volume "keys" : secret "chat-keys" not found')
        'Create the Secret `chat-keys` in this namespace.'
        >>> _cure_of_mount('MountVolume.SetUp failed for volume "keys" : references non-existent secret key: keys')
        'Add the entry `keys` to the Secret of this volume.'
    """
    if absent := _NO_OBJECT.search(message):
        return f"Create the {_KINDS[absent['kind']]} `{absent['name']}` in this namespace."
    if absent := _NO_ENTRY.search(message):
        return f"Add the entry `{absent['key']}` to the {_KINDS[absent['kind']]} of this volume."
    return ""
