"""The middleware of prefill and decode engines: what it takes from requests, and where a prompt is computed."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from inference_operator.engines.vllm import disaggregation_program as program
from inference_operator.engines.vllm.disaggregation_program import CHAT, COMPLETIONS, FIELD, Decode, Gate, Prefill
from tests.testing.random_bodies import random_body

WORDS = "amber anchor apple autumn badge basil beacon birch " * 8
OBJECTIVE = 0.2
PARAMS = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[4, 5, 6]],
    "remote_engine_id": "one",
    "remote_request_id": "cmpl-1",
    "remote_host": "10.0.0.7",
    "remote_port": 5600,
    "tp_size": 1,
    "remote_num_tokens": 3,
}
FOREIGN = {"do_remote_prefill": True, "remote_host": "169.254.169.254", "remote_port": 80, "remote_block_ids": [[1]]}
Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def completion(**fields: object) -> dict[str, Any]:
    return {"model": "tiny", "prompt": WORDS, "max_tokens": 8, **fields}


def chat(**fields: object) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": WORDS}], **fields}


def leg_answer(path: str = COMPLETIONS, tokens: object = (7, 8, 9), **params: object) -> dict[str, Any]:
    """What a prefill engine answers a leg with."""
    ids = {"prompt_token_ids": tokens}
    return {"choices": [{"text": " x", **(ids if path == COMPLETIONS else {})}], FIELD: PARAMS | params} | (
        {} if path == COMPLETIONS else ids
    )


class Vllm:
    """An engine's application: what it is asked, and how it behaves with the blocks of another engine."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.hangs, self.fails, self.status, self.late = False, False, 200, 0.0
        self.aborted = 0

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        body = (await receive()).get("body", b"") if scope["type"] == "http" else b""
        self.bodies.append(body)
        self.headers.append(scope["headers"])
        is_remote = b"do_remote_prefill" in body and b"10.0.0.7" in body
        try:
            if is_remote and self.hangs:
                await asyncio.Event().wait()
        finally:
            self.aborted += is_remote and self.hangs
        if is_remote and self.fails:
            raise RuntimeError
        first = program.FIRST.get()
        if first is not None:
            first.at = program.now() + self.late
            first.seen.set()
        await send({"type": "http.response.start", "status": self.status if is_remote else 200, "headers": []})
        await send({"type": "http.response.body", "body": b"remote" if is_remote else b"local"})


def decode(app: Vllm, url: str = "http://127.0.0.1:1", **given: object) -> Decode:
    defaults = {"url": url, "revision": "r1", "tokens": 20, "objective": 30.0, "lease": 630.0, "sequences": 4}
    made = Decode(app, SimpleNamespace(**{**defaults, **given}))
    made.sees_tokens = True
    MADE.append(made)
    return made


MADE: list[Decode] = []


@pytest.fixture(autouse=True)
async def _sessions_end() -> AsyncIterator[None]:
    yield
    for made in MADE:
        if made.session:
            await made.session.close()
    MADE.clear()


