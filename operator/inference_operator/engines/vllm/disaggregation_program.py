"""Prefill and decode apart: the middleware of both roles in vLLM's API process, and how its command gets it.

As a program it becomes another command, whose Python can import this source as a module. Arguments: NAME=VALUE... --
COMMAND... (`NAMES`).

A decode engine has the blocks of a long prompt computed by a prefill engine: it sends the client's body there as the
first step (a leg), through the router. The answer says which blocks vLLM's connector may read, and of which tokens.
1. Clients' own transfer parameters and rank never reach vLLM. They would have it connect to any host, and read any
   block (0.32.0, `kv_connector/v1/nixl/base_worker.py`).
2. vLLM reads the blocks that it is told, and cannot know whether they still hold that prompt. So the prompt is given to
   it as the tokens of which the blocks are, and everything from the leg's start to the first token has its bound,
   together a sixth of the time for which prefill keeps blocks (`lease`). What comes later is thrown away.
3. Whatever fails does so before the first byte of the answer, and then the decode engine computes the prompt itself.

A prefill engine takes legs of its own revision and nothing else. It alone makes a leg of a body, so that no parameter
of the body counts.
"""

import asyncio
import ipaddress
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

Scope: TypeAlias = dict[str, Any]
Message: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Result = TypeVar("Result")

MODULE, PROGRAM, VARIABLE = "inference_operator_disaggregation", "disaggregation", "INFERENCE_OPERATOR_KV_TRANSFER"
PROGRAMS = "INFERENCE_OPERATOR_PROGRAMS"
NAMES = {"role": str, "revision": str, "url": str, "tokens": int, "objective": float, "lease": float} | {
    "sequences": int,
    "port": int,
    "ranks": int,
}
KEY_FILE = "ENGINE_KEY_FILE"
"""Variable with the file of the engines' key (`engine_key_program.py`)."""

FIELD, EXTRA = "kv_transfer_params", "vllm_xargs"
"""The transfer parameters, and a field whose entries vLLM takes as if they stood beside it."""
REVISION, RANK = b"x-kv-revision", b"x-data-parallel-rank"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
PROBE = {"prompt": "1", "max_tokens": 1}
"""The operator's probe request, but for the model."""

PREFILL = "inference_operator_engine_prefill"
"""How its metrics begin."""
LEG_OBJECTIVES, READ_OBJECTIVES = 1.5, 2.0
"""Times the objective that the first step, and then the first token, may take."""
CONNECT_SECONDS, USER_TIMEOUT_MS = 2.0, 5000
MOST_LEG_BYTES = 16 * 2**20
"""Of the first step's answer: a million tokens are 8 MB."""
BYTES_PER_TOKEN = 4
BLOCK_BYTES, MOST_BLOCKS = 4096, 4096
"""Of the memory of recent prompts: 16 MiB of text, 4 million tokens."""
HANDSHAKE_SECONDS, HANDSHAKE_LIMIT, MOST_FAILURES = 10.0, 5.0, 2
META_OF_FIRST_RANK = b"\x93\xc4\x0cget_meta_msg\x00\x00"
"""(`GET_META_MSG`, rank of pipeline, rank of tensor parallelism) in msgpack (0.32.0, `nixl/metadata.py`)."""
HOST = "VLLM_NIXL_SIDE_CHANNEL_HOST"
MOST_BACKOFF = 16
"""Last tokens that vLLM's prefill may leave out for the decode engine to compute (0.32.0, `_prefill_backoff`)."""
OK, POLICY_VIOLATION = 200, 1008
CAUSES = {425: "revision", 503: "refused"}
READS, FORMS = ("GET", "HEAD"), (b"multipart/form-data", b"application/x-www-form-urlencoded")

