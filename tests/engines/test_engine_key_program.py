"""The program that asks for the key of the routers: as middleware of an application, and as the start of a command."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter

from inference_operator.engines import engine_key_program as program
from inference_operator.engines.engine_key_program import EngineKey
from inference_operator.engines.programs import (
    KEY_PROGRAMS,
    MIDDLEWARE,
    PROGRAMS_VARIABLE,
    guard_of,
    programs_text,
)
from inference_operator.engines.registry import ENGINES

KEY, OTHER = "a" * 64, "b" * 64
KINDS = ("prompt", "completion")
CLOSED = (
    *("/v1/models", "/v1/chat/completions", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/tokenize"),
    *(
        "/detokenize",
        "/pause",
        "/resume",
        "/sleep",
        "/wake_up",
        "/update_weights",
        "/collective_rpc",
        "/reset_prefix_cache",
    ),
    *("/version", "/load", "/ping", "/docs", "/openapi.json", "/server_info", "/", "/health/", "/healthz", "//health"),
    *("/metrics/x", "/Metrics", "/v1/completions/", "/inference/v1/generate", "/abort_requests", "/scale_elastic_ep"),
)
"""Paths of vLLM 0.32, and some that look like open ones."""


class Application:
    """An ASGI application that answers everything, and tells what it got."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.bodies: list[bytes] = []
        self.status = 200
        self.hangs = asyncio.Event()
        self.hangs.set()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        if scope["type"] == "lifespan":
            return
        self.paths.append(scope["path"])
        self.headers.append(scope["headers"])
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            return
        message = await receive()
        self.bodies.append(message.get("body", b""))
        await self.hangs.wait()
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        await send({"type": "http.response.body", "body": b"answered"})


@pytest.fixture
def app() -> Application:
    return Application()


@pytest.fixture
def guarded(app: Application, tmp_path: Path) -> EngineKey:
    (tmp_path / "key").write_text(f"{KEY}\n")
    return EngineKey(app, str(tmp_path / "key"), "qwen")


def bearer(key: str) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", f"Bearer {key}".encode())]


async def ask(
    guarded: EngineKey,
    path: str,
    *,
    method: str = "GET",
    kind: str = "http",
    headers: Sequence[tuple[bytes, bytes]] = (),
    body: bytes = b"",
    left: asyncio.Event | None = None,
) -> list[dict[str, Any]]:
    """The messages of an answer."""
    given = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if kind == "websocket":
            return {"type": "websocket.connect"}
        if given:
            return given.pop()
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": kind, "path": path, "headers": list(headers), **({"method": method} if kind == "http" else {})}
    await guarded(scope, receive, send)
    return sent


async def status(guarded: EngineKey, path: str, **rest: Any) -> int:  # noqa: ANN401 - passed on
    return int((await ask(guarded, path, **rest))[0]["status"])


