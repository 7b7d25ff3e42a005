"""The address ranges of a node-level cluster, and the cable between its network namespace and the host."""

import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from e2e.localkube.errors import ClusterError

NODE_SLOTS = 8
"""Node-level clusters on one machine at once; each has ranges of its own, since the host routes to all of them."""
_INSIDE_DEVICE = "eth0"
_GONE_DEADLINE_S = 20.0
"""The kernel removes a namespace's devices some time after its last process; normally within a second."""
_POLL_S = 0.05


Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class IpFamily(StrEnum):
    """The kinds of addresses that a cluster has, in the words of Kubernetes."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"
    DUAL_STACK = "DualStack"
    """Both. Kubernetes gives Services an IPv4 address first (`--service-cluster-ip-range`)."""

    @property
    def single(self) -> tuple["IpFamily", ...]:
        """The families of addresses, the primary one first."""
        return (IpFamily.IPV4, IpFamily.IPV6) if self is IpFamily.DUAL_STACK else (self,)


@dataclass(frozen=True, slots=True)
class Subnets:
    """The ranges of one node-level cluster in one family. Those of IPv6 are unique local addresses (RFC 4193).

    >>> Subnets(1).services, Subnets(1, IpFamily.IPV6).services
    (IPv4Network('10.97.0.0/16'), IPv6Network('fd6f:7065:1:1::/112'))
    """

    slot: int
    family: IpFamily = IpFamily.IPV4
    """One family, never both."""

    @property
    def services(self) -> Network:
        """Where ClusterIPs come from."""
        return self._range(f"10.{96 + self.slot}.0.0/16", "1::/112")

    @property
    def dns(self) -> Address:
        """The ClusterIP of the cluster's DNS."""
        return self.services[10]

    @property
    def pods(self) -> Network:
        """Where pods' addresses come from."""
        return self._range(f"10.{104 + self.slot}.0.0/16", "2::/112")

    @property
    def link(self) -> Network:
        """The cable's two addresses."""
        return self._range(f"10.112.{self.slot}.0/30", "3::/126")

    @property
    def outside(self) -> Address:
        """The host's end of the cable."""
        return self.link[1]

    @property
    def inside(self) -> Address:
        """The node's own address."""
        return self.link[2]

    @property
    def device(self) -> str:
        """The name of the host's end of the cable."""
        return f"infop{self.slot}"

    @property
    def everywhere(self) -> str:
        """The range of all addresses: the destination of a default route."""
        return "0.0.0.0/0" if self.family is IpFamily.IPV4 else "::/0"

    def _range(self, ipv4: str, ipv6: str) -> Network:
        if self.family is IpFamily.IPV4:
            return IPv4Network(ipv4)
        return IPv6Network(f"fd6f:7065:{self.slot:x}:{ipv6}")


def joined(ranges: Iterable[Network | Address]) -> str:
    """Ranges or addresses of several families, as flags of Kubernetes take them."""
    return ",".join(map(str, ranges))


def are_free(every: Sequence[Subnets]) -> bool:
    """Whether the host has no route into any of these ranges."""
    return not any(
        route.overlaps(wanted)
        for subnets in every
        for route in _routes(subnets.family)
        for wanted in (subnets.services, subnets.pods, subnets.link)
    )


def attach(every: Sequence[Subnets], process: int) -> None:
    """Lay a cable into the network namespace of this process, and route pods and services through it."""
    detach(every[0])
    device = every[0].device
    _ip("link", "add", device, "type", "veth", "peer", "name", _INSIDE_DEVICE, "netns", str(process))
    _ip("link", "set", device, "up")
    _ip("link", "set", "lo", "up", within=process)
    _ip("link", "set", _INSIDE_DEVICE, "up", within=process)
    for subnets in every:
        _address(subnets, process)


def _address(subnets: Subnets, process: int) -> None:
    """Give both ends of the cable an address of one family, and lay its routes."""
    inside, outside = f"{subnets.inside}/{subnets.link.prefixlen}", f"{subnets.outside}/{subnets.link.prefixlen}"
    version = _version(subnets.family)
    # Nobody else has these addresses, so they are usable before duplicate address detection would have ended.
    at_once = ("nodad",) if subnets.family is IpFamily.IPV6 else ()
    _ip("address", "add", outside, "dev", subnets.device, *at_once)
    _ip("address", "add", inside, "dev", _INSIDE_DEVICE, *at_once, within=process)
    _ip(version, "route", "add", "default", "via", str(subnets.outside), within=process)
    for destination in (subnets.pods, subnets.services):
        _ip(version, "route", "add", str(destination), "via", str(subnets.inside), "dev", subnets.device)


def detach(subnets: Subnets) -> None:
    """Remove the cable if it is still there; its routes go with it."""
    deadline = time.monotonic() + _GONE_DEADLINE_S
    while any(link["ifname"] == subnets.device for link in _query("link", "show")):
        # The kernel may be removing it at this moment, so a failure means nothing yet.
        answer = subprocess.run(["ip", "link", "delete", subnets.device], capture_output=True, text=True, check=False)
        if time.monotonic() > deadline:
            raise ClusterError(
                f"the network device {subnets.device} stays: {answer.stderr.strip()}; "
                f"remove it with `ip link delete {subnets.device}`"
            )
        time.sleep(_POLL_S)


def _routes(family: IpFamily) -> list[Network]:
    destinations = (str(route["dst"]) for route in _query(_version(family), "route", "show", "table", "all"))
    return [ip_network(destination) for destination in destinations if destination != "default"]


def _version(family: IpFamily) -> str:
    """The option of `ip` for a family."""
    return "-4" if family is IpFamily.IPV4 else "-6"


def _query(*arguments: str) -> list[dict[str, object]]:
    answer = subprocess.run(["ip", "-json", *arguments], capture_output=True, text=True, check=True)
    found: list[dict[str, object]] = json.loads(answer.stdout or "[]")
    return found


def _ip(*arguments: str, within: int | None = None) -> None:
    enter = [] if within is None else ["nsenter", f"--target={within}", "--net", "--"]
    answer = subprocess.run([*enter, "ip", *arguments], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ClusterError(f"ip {' '.join(arguments)}: {answer.stderr.strip()}")
