"""The allowed targets of load: this machine and its clusters."""

from ipaddress import ip_address, ip_network

from e2e.load.result import LoadError
from e2e.localkube.network import NODE_SLOTS, IpFamily, Network, Subnets

_LOOPBACK = (ip_network("127.0.0.0/8"), ip_network("::1"))


def base_url(address: str) -> str:
    """The URL of an address `IP:PORT` of this machine's clusters.

    Examples:
        >>> base_url("10.96.0.7:80")
        'http://10.96.0.7:80'
        >>> base_url("[fd6f:7065:0:1::7]:80")
        'http://[fd6f:7065:0:1::7]:80'
        >>> base_url("192.0.2.1:80")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        e2e.load.result.LoadError: 192.0.2.1:80 is no address of this machine's clusters: ...
    """
    host, _, port = address.rpartition(":")
    try:
        known = any(ip_address(host.strip("[]")) in network for network in _networks()) and port.isdecimal()
    except ValueError:
        known = False
    if not known:
        raise LoadError(f"{address} is no address of this machine's clusters: load goes nowhere else")
    return f"http://{address}"


def _networks() -> list[Network]:
    clusters = (Subnets(slot, family) for slot in range(NODE_SLOTS) for family in IpFamily.DUAL_STACK.single)
    return [*_LOOPBACK, *(network for c in clusters for network in (c.services, c.pods, c.link))]
