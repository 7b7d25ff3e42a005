"""The Deployment of the routers: two HAProxy processes in each pod."""

from collections.abc import Mapping

from inference_operator.api.router import KEYS_FILE
from inference_operator.api.router_exposure import TlsSpec
from inference_operator.fleet.rollout_slots import TURN_ANNOTATION, Turn
from inference_operator.manifest import DEPLOYMENT, Manifest
from inference_operator.objects import pod
from inference_operator.objects.adapter_list import list_mount, list_volume
from inference_operator.objects.child import child, manifest_hash
from inference_operator.objects.container import environment, pre_stop, process_fields
from inference_operator.objects.engine_key import key_annotation, key_mount, key_volume
from inference_operator.objects.gateway_key import GATEWAY_KEY_ENTRY, GATEWAY_KEY_SECRET
from inference_operator.objects.names import labels, selector_labels
from inference_operator.objects.pod_additions import ReservedPodParts, env_from, init_containers, mounts, volumes
from inference_operator.objects.scheduling import on_linux, scheduling
from inference_operator.router import process
from inference_operator.router.adapters import ADAPTERS_FOLDER
from inference_operator.router.dns import DNS_SERVER_VARIABLE, asks_dns_over_tcp
from inference_operator.router.engine_key import ENGINE_KEY_FOLDER
from inference_operator.router.gateway_key import GATEWAY_KEY_FOLDER
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.keys import KEYS_FOLDER
from inference_operator.router.pinned_router import ROUTER_PIN, PinnedRouter
from inference_operator.router.resources import process_resources
from inference_operator.router.security_revision import security_annotation
from inference_operator.router.stats import STATS_PATH
from inference_operator.router.tls import TLS_CERTIFICATE_FILE, TLS_FOLDER, TLS_KEY_FILE
from inference_operator.router.waiting import HELD_PATH, HOOK_ADDRESS
from inference_operator.settings import Settings

ROUTER_USER = 99
"""The user of HAProxy's official image (docker-library/haproxy)."""

CHECKSUM_ANNOTATION = "inference-operator.dev/config"
"""Hash of the configuration in the pod template: a new configuration causes a rolling update, which drains routers."""

ENDPOINT_REMOVAL_SECONDS = 10
"""How long a stopping router still accepts connections: until every kube-proxy has removed it, with a margin."""

_WITH_BASH = 'command -v bash > /dev/null || exec sleep "$1"; exec bash -c "$0" stop-hook "$@"'
"""Runs the script where the image has bash. Without it, held requests are not waited for, but endpoint removal is."""


_KEYS_MOUNT: Manifest = {"name": "api-keys", "mountPath": KEYS_FOLDER, "readOnly": True}
"""The whole folder, because the kubelet never updates a single file (Kubernetes documentation, "Secrets")."""

_GATEWAY_VOLUME: Manifest = {
    "name": "gateway-key",
    "secret": {
        "secretName": GATEWAY_KEY_SECRET,
        "optional": True,
        "items": [{"key": GATEWAY_KEY_ENTRY, "path": GATEWAY_KEY_ENTRY}],
    },
}
"""Routers have it also without a gateway, so that none restarts when one comes. The kubelet fills the folder then."""
_GATEWAY_MOUNT: Manifest = {"name": _GATEWAY_VOLUME["name"], "mountPath": GATEWAY_KEY_FOLDER, "readOnly": True}

TLS_VOLUME = "tls-certificate"
_HOST = "kubernetes.io/hostname"
_HAPROXIES = tuple(enumerate(process.METRICS_PORTS, start=1))


def router_deployment(inputs: RouterInputs, router: PinnedRouter, turn: Turn | None) -> Manifest:
    """The Deployment of the routers, with its turn, if its pods are replaced for a change of the administrator."""
    spec = {
        "replicas": inputs.spec.replicas + inputs.temporary,
        "revisionHistoryLimit": 2,
        "progressDeadlineSeconds": inputs.progress_deadline_seconds,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "selector": {"matchLabels": selector_labels(inputs.name, inputs.component)},
        "template": router.content.template,
    }
    return child(
        DEPLOYMENT,
        inputs.workload_name,
        owner=inputs.owner,
        component=inputs.component,
        content={"spec": spec},
        annotations={**ROUTER_PIN.entry(router), **inputs.move_annotations, **TURN_ANNOTATION.entry(turn)},
    )


