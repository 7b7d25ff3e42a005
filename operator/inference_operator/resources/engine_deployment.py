"""The Deployment of the engines."""

import math
from collections.abc import Mapping

from inference_operator.api.spec import RolloutStrategy, Spec
from inference_operator.engines.engine import EngineProcess
from inference_operator.manifest import DEPLOYMENT, Manifest, Owner
from inference_operator.models.source import ModelSource
from inference_operator.observed.rollout import ROLLOUT_ANNOTATION, Rollout
from inference_operator.resources.additions import mounts, sidecars, volumes
from inference_operator.resources.child import child
from inference_operator.resources.compute import requirements
from inference_operator.resources.engine_volumes import engine_mounts, engine_volumes
from inference_operator.resources.environment import environment
from inference_operator.resources.names import ENGINE, engine_name, labels, selector_labels
from inference_operator.resources.pinned import PLAN_ANNOTATION, Pinned
from inference_operator.resources.pod import (
    RESTRICTED_CONTAINER,
    STOP_MARGIN_SECONDS,
    fatal,
    http_probe,
    restricted_pod,
)
from inference_operator.resources.pod_template import pod_template
from inference_operator.resources.scheduling import queue_labels, scheduling, tied
from inference_operator.resources.standing import STANDING_ANNOTATION, Standing
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


_ROOM: Mapping[RolloutStrategy, Manifest] = {
    RolloutStrategy.SURGE: {"maxSurge": 1, "maxUnavailable": 0},
    RolloutStrategy.REPLACE: {"maxSurge": 0, "maxUnavailable": 1},
}


def engine_template(
    spec: Spec, pinned: Pinned, source: ModelSource, process: EngineProcess, *, owner: Owner, settings: Settings
) -> Manifest:
    """What every engine's pod is made from."""
    name = owner.key.name
    return pod_template(
        _pod(spec, pinned, source, process, name=name, settings=settings),
        labels=labels(name, ENGINE),
        annotations=spec.pod_template.annotations,
        added_labels=spec.pod_template.labels,
    )


def engine_deployment(
    spec: Spec,
    pinned: Pinned,
    standing: Standing,
    rollout: Rollout,
    process: EngineProcess,
    *,
    replicas: int,
    owner: Owner,
) -> Manifest:
    """The Deployment of the engines; its replicas have one owner, which is the operator."""
    name = owner.key.name
    content = {
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": progress_deadline_seconds(spec, process),
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _ROOM[rollout.strategy]},
            "selector": {"matchLabels": selector_labels(name, ENGINE)},
            "template": standing.template,
        }
    }
    return child(
        DEPLOYMENT,
        engine_name(name),
        owner=owner,
        component=ENGINE,
        content=content,
        annotations={
            PLAN_ANNOTATION: pinned.text,
            ROLLOUT_ANNOTATION: rollout.text,
            STANDING_ANNOTATION: standing.text,
        },
        added_labels=queue_labels(spec.scheduling),
    )


def progress_deadline_seconds(spec: Spec, process: EngineProcess) -> int:
    """How long engines and routers may make no progress: as was asked, or as long as a start may take."""
    asked = spec.rollout.progress_deadline
    return int(asked.total_seconds()) if asked else process.startup_seconds + PULL_SECONDS


def _pod(
    spec: Spec, pinned: Pinned, source: ModelSource, process: EngineProcess, *, name: str, settings: Settings
) -> Manifest:
    pull_policy = settings.image_pull_policy
    beside = sidecars(spec.pod_template.sidecars, pull_policy=pull_policy)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": process.stop_seconds + STOP_MARGIN_SECONDS,
        "securityContext": restricted_pod(user=ENGINE_USER, group=ENGINE_GROUP),
        "containers": [_container(spec, pinned, source, process, settings)],
        "volumes": [
            *engine_volumes(source, process, pinned.plan, pull_policy=pull_policy),
            *volumes(spec.pod_template.volumes, pull_policy=pull_policy),
        ],
        **({"initContainers": beside} if beside else {}),
        **tied(
            scheduling(spec.scheduling, gpus=pinned.plan.gpus_per_replica, selector=selector_labels(name, ENGINE)),
            pinned.plan,
        ),
    }


def _container(spec: Spec, pinned: Pinned, source: ModelSource, process: EngineProcess, settings: Settings) -> Manifest:
    path = process.health_path
    return {
        "name": ENGINE,
        "image": pinned.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": list(process.command),
        "args": list(process.args),
        "env": environment(process.env),
        "ports": [{"name": "http", "containerPort": ENGINE_PORT, "protocol": "TCP"}],
        "resources": requirements(spec.engine.resources, pinned.plan),
        "startupProbe": fatal(
            http_probe(
                path,
                period=STARTUP_PERIOD_SECONDS,
                timeout=READY_TIMEOUT_SECONDS,
                failures=math.ceil(process.startup_seconds / STARTUP_PERIOD_SECONDS),
            )
        ),
        "readinessProbe": http_probe(
            path, period=READY_PERIOD_SECONDS, timeout=READY_TIMEOUT_SECONDS, failures=READY_FAILURES
        ),
        "livenessProbe": fatal(
            http_probe(path, period=ALIVE_PERIOD_SECONDS, timeout=ALIVE_TIMEOUT_SECONDS, failures=ALIVE_FAILURES)
        ),
        "lifecycle": {"preStop": {"exec": {"command": list(process.pre_stop)}}},
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*engine_mounts(source, process.writable), *mounts(spec.pod_template.volume_mounts)],
    }
