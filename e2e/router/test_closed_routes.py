"""Random paths and Authorization headers at a real HAProxy: none reaches a closed route, or an open one without a key.

The engine records each request that the router forwards. Clients write bytes, since HTTP libraries tidy paths up.
"""

import asyncio
import posixpath
import random
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

import pytest

from e2e.router.loopback import Loopback
from e2e.router.test_keys import ALICE, BOB, KEYS, line
from inference_operator.api.router import RouterSpec
from inference_operator.engines.vllm.vllm import API_PATHS

ENGINE = "127.0.54.99"
FEW, MANY, AT_ONCE = 400, 50_000, 20
CLOSED = ("metrics", "docs", "openapi.json", "sleep", "v1/load_lora_adapter", "update_weights", "health", "version")
"""Routes of vLLM that are not for clients."""
STEPS = (
    "..",
    ".",
    "%2e%2e",
    ".%2e",
    "%2E.",
    "%252e%252e",
    "",
    "%2f",
    "%5c..",
    "..;",
    "...",
    ";",
    "%00",
    "\\..",
    "v1",
    "V1",
)
JOINTS = ("/", "/", "/", "//", "%2f", "%2F", "\\", "%5c", "/./", ";/")
RESOLVABLE = (
    "/v1/../metrics",
    "/v1/%2e%2e/metrics",
    "/v1/models/../../metrics",
    "/v1/models/%2e%2e/%2E%2E/metrics",
    "/v1/models/..\\..\\metrics",
    "/v1/models/%2e%2e%2f%2e%2e%2fmetrics",
    "/v1/models//../../metrics",
    "/v1/models/..;/..;/metrics",
    "//metrics",
    "/%6detrics",
    "/metrics;/v1/models",
    "/V1/models",
    "/v1/models.",
    "/v1/models;x=1",
    "http://a/metrics",
)
"""Paths that something between a client and an engine could take for a closed route."""
SENT = re.compile(rb"([A-Z]+) (\S+) HTTP/1.1")


