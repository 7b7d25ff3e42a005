"""Discovery of engines by DNS: the values of dns.cfg.j2."""

from collections.abc import Mapping

from inference_operator.router.inputs import RouterInputs
from inference_operator.router.process import expanded

DNS_SERVER_VARIABLE = "DNS_SERVER"
"""Environment variable with the address of the pod's first DNS server, where HAProxy asks it over TCP."""

DNS_UDP_BYTES = 1232
"""Longest answer over UDP that no network divides (DNS flag day 2020, "EDNS buffer size")."""

DNS_TCP_BYTES = 8192
"""Longest answer over TCP. HAProxy takes a record for each 12 bytes of it: 682, and there are at most 512 slots (3.0,
src/resolvers.c, `max_answer_records`)."""

DNS_UDP_SLOTS = 32
"""Server slots up to which HAProxy asks over UDP. An AAAA record with a compressed name has 28 bytes (RFC 1035, 4.1.3),
so 32 of them fit `DNS_UDP_BYTES`. A network that drops divided packets would hide engines."""

DNS_OUTAGE_SECONDS = 600
"""How long HAProxy keeps the known engines while no DNS server answers."""


def asks_dns_over_tcp(slots: int) -> bool:
    return slots > DNS_UDP_SLOTS


def values(inputs: RouterInputs) -> Mapping[str, object]:
    over_tcp = asks_dns_over_tcp(inputs.slots)
    return {
        "over_tcp": over_tcp,
        "server": expanded(DNS_SERVER_VARIABLE),
        "slots": inputs.slots,
        "max_bytes": DNS_TCP_BYTES if over_tcp else DNS_UDP_BYTES,
        "outage_seconds": DNS_OUTAGE_SECONDS,
    }