_PLAIN = (
    "model prompt messages max_tokens max_completion_tokens min_tokens temperature top_p top_k min_p seed stop"
    " stop_token_ids include_stop_str_in_output ignore_eos stream stream_options n frequency_penalty presence_penalty"
    " repetition_penalty logit_bias logprobs top_logprobs user tools tool_choice parallel_tool_calls response_format"
    " structured_outputs reasoning_effort include_reasoning thinking_token_budget chat_template_kwargs documents"
    " skip_special_tokens spaces_between_special_tokens add_generation_prompt add_special_tokens cache_salt priority"
    " request_id session_id bad_words allowed_token_ids return_token_ids return_tokens_as_token_ids metadata store"
    " safety_identifier prompt_cache_key service_tier stream_interval"
)
PLAIN = frozenset(_PLAIN.split())
"""Fields with which a prompt is the same tokens in both steps. `truncate_prompt_tokens` cuts by `max_tokens`, `echo`
and `prompt_logprobs` need the prompt computed here; of fields that are not known nothing is assumed."""
_NOT_IN_LEG = (
    "stream_options min_tokens max_completion_tokens request_id session_id logprobs top_logprobs return_token_ids"
    " return_tokens_as_token_ids stop stop_token_ids stream_interval thinking_token_budget logit_bias bad_words"
    " allowed_token_ids structured_outputs"
)
NOT_IN_LEG = frozenset(_NOT_IN_LEG.split())
"""They change nothing of the prompt, and would make a leg longer or refused."""
LEG = {
    "max_tokens": 1,
    "stream": False,
    "return_token_ids": True,
    FIELD: {
        "do_remote_decode": True,
        "do_remote_prefill": False,
        **dict.fromkeys(("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")),
    },
}

clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine is suspended."""


def now() -> float:
    return time.clock_gettime(clock)


class Local(Exception):  # noqa: N818 - no error: why the prompt is computed here
    """Why a prompt is computed where it is decoded."""


class Gone(Exception):  # noqa: N818 - no error
    """The client has left."""


class Incoming:
    """The messages of a client, of which one may have been awaited before the application asks for it."""

    def __init__(self, receive: Receive) -> None:
        self.receive, self.has_left = receive, False
        self.pending: asyncio.Future[Message] | None = None

    async def next(self) -> Message:
        self.pending = self.pending or asyncio.ensure_future(self.receive())
        message = await asyncio.shield(self.pending)
        self.pending = None
        self.has_left = self.has_left or message["type"] == "http.disconnect"
        return message

    async def body(self) -> bytes:
        """The whole body."""
        parts, more = [], True
        while more:
            message = await self.next()
            if self.has_left:
                raise Gone
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def until_left(self) -> None:
        while not self.has_left:
            await self.next()

    async def unless_left(self, step: Coroutine[Any, Any, Result]) -> Result:
        """The result of a step, which is given up when the client leaves."""
        task, left = asyncio.ensure_future(step), asyncio.ensure_future(self.until_left())
        try:
            await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise Gone
            return task.result()
        finally:
            left.cancel()
            await ended(task)

    def replayed(self, body: bytes) -> Receive:
        """What the application receives: this body, and then what the client does."""
        parts: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return parts.pop() if parts else await self.next()

        return receive


class Gate:
    """Sequences that vLLM has room for: what starts a leg waits for one, so that its blocks are read at once."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used = limit or sys.maxsize, 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Take one, as soon as one is free."""
        if self.used >= self.limit or self.waiting:
            turn = asyncio.get_running_loop().create_future()
            self.waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.leave(1)
                else:
                    self.waiting.remove(turn)
                raise
        else:
            self.used += 1

    def leave(self, count: int) -> None:
        self.used -= count
        while self.waiting and self.used < self.limit:
            self.used += 1
            self.waiting.popleft().set_result(None)


class Recent:
    """Blocks of the prompts of late, by a chain of hashes: what the engine has probably cached."""

    def __init__(self) -> None:
        self.known: OrderedDict[bytes, None] = OrderedDict()

    def note(self, body: bytes, salt: str) -> int:
        """Remember a body; returns the bytes at its begin that were known. Users with other salts share nothing."""
        before, known, is_known = blake2b(salt.encode("utf-8", "replace"), digest_size=16).digest(), 0, True
        for at in range(0, len(body) - BLOCK_BYTES + 1, BLOCK_BYTES):
            before = blake2b(body[at : at + BLOCK_BYTES], key=before, digest_size=16).digest()
            is_known = is_known and before in self.known
            known += BLOCK_BYTES * is_known
            self.known[before] = None
            self.known.move_to_end(before)
        while len(self.known) > MOST_BLOCKS:
            self.known.popitem(last=False)
        return known


FIRST: ContextVar[Any] = ContextVar("first", default=None)
"""Of the request that a task answers: when its first token was there (`at`), and who is told (`seen`)."""


