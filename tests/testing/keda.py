"""KEDA: its CustomResourceDefinitions, and its operator and metrics adapter as processes of this machine."""

import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.go_modules import KEDA_ADAPTER, KEDA_OPERATOR, ensure_keda, keda_definitions
from e2e.helpers.free_ports import free_port
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.definitions import await_established
from tests.testing.metrics_api import certificates, own_address, registered
from tests.testing.operator_process import answers

READY_SECONDS = 180
NAMESPACE = "keda"


def scaled_object_crd() -> Path:
    """The file of the ScaledObject's CRD."""
    return next(one for one in keda_definitions() if one.name == "keda.sh_scaledobjects.yaml")


@contextmanager
def keda(cluster: LocalCluster, folder: Path) -> Iterator[None]:
    """Run KEDA until the block ends. Without pods for it, the block issues its certificates."""
    commands, files = ensure_keda(), certificates(folder / "certificates")
    for definition in keda_definitions():
        cluster.kubectl("apply", "--server-side", f"--filename={definition}")
    await_established(cluster, "scaledobjects.keda.sh")
    cluster.kubectl("create", "namespace", NAMESPACE)
    metrics, health, secure = (free_port() for _ in range(3))
    environment = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "POD_NAMESPACE": NAMESPACE,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "WATCH_NAMESPACE": "",
    }
    operator = [
        str(commands / KEDA_OPERATOR),
        f"--cert-dir={files}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        f"--metrics-service-bind-address=127.0.0.1:{metrics}",
    ]
    adapter = [
        str(commands / KEDA_ADAPTER),
        f"--bind-address={own_address()}",
        f"--secure-port={secure}",
        f"--port={free_port()}",
        f"--metrics-service-address=127.0.0.1:{metrics}",
        f"--cert-dir={files}",
        f"--tls-cert-file={files / 'tls.crt'}",
        f"--tls-private-key-file={files / 'tls.key'}",
        *(f"--{what}-kubeconfig={cluster.kubeconfig}" for what in ("authentication", "authorization", "lister")),
    ]
    with _running(operator, environment, folder / "keda-operator.log") as log:
        eventually(lambda: answers(f"http://127.0.0.1:{health}/readyz"), seconds=READY_SECONDS, what=log)
        with (
            _running(adapter, environment, folder / "keda-adapter.log"),
            registered(cluster, secure, files / "ca.crt"),
        ):
            yield


@contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str], log: Path) -> Iterator[Callable[[], str]]:
    """Run a command until the block ends; yields what reads the end of its log."""
    with (
        log.open("w") as output,
        subprocess.Popen(command, env={**os.environ, **environment}, stdout=output, stderr=output) as process,
    ):
        try:
            yield lambda: f"{log.name}:\n{log.read_text()[-3000:]}"
        finally:
            process.kill()
