"""Connections of strangers to a member of a group."""

import asyncio
import socket

from inference_operator.engines.group.peers import MOST_VISITORS, Visitors


async def test_one_silent_connection_more_than_there_is_room_for_closes_the_oldest() -> None:
    visitors = Visitors()
    pairs = [socket.socketpair() for _ in range(MOST_VISITORS + 1)]
    connections = [await asyncio.open_connection(sock=own) for own, _ in pairs]
    for _, writer in connections:
        visitors.admit(writer)
    closing = [writer.is_closing() for _, writer in connections]
    assert closing == [True, *[False] * MOST_VISITORS]
    visitors.leave(connections[1][1])
    visitors.admit(connections[1][1])
    assert not connections[2][1].is_closing(), "who has left takes no place"
    for (_, writer), (_, other) in zip(connections, pairs, strict=True):
        writer.close()
        await writer.wait_closed()
        other.close()
