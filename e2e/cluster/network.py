"""The address ranges of a node-level cluster, and the cable between its network namespace and the host."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

NODE_SLOTS = 8
"""Node-level clusters on one machine at once; each has ranges of its own, since the host routes to all of them."""
_GONE_DEADLINE_S = 20.0
"""The kernel removes a namespace's devices some time after its last process; normally within a second."""
_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Subnets:
    """The ranges of one node-level cluster.

    >>> Subnets(1).services
    IPv4Network('10.97.0.0/16')
    """

    slot: int

    @property
    def services(self) -> IPv4Network:
        """Where ClusterIPs come from."""
        return IPv4Network(f"10.{96 + self.slot}.0.0/16")

    @property
    def pods(self) -> IPv4Network:
        """Where pods' addresses come from."""
        return IPv4Network(f"10.{104 + self.slot}.0.0/16")

    @property
    def link(self) -> IPv4Network:
        """The cable's two addresses."""
        return IPv4Network(f"10.112.{self.slot}.0/30")

    @property
    def outside(self) -> IPv4Address:
        """The host's end of the cable."""
        return self.link[1]

    @property
    def inside(self) -> IPv4Address:
        """The node's own address."""
        return self.link[2]

    @property
    def device(self) -> str:
        """The name of the host's end of the cable."""
        return f"infop{self.slot}"
