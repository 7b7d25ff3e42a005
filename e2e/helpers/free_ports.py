"""Ports for the processes of a test."""

import random
import socket
from contextlib import suppress

FREE_PORTS = 10_000, 30_000
"""Linux gives connections ports from 32,768 on (ip(7), `ip_local_port_range`), and node ports begin at 30,000."""
_given: set[int] = set()
"""Ports that this process has given away: their listeners may not have begun."""


def free_port() -> int:
    """A port on all addresses that nothing listens on, and that the kernel gives to no connection meanwhile."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports, each as `free_port` finds it. No port is given twice."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(*FREE_PORTS)  # noqa: S311 - no secret
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("", port))
            ports += [port] if port not in _given else []
            _given.add(port)
    return ports
