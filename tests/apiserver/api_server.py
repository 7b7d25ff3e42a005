"""A second API server with the store of the cluster; tests start and stop it, in a chosen version."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Self

import yaml

from e2e.helpers.free_ports import free_port
from e2e.localkube.control_plane import api_server
from e2e.localkube.handle import LocalCluster
from e2e.localkube.processes import last_lines, marked_environment
from e2e.localkube.serve import plane
from e2e.localkube.state import read_record
from e2e.localkube.waiting import eventually

READY_SECONDS = 120


class ApiServer:
    """One more API server of a control plane, as those that run several have.

    Args:
        cluster: whose store it serves.
        account: a kubeconfig of the one who asks.
        folder: where its files go.
    """

    def __init__(self, cluster: LocalCluster, account: Path, folder: Path) -> None:
        record = read_record(cluster.name)
        assert record is not None
        own = plane(record)
        self._plane = replace(own, ports=replace(own.ports, api_server=free_port()))
        self._log = folder / "kube-apiserver.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.kubeconfig = folder / "kubeconfig-of-this-server"
        config = yaml.safe_load(account.read_text())
        config["clusters"][0]["cluster"]["server"] = self._plane.server
        self.kubeconfig.write_text(yaml.safe_dump(config))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, binary: Path | None = None) -> None:
        """Start it, and wait until it is ready.

        Args:
            binary: another version than the cluster's.
        """
        component = api_server(self._plane)
        own, *flags = component.command
        command = ["setpriv", "--pdeathsig", "KILL", "--", str(binary or own), *flags]
        environment = marked_environment(self._plane.layout.directory, os.environ)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        eventually(component.is_ready, seconds=READY_SECONDS, what=lambda: f"it is ready:\n{last_lines(self._log)}")

    def end(self) -> None:
        """End it in the middle of whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