def router_template(inputs: RouterInputs, config: Mapping[str, str]) -> Manifest:
    return pod.pod_template(
        _pod(inputs),
        labels=labels(inputs.name, inputs.component),
        annotations={
            **pod.evictable(_own_volumes(inputs)),
            **inputs.spec.pod_template.annotations,
            CHECKSUM_ANNOTATION: manifest_hash(config),
            **security_annotation(),
            **key_annotation(inputs.engine_key),
        },
        added_labels={**inputs.owner.child_labels, **inputs.spec.pod_template.labels},
    )


def reserved_pod_parts(path: str) -> ReservedPodParts:
    mounts_of_all = [mount for n, _ in _HAPROXIES for mount in _own_mounts(n)]
    of_some = [_KEYS_MOUNT, _TLS_MOUNT, _GATEWAY_MOUNT, list_mount(ADAPTERS_FOLDER), key_mount(ENGINE_KEY_FOLDER)]
    return ReservedPodParts(path, [_name(n) for n, _ in _HAPROXIES], [*mounts_of_all, *of_some])


def _own_volumes(inputs: RouterInputs) -> list[Manifest]:
    return [
        {"name": "config", "configMap": {"name": inputs.workload_name}},
        *([] if inputs.is_gateway else [_GATEWAY_VOLUME]),
        *({"name": f"run-{number}", "emptyDir": {}} for number, _ in _HAPROXIES),
        *_keys_volume(inputs),
        *key_volume(inputs.engine_key),
        *([list_volume(inputs.list_name)] if inputs.has_adapters else []),
        *([_tls_volume(inputs.spec.tls)] if inputs.spec.tls else []),
    ]


def _keys_volume(inputs: RouterInputs) -> list[Manifest]:
    """The Secret with the API keys. Without it no router starts: none must accept everybody."""
    if (keys := inputs.spec.keys) is None:
        return []
    items = [{"key": keys.secret_ref.key, "path": KEYS_FILE}]
    return [{"name": _KEYS_MOUNT["name"], "secret": {"secretName": keys.secret_ref.name, "items": items}}]


def _tls_volume(tls: TlsSpec) -> Manifest:
    items = [{"key": "tls.crt", "path": TLS_CERTIFICATE_FILE}, {"key": "tls.key", "path": TLS_KEY_FILE}]
    return {"name": TLS_VOLUME, "secret": {"secretName": tls.secret_ref.name, "items": items}}


_TLS_MOUNT: Manifest = {"name": TLS_VOLUME, "mountPath": TLS_FOLDER, "readOnly": True}


def _own_mounts(number: int) -> list[Manifest]:
    return [
        {"name": "config", "mountPath": process.CONFIG_FOLDER, "readOnly": True},
        {"name": f"run-{number}", "mountPath": "/run/haproxy"},
    ]


def _name(number: int) -> str:
    return f"haproxy-{number}"


def _scheduling(inputs: RouterInputs) -> Manifest:
    """The requested fields. Routers prefer different nodes, unless a requested constraint has the same topology key."""
    selector = selector_labels(inputs.name, inputs.component)
    fields = on_linux(scheduling(inputs.spec.scheduling, gpus=0, selector=selector))
    spread = fields.get("topologySpreadConstraints", [])
    own = {
        "maxSkew": 1,
        "topologyKey": _HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector},
        "matchLabelKeys": ["pod-template-hash"],
    }
    missing = [own] if all(constraint["topologyKey"] != _HOST for constraint in spread) else []
    return {**fields, "topologySpreadConstraints": [*missing, *spread]}