@cache
def watch_first_tokens() -> bool:
    """Note when each request has its first token; False where vLLM is another one than that of the sources.

    An answer that is no stream shows it only at its end (0.32.0, vllm/v1/metrics/stats.py).
    """
    try:
        from vllm.v1.metrics.stats import IterationStats, RequestStateStats  # noqa: PLC0415 - only vLLM's image has it

        begin, update = RequestStateStats.__init__, IterationStats.update_from_output
        RequestStateStats().first = None
    except (ImportError, AttributeError, TypeError):
        return False

    def begun(request: Any, *args: Any, **named: Any) -> None:  # noqa: ANN401 - of any release
        begin(request, *args, **named)
        request.first = FIRST.get()

    def updated(step: Any, *args: Any, **named: Any) -> None:  # noqa: ANN401 - as above
        for one in (*args, *named.values()):
            if isinstance(one, RequestStateStats) and one.first is not None:
                one.first.at, waits = now(), one.first
                one.first = None
                waits.seen.set()
        update(step, *args, **named)

    RequestStateStats.__init__, IterationStats.update_from_output = begun, updated
    return True


class Counts:
    """What happened, on vLLM's page of metrics."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge, Histogram  # noqa: PLC0415 - vLLM's image has it

        self.prefills = Counter(f"{PREFILL}s", "Prompts by where they were computed, and why there", ("place", "cause"))
        self.leg = Histogram(f"{PREFILL}_leg_seconds", "Time of the first step at a prefill engine")
        self.age = Histogram(f"{PREFILL}_age_seconds", "Time from the start of the first step to the first token")
        self.prefills.labels("remote", "")
        self.requests = Gauge(f"{PREFILL}_requests", "Requests that the decode engine has not answered whole")


counts = cache(Counts)


class Decode:
    """The middleware of a decode engine."""

    def __init__(self, app: App, given: SimpleNamespace) -> None:
        import aiohttp  # noqa: PLC0415 - vLLM's image has it, and an import takes longer than a leg

        self.aiohttp, self.app, self.given = aiohttp, app, given
        self.gate, self.recent, self.counts = Gate(given.sequences), Recent(), counts()
        self.sees_tokens = watch_first_tokens()
        self.session: Any = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, with a leg or without."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(without_rank(scope), receive, send)
            return
        if is_form(scope):
            await answer(send, 415, "where prefill and decode are apart, forms are not answered: send JSON")
            return
        incoming = Incoming(receive)
        try:
            with self.counts.requests.track_inprogress():
                await self.respond(scope, await incoming.body(), incoming, send)
        except Gone:
            self.counts.prefills.labels("none", "gone").inc()
        except RecursionError:
            await answer(send, 400, "the JSON is nested too deeply")
        finally:
            await ended(incoming.pending)

    async def respond(self, scope: Scope, raw: bytes, incoming: Incoming, send: Send) -> None:
        """Answer a request whose body is here."""
        asked = parsed(raw)
        body = cleaned(raw, asked)
        scope = without_rank(scope) if body is raw else with_body(scope, body)
        cause = self.cause(scope["path"], asked, body)
        weight = min(sequences(scope["path"], asked), self.gate.limit) if cause else 1
        cause = cause or await self.room(incoming)
        if cause:
            self.gate.used += weight  # vLLM queues them itself: their prompts are computed when their turn comes
        try:
            cause = cause or await self.remote(scope, body, incoming, send)
            if cause:
                self.counts.prefills.labels("local", cause).inc(bool(weight))
                await self.app(scope, incoming.replayed(body), send)
        finally:
            self.gate.leave(weight)

    async def room(self, incoming: Incoming) -> str:
        """Take a sequence for a leg; returns why there is none."""
        try:
            await incoming.unless_left(asyncio.wait_for(self.gate.enter(), self.given.objective))
        except TimeoutError:
            return "full"
        return ""

    def cause(self, path: str, asked: Any, body: bytes) -> str:  # noqa: ANN401 - any JSON
        """Why a prompt is computed here from the beginning; empty if a prefill engine is asked."""
        if path not in (CHAT, COMPLETIONS) or not isinstance(asked, dict):
            return "path"
        salt, prompt = asked.get("cache_salt"), prompt_of(path, asked)
        known = self.recent.note(body, salt if isinstance(salt, str) else "")
        tokens = len(prompt) if isinstance(prompt, list) and is_one(prompt) else len(body) // BYTES_PER_TOKEN
        if tokens < self.given.tokens:
            return "short"
        if any(name not in PLAIN and value is not None and value is not False for name, value in asked.items()):
            return "field"
        if asked.get("n") not in (None, 1) or not (
            are_texts(asked.get("messages")) if path == CHAT else is_one(prompt)
        ):
            return "shape"
        if not self.sees_tokens and asked.get("stream") is not True:
            return "unseen"
        return "prefix" if known and tokens * (1 - known / len(body)) < self.given.tokens else ""

    async def remote(self, scope: Scope, body: bytes, incoming: Incoming, send: Send) -> str:
        """Answer with the blocks of a prefill engine; returns why that was not possible, and then nothing was sent."""
        start = now()
        try:
            tokens, params = await incoming.unless_left(self.leg(scope["path"], body))
        except Local as local:
            return str(local)
        handed = now()
        self.counts.leg.observe(handed - start)
        if handed - start > self.given.lease / 3:
            return "stale"
        second = second_body(body, scope["path"], tokens, params)
        reading = TimelyAnswer(send, handed + READ_OBJECTIVES * self.given.objective)
        cause = await reading.answer(self.app, with_body(scope, second), incoming.replayed(second))
        if cause and incoming.has_left:
            raise Gone
        if not cause:
            self.counts.prefills.labels("remote", "").inc()
            self.counts.age.observe((reading.at or now()) - start)
        return cause

    async def leg(self, path: str, body: bytes) -> tuple[list[int], dict[str, Any]]:
        """The tokens of the prompt and the parameters with which vLLM reads their blocks, from a prefill engine."""
        aiohttp = self.aiohttp
        if self.session is None:
            limit = LEG_OBJECTIVES * self.given.objective
            # A connection that is kept may be dead: a new one costs less than to find that out.
            connector = aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=bounded_socket)
            timeout = aiohttp.ClientTimeout(total=limit, sock_connect=min(CONNECT_SECONDS, limit))
            self.session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        headers = {"Content-Type": "application/json", REVISION.decode(): self.given.revision, **authorization()}
        found = bytearray()
        try:
            async with self.session.post(self.given.url + path, data=body, headers=headers) as response:
                if response.status != OK:
                    raise Local(CAUSES.get(response.status, "status"))
                async for part in response.content.iter_any():
                    found += part
                    if len(found) > MOST_LEG_BYTES:
                        raise Local("answer")
        except TimeoutError:
            raise Local("silent") from None
        except aiohttp.ClientConnectorError:
            raise Local("refused") from None
        except (aiohttp.ClientError, OSError):
            raise Local("reset") from None
        return transfer_of(parsed(bytes(found)), path)


class TimelyAnswer:
    """An answer that is sent only if its first token came in time; until then it is held back."""

    def __init__(self, send: Send, until: float) -> None:
        self.send, self.until, self.at = send, until, 0.0
        self.seen, self.is_sent = asyncio.Event(), False
        self.held: list[Message] = []

    async def answer(self, app: App, scope: Scope, receive: Receive) -> str:
        """Run the application; returns why its answer is thrown away, or nothing once it is sent whole."""

        async def run() -> None:
            FIRST.set(self)
            await app(scope, receive, self.passed)

        task, seen = asyncio.ensure_future(run()), asyncio.ensure_future(self.seen.wait())
        try:
            await asyncio.wait({task, seen}, timeout=self.until - now(), return_when=asyncio.FIRST_COMPLETED)
            if self.seen.is_set() and self.is_in_time():
                await asyncio.wait({task})
            if self.is_sent:
                await task
                return ""
            return "error" if self.is_in_time() else "read"
        finally:
            seen.cancel()
            await ended(task)

    def is_in_time(self) -> bool:
        """Whether the first token was there in time, or still may be."""
        return (self.at or now()) <= self.until

    async def passed(self, message: Message) -> None:
        """Send what may be sent."""
        if not self.is_sent:
            self.held.append(message)
            if message["type"] == "http.response.start" or (message.get("more_body") and not message.get("body")):
                return
            self.at = self.at or now()
            if not self.is_in_time() or self.held[0]["status"] != OK:
                raise Local
            self.is_sent = True
            self.seen.set()
            for one in self.held[:-1]:
                await self.send(one)
        await self.send(message)


class Prefill:
    """The middleware of a prefill engine."""

    def __init__(self, app: App, given: SimpleNamespace) -> None:
        self.app, self.given = app, given
        self.failures, self.looked = 0, float("-inf")
        self.look: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Compute the prompt of a leg; answer reads, and the operator's probe."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        elif scope["method"] in READS:
            await self.read(scope, receive, send)
        else:
            incoming = Incoming(receive)
            try:
                await self.compute(scope, await incoming.body(), incoming, send)
            except Gone:
                pass
            except RecursionError:
                await answer(send, 400, "the JSON is nested too deeply")
            finally:
                await ended(incoming.pending)

    async def compute(self, scope: Scope, raw: bytes, incoming: Incoming, send: Send) -> None:
        """Make the body a leg, whatever it asks for."""
        asked, body = parsed(raw), raw
        given = [value.decode("latin-1") for name, value in scope["headers"] if name == REVISION]
        is_probe = isinstance(asked, dict) and {name: asked[name] for name in asked if name != "model"} == PROBE
        if scope["method"] != "POST" or scope["path"] not in (CHAT, COMPLETIONS):
            await answer(send, 404, "this engine computes prompts for decode engines only")
        elif given != [self.given.revision] and not (is_probe and not given):
            await answer(send, 425, "this engine has another revision than the one that asks")
        elif not isinstance(asked, dict):
            await answer(send, 400, "the body is no JSON object")
        else:
            if given:
                kept = {name: value for name, value in asked.items() if name not in NOT_IN_LEG}
                body = json.dumps(without_field(kept) | LEG).encode()
            await self.app(with_body(scope, body), incoming.replayed(body), send)

    async def read(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a read on. The engine is not healthy while nobody can shake hands with it."""
        if scope["path"] == "/health":
            if now() - self.looked >= HANDSHAKE_SECONDS and (self.look is None or self.look.done()):
                self.looked, self.look = now(), asyncio.ensure_future(self.shake())
            if self.failures >= MOST_FAILURES:
                await answer(send, 503, "the side channel of KV blocks answers no handshakes: restart the engine")
                return
        await self.app(without_rank(scope), receive, send)

    async def shake(self) -> None:
        """Ask each rank's listener for its metadata, as a decode engine does. What it cannot decode ends a listener."""
        ports = range(self.given.port, self.given.port + self.given.ranks)
        answers = await asyncio.gather(*(has_answer(port) for port in ports), return_exceptions=True)
        self.failures = 0 if all(one is True for one in answers) else self.failures + 1


