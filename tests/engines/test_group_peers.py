"""Connections of strangers to a member of a group."""

import asyncio
import socket
from ipaddress import ip_address

import pytest

from inference_operator.engines.group.peers import MOST_OF_SOURCE, MOST_VISITORS, Address, Visitors, surplus

MEMBER, A, B = (ip_address(f"10.0.0.{last}") for last in (1, 2, 3))
OTHERS = [ip_address(f"10.1.0.{last}") for last in range(MOST_VISITORS)]
LONG, SHORT = 2.0, 0.1


@pytest.mark.parametrize(
    ("silent", "closed"),
    [
        pytest.param([(A, LONG)] * MOST_OF_SOURCE, None, id="as many as an address may have"),
        pytest.param([(A, LONG)] * MOST_OF_SOURCE + [(A, 0)], 0, id="the oldest of an address"),
        pytest.param([(A, SHORT)] * MOST_OF_SOURCE + [(A, 0)], MOST_OF_SOURCE, id="a flood closes itself"),
        pytest.param([(B, LONG)] + [(A, LONG)] * MOST_OF_SOURCE + [(A, 0)], 1, id="of its own address only"),
        pytest.param([(A, LONG)] * MOST_OF_SOURCE + [(B, 0)], None, id="another address has places of its own"),
        pytest.param([(address, SHORT) for address in OTHERS] + [(A, 0)], 0, id="all places are taken by others"),
        pytest.param([(address, LONG) for address in OTHERS] + [(A, 0)], 0, id="of all, the oldest"),
        pytest.param(
            [(OTHERS[0], LONG), *[(A, LONG)] * 2, *((address, LONG) for address in OTHERS[1:-2]), (B, 0)],
            1,
            id="of all, the address with the most",
        ),
        pytest.param([(address, SHORT) for address in OTHERS] + [(MEMBER, 0)], None, id="a member has its own place"),
        pytest.param([(MEMBER, SHORT)] * MOST_VISITORS + [(MEMBER, 0)], 0, id="so many members there are not"),
        pytest.param([(MEMBER, LONG)] * MOST_VISITORS + [(A, 0)], None, id="members take no place of others"),
    ],
)
def test_which_silent_connection_is_closed(silent: list[tuple[Address, float]], closed: int | None) -> None:
    assert surplus(silent, {MEMBER}) == closed


async def test_one_silent_connection_more_than_an_address_may_have_is_closed() -> None:
    visitors = Visitors()
    pairs = [socket.socketpair() for _ in range(MOST_OF_SOURCE + 1)]
    connections = [await asyncio.open_connection(sock=own) for own, _ in pairs]
    for _, writer in connections:
        visitors.admit(writer)
    closing = [writer.is_closing() for _, writer in connections]
    assert closing == [*[False] * MOST_OF_SOURCE, True]
    visitors.leave(connections[0][1])
    visitors.admit(connections[0][1])
    assert not connections[0][1].is_closing(), "who has left takes no place"
    for (_, writer), (_, other) in zip(connections, pairs, strict=True):
        writer.close()
        await writer.wait_closed()
        other.close()
