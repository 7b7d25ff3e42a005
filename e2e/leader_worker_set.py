"""LeaderWorkerSet's controller with its webhooks as a process of this machine, for the benchmark of groups."""

import base64
import os
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster.binaries import ensure_lws
from e2e.cluster.certificates import Authority, Identity
from e2e.cluster.handle import LocalCluster
from e2e.sizes import free_port
from e2e.waiting import eventually

NAMESPACE = "lws-system"
_READY_SECONDS = 120
_HOST = "127.0.0.1"


@contextmanager
def controller(cluster: LocalCluster) -> Iterator[None]:
    """Run the controller during the block, and delete its webhooks and CRDs at the end."""
    command, source = ensure_lws()
    definitions = sorted((source / "crd" / "bases").glob("*.yaml"))
    for definition in definitions:
        cluster.kubectl("apply", "--server-side", f"--filename={definition}")
    cluster.kubectl("create", "namespace", NAMESPACE)
    webhooks = ""
    with tempfile.TemporaryDirectory() as place:
        folder, webhook, health = Path(place), free_port(), free_port()
        Authority(folder).issue(Identity("tls", "lws", hosts=("localhost", _HOST)))
        configuration = folder / "configuration.yaml"
        configuration.write_text(yaml.safe_dump(_configuration(folder, webhook, health)))
        log = folder / "controller.log"
        with (
            log.open("w") as output,
            subprocess.Popen(
                [command, f"--config={configuration}"],
                env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
                stdout=output,
                stderr=output,
            ) as process,
        ):
            try:
                eventually(
                    lambda: _answers(f"http://{_HOST}:{health}/readyz"),
                    seconds=_READY_SECONDS,
                    what=lambda: log.read_text()[-3000:],
                )
                webhooks = _webhooks(source / "webhook" / "manifests.yaml", folder / "ca.crt", webhook)
                cluster.kubectl("apply", "--filename=-", input=webhooks)
                yield
            finally:
                if webhooks:
                    cluster.kubectl("delete", "--filename=-", input=webhooks)
                process.terminate()
    for definition in definitions:
        cluster.kubectl("delete", f"--filename={definition}")
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def _configuration(folder: Path, webhook: int, health: int) -> dict[str, Any]:
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": webhook, "host": _HOST, "certDir": str(folder)},
        "health": {"healthProbeBindAddress": f"{_HOST}:{health}"},
        "metrics": {"bindAddress": "0"},
    }


def _webhooks(manifests: Path, authority: Path, port: int) -> str:
    """Its webhooks, at a port of this machine instead of a Service."""
    found = list(yaml.safe_load_all(manifests.read_text()))
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for configuration in found:
        configuration["metadata"]["name"] = f"lws-{configuration['metadata']['name']}"
        for webhook in configuration["webhooks"]:
            path = webhook["clientConfig"].pop("service")["path"]
            webhook["clientConfig"] = {"url": f"https://{_HOST}:{port}{path}", "caBundle": bundle}
            # The project's own installation has it for pods: only those of groups are asked about.
            if "pod" in webhook["name"]:
                key = "leaderworkerset.sigs.k8s.io/name"
                webhook["objectSelector"] = {"matchExpressions": [{"key": key, "operator": "Exists"}]}
    return yaml.safe_dump_all(found)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - of this machine
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP
    except OSError:
        return False
