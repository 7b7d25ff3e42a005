"""A slot per running cluster: it decides the ports on the host, so that many clusters run side by side."""

import socket
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from e2e.localkube.errors import ClusterError

FIRST_PORT = 20_000
"""Below the range that Linux hands out to outgoing connections (32768 and up), so that none is in use by chance."""
PORTS_PER_SLOT = 8
SLOTS = 500


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports on which one control plane listens."""

    api_server: int
    etcd: int
    etcd_peer: int
    controller_manager: int
    scheduler: int


def ports(slot: int) -> Ports:
    """The ports of a slot.

    >>> ports(0).api_server, ports(1).api_server
    (20000, 20008)
    """
    first = FIRST_PORT + slot * PORTS_PER_SLOT
    return Ports(first, first + 1, first + 2, first + 3, first + 4)


def free_slot(candidates: Iterable[int], taken: Collection[int]) -> int:
    """The first slot that no cluster has taken and whose ports nobody listens on."""
    for slot in candidates:
        first = ports(slot).api_server
        if slot not in taken and all(_is_free(first + offset) for offset in range(PORTS_PER_SLOT)):
            return slot
    raise ClusterError(
        "no ports and address ranges are left for another cluster on this machine: "
        "end one with `python -m e2e.localkube down --name NAME` (names: `python -m e2e.localkube status`)"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
