"""What a user of a running cluster holds."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from e2e.localkube.binaries import Level, ensure_command
from e2e.localkube.errors import ClusterError
from e2e.localkube.images import images, import_archive
from e2e.localkube.state import layout


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
        return self._printed("kubectl", arguments, input)

    def helm(self, *arguments: str) -> str:
        """What Helm prints for these arguments; its complaint becomes the error."""
        return self._printed("helm", arguments)

    def _printed(self, name: str, arguments: Sequence[str], given: str | None = None) -> str:
        answer = subprocess.run(
            [self.binary(name), f"--kubeconfig={self.kubeconfig}", *arguments],
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise ClusterError(f"{name} {' '.join(arguments)}: {answer.stderr.strip()}")
        return answer.stdout


@dataclass(frozen=True, slots=True)
class LocalCluster(Cluster):
    """A cluster of this machine, whose files can be looked into."""

    level: Level
    audit_log: Path
    volumes: Path
    """A folder that has the same path inside the node: `local` volumes may point below it."""

    def load_image(self, archive: BinaryIO) -> list[str]:
        """Stream an archive (OCI or Docker) from an open file into the node; returns its images' names."""
        return import_archive(layout(self.name), self.binary("ctr").parent, archive)

    def images(self) -> dict[str, str]:
        """The images that the node has: name and digest."""
        return images(layout(self.name), self.binary("ctr").parent)
