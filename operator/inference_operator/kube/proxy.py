"""Which proxy leads to a URL, by the rules of kubectl and of every controller in Go.

The rules are of golang.org/x/net v0.61.0, `http/httpproxy/proxy.go`; Python's own know neither CIDR nor ports:

- `localhost` and loopback addresses never go through a proxy.
- `NO_PROXY` is a list with commas. `*` is every host.
- An address or a CIDR is compared with addresses alone: no name is looked up.
- `example.com` is that host and all below it, `.example.com` and `*.example.com` only those below.
- Each of them but a CIDR may end in a port, which then has to be the URL's.
"""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies

SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_PORTS = {"http": 80, "https": 443}


def in_cluster() -> bool:
    return SERVICE_ACCOUNT_TOKEN.exists()


def environment_proxy(url: str) -> str | None:
    parts, proxies = urlsplit(url), getproxies()
    proxy, address = proxies.get(parts.scheme), _address(parts.hostname or "")
    if not proxy or parts.hostname == "localhost" or (address and address.is_loopback):
        return None
    entries = (entry.strip().lower() for entry in proxies.get("no", "").split(","))
    if any(_excludes(entry, parts) for entry in entries if entry):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _excludes(entry: str, url: SplitResult) -> bool:
    host = url.hostname or ""
    address = _address(host)
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    name, port = _without_port(entry)
    if port and port != (url.port or _PORTS.get(url.scheme)):
        return False
    if _address(name):
        return _address(name) == address
    below = name[1:] if name.startswith("*.") else name
    return host == name or host.endswith(below if below.startswith(".") else f".{below}")


def _without_port(entry: str) -> tuple[str, int]:
    """The host of `host:port`, `[fd00::1]:port` or of an address without a port; a port of 0 is any."""
    if _address(entry):
        return entry, 0
    host, _, port = entry.rpartition(":")
    if host and (not port or (port.isascii() and port.isdecimal())):
        return host.strip("[]"), int(port or 0)
    return entry.strip("[]"), 0


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped if isinstance(address, IPv6Address) else None) or address