class Disaggregation:
    """The middleware of this process's role."""

    def __init__(self, app: App) -> None:
        given = SimpleNamespace(**json.loads(os.environ[VARIABLE]))
        self.role: App = Prefill(app, given) if given.role == "prefill" else Decode(app, given)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the role does."""
        await self.role(scope, receive, send)


async def ended(task: asyncio.Future[Any] | None) -> None:
    """Cancel a task and wait for its end, whatever that is."""
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()


async def has_answer(port: int) -> bool:
    """Whether the listener at this port answers a handshake."""
    import zmq  # noqa: PLC0415 - vLLM's image has both
    import zmq.asyncio  # noqa: PLC0415

    host = os.environ[HOST]
    with zmq.asyncio.Context() as context, context.socket(zmq.REQ) as channel:
        channel.setsockopt(zmq.LINGER, 0)
        channel.setsockopt(zmq.IPV6, int(":" in host))
        channel.connect(f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}")
        await channel.send(META_OF_FIRST_RANK)
        return bool(await channel.poll(HANDSHAKE_LIMIT * 1000))


def bounded_socket(address: Any) -> socket.socket:  # noqa: ANN401 - aiohttp's tuple
    """A socket whose peer must acknowledge within `USER_TIMEOUT_MS`."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003 - its only argument
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
    return made


