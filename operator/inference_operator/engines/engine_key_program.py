"""Asks for the key of the routers on every path of an engine but its health and its metrics: ASGI middleware.

As a program it becomes another command, whose Python can import this source as a module. Arguments: file=FILE
model=NAME -- COMMAND...: the file with the key, a name of the model, and the command.

1. GET and HEAD of `OPEN` need no key: probes, hooks and readers of metrics have none.
2. The key is the text of a file that is looked at again, since it may be renewed. The former key stays valid for
   `FORMER_SECONDS`, until every router has the new one. While there is no key, nothing fits.
3. The application sees neither the key nor the header with it.
4. The operator's probe request (`PROBE`) needs no key, so that the operator holds none. It is one for all who ask at a
   time, and its answer tells only the status. So a stranger can make an engine compute one token after another, and
   cannot keep the operator from asking.
5. With the key comes the user (`USER_HEADER`), as the router names them. vLLM's tokens are counted for each user where
   vLLM itself counts all (0.32.0, vllm/v1/metrics/stats.py, `IterationStats`): a client can neither hide its tokens nor
   make them another's, however it asks and leaves, and the counts of all users add up to vLLM's own.
"""

import asyncio
import hmac
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

Scope: TypeAlias = dict[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[dict[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset({"/health", "/metrics", "/metrics/"})
READS = frozenset({"GET", "HEAD"})
LOOK_SECONDS, FORMER_SECONDS = 1.0, 900.0
PROBE_PATH, PROBE = "/v1/completions", {"prompt": "1", "max_tokens": 1}
MOST_PROBE_BYTES = 512
REFUSED = (
    b'{"error": {"message": "this engine takes requests of its routers only", "type": "authentication_error",'
    b' "param": null, "code": "engine_key_required"}}'
)
POLICY_VIOLATION = 1008
"""Status of a WebSocket that is closed (RFC 6455)."""
USER_HEADER = b"inference-operator-user"
USER: ContextVar[str] = ContextVar("user", default="")
"""Of the request that a task answers."""
UNSAFE, USER_LETTERS = re.compile(r"[^A-Za-z0-9._:/@+-]"), 128
"""What a label of metrics never has, as on the routers' page."""
TOKENS, MOST_USERS = "inference_operator_engine_tokens", 1000
"""The counter without its `_total`, and the users of whom it tells apart; further ones are `other`."""
MODULE, FILE_VARIABLE, MODEL_VARIABLE = "inference_operator_engine_key", "ENGINE_KEY_FILE", "ENGINE_KEY_MODEL"
PROGRAMS, NAME = "INFERENCE_OPERATOR_PROGRAMS", "engine_key"


class KeyFile:
    """The keys that are valid: that of the file, and for a while the one before."""

    def __init__(self, path: Path) -> None:
        self.path, self.looked, self.until = path, float("-inf"), float("-inf")
        self.key = self.former = b""
        self.refresh()

    def refresh(self) -> float:
        """Look at the file, at most once in `LOOK_SECONDS`; returns the time."""
        now = time.monotonic()
        if now - self.looked >= LOOK_SECONDS:
            self.looked = now
            self.look(now)
        return now

    def fits(self, given: bytes) -> bool:
        """Whether this is a valid key, in a time that does not tell how much of it is right."""
        now = self.refresh()
        found = sha256(given).digest()
        keys = (self.key, self.former if now < self.until else b"")
        equal = [hmac.compare_digest(found, sha256(key).digest()) for key in keys if key]
        return any(equal)

    def look(self, now: float) -> None:
        """Take a new key. A file that cannot be read, or is empty, keeps the one before."""
        with suppress(OSError):
            key = self.path.read_bytes().strip()
            if key and key != self.key:
                self.key, self.former, self.until = key, self.key, now + FORMER_SECONDS


class EngineKey:
    """The middleware around an application."""

    def __init__(self, app: App, file: str = "", model: str = "") -> None:
        self.app, self.model = app, model or os.environ.get(MODEL_VARIABLE, "")
        self.keys = KeyFile(Path(file or os.environ[FILE_VARIABLE]))
        self.probe: asyncio.Task[int] | None = None
        self.waiting = 0
        count_tokens()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what has the key or needs none, and refuse the rest."""
        kind = scope["type"]
        self.keys.refresh()  # probes come all the time: so the former key is known also without a request of a router
        if kind == "lifespan" or (kind == "http" and scope["path"] in OPEN and scope["method"] in READS):
            await self.app(scope, receive, send)
        elif self.has_key(scope):
            headers = [one for one in scope["headers"] if one[0] not in (b"authorization", USER_HEADER)]
            USER.set(user_of(scope))
            await self.app({**scope, "headers": headers}, receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        elif await is_probe(scope, receive):
            await self.answer_probe(scope, receive, send)
        else:
            await answer(send, 401, REFUSED)

    def has_key(self, scope: Scope) -> bool:
        """Whether a request has the key."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        scheme, _, key = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
        return bool(scheme.lower() == b"bearer") and self.keys.fits(key.strip())

    async def answer_probe(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The status of the probe request. It ends without an answer once all have left who wait for it."""
        if self.probe is None:
            self.probe = asyncio.create_task(self.ask(scope))
        probe, left = self.probe, asyncio.create_task(until_left(receive))
        self.waiting += 1
        try:
            await asyncio.wait({probe, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            self.waiting -= 1
            if probe.done() or not self.waiting:
                probe.cancel()
                self.probe = None if self.probe is probe else self.probe
        if probe.done() and not probe.cancelled():
            failed = probe.exception() is not None
            await answer(send, 500 if failed else probe.result(), b"{}")

    async def ask(self, scope: Scope) -> int:
        """The status with which the application answers the probe request."""
        body = json.dumps({**PROBE, **({"model": self.model} if self.model else {})}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        parts, status = [{"type": "http.request", "body": body, "more_body": False}], 500

        async def receive() -> dict[str, Any]:
            if not parts:
                await asyncio.Event().wait()
            return parts.pop()

        async def send(message: dict[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])

        await self.app({**scope, "headers": headers}, receive, send)
        return status


def user_of(scope: Scope) -> str:
    """The user whose request it is; empty without one."""
    users = [value.decode("latin-1") for name, value in scope["headers"] if name == USER_HEADER]
    return UNSAFE.sub("_", users[0][:USER_LETTERS]) if len(users) == 1 else ""


@cache
def count_tokens() -> None:
    """Count the tokens of each user from now on; nothing where vLLM is another one than that of the source above."""
    try:
        from prometheus_client import Counter  # noqa: PLC0415 - only vLLM's image has them
        from vllm.v1.metrics.stats import IterationStats, RequestStateStats  # noqa: PLC0415

        begin, update = RequestStateStats.__init__, IterationStats.update_from_output
        RequestStateStats().tokens, _ = (), totals(IterationStats())
    except (ImportError, AttributeError, TypeError):  # they are not there, or take other arguments
        return
    counter, users = Counter(TOKENS, "Tokens of each user", ("user", "type")), set[str]()

    def begun(request: Any, *args: Any, **named: Any) -> None:  # noqa: ANN401 - of any release
        begin(request, *args, **named)
        user = USER.get()
        if len(users) < MOST_USERS:
            users.add(user)
        label = user if user in users else "other"
        request.tokens = [counter.labels(label, kind) for kind in ("prompt", "completion")]

    def updated(step: Any, *args: Any, **named: Any) -> None:  # noqa: ANN401 - as above
        before = totals(step)
        update(step, *args, **named)
        given = (*args, *named.values())
        counts = next((getattr(one, "tokens", ()) for one in given if isinstance(one, RequestStateStats)), ())
        for count, old, new in zip(counts, before, totals(step), strict=False):
            if new > old:
                count.inc(new - old)

    RequestStateStats.__init__, IterationStats.update_from_output = begun, updated


def totals(step: Any) -> tuple[int, int]:  # noqa: ANN401 - a class of vLLM
    """Tokens of prompts and of answers that vLLM has counted in a step."""
    return step.num_prompt_tokens, step.num_generation_tokens


async def is_probe(scope: Scope, receive: Receive) -> bool:
    """Whether a request without a key is the operator's probe request, whichever name it gives the model."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    short = len(lengths) == 1 and lengths[0].isdigit() and int(lengths[0]) <= MOST_PROBE_BYTES
    if not (scope["method"] == "POST" and scope["path"] == PROBE_PATH and short):
        return False
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return False
        body, more = body + message.get("body", b""), message.get("more_body", False)
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(asked, dict) and {name: one for name, one in asked.items() if name != "model"} == PROBE


async def until_left(receive: Receive) -> None:
    """Wait until the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def answer(send: Send, status: int, body: bytes) -> None:
    """Send an answer."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main() -> None:
    """Write this source where Python finds it, and become the command."""
    at = sys.argv.index("--")
    given, command = dict(word.split("=", 1) for word in sys.argv[1:at]), sys.argv[at + 1 :]
    folder = Path(tempfile.gettempdir()) / MODULE
    folder.mkdir(exist_ok=True)
    (folder / f"{MODULE}.py").write_text(json.loads(os.environ.pop(PROGRAMS))[NAME], encoding="utf-8")
    former = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{former}" if former else str(folder)
    os.environ[FILE_VARIABLE], os.environ[MODEL_VARIABLE] = given["file"], given["model"]
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a new program inherits that
        signal.signal(ignored, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606 - the command of the engine


if __name__ == "__main__":
    main()
