"""A second real node for a while: a containerd and a kubelet of its own, in the namespaces of the first node.

- Both nodes have one network and one address. So pods of both reach each other, and one kube-proxy serves all.
- The second kubelet has other ports and another cgroup, and the administrator's rights.
"""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from e2e.localkube import cgroups, images, node
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.health import is_listening
from e2e.localkube.processes import first_inside, last_lines, marked_environment
from e2e.localkube.serve import plane
from e2e.localkube.state import Layout, layout, read_record
from e2e.localkube.supervisor import Component
from e2e.localkube.waiting import eventually

NAME = "node-1"
_PORTS = ("--port=10260", "--healthz-port=10258")
"""Not those of the first kubelet (10250 and 10248)."""
_STATE = "/run/containerd-1"
_READY_SECONDS = 120
_DELETED = 120


@dataclass(frozen=True, slots=True)
class SecondNode:
    """The second node of a cluster, as a store of images."""

    layout: Layout
    binaries: Path

    @property
    def name(self) -> str:
        """A name that no cluster has."""
        return self.layout.directory.name

    def load_image(self, archive: BinaryIO) -> list[str]:
        """Stream an archive (OCI or Docker) from an open file into the node; returns its images' names."""
        return images.import_archive(self.layout, self.binaries, archive)

    def images(self) -> dict[str, str]:
        """The images that the node has: name and digest."""
        return images.images(self.layout, self.binaries)


@contextmanager
def second_node(cluster: LocalCluster) -> Iterator[SecondNode]:
    """Add the node to a running cluster until the block ends; its images stay on the disk as long as the cluster."""
    record = read_record(cluster.name)
    inside = first_inside(layout(cluster.name).directory)
    if record is None or inside is None:
        raise ClusterError(f"there is no cluster {cluster.name} with a node")
    first = plane(record)
    second = replace(first, layout=Layout(first.layout.directory / f"{cluster.name}-1"))
    where = second.layout
    where.directory.mkdir(exist_ok=True)
    if not where.certificates.exists():
        where.certificates.symlink_to(first.layout.certificates)
    node.write_runtime_files(second, record.subnets, cni=first.layout.configuration / "cni", state=_STATE)
    (where.configuration / "kubelet.kubeconfig").write_text(cluster.kubeconfig.read_text())
    cgroups.create(where.directory.name)
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(node.containerd(second), inside, first.layout, where))
        eventually(
            lambda: is_listening(where.containerd_socket), seconds=_READY_SECONDS, what=_says("containerd", where)
        )
        images.import_node_images(where, first.binaries)
        started.append(_start(node.kubelet(second, record.subnets, NAME, *_PORTS), inside, first.layout, where))
        cluster.kubectl("wait", "--for=create", f"node/{NAME}", f"--timeout={_READY_SECONDS}s")
        cluster.kubectl("wait", "--for=condition=Ready", f"node/{NAME}", f"--timeout={_READY_SECONDS}s")
        yield SecondNode(where, first.binaries)
    finally:
        _remove(cluster, started, where)


def _start(component: Component, inside: int, cluster: Layout, where: Layout) -> "subprocess.Popen[bytes]":
    """Start a component in the namespaces of the first node, as a process of its cluster."""
    log = where.log(component.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    enter = ("nsenter", f"--target={inside}", "--net", "--mount", "--pid", "--")
    environment = marked_environment(cluster.directory, component.environment or {})
    with log.open("wb") as output:
        return subprocess.Popen([*enter, *component.command], env=environment, stdout=output, stderr=output)


def _says(component: str, where: Layout) -> str:
    return f"{component} of the second node works; its log:\n{last_lines(where.log(component))}"


def _remove(cluster: LocalCluster, started: "list[subprocess.Popen[bytes]]", where: Layout) -> None:
    """Delete its pods and the node, then end its processes."""
    pods = ("--all-namespaces", f"--field-selector=spec.nodeName={NAME}")
    cluster.kubectl("cordon", NAME)
    cluster.kubectl("delete", "pods", *pods, "--wait=true", f"--timeout={_DELETED}s")
    for process in reversed(started):
        process.send_signal(signal.SIGCONT)  # nsenter stops itself with its child, which a fault may have stopped
        process.terminate()
        process.wait()
    cluster.kubectl("delete", "node", NAME, "--ignore-not-found")
    cgroups.remove(where.directory.name)
