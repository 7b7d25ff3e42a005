"""A controller of another project with its webhooks, as a process of this machine."""

import base64
import os
import subprocess
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.helpers.free_ports import free_port
from e2e.localkube.certificates import Authority, Identity
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

HOST = "127.0.0.1"
_READY_SECONDS, _GONE_SECONDS = 120, 60


@dataclass(frozen=True, slots=True)
class WebhookController:
    """What runs, and what its cluster gets for it."""

    name: str
    """Also that of its namespace, with `-system`."""
    command: Sequence[str]
    """What starts it, before its arguments. The variable `CERTIFICATES` is the folder with its certificate."""
    configuration: dict[str, Any]
    """Its configuration file, but for ports, certificates and leader election."""
    definitions: Sequence[Path]
    """The files with its CRDs."""
    webhooks: Path
    """The file with its webhooks, for a Service in its cluster."""
    limited: Callable[[dict[str, Any]], dict[str, Any]]
    """The fields of a webhook that its own installation adds: which objects it is asked about."""

    @contextmanager
    def running(self, cluster: LocalCluster, host: str = HOST) -> Iterator[None]:
        """Run it during the block, and delete its webhooks and CRDs at the end. Its objects must be gone by then.

        Args:
            cluster: the cluster that it works in.
            host: an address of this machine that the API server reaches.
        """
        cluster.kubectl("create", "namespace", f"{self.name}-system")
        try:
            for definition in self.definitions:
                cluster.kubectl("apply", "--server-side", f"--filename={definition}")
                cluster.kubectl("wait", "--for=condition=Established", f"--filename={definition}")
            with tempfile.TemporaryDirectory() as place, self._process(cluster, Path(place), host) as webhooks:
                try:
                    cluster.kubectl("apply", "--filename=-", input=webhooks)
                    yield
                finally:
                    cluster.kubectl("delete", "--ignore-not-found", "--filename=-", input=webhooks)
        finally:
            for definition in self.definitions:
                cluster.kubectl(
                    "delete", "--ignore-not-found", f"--timeout={_GONE_SECONDS}s", f"--filename={definition}"
                )
            cluster.kubectl("delete", "namespace", f"{self.name}-system", "--wait=false")

    @contextmanager
    def _process(self, cluster: LocalCluster, folder: Path, host: str) -> Iterator[str]:
        """Run the process, from when it is ready; yields its webhooks, as YAML."""
        port, health = free_port(), free_port()
        Authority(folder).issue(Identity("tls", self.name, hosts=("localhost", host)))
        configuration, log = folder / "configuration.yaml", folder / "controller.log"
        configuration.write_text(yaml.safe_dump({**self.configuration, **_own(folder, host, port, health)}))
        with (
            log.open("w") as output,
            subprocess.Popen(
                [*self.command, f"--config={configuration}"],
                env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "CERTIFICATES": str(folder)},
                stdout=output,
                stderr=output,
            ) as process,
        ):
            try:
                eventually(
                    lambda: process.poll() is not None or _answers(f"http://{HOST}:{health}/readyz"),
                    seconds=_READY_SECONDS,
                    what=lambda: log.read_text()[-3000:],
                )
                if process.poll() is not None:
                    raise ClusterError(f"{self.name} has ended:\n{log.read_text()[-3000:]}")
                yield self._webhooks(folder / "ca.crt", f"https://{host}:{port}")
            finally:
                process.terminate()

    def _webhooks(self, authority: Path, url: str) -> str:
        """Its webhooks, at a URL of this machine instead of a Service."""
        found = list(yaml.safe_load_all(self.webhooks.read_text()))
        bundle = base64.b64encode(authority.read_bytes()).decode()
        for configuration in found:
            configuration["metadata"]["name"] = f"{self.name}-{configuration['metadata']['name']}"
            for webhook in configuration["webhooks"]:
                path = webhook["clientConfig"].pop("service")["path"]
                webhook["clientConfig"] = {"url": f"{url}{path}", "caBundle": bundle}
                webhook.update(self.limited(webhook))
        return yaml.safe_dump_all(found)


def _own(folder: Path, host: str, webhook: int, health: int) -> dict[str, Any]:
    return {
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "webhook": {"port": webhook, "host": host, "certDir": str(folder)},
        "health": {"healthProbeBindAddress": f"{HOST}:{health}"},
        "metrics": {"bindAddress": "0"},
    }


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - of this machine
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP
    except OSError:
        return False
