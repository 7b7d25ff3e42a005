"""`infd` beside a real API server. Each is a fork; `e2e/helpers/infd_command.py` starts the command as a user does."""

import os
import sys
import tempfile
from pathlib import Path

from e2e.localkube.handle import LocalCluster
from tests.testing.forks import Fork

COMMAND = str(Path(sys.executable).with_name("infd"))
SECONDS = 120
"""Limit of a command, on a busy machine."""


class RunningInfd:
    """One that runs, with the kubeconfig of a cluster."""

    def __init__(self, cluster: LocalCluster, *arguments: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._output, self._complaints = (Path(self._folder.name) / name for name in ("output", "complaints"))
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
        self._process = Fork((COMMAND, *arguments), environment, self._output, self._complaints)

    def ended(self, seconds: float = SECONDS) -> tuple[int, str, str]:
        """Its exit status, output and complaints, once it has ended."""
        with self._folder:
            try:
                status = self._process.wait(seconds)
            finally:
                self._process.kill()
            output, complaints = self._output.read_text(), self._complaints.read_text()
        assert "Traceback" not in complaints, complaints
        return status, output, complaints


def infd(cluster: LocalCluster, *arguments: str) -> tuple[int, str, str]:
    """Its exit status, output and complaints, with the kubeconfig of a cluster."""
    return RunningInfd(cluster, *arguments).ended()