def _pod(inputs: RouterInputs) -> Manifest:
    stop_seconds = ENDPOINT_REMOVAL_SECONDS + inputs.drain_seconds + pod.STOP_MARGIN_SECONDS
    settings, added = inputs.settings, inputs.spec.pod_template
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": stop_seconds,
        "securityContext": pod.restricted_pod(settings.pod_users, user=ROUTER_USER, group=ROUTER_USER),
        **pod.account(added),
        **_scheduling(inputs),
        "containers": [_container(number, port, inputs) for number, port in _HAPROXIES],
        "volumes": [*_own_volumes(inputs), *volumes(added.volumes, pull_policy=settings.image_pull_policy)],
        **init_containers(added, pull_policy=settings.image_pull_policy),
    }


def haproxy_command(slots: int) -> list[str]:
    """The command of a HAProxy process.

    Where it asks DNS over TCP, a shell reads the server's address first: HAProxy takes it from resolv.conf for UDP only
    (HAProxy 3.0, `parse-resolv-conf`).
    """
    command = ["haproxy", "-W", "-db", "-f", f"{process.CONFIG_FOLDER}/{process.CONFIG_FILE}"]
    return ["sh", "-c", _WITH_DNS_SERVER, "haproxy", *command] if asks_dns_over_tcp(slots) else command


_WITH_DNS_SERVER = (
    "while read -r key value _; do"
    f' if [ "$key" = nameserver ]; then export {DNS_SERVER_VARIABLE}="$value"; break; fi;'
    ' done < /etc/resolv.conf; exec "$@"'
)


def _environment(metrics_port: int, settings: Settings) -> list[Manifest]:
    addresses = {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIPs"}}
    return [
        {"name": process.METRICS_PORT_VARIABLE, "value": str(metrics_port)},
        {"name": process.POD_IPS_VARIABLE, "valueFrom": addresses},
        *environment(settings.router_defaults.env),
    ]


def _container(number: int, metrics_port: int, inputs: RouterInputs) -> Manifest:
    """One HAProxy of the pod. All of them listen on the port of the Service, so no container declares that port."""
    settings, metrics = inputs.settings, f"metrics-{number}"
    return {
        "name": _name(number),
        "image": settings.router_image,
        "imagePullPolicy": settings.image_pull_policy,
        **process_fields(command=haproxy_command(inputs.slots), env=_environment(metrics_port, settings)),
        **env_from(inputs.spec.pod_template.env_from),
        "ports": [{"name": metrics, "containerPort": metrics_port, "protocol": "TCP"}],
        "resources": process_resources(inputs.spec.resources),
        "readinessProbe": pod.http_probe(process.HEALTH_PATH, port=metrics, period=2, timeout=2, failures=2),
        "livenessProbe": pod.fatal(pod.http_probe(process.HEALTH_PATH, port=metrics, period=10, timeout=5, failures=6)),
        **pre_stop(stop_hook(inputs.drain_seconds)),
        "securityContext": pod.RESTRICTED_CONTAINER,
        "volumeMounts": [
            *_own_mounts(number),
            *([] if inputs.is_gateway else [_GATEWAY_MOUNT]),
            *([_KEYS_MOUNT] if inputs.spec.keys else []),
            *([key_mount(ENGINE_KEY_FOLDER)] if inputs.engine_key else []),
            *([list_mount(ADAPTERS_FOLDER)] if inputs.has_adapters else []),
            *([_TLS_MOUNT] if inputs.spec.tls else []),
            *mounts(inputs.spec.pod_template.volume_mounts),
        ],
    }


def stop_hook(drain_seconds: int, endpoint_removal_seconds: int = ENDPOINT_REMOVAL_SECONDS) -> list[str]:
    """The command of the preStop hook: HAProxy is told to stop only when it holds no request without an engine.

    A held request of a stopping HAProxy finds no engine that comes up later, and its connection is closed without an
    answer at `hard-stop-after` (measured with HAProxy 3.0). So it stops after the held requests are served.

    Args:
        drain_seconds: how long requests may be held; then they get 503 with Retry-After.
        endpoint_removal_seconds: how long to wait before that.
    """
    times = [str(endpoint_removal_seconds), str(drain_seconds)]
    arguments = [*times, process.METRICS_PORT_VARIABLE, HELD_PATH, STATS_PATH, HOOK_ADDRESS]
    return ["sh", "-c", _WITH_BASH, process.script("stop_hook.sh"), *arguments]
