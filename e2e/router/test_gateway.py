"""A gateway at a real HAProxy: which target a request reaches, what is refused, and what changes while it serves."""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import cycle, islice

import aiohttp
import pytest
from aiohttp import web

from e2e.clients.calls import RETRIEVE, WEATHER, Answered, Call, Outcome, Refused, chat, completion
from e2e.clients.packages import with_javascript, with_python
from e2e.helpers.free_ports import free_ports
from e2e.load import Load
from e2e.router.loopback import START_SECONDS, Loopback
from e2e.router.test_keys import ALICE, BOB, bearer, line
from e2e.runs.printed_figures import Say
from inference_operator.api.router import RouterSpec
from inference_operator.cli.drill.load import LoadPhase
from inference_operator.objects.gateway_key import (
    GATEWAY_ATTEMPTS_HEADER,
    GATEWAY_HEADERS,
    GATEWAY_KEY_HEADER,
    GATEWAY_USER_HEADER,
)
from inference_operator.objects.names import GATEWAY
from inference_operator.router.gateway import TARGET_HEADER
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.settings import Settings
from tests.testing.named_models import engines_model, odd_bodies

KEY = "0123456789abcdef"
COMPLETIONS = "/v1/completions"
BODIES, ALL_BODIES = 3_000, 120_000
STREAMS = 16
MODELS, MANY = 1_000, 10_000
SERVED = {"a": ("a", "chat"), "b": ("b", "chat"), "c": ("c", "late")}


