"""What a user of a running cluster holds."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.binaries import Level, ensure_command
from e2e.cluster.errors import ClusterError


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that answers, whoever provides it."""

    name: str
    server: str
    kubeconfig: Path

    def binary(self, name: str) -> Path:
        """A command that fits this cluster, such as kubectl or helm; built on first use."""
        return ensure_command(name)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 (subprocess's own name)
        """What kubectl prints for these arguments; its complaint becomes the error."""
        answer = subprocess.run(
            [self.binary("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=input,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout


@dataclass(frozen=True, slots=True)
class LocalCluster(Cluster):
    """A cluster of this machine, whose files can be looked into."""

    level: Level
    audit_log: Path
    volumes: Path
