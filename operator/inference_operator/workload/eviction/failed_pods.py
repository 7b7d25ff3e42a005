"""Deletes failed pods: a ReplicaSet replaces one that its node has rejected or evicted at once, and deletes none.

1. Of each pod template the first that is rejected now is kept: it shows since when. So are the last two of a component.
2. Every other one is deleted after as much time as lay between the first and it, within limits. So the delay grows as
   long as nodes reject pods.
3. Pods of groups are left alone: a StatefulSet deletes a failed pod before it makes the next (Kubernetes 1.36,
   pkg/controller/statefulset/stateful_set_control.go).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.component import rejected_pods
from inference_operator.objects.pod_patch import PodDeletion, PodPatch
from inference_operator.views.pod import PodView

KEPT_LAST = 2
"""With the first these are three to look at."""
SHORTEST_DELAY, LONGEST_DELAY = timedelta(seconds=10), timedelta(minutes=1)
"""Of one rejected pod a second about sixty are left. Without deletions there were up to 12,000
(NVIDIA/k8s-device-plugin issue 231)."""


def failed_pods(pods: Sequence[PodView], now: datetime) -> tuple[tuple[PodPatch, ...], datetime | None]:
    """The failed pods of a component to delete, and when the next is due."""
    failed = sorted(
        (pod.created, pod.name, pod)
        for pod in pods
        if pod.failed and pod.created and not (pod.terminating or pod.group)
    )
    first = {pod.template: pod.uid for pod in reversed(rejected_pods(pods))}
    surplus = [(pod, created) for created, _, pod in failed[:-KEPT_LAST] if first.get(pod.template) != pod.uid]
    begin = failed[0][0] if failed else now
    due = [(pod, created + min(max(created - begin, SHORTEST_DELAY), LONGEST_DELAY)) for pod, created in surplus]
    deletion = PodDeletion("it has failed, and three of its kind are kept", Reason.POD_REJECTED, grace_seconds=0)
    patches = tuple(PodPatch(pod=pod, delete=deletion) for pod, moment in due if moment <= now)
    return patches, min((moment for _, moment in due if moment > now), default=None)
