"""The variables by which the processes of a group use a network interface, and by which their log tells what they use.

Torch's backends are the same in every engine: NCCL between GPUs, and gloo between processes. UCX moves KV caches, where
an engine sends them to others (vLLM's NIXL connector). NCCL's devices (`NCCL_IB_HCA`) take names of RDMA devices, which
the name of an interface does not tell. Without them NCCL uses all devices that the pod has.
"""

import re
from collections.abc import Mapping

NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"
"""Interfaces of NCCL's sockets, by prefix; `=` before a name makes it exact (NVIDIA, NCCL user guide, "Environment
Variables")."""
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"
"""The interface of gloo, by name (PyTorch documentation, "Distributed communication package")."""
INTERFACE_VARIABLES = (NCCL_INTERFACE, GLOO_INTERFACE)

UCX_DEVICES = "UCX_NET_DEVICES"
"""All devices of UCX, by name: RDMA devices, such as `mlx5_0:1`, and for TCP interfaces (OpenUCX, FAQ, "Which network
devices does UCX use?"). With an interface alone, UCX uses no RDMA device."""

NCCL_LOG = "NCCL_DEBUG"
NCCL_INFO = "INFO"
"""NCCL tells the network that it uses at this level (NVIDIA, NCCL user guide, "Logging")."""

SOCKETS = "Socket"
"""NCCL's name for TCP sockets, which it uses where it finds no better network."""
_IN_USE = re.compile(
    r"NCCL INFO (?:Using network (?P<chosen>[A-Za-z][\w .-]{0,31}?)\s*$"
    r"|[^\n]{0,120} via NET/(?P<connected>[A-Za-z][\w .-]{0,31}?)/\d)",
    re.MULTILINE,
)
"""Lines of NCCL 2.30: the network of a communicator (src/plugin/net.cc) and that of a channel
(src/transport/net.cc)."""


def network_variables(interface: str | None, *, on_gpus: bool, has_devices: bool = False) -> Mapping[str, str]:
    """The variables of a group's members.

    Args:
        on_gpus: whether the engine runs on GPUs, and so with NCCL.
        has_devices: whether the pod has network devices beside it, which UCX should find.
    """
    nccl = {NCCL_INTERFACE: f"={interface}"} if interface and on_gpus else {}
    gloo = {GLOO_INTERFACE: interface} if interface else {}
    ucx = {UCX_DEVICES: interface} if interface and not has_devices else {}
    return {**nccl, **gloo, **ucx, **({NCCL_LOG: NCCL_INFO} if on_gpus else {})}


def network_in_use(log: str) -> str:
    """The network that NCCL uses between nodes, by NCCL's own name; empty if the log does not tell."""
    *_, last = (None, *_IN_USE.finditer(log))
    return (last["chosen"] or last["connected"]) if last else ""
