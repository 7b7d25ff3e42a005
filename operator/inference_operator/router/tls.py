"""TLS that the router terminates itself: the values of tls.cfg.j2."""

from collections.abc import Mapping

from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import POD_IPS_VARIABLE, TLS_PORT, expanded

TLS_FOLDER = "/etc/haproxy-tls"
"""Where the Secret of `router.tls` is mounted. HAProxy finds the key of a certificate at its path with `.key` added
(HAProxy 3.0, `ssl-load-extra-files`)."""

TLS_CERTIFICATE_FILE, TLS_KEY_FILE = "tls.crt", "tls.crt.key"

TLS_CHECK_SECONDS = 10.0
"""How often a process looks whether the certificate has been renewed. The kubelet replaces the files of a Secret within
two minutes (Kubernetes, "Secrets", "Mounted Secrets are updated automatically")."""


def values(inputs: RouterInputs) -> Mapping[str, object] | None:
    if inputs.spec.tls is None:
        return None
    return {
        "port": TLS_PORT,
        "pod_ips": expanded(POD_IPS_VARIABLE),
        "certificate": f"{TLS_FOLDER}/{TLS_CERTIFICATE_FILE}",
        "key": f"{TLS_FOLDER}/{TLS_KEY_FILE}",
        "check_ms": round(1000 * TLS_CHECK_SECONDS),
    }
