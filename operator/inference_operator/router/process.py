"""A HAProxy process of a router pod: what its configuration and its pod agree on."""

from functools import cache
from importlib.resources import files

from inference_operator.router.resources import PROCESSES

PORT = 8080
"""Port on which every HAProxy of a router pod accepts requests."""

TLS_PORT = 8443
"""Port on which they accept TLS, if `router.tls` is set."""

PREFILL_PORT = 8081
"""Port on which they accept prompts from engines, for those that compute prompts only (`spec.disaggregation`)."""

METRICS_PORTS = tuple(range(9100, 9100 + PROCESSES))
"""One port for each HAProxy process of a router pod, for its metrics and probes. There are two processes: if one dies,
the other still accepts connections. With one, connections would be refused for the second that kube-proxy needs."""

HEALTH_PATH = "/-/healthz"

POD_IPS_VARIABLE = "POD_IPS"
"""Environment variable with all addresses of the pod. HAProxy listens on IPv6 too if one of them is an IPv6 address.
Without this condition it could not start on a node whose kernel has no IPv6."""

METRICS_PORT_VARIABLE = "METRICS_PORT"
"""Environment variable with the metrics port of a process; all processes share one configuration."""

CONFIG_FOLDER = "/etc/haproxy"
CONFIG_FILE = "haproxy.cfg"


def expanded(variable: str) -> str:
    """An environment variable of the process, as HAProxy expands it in its configuration."""
    return f"${{{variable}}}"


@cache
def script(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
