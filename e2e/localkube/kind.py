"""A cluster of kind: the node is a container of Docker or Podman, which needs no root on a machine that has either."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from e2e.localkube.binaries import Level, ensure_kind
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster
from e2e.localkube.progress import step
from e2e.localkube.state import Record, exclusive, layout, read_record, write_record

PROVIDER = "kind"
NODE_IMAGE = "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5"
"""The node image that kind pulls if none is named (kind v0.33.0, pkg/apis/config/defaults/image.go)."""
RUNTIMES = ("docker", "podman")
"""Container runtimes that kind can use, in the order in which they are tried."""
ANSWER_SECONDS = 20
"""Limit for a runtime's answer: `docker info` waits if its daemon does not run."""
READY_WAIT = "300s"
"""How long `kind create cluster` waits until the control plane is ready."""
_IN_NODE = ("ctr", "--namespace=k8s.io")

Configuration = dict[str, object]


@dataclass(frozen=True, slots=True)
class KindCluster(Cluster):
    """A cluster whose node is a container."""

    runtime: str

    def load_image(self, archive: BinaryIO) -> list[str]:
        """Stream an archive (OCI or Docker) into the node, as `kind load image-archive` does from a file."""
        before = self.images()
        _in_node(self, "images", "import", "--digests", "--snapshotter=overlayfs", "-", stdin=archive)
        return [name for name, digest in self.images().items() if before.get(name) != digest]

    def images(self) -> dict[str, str]:
        """The images that the node has: name and digest."""
        listing = (line.split() for line in _in_node(self, "images", "list").splitlines()[1:])
        return {name: digest for name, _, digest, *_ in listing if not name.startswith("sha256:")}


def up(name: str, *, node_image: str = "") -> KindCluster:
    """Create the cluster, or find it running.

    Args:
        name: of the cluster; kind knows it as `io-NAME`.
        node_image: one that is not kind's own must have its network and kube-proxy in itself; empty: `NODE_IMAGE`.

    Raises:
        ClusterError: neither Docker nor Podman answers, or kind's own message.
    """
    runtime = found_runtime()
    with exclusive(name):
        found = read_record(name)
        if found is not None and found.provider != PROVIDER:
            raise ClusterError(f"{name} is bound to provider {found.provider}: choose another --name")
        where = layout(name)
        if not is_running(name):
            where.directory.mkdir(parents=True, exist_ok=True)
            chosen = ["--image", node_image or NODE_IMAGE, "--kubeconfig", str(where.kubeconfig), "--wait", READY_WAIT]
            with step(f"kind create cluster, a container of {runtime}"):
                given = json.dumps(configuration(own_network=bool(node_image)))
                _kind("create", "cluster", "--name", _kind_name(name), *chosen, "--config", "-", given=given)
        server = _server(name)
        write_record(Record(name, PROVIDER, server=server, level=Level.NODE, context=f"kind-{_kind_name(name)}"))
    return KindCluster(name, server, where.kubeconfig, runtime)


@contextmanager
def routed(cluster: KindCluster) -> Iterator[None]:
    """Let this machine reach the cluster's pods and Services until the block ends: routes through the node. Needs root.

    Raises:
        ClusterError: the container runtime, kubectl or `ip` refuses.
    """
    node = f"{_kind_name(cluster.name)}-control-plane"
    form = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}"
    address = _ran(cluster.runtime, "inspect", "--format", form, node).split()[0]
    pods = cluster.kubectl("get", "nodes", "--output=jsonpath={.items[0].spec.podCIDR}")
    services = cluster.kubectl("get", "servicecidr", "kubernetes", "--output=jsonpath={.spec.cidrs[0]}")
    try:
        for network in (pods, services):
            _ran("ip", "route", "replace", network, "via", address)
        yield
    finally:
        for network in (pods, services):
            subprocess.run(["ip", "route", "del", network, "via", address], capture_output=True, check=False)


def down(name: str) -> None:
    """Delete the cluster and forget it."""
    with exclusive(name):
        _kind("delete", "cluster", "--name", _kind_name(name))
        where = layout(name)
        for path in (where.kubeconfig, where.record):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # a local cluster of this name may have left its image store there
            where.directory.rmdir()


def handle(record: Record) -> KindCluster:
    """What a user holds of a recorded cluster."""
    return KindCluster(record.name, record.server, layout(record.name).kubeconfig, found_runtime())


def is_running(name: str) -> bool:
    """Whether kind has this cluster."""
    return _kind_name(name) in _kind("get", "clusters", "--quiet").split()


def found_runtime() -> str:
    """The first container runtime that answers."""
    for runtime in RUNTIMES:
        with suppress(FileNotFoundError, subprocess.TimeoutExpired):
            answer = subprocess.run([runtime, "info"], capture_output=True, check=False, timeout=ANSWER_SECONDS)
            if answer.returncode == 0:
                return runtime
    raise ClusterError("kind runs nodes as containers, and neither Docker nor Podman answers: start or install one")


def has_image(runtime: str, image: str) -> bool:
    """Whether a container runtime has an image, or can pull it."""
    asked = ([runtime, "image", "inspect", image], [runtime, "pull", "--quiet", image])
    return any(subprocess.run(command, capture_output=True, check=False).returncode == 0 for command in asked)


def by_digest(image: str) -> str:
    """The form of an image of Docker Hub that Docker and Podman both pull: Podman takes no tag beside a digest.

    Examples:
        >>> by_digest("kindest/node:v1.37.0@sha256:01")
        'docker.io/kindest/node@sha256:01'
    """
    name, _, digest = image.partition("@")
    return f"docker.io/{name.partition(':')[0]}@{digest}"


def configuration(*, own_network: bool) -> Configuration:
    """The configuration of kind for one node.

    Args:
        own_network: whether the node image brings its network plugin and kube-proxy.

    Examples:
        >>> configuration(own_network=False)["networking"]
        {}
    """
    # Kubernetes 1.35 and later refuse cgroup v1 unless told otherwise; on cgroup v2 this changes nothing.
    kubelet = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "failCgroupV1": False}
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [{"role": "control-plane"}],
        "networking": {"disableDefaultCNI": True, "kubeProxyMode": "none"} if own_network else {},
        "kubeadmConfigPatches": [json.dumps(kubelet)],
    }


def _kind_name(name: str) -> str:
    return f"io-{name}"


def _server(name: str) -> str:
    content = json.loads(
        Cluster(name, "", layout(name).kubeconfig).kubectl("config", "view", "--minify", "--output=json")
    )
    server: str = content["clusters"][0]["cluster"]["server"]
    return server


def _kind(*arguments: str, given: str = "") -> str:
    environment = os.environ | {"KIND_EXPERIMENTAL_PROVIDER": found_runtime()}
    answer = subprocess.run(
        [ensure_kind(), *arguments], input=given, capture_output=True, text=True, check=False, env=environment
    )
    if answer.returncode != 0:
        raise ClusterError(f"kind {' '.join(arguments)}: {answer.stderr.strip()}")
    return answer.stdout


def _in_node(cluster: KindCluster, *arguments: str, stdin: BinaryIO | None = None) -> str:
    node = f"{_kind_name(cluster.name)}-control-plane"
    command: Sequence[str] = (cluster.runtime, "exec", "--interactive", node, *_IN_NODE, *arguments)
    return _ran(*command, stdin=stdin)


def _ran(*command: str, stdin: BinaryIO | None = None) -> str:
    answer = subprocess.run(command, stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ClusterError(f"{' '.join(command)}: {answer.stderr.strip()}")
    return answer.stdout