async def ask(
    middleware: Any,  # noqa: ANN401 - either role
    body: object,
    path: str = COMPLETIONS,
    *,
    method: str = "POST",
    headers: tuple[tuple[bytes, bytes], ...] = (),
    left: asyncio.Event | None = None,
) -> tuple[int, bytes]:
    """Status and body of the answer; (0, b"") without one."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    half = len(raw) // 2
    given: list[dict[str, Any]] = [{"type": "http.request", "body": raw[half:]}]
    given.append({"type": "http.request", "body": raw[:half], "more_body": True})
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if given:
            return given.pop()
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await middleware({"type": "http", "method": method, "path": path, "headers": list(headers)}, receive, send)
    assert [one["type"] for one in sent] in ([], ["http.response.start", "http.response.body"])  # one answer
    return (sent[0]["status"], sent[1]["body"]) if sent else (0, b"")


@asynccontextmanager
async def server(reply: Reply) -> AsyncIterator[str]:
    """A server whose connections are answered by `reply`."""

    async def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reply(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


async def request_of(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return head, await reader.readexactly(length)


def answers(status: int, body: object, seen: list[tuple[bytes, bytes]] | None = None) -> Reply:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await request_of(reader)
        if seen is not None:
            seen.append(asked)
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(text)) + text)
        await writer.drain()

    return reply


def counted(made: Decode, place: str, cause: str) -> float:
    return float(made.counts.prefills.labels(place, cause)._value.get())  # noqa: SLF001 - prometheus_client shows no value


async def test_a_long_prompt_is_computed_by_a_prefill_engine() -> None:
    for path, body in ((COMPLETIONS, completion()), (CHAT, chat())):
        app, seen = Vllm(), list[tuple[bytes, bytes]]()
        async with server(answers(200, leg_answer(path), seen)) as url:
            made = decode(app, url)
            before = counted(made, "remote", "")
            assert await ask(made, body, path) == (200, b"remote")
            assert counted(made, "remote", "") == before + 1
        ((head, leg),) = seen
        assert leg == json.dumps(body).encode()
        assert b"x-kv-revision: r1" in head.lower()
        (second,) = map(json.loads, app.bodies)
        ids = second[FIELD].pop("prompt_token_ids") if path == CHAT else second["prompt"]
        assert ids == [7, 8, 9]
        assert second[FIELD] == PARAMS
        assert {name: second[name] for name in body if name != "prompt"} == {
            name: body[name] for name in body if name != "prompt"
        }


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:  # noqa: ARG001 - a reply
    await request_of(reader)
    await reader.read()


async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_of(reader)
    writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 900\r\n\r\n{")
    await writer.drain()


async def dead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await request_of(reader)
    writer.transport.abort()


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in leg_answer().items() if key != name}


FAULTS: dict[str, tuple[str, Reply]] = {
    "no server": ("refused", answers(503, {})),
    "another revision": ("revision", answers(425, {})),
    "an unknown model": ("status", answers(404, {})),
    "a failed engine": ("status", answers(500, {})),
    "a redirect": ("status", answers(307, {})),
    "dies in its step": ("reset", dead),
    "dies in its answer": ("reset", half),
    "silent": ("silent", silent),
    "no JSON": ("answer", answers(200, b"<html>")),
    "another JSON": ("answer", answers(200, [])),
    "no parameters": ("answer", answers(200, without(FIELD))),
    "null parameters": ("answer", answers(200, leg_answer() | {FIELD: None})),
    "no tokens": ("answer", answers(200, leg_answer(tokens=None))),
    "other tokens than blocks": ("answer", answers(200, leg_answer(tokens=[1] * 40))),
    "fewer tokens than blocks": ("answer", answers(200, leg_answer(tokens=[1]))),
    "no blocks": ("answer", answers(200, leg_answer(remote_block_ids=[]))),
    "an empty group": ("answer", answers(200, leg_answer(remote_block_ids=[[]]))),
    "names of blocks": ("answer", answers(200, leg_answer(remote_block_ids=[["a"]]))),
    "a host by name": ("answer", answers(200, leg_answer(remote_host="metadata.internal"))),
    "blocks to send": ("answer", answers(200, leg_answer(do_remote_prefill=False))),
    "too much": ("answer", answers(200, b" " * (program.MOST_LEG_BYTES + 1))),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
async def test_a_failed_leg_is_computed_here(case: Any) -> None:  # noqa: ANN401 - a row
    cause, reply = case
    app = Vllm()
    async with server(reply) as url:
        made = decode(app, url, **({"objective": OBJECTIVE} if cause == "silent" else {}))
        before = counted(made, "local", cause)
        assert await ask(made, completion()) == (200, b"local")
        assert counted(made, "local", cause) == before + 1
    assert app.bodies == [json.dumps(completion()).encode()]
    assert made.gate.used == 0


async def test_nobody_listens() -> None:
    app = Vllm()
    made = decode(app)
    before = counted(made, "local", "refused")
    assert await ask(made, completion()) == (200, b"local")
    assert counted(made, "local", "refused") == before + 1


READS: dict[str, tuple[str, dict[str, object]]] = {
    "the read hangs": ("read", {"hangs": True}),
    "the first token is late": ("read", {"late": 1000.0}),
    "the application fails": ("error", {"fails": True}),
    "the engine fails": ("error", {"status": 500}),
    "the engine refuses": ("error", {"status": 400}),
}


@pytest.mark.parametrize("case", READS.values(), ids=READS)
async def test_a_failed_read_is_computed_here(case: Any, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ANN401 - a row
    cause, behaviour = case
    monkeypatch.setattr(program, "LEG_OBJECTIVES", 30 / OBJECTIVE)  # the leg has time, the read has little
    app = Vllm()
    for name, value in behaviour.items():
        setattr(app, name, value)
    async with server(answers(200, leg_answer())) as url:
        made = decode(app, url, **({"objective": OBJECTIVE} if app.hangs else {}))
        before = counted(made, "local", cause)
        assert await ask(made, completion()) == (200, b"local")
        assert counted(made, "local", cause) == before + 1
    assert app.bodies[1:] == [json.dumps(completion()).encode()]
    assert app.aborted == app.hangs
    assert made.gate.used == 0


async def test_parameters_older_than_a_third_of_the_lease_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    app, times = Vllm(), iter((100.0, 311.0))
    async with server(answers(200, leg_answer())) as url:
        made = decode(app, url)
        monkeypatch.setattr(program, "now", lambda: next(times))
        assert await ask(made, completion()) == (200, b"local")
    assert counted(made, "local", "stale") == 1


def unanswered(made: Decode) -> float:
    return float(made.counts.requests._value.get())  # noqa: SLF001 - as above


async def test_a_client_that_leaves_ends_the_leg() -> None:
    left, ended, counts = asyncio.Event(), asyncio.Event(), list[float]()

    async def waits(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:  # noqa: ARG001 - a reply
        await request_of(reader)
        counts.append(unanswered(made))
        left.set()
        assert await reader.read() == b""
        ended.set()

    app = Vllm()
    async with server(waits) as url:
        made = decode(app, url, objective=60.0)
        assert await ask(made, completion(), left=left) == (0, b"")
        await asyncio.wait_for(ended.wait(), 10)
    assert (counts, unanswered(made)) == ([1], 0), "a drain waits for the leg"
    assert app.bodies == []
    assert made.gate.used == 0


HERE: dict[str, tuple[str, dict[str, Any], str]] = {
    "short": ("short", completion(prompt="a"), COMPLETIONS),
    "few tokens": ("short", completion(prompt=[1] * 9, user="x" * 100), COMPLETIONS),
    "prompts": ("shape", completion(prompt=[WORDS, WORDS]), COMPLETIONS),
    "prompts of tokens": ("shape", completion(prompt=[[1] * 50] * 12), COMPLETIONS),
    "choices": ("shape", completion(n=2), COMPLETIONS),
    "echo": ("field", completion(echo=True), COMPLETIONS),
    "prompt_logprobs": ("field", completion(prompt_logprobs=0), COMPLETIONS),
    "truncated": ("field", completion(truncate_prompt_tokens=-1), COMPLETIONS),
    "beams": ("field", completion(use_beam_search=True), COMPLETIONS),
    "embeddings": ("field", completion(prompt_embeds="AAAA"), COMPLETIONS),
    "unknown": ("field", completion(field_of_tomorrow={"a": 1}), COMPLETIONS),
    "a template": ("field", chat(chat_template="{{ x }}"), CHAT),
    "an image": ("shape", chat(messages=[{"role": "user", "content": [{"type": "image_url"}] * 9}]), CHAT),
    "no messages": ("shape", chat(messages=WORDS), CHAT),
}


@pytest.mark.parametrize("case", HERE.values(), ids=HERE)
async def test_what_one_engine_computes(case: Any) -> None:  # noqa: ANN401 - a row
    cause, body, path = case
    app = Vllm()
    made = decode(app)
    before = counted(made, "local", cause)
    assert await ask(made, body, path) == (200, b"local")
    assert counted(made, "local", cause) == before + 1
    assert made.session is None
    assert app.bodies == [json.dumps(body).encode()]


async def test_a_prompt_whose_begin_was_here_stays_here() -> None:
    app = Vllm()
    made = decode(app, tokens=1500)
    first, other = {"prompt": "a" * 12000}, {"prompt": "b" * 12000}
    assert made.cause(COMPLETIONS, first, json.dumps(first).encode()) == ""
    grown = {"prompt": "a" * 13000}
    assert made.cause(COMPLETIONS, grown, json.dumps(grown).encode()) == "prefix"
    salted = {"prompt": "a" * 13000, "cache_salt": "s"}
    assert made.cause(COMPLETIONS, salted, json.dumps(salted).encode()) == ""
    assert made.cause(COMPLETIONS, other, json.dumps(other).encode()) == ""


WEIGHTS: dict[str, tuple[int, dict[str, Any], str]] = {
    "a chat": (1, chat(), CHAT),
    "a chat with a list that vLLM ignores": (1, chat(prompt=["a"] * 256), CHAT),
    "choices": (3, chat(n=3), CHAT),
    "a prompt": (1, completion(), COMPLETIONS),
    "prompts": (6, completion(prompt=["a", "b", "c"], n=2), COMPLETIONS),
    "another path": (0, completion(), "/v1/embeddings"),
}


@pytest.mark.parametrize("case", WEIGHTS.values(), ids=WEIGHTS)
async def test_a_request_takes_and_gives_back_its_sequences(case: Any) -> None:  # noqa: ANN401 - a row
    weight, body, path = case
    for tokens in (20, 10**9):  # a leg where it may be one, and none
        used: list[int] = []
        async with server(answers(200, leg_answer(path))) as url:
            made = decode(Vllm(), url, tokens=tokens, sequences=256)
            app = made.app

            async def noted(*parts: Any, app: Any = app, made: Decode = made, used: list[int] = used) -> None:  # noqa: ANN401 - ASGI
                used.append(made.gate.used)
                await app(*parts)

            made.app = noted
            assert (await ask(made, body, path))[0] == 200
        assert (used, made.gate.used) == ([weight], 0)


async def test_a_leg_that_finds_no_free_sequence_in_time_is_computed_here() -> None:
    app = Vllm()
    made = decode(app, objective=OBJECTIVE)
    made.gate.used = 4
    before = counted(made, "local", "full")
    assert await ask(made, completion()) == (200, b"local")
    assert counted(made, "local", "full") == before + 1
    assert (made.gate.used, len(made.gate.waiting)) == (4, 0)


async def test_legs_wait_for_a_free_sequence() -> None:
    gate = Gate(2)
    gate.used += 2
    first, second = asyncio.create_task(gate.enter()), asyncio.create_task(gate.enter())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait({first})
    assert not second.done()
    gate.leave(1)
    await second
    assert gate.used == 2
    gate.leave(2)
    assert (gate.used, len(gate.waiting)) == (0, 0)


STRIPPED: dict[str, bytes] = {
    "beside": json.dumps(completion(prompt="a", **{FIELD: FOREIGN})).encode(),
    "escaped": b'{"prompt": "a", "kv_transfer_param\\u0073": {"do_remote_prefill": true}}',
    "twice": b'{"kv_transfer_params": null, "prompt": "a", "kv_transfer_params": {"remote_host": "x"}}',
    "inside": json.dumps(completion(prompt="a", vllm_xargs={FIELD: 0, "x": 1})).encode(),
    "UTF-16": json.dumps(completion(prompt="a", **{FIELD: FOREIGN})).encode("utf-16"),
    "UTF-32": json.dumps(completion(prompt="a", **{FIELD: FOREIGN})).encode("utf-32-be"),
}


@pytest.mark.parametrize("case", STRIPPED.values(), ids=STRIPPED)
async def test_parameters_of_clients_never_reach_the_engine(case: bytes) -> None:
    for path in (COMPLETIONS, CHAT, "/v1/responses", "/v1/messages", "/inference/v1/generate"):
        app = Vllm()
        rank = ((b"x-data-parallel-rank", b"3"), (b"content-length", b"9"), (b"x-kept", b"1"))
        assert (await ask(decode(app), case, path, headers=rank))[1] == b"local"
        (got,) = map(json.loads, app.bodies)
        assert got == program.without_field(json.loads(case))
        assert FIELD not in app.bodies[0].decode("utf-8")
        assert app.headers[0] == [(b"x-kept", b"1"), (b"content-length", str(len(app.bodies[0])).encode())]


async def test_forms_and_deep_json_are_refused() -> None:
    app = Vllm()
    form = ((b"content-type", b"Multipart/Form-Data; boundary=x"),)
    assert (await ask(decode(app), b"--x", "/v1/audio/transcriptions", headers=form))[0] == 415
    assert (await ask(decode(app), b'{"a":' * 200_000))[0] == 400
    assert app.bodies == []


async def through(count: int, seed: int) -> None:
    """Random bodies that are computed here: the engine gets the same bytes, unless they have transfer parameters."""
    rng, app = random.Random(seed), Vllm()  # noqa: S311 - test data
    made = decode(app, tokens=10**9)
    for _ in range(count):
        raw, path = random_body(rng), rng.choice((COMPLETIONS, CHAT, "/v1/embeddings", "/v1/messages"))
        app.bodies.clear()
        status, _ = await ask(made, raw, path)
        asked = program.parsed(raw)
        assert (status, len(app.bodies)) == (200, 1), raw
        got = app.bodies[0]
        expected = program.cleaned(raw, asked)
        assert got == expected, raw
        if isinstance(asked, dict):
            assert repr(json.loads(got)) == repr(program.without_field(asked)), raw
        if got != raw:
            assert isinstance(asked, dict)
            assert json.detect_encoding(raw) not in ("utf-8", "utf-8-sig") or repr(FIELD) in repr(asked), raw
    assert made.gate.used == 0


async def test_random_bodies_reach_the_engine_as_they_are() -> None:
    await through(1000, seed=1)


@pytest.mark.full
async def test_many_random_bodies_reach_the_engine_as_they_are() -> None:
    await through(100_000, seed=2)


def prefill(app: Vllm) -> Prefill:
    return Prefill(app, SimpleNamespace(revision="r1", port=1, ranks=1))


OWN = ((program.REVISION, b"r1"),)


async def test_a_prefill_engine_makes_a_leg_of_any_body() -> None:
    hostile = completion(
        stream=True, stream_options={"include_usage": True}, max_completion_tokens=9, min_tokens=5, n=1
    )
    for path in (COMPLETIONS, CHAT):
        app = Vllm()
        await ask(prefill(app), {**hostile, FIELD: FOREIGN, "vllm_xargs": {FIELD: 0}}, path, headers=OWN)
        (got,) = map(json.loads, app.bodies)
        assert got == {"model": "tiny", "prompt": WORDS, "n": 1, "vllm_xargs": {}, **program.LEG}


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "another revision": (425, {"headers": ((program.REVISION, b"r2"),)}),
    "two revisions": (425, {"headers": (*OWN, *OWN)}),
    "no revision": (425, {}),
    "another path": (404, {"path": "/v1/embeddings", "headers": OWN}),
    "control": (404, {"path": "/sleep", "headers": OWN}),
    "another method": (404, {"method": "PUT", "headers": OWN}),
    "no JSON": (400, {"body": b"x", "headers": OWN}),
    "no object": (400, {"body": b"[]", "headers": OWN}),
    "deep": (400, {"body": b'{"a":' * 200_000, "headers": OWN}),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
async def test_a_prefill_engine_refuses_everything_else(case: Any) -> None:  # noqa: ANN401 - a row
    status, given = case
    app = Vllm()
    assert (await ask(prefill(app), **{"body": completion(), **given}))[0] == status
    assert app.bodies == []


async def test_a_prefill_engine_answers_reads_and_the_operators_probe() -> None:
    app = Vllm()
    made = prefill(app)
    assert (await ask(made, {"model": "x", **program.PROBE}))[0] == 200
    assert (await ask(made, b"", "/metrics", method="GET"))[0] == 200
    assert (await ask(made, {"model": "x", **program.PROBE, "n": 2}))[0] == 425


async def test_a_prefill_engine_without_handshakes_is_not_healthy(monkeypatch: pytest.MonkeyPatch) -> None:
    app, is_up = Vllm(), [True, False, False, True]

    async def has_answer(port: int) -> bool:
        assert port == 1
        return is_up.pop(0)

    monkeypatch.setattr(program, "has_answer", has_answer)
    made, found = prefill(app), []
    for _ in range(4):
        made.looked = float("-inf")
        found.append((await ask(made, b"", "/health", method="GET"))[0])
        await made.look  # type: ignore[misc]
    made.looked = program.now()
    found.append((await ask(made, b"", "/health", method="GET"))[0])
    assert found == [200, 200, 200, 503, 200]
