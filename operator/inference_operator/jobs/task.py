"""The task of a Job, and the Job itself: it runs in the user's namespace, with the engine's own access."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic

from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.refusal import Refusal
from inference_operator.engines.model_access import HubAccess
from inference_operator.jobs.attempts import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION
from inference_operator.jobs.placement import with_placement
from inference_operator.jobs.program import program_objects, with_program
from inference_operator.jobs.record import Record
from inference_operator.jobs.result import Failure, Result
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.names import job_name, labels, selector_labels
from inference_operator.objects.pod import RESTRICTED_CONTAINER, account, restricted_pod
from inference_operator.objects.pod_additions import mounts, volumes
from inference_operator.objects.scheduling import on_linux, scheduling
from inference_operator.roles.context import SharedContext
from inference_operator.settings import Settings

_ANYWHERE = ("tolerations", "priorityClassName", "schedulerName")
_WHERE_ENGINES_RUN = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")


@dataclass(frozen=True, kw_only=True)
class JobTask(Generic[Result]):
    """Something that a Job does once for a resource. Its Jobs are equal but for attempt and placement."""

    shared: SharedContext
    component: str
    """Component label of its Jobs, pods and record, and name of the container."""
    subject: str
    """What it is about: failures of an attempt begin with it."""
    purpose: str
    """The task in words: messages begin with the Job's name and go on with them."""
    image: str
    process: Manifest
    """The fields of `process_fields`."""
    resources: Manifest
    deadline_seconds: int
    volumes: Sequence[Manifest] = ()
    mounts: Sequence[Manifest] = ()
    where_engines_run: bool = False
    """Whether its pod has node selector and affinity of engines: a volume may be reachable only from their nodes."""
    placement: Manifest | None = None
    """Scheduling fields instead of the requested ones; None if those stay."""
    record: Record[Result] | None
    """None where the Job itself is kept."""
    parse: Callable[[str], Result | Failure | None]
    """Reads the termination message of an attempt; None if it is invalid."""
    refuse: Callable[[Failure], Refusal]

    @cached_property
    def content(self) -> Manifest:
        shared, added, name = self.shared, self.shared.effective.pod_template, self.shared.owner.key.name
        more = volumes(added.volumes, pull_policy=shared.settings.image_pull_policy)
        pod = job_pod(_task_container(self), [*self.volumes, *more], shared.access, shared.settings, added)
        pod = {**with_program(pod, shared.owner, shared.settings), **_scheduling(self)}
        metadata: Manifest = {"labels": {**shared.owner.child_labels, **added.labels, **labels(name, self.component)}}
        if added.annotations:
            metadata["annotations"] = dict(added.annotations)
        return job_fields(self.deadline_seconds, {"metadata": metadata, "spec": pod})

    @cached_property
    def job_hash(self) -> str:
        """Hash of the content. By it attempts belong together; the placement is no part of it."""
        return content_hash(self.content)

    @property
    def program(self) -> Mapping[Ref, Manifest]:
        """The ConfigMap with the program that its Jobs install; empty if their image has it."""
        return program_objects(self.content["spec"]["template"]["spec"], self.shared.owner, self.shared.settings)

    def job(self, attempt: int, placement: Manifest | None) -> Manifest:
        """The Job of one attempt. A Job cannot be edited, so each change of its content gives it another name.

        A placement replaces the requested scheduling fields, and is a part of the name.
        """
        return child(
            JOB,
            self.name(attempt, placement),
            owner=self.shared.owner,
            component=self.component,
            content=self.content if placement is None else with_placement(self.content, placement),
            annotations={JOB_HASH_ANNOTATION: self.job_hash, ATTEMPT_ANNOTATION: str(attempt)},
        )

    def name(self, attempt: int, placement: Manifest | None) -> str:
        name_hash = self.job_hash if placement is None else content_hash([self.job_hash, placement])
        return job_name(self.shared.owner.key.name, self.component, name_hash, attempt)


def job_fields(deadline_seconds: int, template: Manifest) -> Manifest:
    """The content of a Job whose pod is not repeated: another attempt is another Job."""
    return {"spec": {"backoffLimit": 0, "activeDeadlineSeconds": deadline_seconds, "template": template}}


def job_pod(
    container: Manifest, volumes: Sequence[Manifest], access: HubAccess, settings: Settings, added: PodTemplateSpec
) -> Manifest:
    """The specification of a Job's pod, without scheduling; of the additions it has the account."""
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": restricted_pod(settings.pod_users, user=access.user, group=access.group),
        "containers": [container],
        "volumes": list(volumes),
        **account(added),
    }


def job_container(
    name: str, process: Manifest, settings: Settings, *, image: str, resources: Manifest, mounts: Sequence[Manifest]
) -> Manifest:
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": settings.image_pull_policy,
        **process,
        "resources": resources,
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": list(mounts),
    }


def _task_container(task: JobTask[Result]) -> Manifest:
    own = [*task.mounts, *mounts(task.shared.effective.pod_template.volume_mounts)]
    settings, resources = task.shared.settings, task.resources
    return job_container(task.component, task.process, settings, image=task.image, resources=resources, mounts=own)


def _scheduling(task: JobTask[Result]) -> Manifest:
    """The scheduling fields.

    The engine's RuntimeClass may need a GPU, which the Job does not have. So the Job gets that of the operator's
    defaults for routers.
    """
    spec, settings, name = task.shared.effective, task.shared.settings, task.shared.owner.key.name
    fields = scheduling(spec.scheduling, gpus=1, selector=selector_labels(name, task.component))
    names = _WHERE_ENGINES_RUN if task.where_engines_run else _ANYWHERE
    runtime = settings.router_defaults.scheduling.runtime_class_name
    return {
        **on_linux({name: fields[name] for name in names if name in fields}),
        **({"runtimeClassName": runtime} if runtime else {}),
    }
