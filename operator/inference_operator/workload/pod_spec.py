"""The pod template of a role's engines."""

import math
from dataclasses import dataclass

from inference_operator.api.spec import Spec
from inference_operator.engines.process import EngineProcess
from inference_operator.manifest import Manifest, Owner
from inference_operator.models.source import ModelSource
from inference_operator.objects.cache_volume import CacheVolume
from inference_operator.objects.compute_resources import requirements
from inference_operator.objects.container import environment, pre_stop, process_fields
from inference_operator.objects.names import labels, selector_labels
from inference_operator.objects.pod import (
    RESTRICTED_CONTAINER,
    STOP_MARGIN_SECONDS,
    account,
    evictable,
    fatal,
    http_probe,
    pod_template,
    restricted_pod,
)
from inference_operator.objects.pod_additions import mounts, sidecars, volumes
from inference_operator.objects.scheduling import bound_to_gpus, on_architecture, scheduling
from inference_operator.objects.volumes import engine_mounts, engine_volumes
from inference_operator.settings import Settings
from inference_operator.views.pod import TRAFFIC_LABEL
from inference_operator.workload.pinned_plan import PinnedPlan

STARTUP_PERIOD_SECONDS, STARTUP_TIMEOUT_SECONDS = 2, 5
ANSWER_TIMEOUT_SECONDS = 60
"""A busy vLLM answers `/health` after 20 to 40 s (vllm-project/vllm#38157): it stays ready and alive."""
READY_PERIOD_SECONDS, READY_FAILURES = 5, 3
"""Not ready after 15 s of refused connections, or three minutes without an answer."""
ALIVE_PERIOD_SECONDS, ALIVE_FAILURES = 30, 5
"""Restarted after two and a half minutes of refused connections, or five without an answer. A restart costs a whole
load, and an engine that answers but makes no progress is found by its metrics (`workload/stall.py`)."""


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """What the objects of one role are built from."""

    role: str
    """The component label of its objects, and the name of its container."""
    spec: Spec
    """The specification over the operator's defaults of engine pods."""
    source: ModelSource
    plan: PinnedPlan
    process: EngineProcess
    owner: Owner
    settings: Settings
    cache: CacheVolume | None = None
    """The claim with the model's files; None without `spec.cache`."""

    @property
    def name(self) -> str:
        """Name of the InferenceDeployment."""
        return self.owner.key.name


def engine_template(request: WorkloadRequest) -> Manifest:
    """The pod template of every engine of the role."""
    return pod_template(
        _pod(request),
        labels=labels(request.name, request.role),
        annotations={**evictable(_own_volumes(request)), **request.spec.pod_template.annotations},
        added_labels={**request.owner.child_labels, **request.spec.pod_template.labels, TRAFFIC_LABEL: "true"},
    )


def _own_volumes(request: WorkloadRequest) -> list[Manifest]:
    pull_policy = request.settings.image_pull_policy
    plan = request.plan.plan
    return engine_volumes(request.source, request.process, plan, request.cache, pull_policy=pull_policy)


def _pod(request: WorkloadRequest) -> Manifest:
    spec, process, plan = request.spec, request.process, request.plan.plan
    settings, pull_policy = request.settings, request.settings.image_pull_policy
    added_sidecars = sidecars(spec.pod_template.sidecars, pull_policy=pull_policy)
    selector = selector_labels(request.name, request.role)
    constraints = on_architecture(
        scheduling(spec.scheduling, gpus=plan.gpus_per_replica, selector=selector), request.plan.image
    )
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": process.stop_seconds + STOP_MARGIN_SECONDS,
        "securityContext": restricted_pod(settings.pod_users, user=process.user, group=process.group),
        "containers": [_container(request)],
        "volumes": [
            *_own_volumes(request),
            *volumes(spec.pod_template.volumes, pull_policy=pull_policy),
        ],
        **({"initContainers": added_sidecars} if added_sidecars else {}),
        **account(settings.engine_defaults),
        **bound_to_gpus(constraints, plan, added_labels=settings.gpu_node_labels),
    }


def _container(request: WorkloadRequest) -> Manifest:
    spec, process = request.spec, request.process
    path = process.health_path
    return {
        "name": request.role,
        "image": request.plan.image,
        "imagePullPolicy": request.settings.image_pull_policy,
        **process_fields(command=process.command, args=process.args, env=environment(process.env)),
        "ports": [{"name": "http", "containerPort": process.port, "protocol": "TCP"}],
        "resources": requirements(
            spec.engine.resources, request.plan.plan, request.settings.engine_defaults.limit_request_ratio
        ),
        "startupProbe": fatal(
            http_probe(
                path,
                period=STARTUP_PERIOD_SECONDS,
                timeout=STARTUP_TIMEOUT_SECONDS,
                failures=math.ceil(process.startup_seconds / STARTUP_PERIOD_SECONDS),
            )
        ),
        "readinessProbe": http_probe(
            path, period=READY_PERIOD_SECONDS, timeout=ANSWER_TIMEOUT_SECONDS, failures=READY_FAILURES
        ),
        "livenessProbe": fatal(
            http_probe(path, period=ALIVE_PERIOD_SECONDS, timeout=ANSWER_TIMEOUT_SECONDS, failures=ALIVE_FAILURES)
        ),
        **pre_stop(process.pre_stop),
        "securityContext": RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *engine_mounts(request.source, process.writable, request.cache, process.compiled),
            *mounts(spec.pod_template.volume_mounts),
        ],
    }
