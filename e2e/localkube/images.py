"""The node's image store: what the cluster itself needs in it, and what its user loads."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from e2e.localkube.errors import ClusterError
from e2e.localkube.oci import write_oci_archive
from e2e.localkube.state import Layout

_NAMESPACE = "k8s.io"
"""The containerd namespace that the kubelet's images live in."""


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image that consists of one static command."""

    command: str

    def reference(self, binaries: Path) -> str:
        """Its name; the tag is the build's key, so that another build is another image."""
        return f"localhost/inference-operator/{self.command}:{binaries.name}"


NODE_IMAGES = {command: NodeImage(command) for command in ("pause", "coredns")}


def import_node_images(layout: Layout, binaries: Path) -> None:
    """Put the pods' sandbox and the cluster's DNS into the store, unless they are there."""
    present = images(layout, binaries)
    for image in NODE_IMAGES.values():
        reference = image.reference(binaries)
        if reference in present:
            continue
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as archive:
            shutil.copy(binaries / image.command, folder)
            write_oci_archive(archive, name=reference, root=Path(folder), command=[f"/{image.command}"])
            archive.seek(0)
            import_archive(layout, binaries, archive)


def import_archive(layout: Layout, binaries: Path, archive: BinaryIO) -> list[str]:
    """Stream an OCI or Docker archive into the store and return the names of its images.

    Layers are kept unpacked only, which halves the disk and the time that an engine's image takes.
    """
    report = _ctr(layout, binaries, "images", "import", "--local", "--discard-unpacked-layers", "-", stdin=archive)
    digests = set(re.findall(r"sha256:[0-9a-f]{64}", report))
    return [name for name, digest in images(layout, binaries).items() if digest in digests]


def images(layout: Layout, binaries: Path) -> dict[str, str]:
    """Every image in the store that has a name, and its digest."""
    listing = (line.split() for line in _ctr(layout, binaries, "images", "list").splitlines()[1:])
    # The container runtime adds an entry under each bare digest.
    return {name: digest for name, _, digest, *_ in listing if not name.startswith("sha256:")}


def _ctr(layout: Layout, binaries: Path, *arguments: str, stdin: BinaryIO | None = None) -> str:
    command = [str(binaries / "ctr"), f"--address={layout.containerd_socket}", f"--namespace={_NAMESPACE}", *arguments]
    answer = subprocess.run(command, stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ClusterError(f"ctr {' '.join(arguments)}: {answer.stderr.strip()}")
    return answer.stdout.strip()
