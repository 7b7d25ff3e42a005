"""The Job that downloads a model to a claim, with the engine's own access to the model."""

from dataclasses import dataclass

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.engines.model_access import HubAccess
from inference_operator.inspection.job import TERMINATION_MESSAGE
from inference_operator.inspection.job_attempt import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION
from inference_operator.manifest import JOB, Manifest, Owner
from inference_operator.model_cache.placement import PLACEMENT_FIELDS
from inference_operator.objects.cache_volume import ROOT, CacheVolume, cache_volumes, whole_mount
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.container import environment, process_fields, secret_variables
from inference_operator.objects.names import DOWNLOAD, download_job_name, labels, selector_labels
from inference_operator.objects.pod import RESTRICTED_CONTAINER, account, restricted_pod
from inference_operator.objects.pod_additions import mounts, volumes
from inference_operator.objects.scheduling import scheduling
from inference_operator.objects.volumes import writable_mounts, writable_volumes
from inference_operator.settings import Settings

DEADLINE_SECONDS = 24 * 3600
"""Time limit of one attempt: 1,300 GB, as the largest open models have, at 15 MB/s. The next attempt continues it."""

RESOURCES: Manifest = {
    "requests": {"cpu": "500m", "memory": "512Mi", "ephemeral-storage": "64Mi"},
    "limits": {"cpu": "4", "memory": "2Gi", "ephemeral-storage": "256Mi"},
}
"""Four downloads at once, which the hub's client writes in parts of 10 MiB, and SHA-256 of what was written."""

_SCHEDULING = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")
"""As engines have it: a claim may be reachable only from their nodes."""


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """A model, and the claim for it."""

    spec: EffectiveSpec
    """The specification over the operator's defaults of engine pods."""
    access: HubAccess
    commit: str
    """The commit that engines load; empty if the hub could not be asked when the engines were sized."""
    cache: CacheVolume
    owner: Owner
    settings: Settings
    empties_kernels: bool = False
    """Whether the Job deletes the compiled kernels, because an engine found them broken."""
    placement: Manifest | None = None
    """Scheduling fields instead of the requested ones, for a claim that one node only can mount; None for others."""

    @property
    def revision(self) -> str:
        """What to download; empty is the default branch."""
        return self.commit or self.access.revision or ""


def download_hash(request: DownloadRequest) -> str:
    """Hash of what is downloaded and where to, without how."""
    return content_hash([request.spec.model.source, request.revision, request.cache.claim, request.cache.key])


def download_job(request: DownloadRequest, *, attempt: int) -> Manifest:
    """The Job of one attempt. A Job cannot be edited, so every change of its content gives it another name.

    Its placement is a part of its name, but not of the hash by which its attempts belong together.
    """
    content = _content(request)
    job_hash, name_hash = content_hash(content), content_hash(content)
    if request.placement is not None:
        content = _placed(content, request.placement)
        name_hash = content_hash([job_hash, request.placement])
    return child(
        JOB,
        download_job_name(request.owner.key.name, name_hash, attempt),
        owner=request.owner,
        component=DOWNLOAD,
        content=content,
        annotations={JOB_HASH_ANNOTATION: job_hash, ATTEMPT_ANNOTATION: str(attempt)},
    )


def _placed(content: Manifest, placement: Manifest) -> Manifest:
    """The content of a Job with these scheduling fields."""
    template = content["spec"]["template"]
    others = {name: field for name, field in template["spec"].items() if name not in PLACEMENT_FIELDS}
    return {"spec": {**content["spec"], "template": {**template, "spec": {**others, **placement}}}}


def _content(request: DownloadRequest) -> Manifest:
    spec, access, settings, name = request.spec, request.access, request.settings, request.owner.key.name
    added = spec.pod_template
    fields = scheduling(spec.scheduling, gpus=1, selector=selector_labels(name, DOWNLOAD))
    runtime = settings.router_defaults.scheduling.runtime_class_name
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": restricted_pod(settings.pod_users, user=access.user, group=access.group),
        "containers": [_container(request)],
        "volumes": [
            *cache_volumes(request.cache),
            *writable_volumes(access.writable),
            *volumes(added.volumes, pull_policy=settings.image_pull_policy),
        ],
        **account(settings.engine_defaults),
        **{name: fields[name] for name in _SCHEDULING if name in fields},
        **({"runtimeClassName": runtime} if runtime else {}),
    }
    metadata: Manifest = {"labels": {**request.owner.child_labels, **added.labels, **labels(name, DOWNLOAD)}}
    if added.annotations:
        metadata["annotations"] = dict(added.annotations)
    template = {"metadata": metadata, "spec": pod}
    return {"spec": {"backoffLimit": 0, "activeDeadlineSeconds": DEADLINE_SECONDS, "template": template}}


def _container(request: DownloadRequest) -> Manifest:
    access, settings = request.access, request.settings
    revision = [f"--revision={request.revision}"] if request.revision else []
    pickle = ["--allow-pickle"] if request.spec.model.allow_pickle else []
    empties = ["--empty-kernels"] if request.empties_kernels else []
    options = [*revision, *pickle, *empties]
    return {
        "name": DOWNLOAD,
        "image": settings.operator_image,
        "imagePullPolicy": settings.image_pull_policy,
        **process_fields(
            command=["infd", "download", request.spec.model.source],
            args=[*options, f"--cache={ROOT}", f"--kernels={request.cache.key}", f"--to={TERMINATION_MESSAGE}"],
            env=[*environment(access.env), *secret_variables(access.keys)],
        ),
        "resources": RESOURCES,
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            whole_mount(),
            *writable_mounts(access.writable),
            *mounts(request.spec.pod_template.volume_mounts),
        ],
    }