def authorization() -> dict[str, str]:
    """The header with the engines' key, which may be renewed; none where engines have no key."""
    file = os.environ.get(KEY_FILE)
    return {"Authorization": f"Bearer {Path(file).read_text(encoding='ascii').strip()}"} if file else {}


def parsed(body: bytes) -> Any:  # noqa: ANN401 - any JSON
    """The JSON as vLLM's server reads it; None if it is none."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def without_field(asked: dict[str, Any]) -> dict[str, Any]:
    """A request without transfer parameters, in any place where vLLM takes them."""
    kept = {name: value for name, value in asked.items() if name != FIELD}
    if isinstance(kept.get(EXTRA), dict):
        kept[EXTRA] = {name: value for name, value in kept[EXTRA].items() if name != FIELD}
    return kept


def cleaned(raw: bytes, asked: Any) -> bytes:  # noqa: ANN401 - any JSON
    """The same bytes, unless they have transfer parameters or are not UTF-8."""
    if not isinstance(asked, dict):
        return raw
    extra = asked.get(EXTRA)
    has_field = FIELD in asked or (isinstance(extra, dict) and FIELD in extra)
    is_utf8 = json.detect_encoding(raw) in ("utf-8", "utf-8-sig")
    return raw if is_utf8 and not has_field else json.dumps(without_field(asked)).encode()


def second_body(body: bytes, path: str, tokens: list[int], params: dict[str, Any]) -> bytes:
    """The body with tokens and parameters of the first step: of two equal names in an object the last counts."""
    added = {FIELD: params, "prompt": tokens} if path == COMPLETIONS else {FIELD: params | {"prompt_token_ids": tokens}}
    return body.rstrip(b" \t\r\n")[:-1] + b"," + json.dumps(added).encode()[1:]


def transfer_of(found: Any, path: str) -> tuple[list[int], dict[str, Any]]:  # noqa: ANN401 - any JSON
    """Tokens and parameters of a first step's answer."""
    try:
        tokens = found["choices"][0]["prompt_token_ids"] if path == COMPLETIONS else found["prompt_token_ids"]
        params = found[FIELD]
        ipaddress.ip_address(params["remote_host"])
        has_blocks = all(group and all(type(one) is int for one in group) for group in params["remote_block_ids"])
        is_whole = has_blocks and params["remote_block_ids"] and params["do_remote_prefill"] is True
        is_of_tokens = tokens and all(type(one) is int for one in tokens) and params["remote_num_tokens"] <= len(tokens)
        if is_whole and is_of_tokens and params["remote_num_tokens"] >= len(tokens) - MOST_BACKOFF:
            return tokens, params
    except (LookupError, TypeError, ValueError):
        pass
    raise Local("answer")


