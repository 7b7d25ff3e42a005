"""A real node in namespaces of its own: containerd, kubelet and kube-proxy, and the ground they stand on."""

import json
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from e2e.localkube.certificates import Identity
from e2e.localkube.cgroups import cgroup_name
from e2e.localkube.control_plane import LOOPBACK, ControlPlane, filled_in, write_configuration
from e2e.localkube.errors import ClusterError
from e2e.localkube.health import is_listening, is_ready
from e2e.localkube.images import NODE_IMAGES
from e2e.localkube.network import Subnets, joined
from e2e.localkube.supervisor import Component

NAME = "node-0"
_KUBE_PROXY = Identity("kube-proxy", "system:kube-proxy")
_KUBELET_HEALTH_PORT = 10248
_PROXY_HEALTH_PORT = 10256
CNI_PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
"""Where Debian and where everybody else puts them."""

_PRIVATE_FOLDERS = (Path("/run"), Path("/var/lib/cni"), Path("/var/lib/kubelet"))
"""What the node's components write outside the cluster's folder, whatever they are told; here it is memory."""
_LOGS = Path("/var/log")
_KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What a kubelet sets for the whole machine at its start (pkg/kubelet/cm/container_manager_linux.go, v1.36)."""


def identities(every: Sequence[Subnets]) -> tuple[Identity, ...]:
    """Who else speaks to the API server where a node is; the kubelet's certificate also serves."""
    kubelet = Identity(
        "kubelet", f"system:node:{NAME}", "system:nodes", hosts=(NAME, *(str(one.inside) for one in every))
    )
    return kubelet, _KUBE_PROXY


def write_files(plane: ControlPlane, every: Sequence[Subnets]) -> None:
    """Write the configuration files of the node's components."""
    where = plane.layout
    cni = where.configuration / "cni"
    for folder in (where.volumes, where.directory / "pod-logs", cni):
        folder.mkdir(parents=True, exist_ok=True)
    write_runtime_files(plane, every, cni=cni)
    ranges = [[{"subnet": str(one.pods)}] for one in every]
    routes = [{"dst": one.everywhere} for one in every]
    write_configuration(where, "cni.conflist", ranges=json.dumps(ranges), routes=json.dumps(routes))
    (where.configuration / "cni.conflist").rename(cni / "pods.conflist")


def write_runtime_files(
    plane: ControlPlane, every: Sequence[Subnets], *, cni: Path, state: str = "/run/containerd"
) -> None:
    """Write the configuration files of containerd and the kubelet.

    Args:
        plane: the control plane, with the layout of the node.
        every: the address ranges.
        cni: folder with the configuration of the pods' network.
        state: folder of containerd's own state, inside the node.
    """
    where = plane.layout
    for folder in (where.configuration, where.images, where.kubelet, where.registries):
        folder.mkdir(parents=True, exist_ok=True)
    resolv_conf = where.configuration / "resolv.conf"
    resolv_conf.touch()
    write_configuration(
        where,
        "kubelet.yaml",
        containerd_socket=str(where.containerd_socket),
        certificates=str(where.certificates),
        dns=str(every[0].dns),
        resolv_conf=str(resolv_conf),
        kubelet=str(where.kubelet),
        cgroup=cgroup_name(where.directory.name),
    )
    write_configuration(
        where,
        "containerd.toml",
        root=str(where.images),
        registries=str(where.registries),
        socket=str(where.containerd_socket),
        pause=NODE_IMAGES["pause"].reference(plane.binaries),
        cni_plugins=str(next(folder for folder in CNI_PLUGINS if (folder / "ptp").exists())),
        cni=str(cni),
        state=state,
    )


def dns(plane: ControlPlane, every: Sequence[Subnets]) -> str:
    """The manifest of the cluster's DNS."""
    values = {"image": NODE_IMAGES["coredns"].reference(plane.binaries), "address": str(every[0].dns)}
    return filled_in("coredns.yaml", values)


def prepare_namespaces(plane: ControlPlane) -> None:
    """Make this process's own namespaces a node: forwarding on, and no write that reaches the host.

    The kubelet changes settings of the whole machine. It leaves those alone that already have its values, so here
    it is shown files that have them.
    """
    for forwarding in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        (Path("/proc/sys/net") / forwarding).write_text("1")
    for folder in _PRIVATE_FOLDERS:
        folder.mkdir(parents=True, exist_ok=True)
        _mount("-t", "tmpfs", "tmpfs", str(folder))
    _mount("--bind", str(plane.layout.directory / "pod-logs"), str(_LOGS))
    for setting, value in _KERNEL_SETTINGS.items():
        shown = Path("/run/kernel") / setting
        shown.parent.mkdir(parents=True, exist_ok=True)
        shown.write_text(f"{value}\n")
        _mount("--bind", str(shown), f"/proc/sys/{setting}")


def containerd(plane: ControlPlane) -> Component:
    """The container runtime."""
    where = plane.layout
    command = (plane.binary("containerd"), f"--config={where.configuration / 'containerd.toml'}")
    return Component("containerd", command, partial(is_listening, where.containerd_socket), _path(plane))


def kubelet(plane: ControlPlane, every: Sequence[Subnets], name: str = NAME, *options: str) -> Component:
    """The kubelet of a real node."""
    command = (
        plane.binary("kubelet"),
        f"--config={plane.layout.configuration}/kubelet.yaml",
        f"--kubeconfig={plane.layout.configuration}/kubelet.kubeconfig",
        f"--root-dir={plane.layout.kubelet}",
        f"--hostname-override={name}",
        f"--node-ip={joined(one.inside for one in every)}",
        *options,
    )
    return _component("kubelet", command, plane, _KUBELET_HEALTH_PORT)


def kube_proxy(plane: ControlPlane, every: Sequence[Subnets]) -> Component:
    """Services, as nftables of this network namespace."""
    command = (
        plane.binary("kube-proxy"),
        f"--kubeconfig={plane.kubeconfig(_KUBE_PROXY)}",
        "--proxy-mode=nftables",
        f"--hostname-override={NAME}",
        f"--cluster-cidr={joined(one.pods for one in every)}",
        "--conntrack-max-per-core=0",  # the machine's limit is not ours to change
    )
    return _component("kube-proxy", command, plane, _PROXY_HEALTH_PORT)


def _component(name: str, command: tuple[str, ...], plane: ControlPlane, health_port: int) -> Component:
    healthy = partial(is_ready, f"http://{LOOPBACK}:{health_port}/healthz", plane.certificate("ca.crt"))
    return Component(name, command, healthy, _path(plane))


def _path(plane: ControlPlane) -> dict[str, str]:
    """The runtime finds its shim beside itself, and runc, mount and nft where the system has them."""
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": f"{plane.binaries}{os.pathsep}{system}"}


def _mount(*arguments: str) -> None:
    answer = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ClusterError(f"mount {' '.join(arguments)}: {answer.stderr.strip()}")
