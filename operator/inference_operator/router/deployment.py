"""The Deployment of the routers: two HAProxy processes in each pod."""

from inference_operator.manifest import DEPLOYMENT, Manifest
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.names import ROUTER, labels, router_name, selector_labels
from inference_operator.objects.pod import (
    RESTRICTED_CONTAINER,
    STOP_MARGIN_SECONDS,
    fatal,
    http_probe,
    pod_template,
    restricted_pod,
)
from inference_operator.router.config_map import CONFIG_FILE
from inference_operator.router.haproxy import (
    HEALTH_PATH,
    METRICS_PORT_VARIABLE,
    METRICS_PORTS,
    POD_IPS_VARIABLE,
    RouterRequest,
)
from inference_operator.router.resources import process_resources

ROUTER_USER = 99
"""The user of HAProxy's official image (docker-library/haproxy)."""

CONFIG_FOLDER = "/etc/haproxy"
CHECKSUM_ANNOTATION = "inference-operator.dev/config"
"""Hash of the configuration in the pod template: a new configuration causes a rolling update, which drains routers."""

ENDPOINT_REMOVAL_SECONDS = 10
"""How long a stopping router still accepts connections: until every kube-proxy has removed it, with a margin."""

_HAPROXIES = tuple(enumerate(METRICS_PORTS, start=1))


def router_deployment(request: RouterRequest, config: str) -> Manifest:
    """The Deployment of the routers.

    Args:
        request: what the router's objects are built from.
        config: the text of haproxy.cfg.
    """
    content = {
        "spec": {
            "replicas": request.spec.replicas,
            "revisionHistoryLimit": 2,
            "progressDeadlineSeconds": request.progress_deadline_seconds,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "selector": {"matchLabels": selector_labels(request.name, ROUTER)},
            "template": pod_template(
                _pod(request),
                labels=labels(request.name, ROUTER),
                annotations={CHECKSUM_ANNOTATION: content_hash(config)},
            ),
        }
    }
    return child(DEPLOYMENT, router_name(request.name), owner=request.owner, component=ROUTER, content=content)


def _pod(request: RouterRequest) -> Manifest:
    stop_seconds = ENDPOINT_REMOVAL_SECONDS + request.drain_seconds + STOP_MARGIN_SECONDS
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": stop_seconds,
        "securityContext": restricted_pod(user=ROUTER_USER, group=ROUTER_USER),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector_labels(request.name, ROUTER)},
            }
        ],
        "containers": [_container(number, port, request) for number, port in _HAPROXIES],
        "volumes": [
            {"name": "config", "configMap": {"name": router_name(request.name)}},
            *({"name": f"run-{number}", "emptyDir": {}} for number, _ in _HAPROXIES),
        ],
    }


def _container(number: int, metrics_port: int, request: RouterRequest) -> Manifest:
    """One HAProxy of the pod. All of them listen on the port of the Service, so no container declares that port."""
    metrics = f"metrics-{number}"
    return {
        "name": f"haproxy-{number}",
        "image": request.settings.router_image,
        "imagePullPolicy": request.settings.image_pull_policy,
        "command": ["haproxy", "-W", "-db", "-f", f"{CONFIG_FOLDER}/{CONFIG_FILE}"],
        "env": [
            {"name": METRICS_PORT_VARIABLE, "value": str(metrics_port)},
            {
                "name": POD_IPS_VARIABLE,
                "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIPs"}},
            },
        ],
        "ports": [{"name": metrics, "containerPort": metrics_port, "protocol": "TCP"}],
        "resources": process_resources(request.spec.resources),
        "readinessProbe": http_probe(HEALTH_PATH, port=metrics, period=2, timeout=2, failures=2),
        "livenessProbe": fatal(http_probe(HEALTH_PATH, port=metrics, period=10, timeout=5, failures=6)),
        "lifecycle": {"preStop": {"sleep": {"seconds": ENDPOINT_REMOVAL_SECONDS}}},
        "securityContext": RESTRICTED_CONTAINER,
        "volumeMounts": [
            {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
            {"name": f"run-{number}", "mountPath": "/run/haproxy"},
        ],
    }