def are_texts(messages: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether a chat has neither images nor sound."""
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        return False
    contents = [message.get("content") for message in messages]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return all(isinstance(one, str | list | None) for one in contents) and all(
        isinstance(part, dict) and part.get("type") == "text" for part in parts
    )


def prompt_of(path: str, asked: dict[str, Any]) -> Any:  # noqa: ANN401 - any JSON
    """The prompt of a completion; None of a chat, where vLLM ignores the field."""
    return asked.get("prompt") if path == COMPLETIONS else None


def is_one(prompt: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether this is one prompt: a text, or its tokens."""
    return isinstance(prompt, str) or (isinstance(prompt, list) and all(type(one) is int for one in prompt))


def sequences(path: str, asked: Any) -> int:  # noqa: ANN401 - any JSON
    """How many sequences a request is for vLLM."""
    if path not in (CHAT, COMPLETIONS) or not isinstance(asked, dict):
        return 0
    count, prompt = asked.get("n"), prompt_of(path, asked)
    many = len(prompt) if isinstance(prompt, list) and not is_one(prompt) else 1
    return many * (count if isinstance(count, int) and count > 0 else 1)


def is_form(scope: Scope) -> bool:
    kinds = (value.split(b";")[0].strip().lower() for name, value in scope["headers"] if name == b"content-type")
    return any(kind in FORMS for kind in kinds)


def without_rank(scope: Scope) -> Scope:
    """The scope without the header that chooses a rank; the same one if it has none."""
    if not any(name == RANK for name, _ in scope.get("headers", ())):
        return scope
    return {**scope, "headers": [one for one in scope["headers"] if one[0] != RANK]}


def with_body(scope: Scope, body: bytes) -> Scope:
    """The scope of another body."""
    kept = [one for one in scope["headers"] if one[0] not in (RANK, b"content-length", b"transfer-encoding")]
    return {**scope, "headers": [*kept, (b"content-length", str(len(body)).encode())]}


async def answer(send: Send, status: int, message: str) -> None:
    """Send an error."""
    body = json.dumps({"error": {"message": message, "type": "invalid_request_error", "code": status}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Write this source where Python finds it, and become the command."""
    at = sys.argv.index("--")
    given, command = dict(word.split("=", 1) for word in sys.argv[1:at]), sys.argv[at + 1 :]
    folder = Path(tempfile.gettempdir()) / MODULE
    folder.mkdir(exist_ok=True)
    (folder / f"{MODULE}.py").write_text(json.loads(os.environ[PROGRAMS])[PROGRAM], encoding="utf-8")
    former = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{former}" if former else str(folder)
    os.environ[VARIABLE] = json.dumps({name: kind(given[name]) for name, kind in NAMES.items()})
    os.environ[HOST] = os.environ.get("POD_IP") or socket.gethostbyname(socket.gethostname())
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a new program inherits that
        signal.signal(ignored, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - the command of the engine


if __name__ == "__main__":
    main()
