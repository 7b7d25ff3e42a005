"""Gang schedulers, which give nodes to all pods of a group or to none.

The scheduler of Kubernetes places pod by pod: of two groups that start at once, each can get half of what it needs, and
neither can run. A gang scheduler knows a group by an object of its own, a PodGroup with the number of pods, and a pod
of it by a label or an annotation with the PodGroup's name.

A group keeps what it was created with: a member with the mark, among members without, would wait for ever. So the mark
is no part of the pod template that a rollout compares.

Kueue is not here. It makes a group of each StatefulSet that has a queue: it counts their quota, and lets all pods of
one start or none (kubernetes-sigs/kueue, `pkg/controller/jobs/statefulset`).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from inference_operator.api.scheduling import Gang, SchedulingSpec
from inference_operator.manifest import COSCHEDULING_GROUP, VOLCANO_GROUP, Kind, Manifest, Owner
from inference_operator.objects.child import child
from inference_operator.objects.names import component_of
from inference_operator.views.raw import mapping

VOLCANO_SCHEDULER = "volcano"
"""The `schedulerName` of Volcano (volcano-sh/volcano, its default)."""

VOLCANO_QUEUE_ANNOTATION = "scheduling.volcano.sh/queue-name"
"""Annotation of pods by which users choose a queue of Volcano (volcano.sh/apis v1.14.0, `QueueNameAnnotationKey`)."""


@dataclass(frozen=True, slots=True)
class GangScheduler:
    kind: Kind
    place: str
    """Where the mark of a pod is: `labels` or `annotations`."""
    key: str
    """Key of the mark, whose value is the name of the group."""
    fields: Callable[[Manifest], Manifest]
    """What the specification of its PodGroup has beside `minMember`, for a pod template; with the defaults of the CRD,
    so that they are no drift."""

    def marked(self, template: Manifest, group: str) -> Manifest:
        meta = template["metadata"]
        return {**template, "metadata": {**meta, self.place: {**meta.get(self.place, {}), self.key: group}}}


def _volcano_fields(template: Manifest) -> Manifest:
    """Volcano takes queue and priority of a group from its PodGroup alone."""
    priority = template["spec"].get("priorityClassName")
    queue = mapping(template, "metadata", "annotations").get(VOLCANO_QUEUE_ANNOTATION)
    return {"queue": queue or "default", **({"priorityClassName": priority} if priority else {})}


COSCHEDULING = GangScheduler(COSCHEDULING_GROUP, "labels", "scheduling.x-k8s.io/pod-group", lambda _: {})
"""The plugin of that name, in a scheduler of any name (kubernetes-sigs/scheduler-plugins v0.34.7, pkg/coscheduling)."""

VOLCANO = GangScheduler(VOLCANO_GROUP, "annotations", "scheduling.k8s.io/group-name", _volcano_fields)
"""The scheduler of Volcano (volcano.sh/apis v1.14.0, scheduling/v1beta1)."""

GANG_SCHEDULERS = (COSCHEDULING, VOLCANO)


def gang_scheduler(requested: SchedulingSpec, unavailable: Collection[Kind]) -> GangScheduler | None:
    """The gang scheduler of a new group; None if nothing says that it has one."""
    if requested.gang is Gang.OFF or requested.queue_name or not requested.scheduler_name:
        return None
    named = VOLCANO if requested.scheduler_name == VOLCANO_SCHEDULER else COSCHEDULING
    return None if named.kind in unavailable else named


def gang_of(group: Manifest) -> GangScheduler | None:
    """The gang scheduler of an existing group, by the mark in its StatefulSet."""
    name, template = group["metadata"]["name"], mapping(group, "spec", "template")
    return next(
        (gang for gang in GANG_SCHEDULERS if mapping(template, "metadata", gang.place).get(gang.key) == name), None
    )


def pod_group(group: Manifest, owner: Owner) -> Manifest | None:
    """The PodGroup of a group; None without a gang scheduler, and while it has no pods."""
    gang, spec = gang_of(group), group["spec"]
    if gang is None or not spec.get("replicas"):
        return None
    return child(
        gang.kind,
        group["metadata"]["name"],
        owner=owner,
        component=component_of(group),
        content={"spec": {"minMember": spec["replicas"], **gang.fields(spec["template"])}},
    )
