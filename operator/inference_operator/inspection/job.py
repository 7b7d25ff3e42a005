"""The Job that reads what a model's files say of it, in the user's namespace and with the engine's own access."""

from inference_operator.api.spec import Spec
from inference_operator.engines.base import HubAccess
from inference_operator.inspection.job_attempt import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION
from inference_operator.manifest import JOB, Manifest, Owner
from inference_operator.models.source import HubModel, ModelSource
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.model_volume import MODEL_PATH, model_mounts, model_volumes
from inference_operator.objects.names import INSPECTION, inspection_job_name, labels, selector_labels
from inference_operator.objects.pod import RESTRICTED_CONTAINER, environment, restricted_pod
from inference_operator.objects.pod_additions import mounts, volumes
from inference_operator.objects.scheduling import scheduling
from inference_operator.objects.volumes import writable_mounts, writable_volumes
from inference_operator.settings import Settings

DEADLINE_SECONDS = 600
"""For everything: a node, the operator's image, the volume, and the two minutes that `infd inspect` gives itself."""

RESOURCES: Manifest = {
    "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "64Mi"},
    "limits": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "256Mi"},
}
"""`infd inspect` takes 56 MiB for a usual model and 190 MiB for an index of 32 MiB, which it keeps on disk once."""

TERMINATION_MESSAGE = "/dev/termination-log"
"""Where the kubelet reads a container's last words unless told otherwise (Kubernetes, `terminationMessagePath`)."""

_WHERE_VOLUMES_ARE = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")
_ANYWHERE = ("tolerations", "priorityClassName", "schedulerName")


def inspection_job(
    spec: Spec, source: ModelSource, access: HubAccess, *, attempt: int, owner: Owner, settings: Settings
) -> Manifest:
    """The Job of one attempt. Whatever changes in it is another Job, since a Job cannot be edited.

    Args:
        spec: what is asked.
        source: the model.
        access: how the engine gets at it.
        attempt: counted from 1.
        owner: whose it is.
        settings: the operator's settings.
    """
    content = _content(spec, source, access, name=owner.key.name, settings=settings)
    asked = content_hash(content)
    return child(
        JOB,
        inspection_job_name(owner.key.name, asked, attempt),
        owner=owner,
        component=INSPECTION,
        content=content,
        annotations={JOB_HASH_ANNOTATION: asked, ATTEMPT_ANNOTATION: str(attempt)},
    )


def _content(spec: Spec, source: ModelSource, access: HubAccess, *, name: str, settings: Settings) -> Manifest:
    pull_policy = settings.image_pull_policy
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": restricted_pod(user=access.user, group=access.group),
        "containers": [_container(spec, source, access, settings)],
        "volumes": [
            *model_volumes(source, pull_policy=pull_policy),
            *writable_volumes(access.writable),
            *volumes(spec.pod_template.volumes, pull_policy=pull_policy),
        ],
        **_placed(spec, source, name),
    }
    return {
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "template": {"metadata": {"labels": labels(name, INSPECTION)}, "spec": pod},
        }
    }


def _container(spec: Spec, source: ModelSource, access: HubAccess, settings: Settings) -> Manifest:
    where = [f"--folder={MODEL_PATH}"] if not isinstance(source, HubModel) else []
    revision = [f"--revision={access.revision}"] if access.revision else []
    return {
        "name": INSPECTION,
        "image": settings.operator_image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": ["infd", "inspect", spec.model.source],
        "args": [*where, *revision, "--output=json", f"--to={TERMINATION_MESSAGE}"],
        "env": environment(access.env),
        "resources": RESOURCES,
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *model_mounts(source),
            *writable_mounts(access.writable),
            *mounts(spec.pod_template.volume_mounts),
        ],
    }


def _placed(spec: Spec, source: ModelSource, name: str) -> Manifest:
    """Where a volume is, only the engine's nodes may reach; the hub is read from anywhere that lets it in."""
    fields = scheduling(spec.scheduling, gpus=1, selector=selector_labels(name, INSPECTION))
    wanted = _ANYWHERE if isinstance(source, HubModel) else _WHERE_VOLUMES_ARE
    return {field: fields[field] for field in wanted if field in fields}
