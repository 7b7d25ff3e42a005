"""What computing prompts apart costs: the middleware, its faults, and whether `infd fit` has the right ratio.

    python -m bench.disaggregation [--requests N] [--output text|json]

Needs one core, and no engine: applications behind the middleware answer at once, and a server on this machine stands
for the router and the prefill engine. The cost is CPU time with the middleware minus that without it, the least of
five rounds. *Kept here* is a prompt for which no prefill engine is asked. A *leg* also has the request to the router,
and 16,384 tokens in and out, as a prefill engine names them. *Until local* is the time from a request with an objective
of 2 s until the application has it for the last time. `bench/two_roles.py` compares the ratio of the engines of two
roles with a simulator, which takes some minutes of one core.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

from bench import two_roles
from bench.figures import Figure, as_known, at_most, parser_of, shown
from inference_operator.engines.vllm import disaggregation_program as program
from inference_operator.engines.vllm.disaggregation_program import COMPLETIONS, Decode

BODY_BYTES, ROUNDS, REQUESTS = 64 * 2**10, 5, 300
MOST_KEPT_MS = 0.3
OBJECTIVE = 2.0
LEG_MARGIN, READ_MARGIN = 1.2, 1.2
TOKENS = list(range(BODY_BYTES // 4))
BODY = json.dumps({"model": "m", "prompt": "four" * (BODY_BYTES // 4 - 16), "max_tokens": 1}).encode()
PARAMS = {
    "do_remote_prefill": True,
    "remote_block_ids": [list(range(BODY_BYTES // 64))],
    "remote_host": "10.0.0.1",
    "remote_num_tokens": len(TOKENS),
}
ANSWER = json.dumps({"choices": [{"prompt_token_ids": TOKENS}], program.FIELD: PARAMS}).encode()
Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Application:
    """Answers at once, unless it is to hang in reads of blocks; notes when it was asked last."""

    def __init__(self, *, hangs: bool = False) -> None:
        self.hangs, self.asked = hangs, 0.0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401, ARG002 - ASGI
        body = (await receive())["body"]
        self.asked = time.monotonic()
        if self.hangs and b"remote_host" in body:
            await asyncio.Event().wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})


def decode(app: Application, url: str, tokens: int) -> Decode:
    """A middleware with this least number of prompt tokens."""
    given = {"url": url, "revision": "r", "tokens": tokens, "objective": OBJECTIVE, "lease": 42.0, "sequences": 64}
    made = Decode(app, SimpleNamespace(**given))
    made.sees_tokens = True
    return made


async def ask(middleware: Any) -> None:  # noqa: ANN401 - an application too
    """One request."""
    parts = [{"type": "http.request", "body": BODY, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if not parts:
            await asyncio.Event().wait()
        return parts.pop()

    async def send(message: dict[str, Any]) -> None:
        pass

    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(BODY)).encode())]
    await middleware({"type": "http", "method": "POST", "path": COMPLETIONS, "headers": headers}, receive, send)


async def cpu_ms(middleware: Any, requests: int) -> float:  # noqa: ANN401 - an application too
    """Least CPU time of a request."""
    rounds = list[float]()
    for _ in range(ROUNDS):
        begin = time.process_time()
        for _ in range(requests):
            if isinstance(middleware, Decode):
                middleware.recent.known.clear()
            await ask(middleware)
        rounds.append((time.process_time() - begin) / requests * 1000)
    return min(rounds)


async def figures(requests: int) -> list[Figure]:
    """All figures."""
    app, found = Application(), list[Figure]()
    bare = await cpu_ms(app, requests)
    kept = await cpu_ms(decode(app, "", 10**9), requests) - bare
    found.append(Figure("64 KiB, kept here", kept, "ms", at_most(MOST_KEPT_MS)))
    server = await asyncio.start_server(replies(ANSWER), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    leg = decode(app, url, 1)
    found.append(
        Figure("64 KiB, with a leg (and the stand-in's own work)", await cpu_ms(leg, requests // 10) - bare, "ms")
    )
    await leg.session.close()
    server.close()
    return [*found, *[figure async for figure in faults()]]


def replies(answer: bytes, status: int = 200) -> Reply:
    """A server that answers each request so."""

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(BODY))
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(answer)) + answer)
        await writer.drain()
        writer.close()

    return reply


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take the request, and say nothing until the other side is gone."""
    await reader.read(-1)
    writer.close()


async def dead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End in the middle of the step."""
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


FAULTS: dict[str, tuple[Reply | None, bool, float]] = {
    "nobody listens": (None, False, 0.1),
    "no prefill engine (503)": (replies(b"", 503), False, 0.1),
    "another revision (425)": (replies(b"", 425), False, 0.1),
    "dies in its step": (dead, False, 0.1),
    "silent in its step": (silent, False, LEG_MARGIN * program.LEG_OBJECTIVES * OBJECTIVE),
    "silent in the read": (replies(ANSWER), True, READ_MARGIN * program.READ_OBJECTIVES * OBJECTIVE),
}
"""How the prefill engine behaves, whether the read hangs, and the most seconds until the prompt is computed here."""


async def faults() -> AsyncIterator[Figure]:
    """Time of each fault."""
    for name, (reply, hangs, most) in FAULTS.items():
        app = Application(hangs=hangs)
        server = await asyncio.start_server(reply or dead, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        if reply is None:
            server.close()
        made = decode(app, url, 1)
        begin = time.monotonic()
        await ask(made)
        yield Figure(f"{name}, until local", app.asked - begin, "s", at_most(most))
        await made.session.close()
        server.close()


def main(arguments: Sequence[str]) -> int:
    """Print the figures."""
    parser = parser_of("python -m bench.disaggregation", "What computing prompts apart costs.")
    parser.add_argument("--requests", type=int, default=REQUESTS)
    options = parser.parse_args(arguments)
    found = asyncio.run(figures(options.requests))
    print(shown([*found, *as_known(two_roles.figures())], options.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
