"""The pod template of a role's engines."""

import math
from dataclasses import dataclass

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.hardware import NetworkSpec
from inference_operator.engines.group.launch import ADDRESS_VARIABLE, NAME_VARIABLE, RANK_VARIABLE, SERVICE_VARIABLE
from inference_operator.engines.kv_transfer import POD_IP
from inference_operator.engines.process import EngineProcess
from inference_operator.engines.programs import PROGRAMS_ANNOTATION, programs_text, programs_variable
from inference_operator.engines.registry import VLLM
from inference_operator.manifest import Manifest, Owner
from inference_operator.objects import names, pod
from inference_operator.objects.adapter_list import LIST_FOLDER, LOADED, list_mount, list_volume
from inference_operator.objects.cache_volume import CacheVolume
from inference_operator.objects.compute_resources import NO_NETWORK, requirements
from inference_operator.objects.container import environment, pre_stop, pre_stop_wait, process_fields
from inference_operator.objects.engine_key import key_annotation, key_mount, key_volume
from inference_operator.objects.kv_revision import revision_annotation
from inference_operator.objects.pod_additions import env_from, init_containers, mounts, volumes
from inference_operator.objects.scheduling import bound_to_gpus, near_members, on_architecture, on_linux, scheduling
from inference_operator.objects.volumes import engine_mounts, engine_volumes
from inference_operator.roles.context import RoleContext
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.settings import Settings
from inference_operator.views.pod import ADAPTERS_PORT, ENGINE_LABEL, POD_INDEX_LABEL, TRAFFIC_LABEL

STARTUP_PERIOD_SECONDS, STARTUP_TIMEOUT_SECONDS = 2, 5
MEMBER_FAILURES = 1_000_000
"""Failed startup probes of a member of a group: 23 days."""
ANSWER_TIMEOUT_SECONDS = 60
"""A busy vLLM answers `/health` after 20 to 40 s (vllm-project/vllm#38157): it stays ready and alive."""
READY_PERIOD_SECONDS, READY_FAILURES = 5, 3
"""Not ready after 15 s of refused connections, or three minutes without an answer."""
ALIVE_PERIOD_SECONDS, ALIVE_FAILURES = 30, 5
"""Restarted after two and a half minutes of refused connections, or five without an answer. A restart costs a whole
load, and an engine that answers but makes no progress is found by its metrics (`workload/eviction/stall.py`)."""


ADAPTER_LOADER_RESOURCES: Manifest = {
    "requests": {"cpu": "10m", "memory": "32Mi", "ephemeral-storage": "16Mi"},
    "limits": {"memory": "128Mi", "ephemeral-storage": "64Mi"},
}
"""A Python process with a few threads, which mostly waits: 15 MiB."""


@dataclass(frozen=True, slots=True)
class WorkloadInputs:
    context: RoleContext
    plan: PinnedPlan
    process: EngineProcess
    cache: CacheVolume | None = None
    """The claim with the model's files; None without `spec.cache`."""
    engine_key: str = ""
    """Name of the Secret with the key that the engines ask for; empty: they ask for none."""

    @property
    def name(self) -> str:
        return self.context.owner.key.name

    @property
    def role(self) -> str:
        """The component label of the role's objects, and the name of its container."""
        return self.context.spec.name

    @property
    def spec(self) -> EffectiveSpec:
        return self.context.spec.effective

    @property
    def owner(self) -> Owner:
        return self.context.owner

    @property
    def settings(self) -> Settings:
        return self.context.settings

    @property
    def network(self) -> NetworkSpec:
        """The network between pods: of an engine over several nodes, or of engines that send each other KV caches."""
        if self.plan.plan.parallel.nodes > 1:
            return self.spec.network
        apart = self.spec.stated.disaggregation
        return apart.network if apart and self.process.transfer else NO_NETWORK

    @property
    def has_network_policy(self) -> bool:
        """Whether a NetworkPolicy admits only who has to reach the engines: with API keys by default."""
        is_closed = self.spec.stated.needs_engine_key
        return self.settings.network_policies or (is_closed and self.settings.network_policies_with_keys)


def engine_template(inputs: WorkloadInputs) -> Manifest:
    engine, programs = inputs.plan.engine, inputs.process.programs
    own = {TRAFFIC_LABEL: "true", **({} if engine == VLLM else {ENGINE_LABEL: engine})}
    return pod.pod_template(
        _pod(inputs),
        labels=names.labels(inputs.name, inputs.role),
        annotations={
            **pod.evictable(_own_volumes(inputs)),
            **({PROGRAMS_ANNOTATION: programs_text(programs)} if programs else {}),
            **key_annotation(inputs.engine_key),
            **revision_annotation(inputs.process.transfer.revision if inputs.process.transfer else ""),
            **inputs.spec.pod_template.annotations,
        },
        added_labels={**inputs.owner.child_labels, **inputs.spec.pod_template.labels, **own},
    )


def _own_volumes(inputs: WorkloadInputs) -> list[Manifest]:
    pull_policy = inputs.settings.image_pull_policy
    plan = inputs.plan.plan
    own = engine_volumes(inputs.context.source, inputs.process, plan, inputs.cache, pull_policy=pull_policy)
    own += key_volume(inputs.engine_key)
    return [*own, list_volume(names.adapter_list_name(inputs.owner.key.name))] if inputs.process.adapter_loader else own


