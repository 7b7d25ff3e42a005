"""The Deployment of the routers."""

from inference_operator.api.spec import Spec
from inference_operator.manifest import DEPLOYMENT, Manifest, Owner
from inference_operator.resources.child import child, fingerprint
from inference_operator.resources.names import ROUTER, labels, router_name, selector_labels
from inference_operator.resources.pod import (
    RESTRICTED_CONTAINER,
    STOP_MARGIN_SECONDS,
    fatal,
    http_probe,
    restricted_pod,
)
from inference_operator.resources.pod_template import pod_template
from inference_operator.resources.router_config import CONFIG_FILE
from inference_operator.router.haproxy import HEALTH_PATH, METRICS_PORT_VARIABLE, METRICS_PORTS
from inference_operator.settings import Settings

ROUTER_USER = 99
"""The user of HAProxy's official image (docker-library/haproxy)."""

CONFIG_FOLDER = "/etc/haproxy"
CHECKSUM_ANNOTATION = "inference-operator.dev/config"
"""Hash of the configuration in the pod template: a new configuration is a rolling update, with its drain."""

ENDPOINT_REMOVAL_SECONDS = 10
"""How long a stopping router goes on accepting: until every node's kube-proxy has left it out, with a margin."""

REQUESTS = {"cpu": "50m", "memory": "32Mi"}
LIMITS = {"memory": "256Mi"}
"""Of each HAProxy: 3.0 holds about 10 MiB, master and worker, plus two 16 KiB buffers for each request in flight."""

_HAPROXIES = tuple(enumerate(METRICS_PORTS, start=1))


def router_deployment(
    spec: Spec, config: str, *, progress_deadline_seconds: int, owner: Owner, settings: Settings
) -> Manifest:
    """The Deployment of the routers."""
    name = owner.key.name
    content = {
        "spec": {
            "replicas": spec.router.replicas,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": progress_deadline_seconds,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector_labels(name, ROUTER)},
            "template": pod_template(
                _pod(name, spec, settings),
                labels=labels(name, ROUTER),
                annotations={CHECKSUM_ANNOTATION: fingerprint(config)},
            ),
        }
    }
    return child(DEPLOYMENT, router_name(name), owner=owner, component=ROUTER, content=content)


def _pod(name: str, spec: Spec, settings: Settings) -> Manifest:
    drain = int(spec.drain_timeout.total_seconds())
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": ENDPOINT_REMOVAL_SECONDS + drain + STOP_MARGIN_SECONDS,
        "securityContext": restricted_pod(user=ROUTER_USER, group=ROUTER_USER),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector_labels(name, ROUTER)},
            }
        ],
        "containers": [_container(number, port, settings) for number, port in _HAPROXIES],
        "volumes": [
            {"name": "config", "configMap": {"name": router_name(name)}},
            *({"name": f"run-{number}", "emptyDir": {}} for number, _ in _HAPROXIES),
        ],
    }


def _container(number: int, metrics_port: int, settings: Settings) -> Manifest:
    """One of the pod's HAProxies. All of them listen on the port of the Service, so none can name it as its own."""
    metrics = f"metrics-{number}"
    return {
        "name": f"haproxy-{number}",
        "image": settings.router_image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": ["haproxy", "-W", "-db", "-f", f"{CONFIG_FOLDER}/{CONFIG_FILE}"],
        "env": [{"name": METRICS_PORT_VARIABLE, "value": str(metrics_port)}],
        "ports": [{"name": metrics, "containerPort": metrics_port, "protocol": "TCP"}],
        "resources": {"requests": REQUESTS, "limits": LIMITS},
        "readinessProbe": http_probe(HEALTH_PATH, port=metrics, period=2, timeout=2, failures=2),
        "livenessProbe": fatal(http_probe(HEALTH_PATH, port=metrics, period=10, timeout=5, failures=6)),
        "lifecycle": {"preStop": {"sleep": {"seconds": ENDPOINT_REMOVAL_SECONDS}}},
        "securityContext": RESTRICTED_CONTAINER,
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": f"run-{number}", "mountPath": "/run/haproxy"},
        ],
    }