def probe(body: object = None) -> dict[str, Any]:
    """The operator's probe request, as it sends it."""
    text = json.dumps(body or {"model": "any", **program.PROBE}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    return {"path": program.PROBE_PATH, "method": "POST", "headers": headers, "body": text}


@pytest.mark.parametrize("path", CLOSED)
async def test_without_the_key_no_path_but_health_and_metrics_is_answered(
    guarded: EngineKey, app: Application, path: str
) -> None:
    bare = [(b"authorization", KEY.encode())]
    wrong: list[list[tuple[bytes, bytes]]] = [[], bearer(OTHER), bearer(KEY[:-1]), bearer(""), bare, bearer(KEY) * 2]
    for method in ("GET", "POST", "OPTIONS", "PUT"):
        for headers in (*wrong, [(b"x-api-key", KEY.encode())]):
            assert await status(guarded, path, method=method, headers=headers) == 401
    assert app.paths == []
    assert await status(guarded, path, method="POST", headers=bearer(KEY)) == 200
    assert app.paths == [path]


async def test_a_refusal_is_json_that_names_neither_key_nor_path(guarded: EngineKey) -> None:
    start, body = await ask(guarded, "/v1/models", headers=bearer(OTHER))
    assert (b"content-type", b"application/json") in start["headers"]
    assert json.loads(body["body"])["error"]["type"] == "authentication_error"
    assert OTHER not in str(body)


@pytest.mark.parametrize("path", sorted(program.OPEN))
async def test_health_and_metrics_can_be_read_without_a_key_and_not_written(guarded: EngineKey, path: str) -> None:
    assert [await status(guarded, path, method=method) for method in ("GET", "HEAD")] == [200, 200]
    assert [await status(guarded, path, method=method) for method in ("POST", "PUT", "OPTIONS")] == [401] * 3


async def test_the_application_sees_neither_the_key_nor_its_header(guarded: EngineKey, app: Application) -> None:
    await ask(guarded, "/v1/models", headers=[*bearer(KEY), (b"accept", b"*/*")])
    assert app.headers == [[(b"accept", b"*/*")]]


async def test_a_websocket_without_the_key_is_closed_before_it_is_accepted(
    guarded: EngineKey, app: Application
) -> None:
    for path in ("/v1/realtime", "/health"):
        assert await ask(guarded, path, kind="websocket") == [{"type": "websocket.close", "code": 1008}]
    assert app.paths == []
    assert await ask(guarded, "/v1/realtime", kind="websocket", headers=bearer(KEY)) == [{"type": "websocket.accept"}]


async def test_without_a_readable_key_nothing_fits(app: Application, tmp_path: Path) -> None:
    for text in (None, "", "\n"):
        if text is not None:
            (tmp_path / "key").write_text(text)
        guarded = EngineKey(app, str(tmp_path / "key"))
        assert [await status(guarded, "/v1/models", headers=bearer(key)) for key in ("", KEY)] == [401, 401]
        assert await status(guarded, "/health") == 200


async def test_a_renewed_key_is_taken_and_the_former_one_stays_valid_for_a_while(
    guarded: EngineKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1e9
    monkeypatch.setattr("inference_operator.engines.engine_key_program.time.monotonic", lambda: now)

    async def fitting() -> list[bool]:
        return [await status(guarded, "/v1/models", headers=bearer(key)) == 200 for key in (KEY, OTHER)]

    assert await fitting() == [True, False]
    (tmp_path / "key").write_text(OTHER)
    now += program.LOOK_SECONDS
    assert await fitting() == [True, True]
    (tmp_path / "key").unlink()
    now += program.FORMER_SECONDS - 1
    assert await fitting() == [True, True], "a file that is gone keeps the key"
    now += 1
    assert await fitting() == [False, True]


# The operator's probe request


@pytest.mark.parametrize("name", ["VLLM", "Transformers"])
async def test_the_probe_request_of_an_engine_needs_no_key(guarded: EngineKey, app: Application, name: str) -> None:
    request = ENGINES[name].probe_request("qwen")
    assert request is not None
    assert request.path == program.PROBE_PATH
    assert await status(guarded, **probe(request.body)) == 200
    assert [json.loads(body) for body in app.bodies] == [{"model": "qwen", "prompt": "1", "max_tokens": 1}]


async def test_the_answer_to_a_probe_request_tells_only_the_status(guarded: EngineKey, app: Application) -> None:
    app.status = 404
    start, body = await ask(guarded, **probe())
    assert (start["status"], body["body"]) == (404, b"{}")


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "1", "max_tokens": 2},
        {"prompt": "2", "max_tokens": 1},
        {"prompt": "1", "max_tokens": 1, "n": 100},
        {"prompt": "1", "max_tokens": 1, "model": "x" * 600},
        {"prompt": ["1"], "max_tokens": 1},
        [],
        "1",
    ],
    ids=str,
)
async def test_another_request_to_its_path_needs_the_key(guarded: EngineKey, app: Application, body: object) -> None:
    assert await status(guarded, **probe(body or [1])) == 401
    assert app.paths == []