@dataclass(slots=True)
class Recorder:
    """An engine that answers 200 to everything, and records the targets of the requests that the router forwards."""

    targets: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request; those without the router's request ID are health checks."""
        head = await reader.readuntil(b"\r\n\r\n")
        sent = SENT.match(head)
        assert sent is not None
        if b"x-request-id:" in head.lower():
            self.targets.append(sent[2].decode("latin-1"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


@pytest.fixture
async def recorder(loopback: Loopback) -> AsyncIterator[Recorder]:
    """The engine behind a router with keys."""
    recorder = Recorder()
    loopback.spec = RouterSpec(keys=KEYS)
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    await loopback.start_router()
    server = await asyncio.start_server(recorder.serve, ENGINE, loopback.engine_port)
    loopback.names.addresses.append(ENGINE)
    await loopback.until_served(1)
    yield recorder
    server.close()
    assert ALICE not in loopback.log.read_text()


async def statuses(loopback: Loopback, requests: Sequence[bytes]) -> list[int]:
    """The status of the answer to each request, each on a connection of its own."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(request: bytes) -> int:
        async with free:
            reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
            writer.write(request)
            answer = await reader.readline()
            writer.close()
            return int(answer.split()[1])

    return await asyncio.gather(*map(one, requests))


def request(target: str, authorization: bytes = b"Bearer " + ALICE.encode(), method: str = "GET") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n".encode("latin-1")
    return head + b"Authorization: " + authorization + b"\r\n\r\n"


def paths(number: int) -> list[str]:
    """Ways from an open path to a closed one, as an attacker writes them; equal each time."""
    chance = random.Random(11)  # noqa: S311 - no secret
    drawn = []
    for _ in range(number):
        parts = [chance.choice(STEPS) for _ in range(chance.randint(0, 4))]
        start = chance.choice((*API_PATHS, "", "/v1", "http://a", "/V1/models", "/v1/models."))
        closed = chance.choice(CLOSED)
        closed = chance.choice(
            (closed, closed.upper(), closed + ".", closed + "/", "%6d" + closed[1:], closed + "?a=/v1/")
        )
        drawn.append(start + "".join(chance.choice(JOINTS) + part for part in (*parts, closed)))
    return drawn


def reached(target: str) -> set[str]:
    """What an engine could take a target for: as it is, decoded, and with its dots resolved by a proxy before it."""
    path = urlsplit(target).path if "://" in target else target.partition("?")[0]
    found = set()
    for once in (path, unquote(path), unquote(unquote(path))):
        plain = once.replace("\\", "/")
        found |= {
            once,
            plain,
            posixpath.normpath(re.sub("/+", "/", plain)),
            posixpath.normpath(re.sub(";[^/]*", "", plain)),
        }
    return found


def is_open(path: str) -> bool:
    return any(path == one or path.startswith(f"{one}/") for one in API_PATHS)


def headers(number: int) -> list[tuple[bytes, bool]]:
    """Values of the header Authorization, and whether each holds the key of Alice, as HAProxy reads it.

    HAProxy takes the beginning of `Bearer` for the whole, and the value for a list (3.0, src/http_fetch.c,
    get_http_auth): `Bear KEY, more` is let in.
    """
    chance, key = random.Random(12), ALICE.encode()  # noqa: S311 - no secret
    drawn = []
    for _ in range(number):
        value = bytearray(b"Bearer " + key)
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(len(value) + 1)
            byte = chance.choice(bytes([*range(32, 127), *range(128, 256), 9]))
            value[at : at + chance.randint(0, 2)] = bytes([byte]) * chance.choice((0, 1, 1, 40))
        scheme, _, rest = bytes(value).strip(b" \t,").partition(b",")[0].partition(b" ")
        drawn.append((bytes(value), b"bearer".startswith(scheme.lower()) and rest.strip(b" \t") == key))
    return drawn


async def check_paths(loopback: Loopback, recorder: Recorder, number: int) -> None:
    sent = paths(number)
    answers = await statuses(loopback, [request(target) for target in sent])
    assert set(answers) <= {200, 400, 404}, "nothing else, and no answer is missing"
    forwarded = [target for target in recorder.targets if not all(map(is_open, reached(target)))]
    assert forwarded == []
    assert (await statuses(loopback, [request("/v1/models")])) == [200], "the router serves"


async def check_headers(loopback: Loopback, recorder: Recorder, number: int) -> None:
    sent = headers(number)
    answers = await statuses(loopback, [request("/v1/models", value) for value, _ in sent])
    wrong = [
        (value, status)
        for (value, holds), status in zip(sent, answers, strict=True)
        if (status == 200 and not holds)
        or (status != 200 and value == b"Bearer " + ALICE.encode())
        or status not in {200, 400, 401}
    ]
    assert wrong == []
    assert len(recorder.targets) == answers.count(200)
    assert answers.count(401) > number // 2


async def test_paths_that_could_become_closed_routes_get_404(loopback: Loopback, recorder: Recorder) -> None:
    answers = await statuses(loopback, [request(target) for target in RESOLVABLE])
    assert answers == [404] * len(RESOLVABLE), dict(zip(RESOLVABLE, answers, strict=True))
    assert recorder.targets == []


async def test_names_with_a_slash_are_still_reached(loopback: Loopback, recorder: Recorder) -> None:
    names = ("Qwen/Qwen3-8B", "Qwen%2FQwen3-8B", "a..b", "chat?a=//../b")
    targets = [f"/v1/responses/{name}" for name in names]
    assert await statuses(loopback, [request(target) for target in targets]) == [200] * 4
    assert sorted(recorder.targets) == sorted(targets)


async def test_no_random_path_reaches_a_closed_route_of_an_engine(loopback: Loopback, recorder: Recorder) -> None:
    await check_paths(loopback, recorder, FEW)


async def test_no_random_authorization_passes_for_a_key(loopback: Loopback, recorder: Recorder) -> None:
    await check_headers(loopback, recorder, FEW)


@pytest.mark.full
async def test_no_path_of_fifty_thousand_reaches_a_closed_route(loopback: Loopback, recorder: Recorder) -> None:
    await check_paths(loopback, recorder, MANY)


@pytest.mark.full
async def test_no_authorization_of_fifty_thousand_passes_for_a_key(loopback: Loopback, recorder: Recorder) -> None:
    await check_headers(loopback, recorder, MANY)
