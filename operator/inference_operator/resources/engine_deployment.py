"""The Deployment of the engines."""

from collections.abc import Sequence

from inference_operator.api.spec import EnvironmentVariable, Spec
from inference_operator.engines.engine import EngineProcess
from inference_operator.manifest import DEPLOYMENT, Manifest, Owner
from inference_operator.models.source import ModelSource
from inference_operator.resources.child import child
from inference_operator.resources.compute import GPU_RESOURCE, requirements
from inference_operator.resources.model_volume import model_mounts, model_volumes
from inference_operator.resources.names import ENGINE, engine_name, labels, selector_labels
from inference_operator.resources.pinned import PLAN_ANNOTATION, Pinned
from inference_operator.resources.pod import (
    RESTRICTED_CONTAINER,
    STOP_MARGIN_SECONDS,
    http_probe,
    pre_stop_sleep,
    restricted_pod,
)
from inference_operator.resources.pod_template import pod_template
from inference_operator.settings import Settings

ENGINE_PORT = 8000
ENGINE_USER, ENGINE_GROUP = 2000, 0
"""The user that vLLM's images prepare (vllm-project/vllm v0.32.0, docker/Dockerfile)."""

STARTUP_SECONDS = 1800
"""How long an engine may load before it is started again; also the progress deadline of both Deployments."""
STARTUP_PERIOD_SECONDS = 2
READY_PERIOD_SECONDS, READY_FAILURES = 5, 3
ALIVE_PERIOD_SECONDS, ALIVE_FAILURES = 30, 6
"""Three minutes without an answer: a saturated engine answers late, and a restart costs a whole load."""
READY_TIMEOUT_SECONDS, ALIVE_TIMEOUT_SECONDS = 5, 10


def engine_deployment(
    spec: Spec,
    pinned: Pinned,
    source: ModelSource,
    process: EngineProcess,
    *,
    owner: Owner,
    settings: Settings,
) -> Manifest:
    """The Deployment of the engines; its replicas have one owner, which is the operator."""
    name = owner.key.name
    content = {
        "spec": {
            "replicas": spec.replicas,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": STARTUP_SECONDS,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector_labels(name, ENGINE)},
            "template": pod_template(_pod(spec, pinned, source, process, settings), labels=labels(name, ENGINE)),
        }
    }
    return child(
        DEPLOYMENT,
        engine_name(name),
        owner=owner,
        component=ENGINE,
        content=content,
        annotations={PLAN_ANNOTATION: pinned.text},
    )


def _pod(spec: Spec, pinned: Pinned, source: ModelSource, process: EngineProcess, settings: Settings) -> Manifest:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": (settings.dns_staleness_seconds + process.drain_seconds + STOP_MARGIN_SECONDS),
        "securityContext": restricted_pod(user=ENGINE_USER, group=ENGINE_GROUP),
        "containers": [_container(spec, pinned, source, process, settings)],
        "volumes": [
            *model_volumes(source, pull_policy=settings.image_pull_policy),
            *({"name": _volume_name(path), "emptyDir": {}} for path in process.writable),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": pinned.plan.shared_memory}},
        ],
        **_tolerations(pinned.plan.gpus_per_replica),
    }


def _container(spec: Spec, pinned: Pinned, source: ModelSource, process: EngineProcess, settings: Settings) -> Manifest:
    path = process.health_path
    return {
        "name": ENGINE,
        "image": pinned.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": list(process.command),
        "args": list(process.args),
        "env": _environment(process.env),
        "ports": [{"name": "http", "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "resources": requirements(spec.engine.resources, pinned.plan),
        "startupProbe": http_probe(
            path,
            period=STARTUP_PERIOD_SECONDS,
            timeout=READY_TIMEOUT_SECONDS,
            failures=STARTUP_SECONDS // STARTUP_PERIOD_SECONDS,
        ),
        "readinessProbe": http_probe(
            path, period=READY_PERIOD_SECONDS, timeout=READY_TIMEOUT_SECONDS, failures=READY_FAILURES
        ),
        "livenessProbe": http_probe(
            path, period=ALIVE_PERIOD_SECONDS, timeout=ALIVE_TIMEOUT_SECONDS, failures=ALIVE_FAILURES
        ),
        "lifecycle": pre_stop_sleep(settings.dns_staleness_seconds),
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *model_mounts(source),
            *({"name": _volume_name(path), "mountPath": path} for path in process.writable),
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the pod's own
        ],
    }


def _volume_name(path: str) -> str:
    """A volume for each writable path, named after it.

    Examples:
        >>> _volume_name("/home/vllm")
        'home-vllm'
    """
    return path.strip("/").replace("/", "-")


def _environment(variables: Sequence[EnvironmentVariable]) -> list[Manifest]:
    """As the API server writes them back: it leaves an empty value out."""
    return [v.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_empty(v)) for v in variables]


def _empty(variable: EnvironmentVariable) -> set[str]:
    return {"value"} if variable.value == "" else set()


def _tolerations(gpus: int) -> Manifest:
    """GPU nodes are often tainted with their resource's name (NVIDIA GPU operator, GKE, EKS)."""
    if not gpus:
        return {}
    return {"tolerations": [{"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}]}
