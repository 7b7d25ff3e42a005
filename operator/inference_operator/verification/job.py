"""The Job that verifies the signature of a model's image with cosign."""

import re
from dataclasses import dataclass

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.verify import VerifySpec
from inference_operator.engines.model_access import HubAccess
from inference_operator.inspection.job import TERMINATION_MESSAGE
from inference_operator.inspection.job_attempt import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION
from inference_operator.manifest import JOB, Manifest, Owner
from inference_operator.models.source import ImageModel
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.container import environment, process_fields
from inference_operator.objects.names import VERIFICATION, labels, selector_labels, verification_job_name
from inference_operator.objects.pod import RESTRICTED_CONTAINER, account, restricted_pod
from inference_operator.objects.pod_additions import mounts, volumes
from inference_operator.objects.scheduling import scheduling
from inference_operator.settings import Settings
from inference_operator.views.raw import mapping, objects

DEADLINE_SECONDS = 600
"""Time limit of the Job: for a node, cosign's image, and a few requests to the registry."""

RESOURCES: Manifest = {
    "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
    "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "64Mi"},
}
"""cosign 3.1.3 uses about 60 MiB of memory to verify one signature; the image itself is not downloaded."""

PUBLIC_KEY = "COSIGN_PUBLIC_KEY"
"""Variable of the container with the public key."""
_VARIABLE = re.compile(r"(?:HTTP|HTTPS|NO)_PROXY|SSL_CERT_(?:FILE|DIR)", re.IGNORECASE)
"""Variables that cosign's HTTP client reads (Go, net/http and crypto/x509)."""
_CREDENTIALS, _CREDENTIALS_PATH = "registry-credentials", "/registry"
_SCHEDULING = ("tolerations", "priorityClassName", "schedulerName")


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """An image, and the key that must have signed it."""

    spec: EffectiveSpec
    """The specification over the operator's defaults of engine pods."""
    image: ImageModel
    verify: VerifySpec
    access: HubAccess
    """The engines' user."""
    owner: Owner
    settings: Settings


def verification_job(request: VerificationRequest, public_key: str, *, attempt: int) -> Manifest:
    """The Job of one attempt. It has the key itself, so its result is for this key even if the ConfigMap changes."""
    content = _content(request, public_key)
    job_hash = content_hash(content)
    return child(
        JOB,
        verification_job_name(request.owner.key.name, job_hash, attempt),
        owner=request.owner,
        component=VERIFICATION,
        content=content,
        annotations={JOB_HASH_ANNOTATION: job_hash, ATTEMPT_ANNOTATION: str(attempt)},
    )


def same_question(live: Manifest, asked: Manifest) -> bool:
    """Whether a Job on the cluster calls cosign for the same image with the same key as the Job that was built.

    Its exit code counts only then. A registry in the image's name and more variables may come from admission webhooks.
    """
    ours, theirs = _cosign(asked), _cosign(live)
    same = theirs.get("args") == ours["args"] and not theirs.get("command")
    return same and _public_keys(theirs) == _public_keys(ours)


def _cosign(job: Manifest) -> Manifest:
    pod = mapping(mapping(mapping(job, "spec"), "template"), "spec")
    return next((one for one in objects(pod, "containers") if one.get("name") == VERIFICATION), {})


def _public_keys(container: Manifest) -> list[object]:
    return [one.get("value") for one in objects(container, "env") if one.get("name") == PUBLIC_KEY]


def _content(request: VerificationRequest, public_key: str) -> Manifest:
    spec, settings, name, added = request.spec, request.settings, request.owner.key.name, request.spec.pod_template
    fields = scheduling(spec.scheduling, gpus=1, selector=selector_labels(name, VERIFICATION))
    runtime = settings.router_defaults.scheduling.runtime_class_name
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "securityContext": restricted_pod(settings.pod_users, user=request.access.user, group=request.access.group),
        "containers": [_container(request, public_key)],
        "volumes": [*_credentials(settings), *volumes(added.volumes, pull_policy=settings.image_pull_policy)],
        **account(settings.engine_defaults),
        **{name: fields[name] for name in _SCHEDULING if name in fields},
        **({"runtimeClassName": runtime} if runtime else {}),
    }
    metadata: Manifest = {"labels": {**request.owner.child_labels, **added.labels, **labels(name, VERIFICATION)}}
    if added.annotations:
        metadata["annotations"] = dict(added.annotations)
    template = {"metadata": metadata, "spec": pod}
    return {"spec": {"backoffLimit": 0, "activeDeadlineSeconds": DEADLINE_SECONDS, "template": template}}


def _container(request: VerificationRequest, public_key: str) -> Manifest:
    settings = request.settings
    mounted = _credentials(settings)
    credentials = [{"name": _CREDENTIALS, "mountPath": _CREDENTIALS_PATH, "readOnly": True}] if mounted else []
    known = [{"name": "DOCKER_CONFIG", "value": _CREDENTIALS_PATH}] if mounted else []
    own = [variable for variable in request.spec.engine.env if _VARIABLE.fullmatch(variable.name)]
    return {
        "name": VERIFICATION,
        "image": settings.verifier_image,
        "imagePullPolicy": settings.image_pull_policy,
        **process_fields(
            # The key alone counts: no transparency log, which clusters without access to the Internet could not ask.
            args=[
                f"--output-file={TERMINATION_MESSAGE}",
                "verify",
                f"--key=env://{PUBLIC_KEY}",
                "--insecure-ignore-tlog=true",
                request.image.reference,
            ],
            env=[{"name": PUBLIC_KEY, "value": public_key}, *known, *environment(own)],
        ),
        "resources": RESOURCES,
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*credentials, *mounts(request.spec.pod_template.volume_mounts)],
    }


def _credentials(settings: Settings) -> list[Manifest]:
    """The volume with the first pull Secret of engines, as the file that registry clients read; none without one."""
    secret = next(iter(settings.engine_defaults.image_pull_secrets), None)
    if secret is None:
        return []
    items = [{"key": ".dockerconfigjson", "path": "config.json"}]
    source = {"secretName": secret.name, "items": items, "optional": True}
    return [{"name": _CREDENTIALS, "secret": source}]