def _pod(inputs: WorkloadInputs) -> Manifest:
    spec, process, plan = inputs.spec, inputs.process, inputs.plan.plan
    settings, pull_policy = inputs.settings, inputs.settings.image_pull_policy
    selector = names.selector_labels(inputs.name, inputs.role)
    asked = scheduling(spec.scheduling, gpus=plan.gpus_per_pod, selector=selector)
    if plan.parallel.nodes > 1:
        asked = near_members(asked, spec.scheduling.topology_key, selector=selector)
    constraints = on_architecture(asked if plan.gpus_per_pod else on_linux(asked), inputs.plan.image)
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": process.stop_seconds + pod.STOP_MARGIN_SECONDS,
        "securityContext": pod.restricted_pod(settings.pod_users, user=process.user, group=process.group),
        "containers": [_container(inputs), *_adapter_loader(inputs)],
        "volumes": [*_own_volumes(inputs), *volumes(spec.pod_template.volumes, pull_policy=pull_policy)],
        **init_containers(spec.pod_template, pull_policy=pull_policy),
        **pod.account(spec.pod_template),
        **bound_to_gpus(constraints, plan, added_labels=settings.gpu_node_labels),
    }


def _probes(process: EngineProcess) -> Manifest:
    """The probes of an engine; in a group those of its member.

    A member may wait for the nodes of others for any time. It ends an engine that does not start in time itself.
    """
    member, path = process.member, process.health_path
    port = member.health_port if member else "http"
    alive = pod.http_probe(
        member.live_path if member else path,
        port=port,
        period=ALIVE_PERIOD_SECONDS,
        timeout=ANSWER_TIMEOUT_SECONDS,
        failures=ALIVE_FAILURES,
    )
    start = pod.http_probe(
        member.ready_path if member else path,
        port=port,
        period=STARTUP_PERIOD_SECONDS,
        timeout=STARTUP_TIMEOUT_SECONDS,
        failures=MEMBER_FAILURES if member else math.ceil(process.startup_seconds / STARTUP_PERIOD_SECONDS),
    )
    return {"startupProbe": pod.fatal(start), "readinessProbe": _readiness(process), "livenessProbe": pod.fatal(alive)}


def _readiness(process: EngineProcess) -> Manifest:
    """The readiness probe: of the engine, of its member of a group, or of the program that loads its adapters first."""
    loader, member = process.adapter_loader, process.member
    asked = (loader.ready_path, loader.port) if loader else (member.ready_path, member.health_port) if member else None
    path, port = asked or (process.health_path, "http")
    return pod.http_probe(
        path,
        port=port,
        period=member.ready_period if member else READY_PERIOD_SECONDS,
        timeout=ANSWER_TIMEOUT_SECONDS,
        failures=member.ready_failures if member else READY_FAILURES,
    )


def _member_variables(inputs: WorkloadInputs) -> list[Manifest]:
    fields = {
        RANK_VARIABLE: f"metadata.labels['{POD_INDEX_LABEL}']",
        NAME_VARIABLE: "metadata.name",
        ADDRESS_VARIABLE: "status.podIP",
    }
    service, domain = names.members_service_name(inputs.name, inputs.role), inputs.settings.cluster_domain
    host = names.service_host(service, inputs.owner.key.namespace, cluster_domain=domain)
    return [{"name": SERVICE_VARIABLE, "value": host}, *(_field(name, path) for name, path in fields.items())]


def _field(name: str, path: str) -> Manifest:
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def _adapter_loader(inputs: WorkloadInputs) -> list[Manifest]:
    """The container that loads adapters; none for engines without slots for them."""
    loader = inputs.process.adapter_loader
    if loader is None:
        return []
    return [
        {
            "name": ADAPTERS_PORT,
            "image": inputs.plan.image,
            "imagePullPolicy": inputs.settings.image_pull_policy,
            **process_fields(command=[*loader.command, f"{LIST_FOLDER}/{LOADED}"], env=[programs_variable()]),
            "ports": [{"name": ADAPTERS_PORT, "containerPort": loader.port, "protocol": "TCP"}],
            "resources": ADAPTER_LOADER_RESOURCES,
            "securityContext": pod.RESTRICTED_CONTAINER,
            "volumeMounts": [list_mount(), *_key_mounts(inputs)],
        }
    ]


def _key_mounts(inputs: WorkloadInputs) -> list[Manifest]:
    return [key_mount()] if inputs.engine_key else []


def _container(inputs: WorkloadInputs) -> Manifest:
    spec, process = inputs.spec, inputs.process
    network = inputs.network
    locks = network.ipc_lock
    return {
        "name": inputs.role,
        "image": inputs.plan.image,
        "imagePullPolicy": inputs.settings.image_pull_policy,
        **process_fields(
            command=process.command,
            args=process.args,
            env=[
                *environment(process.env),
                *([programs_variable()] if process.programs else []),
                *(_member_variables(inputs) if process.member else []),
                *([_field(POD_IP, "status.podIP")] if process.transfer else []),
            ],
        ),
        **env_from(spec.pod_template.env_from),
        "ports": [{"name": "http", "containerPort": process.port, "protocol": "TCP"}],
        "resources": requirements(
            spec.engine.resources, inputs.plan.plan, inputs.settings.engine_defaults.limit_request_ratio, network
        ),
        **_probes(process),
        **(pre_stop(process.pre_stop) if process.pre_stop else pre_stop_wait(process.pre_stop_seconds)),
        "securityContext": pod.with_memory_lock(pod.RESTRICTED_CONTAINER) if locks else pod.RESTRICTED_CONTAINER,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *engine_mounts(inputs.context.source, process.writable, inputs.cache, process.compiled),
            *_key_mounts(inputs),
            *mounts(spec.pod_template.volume_mounts),
        ],
    }
