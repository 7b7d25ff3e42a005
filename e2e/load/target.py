"""The allowed targets of load: this machine and its clusters."""

from ipaddress import AddressValueError, IPv4Address, IPv4Network

from e2e.cluster.network import NODE_SLOTS, Subnets
from e2e.load.errors import LoadError

_LOOPBACK = IPv4Network("127.0.0.0/8")


def base_url(address: str) -> str:
    """The URL of an address `IP:PORT` of this machine's clusters.

    Examples:
        >>> base_url("10.96.0.7:80")
        'http://10.96.0.7:80'
        >>> base_url("192.0.2.1:80")
        Traceback (most recent call last):
        ...
        e2e.load.errors.LoadError: 192.0.2.1:80 is no address of this machine's clusters: load goes nowhere else
    """
    host, _, port = address.rpartition(":")
    try:
        known = any(IPv4Address(host) in network for network in _networks()) and port.isdecimal()
    except AddressValueError:
        known = False
    if not known:
        raise LoadError(f"{address} is no address of this machine's clusters: load goes nowhere else")
    return f"http://{address}"


def _networks() -> list[IPv4Network]:
    clusters = (Subnets(slot) for slot in range(NODE_SLOTS))
    return [_LOOPBACK, *(network for c in clusters for network in (c.services, c.pods, c.link))]