async def test_a_probe_request_of_no_or_a_wrong_length_needs_the_key(guarded: EngineKey) -> None:
    for length in ([], [(b"content-length", b"-1")], [(b"content-length", b"4"), (b"content-length", b"4")]):
        assert await status(guarded, **{**probe(), "headers": length}) == 401


async def test_all_who_ask_at_a_time_share_one_probe_and_none_can_keep_the_operator_from_asking(
    guarded: EngineKey, app: Application
) -> None:
    app.hangs.clear()
    strangers = [asyncio.create_task(status(guarded, **probe({"model": f"x{n}", **program.PROBE}))) for n in range(50)]
    operator = asyncio.create_task(status(guarded, **probe()))
    await asyncio.sleep(0)
    while len(app.bodies) < 1:  # noqa: ASYNC110 - the application sets no event
        await asyncio.sleep(0.01)
    assert not operator.done(), "a hung engine gives no answer, whoever asks"
    assert len(app.bodies) == 1
    app.hangs.set()
    assert await asyncio.gather(operator, *strangers) == [200] * 51
    assert len(app.bodies) == 1
    assert await status(guarded, **probe()) == 200
    assert len(app.bodies) == 2


async def test_the_probe_ends_once_all_have_left_who_wait_for_it(guarded: EngineKey, app: Application) -> None:
    app.hangs.clear()
    left = asyncio.Event()
    waiting = [asyncio.create_task(ask(guarded, **probe(), left=left)) for _ in range(3)]
    while len(app.bodies) < 1:  # noqa: ASYNC110 - the application sets no event
        await asyncio.sleep(0.01)
    left.set()
    assert await asyncio.gather(*waiting) == [[], [], []]
    assert guarded.probe is None
    app.hangs.set()
    assert await status(guarded, **probe()) == 200


async def test_an_application_that_fails_is_no_answer_of_the_engine(tmp_path: Path) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError

    (tmp_path / "key").write_text(KEY)
    assert await status(EngineKey(broken, str(tmp_path / "key")), **probe()) == 500


# Tokens of users


class Step:
    """What vLLM counts in a step of its scheduler, as `IterationStats` of 0.32 does."""

    def __init__(self) -> None:
        self.num_prompt_tokens = self.num_generation_tokens = 0

    def update_from_output(self, output: Sequence[int], _at: float, is_prefilling: bool, _: "State") -> None:  # noqa: FBT001 - as vLLM's
        """A part of a request's answer, the first with its prompt."""
        prompt, completion = output
        self.num_prompt_tokens += prompt if is_prefilling else 0
        self.num_generation_tokens += completion


class State:
    """`RequestStateStats`, of which the output processor makes one for each sequence of a request."""

    def __init__(self, arrival_time: float = 0.0) -> None:
        self.arrival_time = arrival_time


