"""Program of the pod of `infd doctor --cluster`: asks DNS and the hub, and writes the answers as JSON.

Only its text is used: it runs in a pod, with nothing but Python's standard library.
"""

import json
import secrets
import socket
import struct
import sys
import urllib.error
import urllib.request
from pathlib import Path

SECONDS = 10
DNS_PORT = 53
RESOLVER = Path("/etc/resolv.conf")
POINTER = 0xC0
"""The first bits of a name in a DNS message that points elsewhere (RFC 1035, 4.1.4)."""
FIXED_BYTES = 10
"""Type, class, time to live and length of a record (RFC 1035, 4.1.3)."""


def resolve(name: str) -> str:
    try:
        socket.getaddrinfo(name, 443)
    except OSError as error:
        return str(error)
    return ""


def question(name: str, identifier: int) -> bytes:
    """A question for the IPv4 addresses of a name (RFC 1035, 4.1)."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.strip(".").split("."))
    return struct.pack(">HHHHHH", identifier, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", 1, 1)


def least_ttl(answer: bytes, asked: bytes) -> "int | None":
    """The least time to live in the answers of a DNS message, in seconds; None without an answer."""
    count, position, found = struct.unpack(">H", answer[6:8])[0], len(asked), []
    for _ in range(count):
        while answer[position] and answer[position] < POINTER:
            position += answer[position] + 1
        position += 2 if answer[position] >= POINTER else 1
        _, _, ttl, length = struct.unpack(">HHIH", answer[position : position + FIXED_BYTES])
        found.append(ttl)
        position += FIXED_BYTES + length
    return min(found, default=None)


def cluster_ttl(name: str) -> "int | None":
    """The time to live of a name, by the first DNS server of the pod; None if it does not tell."""
    try:
        lines = RESOLVER.read_text(encoding="utf-8").splitlines()
        server = next(line.split()[1] for line in lines if line.startswith("nameserver"))
        asked = question(name, secrets.randbelow(65536))
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as connection:
            connection.settimeout(SECONDS)
            connection.sendto(asked, (server, DNS_PORT))
            return least_ttl(connection.recv(4096), asked)
    except (OSError, StopIteration, IndexError, struct.error):
        return None


def reach(url: str) -> str:
    """Why a URL does not answer; empty if it does, whatever it answers."""
    try:
        with urllib.request.urlopen(url, timeout=SECONDS):  # noqa: S310 - the command passes http and https only
            return ""
    except urllib.error.HTTPError:
        return ""
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error))


def main(service: str, hub: str, output: str) -> None:
    found = {"dns_error": resolve(service), "dns_ttl_seconds": cluster_ttl(service), "hub_error": reach(hub)}
    Path(output).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
