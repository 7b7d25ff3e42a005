"""The Deployment of the engines."""

import math
from collections.abc import Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.spec import Spec
from inference_operator.engines.engine import EngineProcess
from inference_operator.manifest import DEPLOYMENT, Manifest, Owner
from inference_operator.models.source import ModelSource
from inference_operator.resources.child import child
from inference_operator.resources.compute import requirements
from inference_operator.resources.model_volume import model_mounts, model_volumes
from inference_operator.resources.names import ENGINE, engine_name, labels, selector_labels
from inference_operator.resources.pinned import PLAN_ANNOTATION, Pinned
from inference_operator.resources.pod import (
    RESTRICTED_CONTAINER,
    STOP_MARGIN_SECONDS,
    http_probe,
    restricted_pod,
)
from inference_operator.resources.pod_template import pod_template
from inference_operator.resources.scheduling import queue_labels, scheduling
from inference_operator.settings import Settings

ENGINE_PORT = 8000
ENGINE_USER, ENGINE_GROUP = 2000, 0
"""The user that vLLM's images prepare (vllm-project/vllm v0.32.0, docker/Dockerfile)."""

PULL_SECONDS = 300
"""What the progress deadline leaves for scheduling and for pulling the engine's image: 10 GB at 60 MB/s take 170 s."""
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
            "progressDeadlineSeconds": progress_deadline_seconds(spec, process),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector_labels(name, ENGINE)},
            "template": pod_template(
                _pod(spec, pinned, source, process, name=name, settings=settings), labels=labels(name, ENGINE)
            ),
        }
    }
    return child(
        DEPLOYMENT,
        engine_name(name),
        owner=owner,
        component=ENGINE,
        content=content,
        annotations={PLAN_ANNOTATION: pinned.text},
        added_labels=queue_labels(spec.scheduling),
    )


def progress_deadline_seconds(spec: Spec, process: EngineProcess) -> int:
    """How long engines and routers may make no progress: as was asked, or as long as a start may take."""
    asked = spec.rollout.progress_deadline
    return int(asked.total_seconds()) if asked else process.startup_seconds + PULL_SECONDS


def _pod(
    spec: Spec, pinned: Pinned, source: ModelSource, process: EngineProcess, *, name: str, settings: Settings
) -> Manifest:
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": process.stop_seconds + STOP_MARGIN_SECONDS,
        "securityContext": restricted_pod(user=ENGINE_USER, group=ENGINE_GROUP),
        "containers": [_container(spec, pinned, source, process, settings)],
        "volumes": [
            *model_volumes(source, pull_policy=settings.image_pull_policy),
            *({"name": _volume_name(path), "emptyDir": {}} for path in process.writable),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": pinned.plan.shared_memory}},
        ],
        **scheduling(spec.scheduling, gpus=pinned.plan.gpus_per_replica, selector=selector_labels(name, ENGINE)),
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
            failures=math.ceil(process.startup_seconds / STARTUP_PERIOD_SECONDS),
        ),
        "readinessProbe": http_probe(
            path, period=READY_PERIOD_SECONDS, timeout=READY_TIMEOUT_SECONDS, failures=READY_FAILURES
        ),
        "livenessProbe": http_probe(
            path, period=ALIVE_PERIOD_SECONDS, timeout=ALIVE_TIMEOUT_SECONDS, failures=ALIVE_FAILURES
        ),
        "lifecycle": {"preStop": {"exec": {"command": list(process.pre_stop)}}},
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
