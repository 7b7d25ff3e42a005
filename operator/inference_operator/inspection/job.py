"""The Job that inspects a model: it reads the model's files in the user's namespace, with the engine's own access."""

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.engines.model_access import HubAccess
from inference_operator.inspection.job_attempt import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION
from inference_operator.manifest import JOB, Manifest, Owner
from inference_operator.models.source import DOWNLOADED, ModelSource
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.container import environment, process_fields, secret_variables
from inference_operator.objects.model_volume import MODEL_PATH, model_mounts, model_volumes
from inference_operator.objects.names import INSPECTION, inspection_job_name, labels, selector_labels
from inference_operator.objects.pod import RESTRICTED_CONTAINER, account, restricted_pod
from inference_operator.objects.pod_additions import mounts, volumes
from inference_operator.objects.scheduling import scheduling
from inference_operator.objects.volumes import writable_mounts, writable_volumes
from inference_operator.settings import Settings

DEADLINE_SECONDS = 600
"""Time limit of the Job: for a node, the operator's image, the volume, and `infd inspect`, which may take 2 minutes."""

RESOURCES: Manifest = {
    "requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "64Mi"},
    "limits": {"cpu": "1", "memory": "512Mi", "ephemeral-storage": "256Mi"},
}
"""`infd inspect` uses 56 MiB of memory for a usual model, and 190 MiB for an index of 32 MiB. It stores that index on
disk once."""

TERMINATION_MESSAGE = "/dev/termination-log"
"""Default path of a container's termination message (Kubernetes, `terminationMessagePath`)."""

_WHERE_VOLUMES_ARE = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")
_ANYWHERE = ("tolerations", "priorityClassName", "schedulerName")


def inspection_job(
    spec: EffectiveSpec, source: ModelSource, access: HubAccess, *, attempt: int, owner: Owner, settings: Settings
) -> Manifest:
    """The Job of one attempt. A Job cannot be edited, so every change of its content gives it another name.

    Args:
        spec: the specification over the operator's defaults of engine pods.
        source: the model.
        access: the engine's access to the model.
        attempt: number of the attempt, counted from 1.
        owner: the InferenceDeployment.
        settings: the operator's settings.
    """
    content = _content(spec, source, access, owner=owner, settings=settings)
    job_hash = content_hash(content)
    return child(
        JOB,
        inspection_job_name(owner.key.name, job_hash, attempt),
        owner=owner,
        component=INSPECTION,
        content=content,
        annotations={JOB_HASH_ANNOTATION: job_hash, ATTEMPT_ANNOTATION: str(attempt)},
    )


def _content(
    spec: EffectiveSpec, source: ModelSource, access: HubAccess, *, owner: Owner, settings: Settings
) -> Manifest:
    name, added = owner.key.name, spec.pod_template
    pull_policy = settings.image_pull_policy
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": restricted_pod(settings.pod_users, user=access.user, group=access.group),
        "containers": [_container(spec, source, access, settings)],
        "volumes": [
            *model_volumes(source, pull_policy=pull_policy),
            *writable_volumes(access.writable),
            *volumes(spec.pod_template.volumes, pull_policy=pull_policy),
        ],
        **account(settings.engine_defaults),
        **_scheduling(spec, source, name, settings),
    }
    metadata: Manifest = {"labels": {**owner.child_labels, **added.labels, **labels(name, INSPECTION)}}
    if added.annotations:
        metadata["annotations"] = dict(added.annotations)
    return {
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "template": {"metadata": metadata, "spec": pod},
        }
    }


def _container(spec: EffectiveSpec, source: ModelSource, access: HubAccess, settings: Settings) -> Manifest:
    where = [f"--folder={MODEL_PATH}"] if not isinstance(source, DOWNLOADED) else []
    revision = [f"--revision={access.revision}"] if access.revision else []
    pickle = ["--allow-pickle"] if spec.model.allow_pickle else []
    return {
        "name": INSPECTION,
        "image": settings.operator_image,
        "imagePullPolicy": settings.image_pull_policy,
        **process_fields(
            command=["infd", "inspect", spec.model.source],
            args=[*where, *revision, *pickle, "--output=json", f"--to={TERMINATION_MESSAGE}"],
            env=[*environment(access.env), *secret_variables(access.keys)],
        ),
        "resources": RESOURCES,
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *model_mounts(source),
            *writable_mounts(access.writable),
            *mounts(spec.pod_template.volume_mounts),
        ],
    }


def _scheduling(spec: EffectiveSpec, source: ModelSource, resource: str, settings: Settings) -> Manifest:
    """The scheduling fields. A volume may be reachable only from the engine's nodes; others are read from any node.

    The engine's RuntimeClass may need a GPU, which the Job does not have. So the Job gets that of the operator's
    defaults for routers.
    """
    fields = scheduling(spec.scheduling, gpus=1, selector=selector_labels(resource, INSPECTION))
    names = _ANYWHERE if isinstance(source, DOWNLOADED) else _WHERE_VOLUMES_ARE
    runtime = settings.router_defaults.scheduling.runtime_class_name
    return {
        **{name: fields[name] for name in names if name in fields},
        **({"runtimeClassName": runtime} if runtime else {}),
    }
