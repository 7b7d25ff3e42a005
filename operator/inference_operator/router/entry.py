"""What enters each engine, of all processes of all routers: the values of entry.cfg.j2, and the file with the rooms."""

import re
from collections.abc import Mapping

from inference_operator.objects.names import service_host
from inference_operator.router.dns import DNS_UDP_SLOTS
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import CONFIG_FOLDER, METRICS_PORTS
from inference_operator.router.resources import load_of_all_threads
from inference_operator.router.servers import servers

ENTRY_SCRIPT, PEERS_SCRIPT = "entry.lua", "peers.lua"

PEERS_SOCKET = "/run/haproxy/peers.sock"
"""Where peers.lua asks other routers, in a volume of each process's own."""

ROOM_FILE = "room"
"""In the ConfigMap of the configuration, which the kubelet brings to running routers within about a minute. It is no
part of what a router is pinned with, so a new number restarts none."""

ROOM_STEP = 1.25
"""From this factor on a new number replaces the former one: each is a write, and lengths of requests vary by more."""

_LINE = re.compile(r"(\S+) ([0-9]{1,9})")


def values(inputs: RouterInputs) -> Mapping[str, object]:
    owner, domain = inputs.owner.key, inputs.settings.cluster_domain
    most = zip(_prefixes(inputs), inputs.upstreams, strict=True)
    return {
        "load": load_of_all_threads(inputs.spec.resources),
        "peers_lua": f"{CONFIG_FOLDER}/{PEERS_SCRIPT}",
        "file": f"{CONFIG_FOLDER}/{ROOM_FILE}",
        "map": f"{CONFIG_FOLDER}/fairness.map",
        "most": " ".join(f"{prefix}={upstream.max_concurrency}" for prefix, upstream in most),
        "peers_host": service_host(inputs.peers_name, owner.namespace, cluster_domain=domain),
        "peer_ports": ",".join(map(str, METRICS_PORTS)),
        "first_peer_port": METRICS_PORTS[0],
        "peer_slots": DNS_UDP_SLOTS,
    }


def room_text(inputs: RouterInputs, live: str) -> str:
    """The content of `ROOM_FILE`: a line for each upstream with a known room.

    Live numbers stay while the new ones differ little, or are unknown.
    """
    before = {prefix: int(number) for prefix, number in _LINE.findall(live)}
    rooms = {
        prefix: _kept(before.get(prefix), upstream.room)
        for prefix, upstream in zip(_prefixes(inputs), inputs.upstreams, strict=True)
    }
    return "".join(f"{prefix} {room}\n" for prefix, room in rooms.items() if room)


def _kept(before: int | None, now: float | None) -> int | None:
    """The new number is compared before it is rounded: else one near 2 would be written as 1 and as 2 in turn."""
    if now is None or (before and now and max(before, now) < ROOM_STEP * min(before, now)):
        return before
    return int(now)


def _prefixes(inputs: RouterInputs) -> list[str]:
    return [server.prefix for server in servers(inputs.upstreams)]
