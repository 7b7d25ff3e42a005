"""The HTTP side of a member: probes, state and drain. A part of the program of each member; standard library only."""

import asyncio
import json
from collections.abc import Callable

from inference_operator.engines.group.options import Words
from inference_operator.engines.group.peers import Visitors, source

OK, BAD, FORBIDDEN, UNAVAILABLE = 200, 400, 403, 503


class HttpPage:
    def __init__(
        self,
        visitors: Visitors,
        state: Callable[[], Words],
        checks: dict[str, Callable[[], bool]],
        drain: Callable[[], None],
    ) -> None:
        self.visitors, self.state, self.checks, self.drain = visitors, state, checks, drain

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path = await self.visitors.request(reader, writer)
        if method and not writer.is_closing():
            status = self.status(method, path, is_own(writer))
            body = json.dumps(self.state()).encode()
            head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + body)
        self.visitors.leave(writer)
        writer.close()

    def status(self, method: str, path: str, own: bool) -> int:  # noqa: FBT001 - one call
        """The status of an answer. Only this pod may ask for a drain."""
        if (method, path) == ("POST", "/drain"):
            if own:
                self.drain()
            return OK if own else FORBIDDEN
        if method != "GET" or path not in self.checks:
            return BAD
        return OK if self.checks[path]() else UNAVAILABLE


def is_own(writer: asyncio.StreamWriter) -> bool:
    found = source(writer)
    return found is not None and found.is_loopback