@pytest.fixture
def counting(app: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineKey]:
    """The middleware in a process where vLLM is."""
    registry = CollectorRegistry()
    monkeypatch.setattr("prometheus_client.Counter", partial(Counter, registry=registry))
    stats = ModuleType("vllm.v1.metrics.stats")
    stats.__dict__.update(IterationStats=type("Step", (Step,), {}), RequestStateStats=type("State", (State,), {}))
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, stats.__name__, stats)
    step = stats.IterationStats

    async def engine(scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401 - ASGI
        requests, totals = [stats.RequestStateStats(), stats.RequestStateStats()], step()
        for request in requests:  # two answers of 3 tokens each, to a prompt of 5
            totals.update_from_output((5, 1), 0.0, True, request)  # noqa: FBT003 - as vLLM does
            totals.update_from_output((5, 2), 1.0, is_prefilling=False, _=request)
        await app(scope, receive, send)

    program.count_tokens.cache_clear()
    (tmp_path / "key").write_text(KEY)
    guard = EngineKey(engine, str(tmp_path / "key"))
    guard.__dict__["registry"] = registry
    yield guard
    program.count_tokens.cache_clear()


def tokens(guard: EngineKey, user: str) -> tuple[float | None, float | None]:
    registry, name = guard.__dict__["registry"], f"{program.TOKENS}_total"
    prompt, completion = (
        registry.get_sample_value(name, {"user": user, "type": one}) for one in ("prompt", "completion")
    )
    return prompt, completion


@pytest.mark.parametrize(
    ("given", "user"),
    [
        ([b"alice"], "alice"),
        ([], ""),
        ([b"alice", b"bob"], ""),
        ([b'a"b\xe9 \n'], "a_b___"),
        ([b"a" * 200], "a" * 128),
    ],
)
async def test_tokens_are_counted_for_the_user_that_came_with_the_key(
    counting: EngineKey, app: Application, given: list[bytes], user: str
) -> None:
    headers = [*bearer(KEY), *((program.USER_HEADER, one) for one in given)]
    for _ in range(2):
        assert await status(counting, "/v1/completions", method="POST", headers=headers) == 200
    assert tokens(counting, user) == (20, 12)
    assert app.headers == [[], []]


async def test_a_user_without_the_key_is_no_user_and_the_probe_is_nobodys(counting: EngineKey) -> None:
    claim = [(program.USER_HEADER, b"bob")]
    assert await status(counting, "/v1/completions", method="POST", headers=claim) == 401
    asked = probe()
    assert await status(counting, **{**asked, "headers": [*asked["headers"], *claim]}) == 200
    assert (tokens(counting, "bob"), tokens(counting, "")) == ((None, None), (10, 6))


async def test_further_users_are_counted_together(counting: EngineKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_USERS", 2)
    for user in (b"a", b"b", b"c", b"d", b"a"):
        headers = [*bearer(KEY), (program.USER_HEADER, user)]
        await status(counting, "/v1/completions", method="POST", headers=headers)
    assert [tokens(counting, user) for user in ("a", "b", "c", "other")] == [(20, 12), (10, 6), (None, None), (20, 12)]


class NamedStep(Step):
    """One that has to be told more."""

    def __init__(self, _engine: int) -> None:
        super().__init__()


@pytest.mark.parametrize("missing", ["IterationStats", "num_prompt_tokens", "arguments"])
def test_a_vllm_that_counts_otherwise_is_left_as_it_is(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stats = ModuleType("vllm.v1.metrics.stats")
    step = NamedStep if missing == "arguments" else type("Step", (), {"update_from_output": Step.update_from_output})
    stats.__dict__.update(RequestStateStats=State, **({} if missing == "IterationStats" else {"IterationStats": step}))
    monkeypatch.setitem(sys.modules, stats.__name__, stats)
    for name in ("vllm", "vllm.v1", "vllm.v1.metrics"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    program.count_tokens.cache_clear()
    before = State.__init__
    program.count_tokens()
    program.count_tokens.cache_clear()
    assert (State.__init__, step.update_from_output) == (before, Step.update_from_output)  # type: ignore[attr-defined]


# The start of a command


def test_a_started_command_can_import_the_middleware_and_knows_its_key(tmp_path: Path) -> None:
    look = (
        f"import {MIDDLEWARE.partition('.')[0]} as found, os; guard = found.EngineKey(None);"
        f" print(guard.model, guard.keys.path, '{PROGRAMS_VARIABLE}' in os.environ, os.environ['PYTHONPATH'])"
    )
    command = (*guard_of("qwen $(x)").command, sys.executable, "-c", look)
    variables = {
        **os.environ,
        PROGRAMS_VARIABLE: programs_text(KEY_PROGRAMS),
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": "/else",
    }
    for _ in range(2):  # a container that starts again finds its former files
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        *words, path = done.stdout.split()
        assert words == ["qwen", "$(x)", "/engine-key/key", "False"]
        assert path == f"{tmp_path}/{program.MODULE}:/else"
