"""What waits without saying why: a pod for its volumes (before Kubernetes 1.36 for its images too), a Job for its pod.

Only Events tell, which cost a request.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.observed.look import EventsOf, Told
from inference_operator.observed.pod import PodProblem, PodView
from inference_operator.observed.raw import mapping, timestamp
from inference_operator.observed.start import Stage

VOLUME_PATIENCE = timedelta(seconds=60)
"""How long a pod may wait for its volumes before its Events are read, so that no usual start costs a request: a network
disk takes up to half of it to be attached."""

CREATION_PATIENCE = timedelta(seconds=15)
"""How long a Job may have no pod before its Events are read: its controller makes one within a second, and those of a
hundred Jobs within this (kube-controller-manager 1.36: 20 requests a second)."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Something that waits."""

    look: EventsOf
    """What tells why."""
    due: datetime
    """From when on it has waited for so long that this is worth a request."""


def volume_wait(pod: PodView, *, namespace: str) -> Wait | None:
    """That a pod waits for its volumes, or for what its node does not tell from them; None if it does not."""
    if pod.start is None or pod.start.stage is not Stage.SANDBOX or pod.start.placed is None:
        return None
    return Wait(EventsOf(namespace, pod.name, pod.uid), pod.start.placed + VOLUME_PATIENCE)


def creation_wait(job: Manifest) -> Wait | None:
    """That a Job which has no pod waits for one; None where it cannot be told since when."""
    meta = mapping(job, "metadata")
    made = timestamp(meta.get("creationTimestamp"))
    name, namespace, uid = (str(meta.get(field, "")) for field in ("name", "namespace", "uid"))
    return Wait(EventsOf(namespace, name, uid), made + CREATION_PATIENCE) if made else None


_PULLING = "Pulling"
_OF_IMAGES = frozenset({_PULLING, "Pulled", "Failed", "BackOff"})
"""Reasons of Events about images (Kubernetes 1.36, pkg/kubelet/events/event.go)."""


def is_pulling(found: Told) -> bool:
    """Whether a pod's last Event about images is that one is pulled.

    On a node before Kubernetes 1.36 nothing else tells: the pod's status stays as before its network was there.

    Examples:
        >>> from inference_operator.observed.look import ToldEvent
        >>> is_pulling(Told((ToldEvent("Pulling", 'Pulling image "vllm"'), ToldEvent("Scheduled", "..."))))
        True
    """
    return next((event.reason for event in found.events if event.reason in _OF_IMAGES), "") == _PULLING


def why(found: Told) -> PodProblem | None:
    """Why a pod is not made or waits for its volumes; None where nothing tells of either."""
    return _unmade(found) or _unmounted(found)


_FAILED, _MADE = "FailedCreate", "SuccessfulCreate"
"""Reasons of a Job's Events about its pod (Kubernetes 1.36, pkg/controller/controller_utils.go)."""

_BEFORE_CAUSE = re.compile(
    r'^(?:\(combined from similar events\): )?Error creating: (?:[Pp]ods? "[^"]{0,253}" is (?:forbidden|invalid): )?'
)
"""Each attempt would give the pod another name."""


def _unmade(found: Told) -> PodProblem | None:
    """That no pod could be made when it was tried last."""
    last = next((event for event in found.events if event.reason in (_FAILED, _MADE)), None)
    if last is None or last.reason == _MADE:
        return None
    cause = _BEFORE_CAUSE.sub("", last.message)
    return PodProblem(refused_for(cause), f"Kubernetes refuses it: {cause}")


def refused_for(message: str) -> Reason:
    """What kind of rule refuses a pod, by the API server's words (Kubernetes 1.36, pkg/quota/v1).

    Examples:
        >>> refused_for("exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2").value
        'QuotaExceeded'
    """
    return Reason.QUOTA_EXCEEDED if "exceeded quota" in message else Reason.POD_REJECTED


_ATTACHED_ELSEWHERE = re.compile(
    r'Multi-Attach error for volume "(?P<volume>[^"]{1,253})"'
    r"(?: Volume is already used by (?P<users>pod\(s\) .{1,500}?|\d+ pod\(s\) in different namespaces)$)?"
)
"""Kubernetes 1.36, pkg/controller/volume/attachdetach/reconciler/reconciler.go."""

_UNAVAILABLE = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
"""Reasons of such Events (Kubernetes 1.36, pkg/kubelet/events/event.go), the most telling first."""

_GENERAL = "Unable to attach or mount volumes"
"""What the kubelet says every two minutes of all volumes together; another Event tells the cause."""


def _unmounted(found: Told) -> PodProblem | None:
    """The most telling of the Events about volumes since the last about images.

    A kubelet asks for no image before all volumes are mounted (Kubernetes 1.36, pkg/kubelet/kubelet.go, SyncPod).
    """
    since = list(takewhile(lambda event: event.reason not in _OF_IMAGES, found.events))
    messages = [event.message for reason in _UNAVAILABLE for event in since if event.reason == reason]
    telling = _most_telling(messages)
    if elsewhere := _ATTACHED_ELSEWHERE.search(telling):
        users = f" by {elsewhere['users']}" if elsewhere["users"] else ""
        return PodProblem(
            Reason.VOLUME_UNAVAILABLE,
            f"its volume `{elsewhere['volume']}` is in use on another node{users}, and only one node at a time can have"
            " it",
            cure="End what uses it there, or use a claim of the access mode ReadOnlyMany or ReadWriteMany.",
        )
    return PodProblem(Reason.VOLUME_UNAVAILABLE, f"a volume cannot be mounted: {telling}") if telling else None


def _most_telling(messages: Sequence[str]) -> str:
    return next((message for message in messages if not message.startswith(_GENERAL)), next(iter(messages), ""))