@dataclass(slots=True)
class Target:
    """A stand-in for the router of a model. It answers with its name and what it got."""

    name: str
    address: str
    port: int
    status: int = 200
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    runner: web.AppRunner | None = None

    @property
    def route(self) -> str:
        return f"{self.address}|{self.port}|{self.name}"

    async def start(self) -> None:
        app = web.Application(client_max_size=2**25)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        await web.TCPSite(self.runner, self.address, self.port, reuse_address=True).start()

    async def stop(self) -> None:
        if self.runner:
            await self.runner.cleanup()
        self.runner = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests.append(request)
        self.bodies.append(body)
        if b'"stream": true' not in body:
            return web.json_response({"from": self.name, "path": request.path_qs}, status=self.status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(f"data: {self.name}\n\n".encode())
        await self.go_on.wait()
        await response.write(b"data: [DONE]\n\n")
        return response


@dataclass(slots=True)
class Gateway:
    """A gateway of three models."""

    loopback: Loopback
    targets: dict[str, Target]

    async def post(
        self, body: object, path: str = COMPLETIONS, **headers: str
    ) -> tuple[int, dict[str, object], aiohttp.ClientResponse]:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.loopback.session.post(f"{self.loopback.url}{path}", data=raw, headers=headers) as answer:
            return answer.status, await answer.json(), answer

    async def names(self) -> list[str]:
        async with self.loopback.session.get(f"{self.loopback.url}/v1/models") as answer:
            assert answer.status == 200
            return [one["id"] for one in (await answer.json())["data"]]

    async def write(self, *lines: str) -> None:
        """Change the list, and wait until the gateway has it; the last name of it says so."""
        mark = f"mark-{time.monotonic_ns()}"
        self.loopback.write_adapters("".join(f"{line}\n" for line in (*lines, f"{mark} {self.targets['a'].route}")))
        deadline = time.monotonic() + START_SECONDS
        while mark not in await self.names():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    def lines(self) -> list[str]:
        return [f"{target.name} {target.route}" for target in self.targets.values()]


ALL = {
    "keys": {"secretRef": {"name": "keys"}, "maxConcurrent": 1, "requestsPerMinute": 6_000},
    "tls": {"secretRef": {"name": "certificate"}},
    "cors": {"allowedOrigins": ["https://example.com"]},
    "usage": "Enabled",
    "metrics": {"users": True},
    "maxBodySize": "1Mi",
    "sessionHeader": GATEWAY_USER_HEADER,
}
"""Everything that a gateway shares with routers, at once."""


@pytest.fixture
async def gateway(loopback: Loopback, request: pytest.FixtureRequest) -> AsyncIterator[Gateway]:
    if spec := getattr(request, "param", None):
        loopback.spec = RouterSpec.model_validate(spec)
        loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
        loopback.renew_certificate()
    ports = free_ports(3)
    targets = {
        name: Target(name, f"127.0.54.{n}", port) for n, (name, port) in enumerate(zip("abc", ports, strict=True), 1)
    }
    for target in targets.values():
        await target.start()
    loopback.engine_key = KEY
    loopback.settings = Settings(forwarded_headers=("x-*",))
    loopback.component, loopback.has_adapters, loopback.model_names = GATEWAY, True, ()
    made = Gateway(loopback, targets)
    loopback.write_adapters("".join(f"{line}\n" for line in (*made.lines(), f"org/a {targets['a'].route}")))
    await loopback.start_router()
    try:
        yield made
    finally:
        for target in targets.values():
            target.go_on.set()
            await target.stop()


async def test_haproxy_takes_the_configuration_without_a_warning(gateway: Gateway) -> None:
    assert await gateway.loopback.checked_configuration() == ("", "")


@pytest.mark.parametrize("gateway", [ALL], indirect=True)
async def test_a_gateway_with_everything_counts_and_limits_its_users(gateway: Gateway) -> None:
    loopback, targets = gateway.loopback, gateway.targets
    assert await loopback.checked_configuration() == ("", "")
    assert (await gateway.post({"model": "a"}))[0] == 401
    forged = {**dict.fromkeys(GATEWAY_HEADERS, "root"), **bearer(ALICE)}
    assert (await gateway.post({"model": "a"}, **forged))[0] == 200
    seen = targets["a"].requests[-1].headers
    assert [seen.getall(name) for name in (GATEWAY_KEY_HEADER, GATEWAY_USER_HEADER)] == [[KEY], ["alice"]]
    assert "Authorization" not in seen
    body = json.dumps({"model": "a", "stream": True}).encode()
    async with loopback.session.post(f"{loopback.url}{COMPLETIONS}", data=body, headers=bearer(ALICE)) as stream:
        assert await stream.content.readline()
        assert (await gateway.post({"model": "b"}, **bearer(ALICE)))[0] == 429
        assert (await gateway.post({"model": "b"}, **bearer(BOB)))[0] == 200
        targets["a"].go_on.set()
        await stream.read()
    page = await loopback.metrics(ROUTER_METRICS_PATH)
    assert re.search(r'limited_requests_total\{user="alice",reason="concurrency"\} 1\n', page)
    assert 'router_requests_total{user="alice",code="2xx"} 2\n' in page


@pytest.mark.parametrize("gateway", [{"sessionHeader": GATEWAY_USER_HEADER}], indirect=True)
async def test_no_client_is_a_user_by_the_header_of_sessions(gateway: Gateway) -> None:
    assert (await gateway.post({"model": "a"}, **{GATEWAY_USER_HEADER: "root"}))[0] == 200
    assert GATEWAY_USER_HEADER not in gateway.targets["a"].requests[-1].headers


async def test_the_model_chooses_and_its_router_learns_who_asks(gateway: Gateway) -> None:
    assert await gateway.names() == ["a", "b", "c", "org/a"]
    forged = dict.fromkeys(GATEWAY_HEADERS, "forged")
    for name, target in (("a", "a"), ("b", "b"), ("org/a", "a")):
        status, found, answer = await gateway.post({"model": name, "prompt": "x"}, **forged)
        assert (status, found["from"], answer.headers[TARGET_HEADER]) == (200, target, target)
        got = gateway.targets[target].requests[-1].headers
        assert {header: got.getall(header) for header in GATEWAY_HEADERS if header in got} == {
            GATEWAY_KEY_HEADER: [KEY],
            GATEWAY_ATTEMPTS_HEADER: ["0"],
        }
        assert got["Host"] == f"{target}.default.svc.cluster.local"
        assert json.loads(gateway.targets[target].bodies[-1]) == {"model": name, "prompt": "x"}


@pytest.mark.parametrize(
    ("body", "path", "status", "text"),
    [
        ({"model": "aa", "prompt": "x"}, COMPLETIONS, 404, "the model `aa` does not exist"),
        ({"model": "org/aa"}, COMPLETIONS, 404, "the model `org/aa` does not exist. Did you mean `org/a`?"),
        ({"prompt": "x"}, COMPLETIONS, 400, "as `/models/NAME/v1/...`"),
        ({"model": "a"}, "/models/aa/v1/completions", 404, "the model `aa` does not exist"),
        ({"model": "a"}, "/metrics", 404, "this API has no path `/metrics`"),
        ({"model": "a"}, "/models/a/v1/load_lora_adapter", 404, "this API has no path"),
        (b'{"model": "a", "model": "b"}', COMPLETIONS, 400, "names its `model` once"),
    ],
)
async def test_what_names_no_model_is_refused(
    gateway: Gateway, body: object, path: str, status: int, text: str
) -> None:
    found = await gateway.post(body, path)
    assert found[0] == status
    assert text in found[1]["error"]["message"]  # type: ignore[index]


async def test_the_path_form_takes_every_request(gateway: Gateway) -> None:
    session, url = gateway.loopback.session, gateway.loopback.url
    for method, path, target in (
        ("GET", "/models/b/v1/responses/7?stream=true", "b"),
        ("DELETE", "/models/org/a/v1/responses/7", "a"),
        ("GET", "/models/org%2Fa/v1/models", "a"),
        ("POST", "/models/b/v1/completions", "b"),
    ):
        async with session.request(method, f"{url}{path}", data=b"no JSON" if method == "POST" else None) as answer:
            found = await answer.json()
            assert (answer.status, found["from"]) == (200, target), found
            assert found["path"] == path[path.index("/v1") :]


FROM_B = Answered(lambda answer: answer["from"] == "b")
UNNAMED = Refused(400, "/models/NAME/", "model_missing")
BY_PATH = "/models/b/v1"
CALLS = (
    chat("a question", FROM_B),
    chat("tools", FROM_B, tools=[WEATHER]),
    completion("a prompt", FROM_B),
    Call("embeddings", "embeddings.create", FROM_B, {"model": "{name}", "input": "otters", "encoding_format": "float"}),
    Call("a response", "responses.create", FROM_B, {"model": "{name}", "input": "otters"}),
    Call("a stored response", "responses.retrieve", FROM_B, place="7", base=BY_PATH),
    Call("a model's own page", RETRIEVE, FROM_B, place="b", base=BY_PATH),
    Call("a stored response without a model", "responses.retrieve", UNNAMED, place="7"),
)


@pytest.mark.parametrize("package", [with_python, with_javascript])
async def test_calls_of_the_openai_packages_reach_their_model(
    gateway: Gateway, package: Callable[[str, str, Sequence[Call]], list[Outcome]]
) -> None:
    outcomes = await asyncio.to_thread(package, f"127.0.0.1:{gateway.loopback.port}", "b", CALLS)
    pairs = zip(CALLS, outcomes, strict=True)
    assert {call.title: fault for call, got in pairs if (fault := call.expected.fault(got))} == {}


async def test_a_form_names_its_model_in_a_field(gateway: Gateway) -> None:
    form = aiohttp.FormData({"model": "b"})
    form.add_field("file", b"RIFF" * 100, filename="a.wav")
    url = f"{gateway.loopback.url}/v1/audio/transcriptions"
    async with gateway.loopback.session.post(url, data=form) as answer:
        assert (await answer.json())["from"] == "b"


async def test_a_file_that_is_called_model_names_none(gateway: Gateway) -> None:
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("file", "a\r\nRIFF", filename="model")
    form.add_field("model", "b")
    async with gateway.loopback.session.post(f"{gateway.loopback.url}/v1/audio/transcriptions", data=form) as answer:
        assert (await answer.json())["from"] == "b"


async def test_a_model_that_cannot_answer_says_why_and_is_not_listed(gateway: Gateway) -> None:
    await gateway.write(*gateway.lines()[:2], "c -|InsufficientGpuMemory|c")
    assert "c" not in await gateway.names()
    status, found, _ = await gateway.post({"model": "c"})
    assert status == 503
    assert "InsufficientGpuMemory" in found["error"]["message"]  # type: ignore[index]
    page = await gateway.loopback.metrics(ROUTER_METRICS_PATH)
    assert 'router_model_requests_total{model="c",target="c",code="5xx"} 1\n' in page


@pytest.mark.parametrize(("seed", "count"), [(7, BODIES), pytest.param(60, ALL_BODIES, marks=pytest.mark.full)])
async def test_bodies_reach_the_model_that_an_engine_reads_in_them(
    gateway: Gateway, seed: int, count: int, say: Say
) -> None:
    """As `json.loads` reads them, or no target at all."""
    a, b = gateway.targets["a"].route, gateway.targets["b"].route
    await gateway.write(f"chat {a}", f"sql {b}", f"org/sql {b}", f"model {b}")
    owner = {"chat": "a", "sql": "b", "org/sql": "b", "model": "b"}
    counted: Counter[str] = Counter()

    async def check(body: bytes) -> None:
        status, found, _ = await gateway.post(body)
        if status != 200:
            counted["refused"] += 1
            return
        try:
            named = engines_model(body)
        except ValueError:  # it is no JSON: the engine refuses it
            counted["no JSON"] += 1
            return
        counted["answered"] += 1
        assert owner[str(named)] == found["from"], body

    bodies = odd_bodies(seed, count)
    while some := [*islice(bodies, 100)]:
        await asyncio.gather(*map(check, some))
    say(str(counted))
    assert counted["answered"] > count / 50
    assert counted["refused"] > count / 20


async def test_a_model_comes_and_goes_under_streams(gateway: Gateway) -> None:
    """No stream is cut, also not that of a model that goes."""

    async def stream(name: str) -> str:
        url, body = f"{gateway.loopback.url}{COMPLETIONS}", json.dumps({"model": name, "stream": True})
        async with gateway.loopback.session.post(url, data=body) as answer:
            return await answer.text()

    names = ["a", "b", "c", "org/a"] * (STREAMS // 4)
    streams = [asyncio.create_task(stream(name)) for name in names]
    deadline = time.monotonic() + START_SECONDS
    while sum(len(target.requests) for target in gateway.targets.values()) < STREAMS:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await gateway.write(f"new {gateway.targets['b'].route}", f"b {gateway.targets['c'].route}")
    assert (await gateway.post({"model": "new"}))[1]["from"] == "b"
    assert (await gateway.post({"model": "b"}))[1]["from"] == "c"
    assert (await gateway.post({"model": "a"}))[0] == 404
    for target in gateway.targets.values():
        target.go_on.set()
    served = {"a": "a", "b": "b", "c": "c", "org/a": "a"}
    assert await asyncio.gather(*streams) == [f"data: {served[name]}\n\ndata: [DONE]\n\n" for name in names]


async def test_a_thousand_models_are_listed_and_each_is_reached(gateway: Gateway, say: Say) -> None:
    served = {f"m{number}": gateway.targets["abc"[number % 3]] for number in range(MODELS)}
    began = time.monotonic()
    await gateway.write(*(f"{name} {target.route}" for name, target in served.items()))
    say(f"{MODELS} models are listed after {time.monotonic() - began:.1f} s")
    assert served.keys() < set(await gateway.names())
    answers = await asyncio.gather(*(gateway.post({"model": name}) for name in served))
    assert [found["from"] for _, found, _ in answers] == [target.name for target in served.values()]


async def as_engine(self: Target, request: web.Request) -> web.StreamResponse:
    """Answer as vLLM does: refuse a model of another engine, and say the prompt."""
    asked = json.loads(await request.read())
    if asked["model"] not in SERVED[self.name]:
        return web.json_response({"error": {"message": "no such model", "code": 404}}, status=404)
    words = [f" {word}" for word in asked["prompt"].split()]
    if not asked["stream"]:
        return web.json_response({"id": "1", "choices": [{"text": "".join(words), "finish_reason": "stop"}]})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for left, word in zip(reversed(range(len(words))), words, strict=True):
        choice = {"text": word, "finish_reason": None if left else "stop"}
        await response.write(f"data: {json.dumps({'id': '1', 'choices': [choice]})}\n\n".encode())
        await asyncio.sleep(0)
    await response.write(b"data: [DONE]\n\n")
    return response


@pytest.mark.full
async def test_ten_thousand_requests_meet_their_models_while_the_list_changes_all_the_time(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, say: Say
) -> None:
    monkeypatch.setattr(Target, "_answer", as_engine)
    for target in gateway.targets.values():  # each has the handler of its start
        await target.stop()
        await target.start()
    a, b, c = (gateway.targets[name].route for name in "abc")
    lists = [
        (f"a {a}", f"b {b}", f"c {c}", f"chat *1|{a};1|{b}"),
        (f"chat *9|{a};1|{b}", f"b {b}", f"a {a}", f"late {c}"),
        (f"a {a}", f"b {b}", f"chat *1|{b}", f"late *1|{c}", f"c {c}"),
        (f"a {a}", f"b {b}", f"chat *1|{a};f|{b}", *(f"m{number} {c}" for number in range(MODELS))),
    ]
    await gateway.write(*lists[0])
    loads = {name: Load(gateway.loopback.url.removeprefix("http://"), name, workers=8) for name in ("a", "b", "chat")}
    for load in loads.values():
        await asyncio.to_thread(load.learn)
    phases = {name: LoadPhase(at_most=MANY // len(loads) + 1) for name in loads}
    sending = [asyncio.create_task(loads[name].send(phase)) for name, phase in phases.items()]
    changes = 0
    for lines in cycle(lists):
        await gateway.write(*lines)
        changes += 1
        if all(task.done() for task in sending):
            break
    await asyncio.gather(*sending)
    answers = [answer for phase in phases.values() for answer in phase.answers]
    say(f"{len(answers)} requests, {changes} changes of the list")
    assert len(answers) >= MANY
    assert changes > len(lists)
    assert [answer for answer in answers if not answer.ok] == []


async def test_an_alias_divides_by_weight_and_keeps_a_session_at_its_target(gateway: Gateway) -> None:
    a, b = gateway.targets["a"].route, gateway.targets["b"].route
    await gateway.write(f"chat *9|{a};1|{b}")

    async def shares() -> dict[str, str]:
        sessions = [f"s{number}" for number in range(400)]
        answers = await asyncio.gather(*(gateway.post({"model": "chat"}, **{"x-session-id": s}) for s in sessions))
        return {session: str(found["from"]) for session, (_, found, _) in zip(sessions, answers, strict=True)}

    first = await shares()
    assert await shares() == first
    assert 15 < Counter(first.values())["b"] < 75, "a tenth of 400"
    await gateway.write(f"chat *1|{a};1|{b}")
    second = await shares()
    assert 150 < Counter(second.values())["b"] < 250
    assert all(second[session] == "b" for session, target in first.items() if target == "b"), "only from a to b"


@pytest.mark.parametrize("fault", [429, 503, "refused"])
async def test_a_fallback_takes_what_a_target_could_not(gateway: Gateway, fault: int | str) -> None:
    targets = gateway.targets
    await gateway.write(f"chat *1|{targets['a'].route};f|{targets['b'].route}", *gateway.lines())
    if isinstance(fault, int):
        targets["a"].status = fault
    else:
        await targets["a"].stop()
    for _ in range(3):
        status, found, answer = await gateway.post({"model": "chat", "prompt": "x"})
        assert (status, found["from"], answer.headers[TARGET_HEADER]) == (200, "b", "b")
        assert targets["b"].requests[-1].headers.getall(GATEWAY_ATTEMPTS_HEADER) == ["2"]
    page = await gateway.loopback.metrics(ROUTER_METRICS_PATH)
    assert 'router_fallbacks_total{model="chat",target="a"} 3\n' in page
    assert 'router_model_requests_total{model="chat",target="b",code="2xx"} 3\n' in page
    logged = [json.loads(line) for line in gateway.loopback.log.read_text().splitlines() if line.startswith("{")]
    assert [(one["target"], one["fallback"]) for one in logged if one["model"] == "chat"] == [("b", "a")] * 3
    before = len(targets["b"].requests)
    status, *_ = await gateway.post({"model": "a", "prompt": "x"})
    assert status == (fault if isinstance(fault, int) else 503), "without a fallback it is the client's to know"
    assert len(targets["b"].requests) == before


async def test_one_model_cannot_take_all_places(gateway: Gateway) -> None:
    gateway.loopback.router.terminate()  # type: ignore[union-attr]
    await gateway.loopback.router.wait()  # type: ignore[union-attr]
    gateway.loopback.spec = RouterSpec.model_validate({"resources": {"limits": {"memory": "8Mi"}}})
    await gateway.loopback.start_router()

    body, url = json.dumps({"model": "a", "stream": True}), f"{gateway.loopback.url}{COMPLETIONS}"

    async def flood(session: aiohttp.ClientSession) -> int:
        async with session.post(url, data=body) as answer:
            await answer.read()
            return answer.status

    async with AsyncExitStack() as stack:

        async def client(address: str) -> aiohttp.ClientSession:
            connector = aiohttp.TCPConnector(limit=0, local_addr=(address, 0))
            return await stack.enter_async_context(aiohttp.ClientSession(connector=connector))

        clients = [await client(f"127.0.70.{number}") for number in range(1, 21)]
        held = [asyncio.create_task(flood(one)) for one in clients for _ in range(8)]
        done, waiting = await asyncio.wait(held, timeout=3)
        refused = [task.result() for task in done if not task.exception()]
        assert set(refused) == {429}, "the model has reached its share before all places are taken"
        assert waiting
        other = await client("127.0.71.1")
        async with other.post(url, data=json.dumps({"model": "b"})) as answer:
            assert (answer.status, (await answer.json())["from"]) == (200, "b")
        gateway.targets["a"].go_on.set()
        await asyncio.gather(*held, return_exceptions=True)
