"""Start a prefill and a decode engine of the tiny model, break what lies between them, and compare the answers.

Runs inside the engine image: run_disaggregation.py FOLDER CASE... . FOLDER holds `job.json` and gets `results.json`:
what is wrong in each case, or nothing. Between the two stands a forwarder in place of the router.
"""

# aiohttp and zmq are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found"

import asyncio
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import zmq
from aiohttp import web

START_SECONDS, ANSWER_SECONDS = 600, 300
HOST = "127.0.0.1"
PREFILL, DECODE, FORWARDER = 8101, 8102, 8100
HERE: dict[str, Any] = {"mm_processor_kwargs": {}}
"""A field that the middleware does not know: it keeps a prompt where it is decoded."""
COUNTED = re.compile(r'^inference_operator_engine_prefills_total{cause="(\w*)",place="(\w+)"} (\S+)$', re.MULTILINE)
BEGIN_OF_WORD, LETTERS = "\u0120", 3
"""How a token that is a word begins, and the letters of more than a part of one."""
FOREIGN = {
    "do_remote_prefill": True,
    "remote_block_ids": [[1, 2, 3]],
    "remote_engine_id": "x",
    "remote_request_id": "y",
    "remote_host": HOST,
    "remote_port": 9,
    "tp_size": 1,
}
Answer = tuple[int, bytes]
Hook = Callable[[int, bytes], Awaitable[Answer]]


class Engine:
    """One vLLM process with its children."""

    def __init__(self, job: Mapping[str, Any], folder: Path, role: str, port: int) -> None:
        self.job, self.folder, self.role, self.port = job, folder, role, port
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, model: str = "", role: str = "") -> None:
        self.kill()
        given = self.job[role or self.role]
        home = self.folder / f"{self.role}-home"
        home.mkdir(exist_ok=True)
        environment = {**os.environ, **self.job["env"], **given["env"], "HOME": str(home), "TMPDIR": str(home)}
        command = [*given["command"], "vllm", "serve", model or self.job["model"], f"--port={self.port}"]
        with (self.folder / f"{self.role}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self.job["args"], *given["options"]],
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def core(self) -> list[int]:
        """The processes beside the API server: they compute, read blocks, and answer handshakes."""
        assert self.process
        found, new = list[int](), [self.process.pid]
        while new:
            children = Path(f"/proc/{new[0]}/task/{new.pop(0)}/children").read_text().split()
            new += map(int, children)
            found += [int(one) for one in children if b"EngineCore" in Path(f"/proc/{one}/cmdline").read_bytes()]
        assert found
        return found

    def send(self, number: signal.Signals, *, core: bool = False) -> None:
        assert self.process
        for pid in self.core() if core else [self.process.pid]:
            os.kill(pid, number)

    def resume(self) -> None:
        for pid in [*self.core_or_none(), *([self.process.pid] if self.process else [])]:
            os.kill(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it with all that it started."""
        if self.process:
            pids = [*self.core_or_none(), self.process.pid]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def log_end(self) -> str:
        return (self.folder / f"{self.role}.log").read_text(errors="replace")[-3000:]

    def core_or_none(self) -> list[int]:
        try:
            return self.core()
        except (AssertionError, OSError):
            return []


class Run:
    """Two engines, the forwarder between them, and what they said."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        self.job, self.folder = job, folder
        self.prefill = Engine(job, folder, "prefill", PREFILL)
        self.decode = Engine(job, folder, "decode", DECODE)
        self.after: Hook | None = None
        self.revision = ""
        self.last: Answer = (0, b"")
        self.random = random.Random(1)  # noqa: S311 - test data
        self.session: aiohttp.ClientSession
        vocabulary = json.loads((Path(job["model"]) / "tokenizer.json").read_text())["model"]["vocab"]
        self.words = sorted(one[1:] for one in vocabulary if one[0] == BEGIN_OF_WORD and len(one) > LETTERS)

    async def forward(self, request: web.Request) -> web.Response:
        """What the router's second frontend does."""
        body = await request.read()
        names = {
            name: value for name, value in request.headers.items() if name.lower() in ("content-type", "x-kv-revision")
        }
        if self.revision:
            names["x-kv-revision"] = self.revision
        try:
            async with self.session.post(f"http://{HOST}:{PREFILL}{request.path}", data=body, headers=names) as answer:
                status, text = answer.status, await answer.read()
        except aiohttp.ClientConnectorError:
            return web.Response(status=503)
        except aiohttp.ClientError:
            assert request.transport
            request.transport.abort()
            return web.Response(status=502)
        if status == 200 and self.after:
            status, text = await self.after(status, text)
        self.last = (status, text)
        return web.Response(status=status, body=text)

    async def ready(self, engine: Engine) -> None:
        assert engine.process
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            assert engine.process.poll() is None, f"the {engine.role} engine ended: {engine.log_end()}"
            try:
                async with self.session.get(f"http://{HOST}:{engine.port}/health") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.5)
        raise AssertionError(f"the {engine.role} engine is not ready")

    def prompt(self, words: int = 60, prefix: str = "") -> str:
        return prefix + "Tell me about " + " ".join(self.random.choices(self.words, k=words))

    async def ask(
        self, prompt: str, *, path: str = "/v1/completions", port: int = DECODE, **fields: object
    ) -> tuple[int, str]:
        """Status and text of an answer, of the decode engine unless another port is named."""
        what = {"messages": [{"role": "user", "content": prompt}]} if "chat" in path else {"prompt": prompt}
        body = {"model": "tiny", "temperature": 0, "max_tokens": 16, **what, **fields}
        limit = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
        async with self.session.post(f"http://{HOST}:{port}{path}", json=body, timeout=limit) as answer:
            return answer.status, text_of(await answer.read(), streams=bool(fields.get("stream")))

    async def alone(self, prompt: str, **fields: Any) -> tuple[int, str]:  # noqa: ANN401 - of a request
        """What one engine answers: nothing of it comes from another engine or from an earlier request."""
        return await self.ask(prompt, **fields, **HERE, cache_salt=uuid.uuid4().hex)

    async def counts(self) -> dict[str, float]:
        async with self.session.get(f"http://{HOST}:{DECODE}/metrics") as answer:
            text = await answer.text()
        return {cause or place: float(value) for cause, place, value in COUNTED.findall(text)}

    async def metric(self, name: str) -> float:
        async with self.session.get(f"http://{HOST}:{DECODE}/metrics") as answer:
            found = re.search(rf"^{name}{{.*}} (\S+)$", await answer.text(), re.MULTILINE)
        assert found, name
        return float(found[1])

    async def equal(self, cause: str, prompt: str = "", **fields: Any) -> None:  # noqa: ANN401 - of a request
        """A prompt has one engine's answer, and was computed where and why it is said."""
        prompt = prompt or self.prompt()
        before = await self.counts()
        got = await self.ask(prompt, **fields)
        after = await self.counts()
        grown = {name for name, value in after.items() if value > before.get(name, 0)}
        assert grown & set(cause.split()), f"{grown} in place of {cause}"
        expected = await self.alone(prompt, **fields)
        assert got == expected, f"{got} in place of {expected}"
        assert got[0] == 200, got


def text_of(raw: bytes, *, streams: bool) -> str:
    """The text of an answer."""
    lines = [line[6:] for line in raw.splitlines() if line.startswith(b"data: {")] if streams else [raw]
    choices = [choice for line in lines for choice in json.loads(line).get("choices", [])]
    parts = [
        choice.get("text") or (choice.get("message") or choice.get("delta") or {}).get("content") for choice in choices
    ]
    return "".join(part or "" for part in parts) if choices else raw.decode()


async def equality(run: Run) -> None:
    """Many prompts at once, half of them with one of five begins: in both kinds of API, as streams and not."""
    begins = [run.prompt(180) for _ in range(5)]
    prompts = [
        run.prompt(run.random.randrange(20, 200), run.random.choice(("", run.random.choice(begins))))
        for _ in range(run.job["prompts"])
    ]
    ways = [
        {"path": path, "stream": stream}
        for path in ("/v1/completions", "/v1/chat/completions")
        for stream in (True, False)
    ]
    gate, before = asyncio.Semaphore(run.job["clients"]), await run.counts()

    async def one(index: int, prompt: str) -> bool:
        way: dict[str, Any] = dict(ways[index % len(ways)])
        async with gate:
            return await run.ask(prompt, **way) == await run.alone(prompt, **way)

    same = await asyncio.gather(*(one(index, prompt) for index, prompt in enumerate(prompts)))
    after = await run.counts()
    print(f"{len(prompts)} prompts, before {before}, after {after}", flush=True)
    assert all(same), f"{same.count(False)} of {len(same)} answers differ"
    assert after["remote"] - before.get("remote", 0) >= 0.8 * len(prompts), (before, after)


async def preempted(run: Run) -> None:
    """More tokens at once than the KV cache of the decode engine holds: answers begin anew, some after a transfer."""
    prompts = [run.prompt(run.random.randrange(60, 120)) for _ in range(4 * run.job["sequences"])]

    async def answers(ask: Callable[..., Awaitable[tuple[int, str]]], at_once: int) -> list[tuple[int, str]]:
        gate = asyncio.Semaphore(at_once)

        async def one(prompt: str) -> tuple[int, str]:
            async with gate:
                return await ask(prompt, max_tokens=240, ignore_eos=True)

        return await asyncio.gather(*map(one, prompts))

    expected = await answers(run.alone, run.job["clients"])
    before, remote = await run.metric("vllm:num_preemptions_total"), (await run.counts())["remote"]
    same = [got == one for got, one in zip(await answers(run.ask, run.job["sequences"]), expected, strict=True)]
    preemptions = await run.metric("vllm:num_preemptions_total") - before
    remote = (await run.counts())["remote"] - remote
    print(f"{len(prompts)} prompts, {remote:.0f} computed apart, {preemptions:.0f} preemptions", flush=True)
    assert all(same), f"{same.count(False)} of {len(same)} answers differ"
    assert preemptions, "the KV cache had room for all"
    assert remote, "all were computed here"


async def hostile(run: Run) -> None:
    """Parameters of clients: no connection, no other answer, no end of an engine."""
    connected = list[object]()
    listener = await asyncio.start_server(lambda *ends: connected.append(ends), HOST, 0)
    port = listener.sockets[0].getsockname()[1]
    foreign = FOREIGN | {"remote_port": port}
    for fields in (
        {"kv_transfer_params": foreign},
        {"vllm_xargs": {"kv_transfer_params": 0}},
        {"vllm_xargs": {"kv_transfer_params": "x"}},
    ):
        for prompt in ("one word", run.prompt()):
            assert await run.ask(prompt, **fields) == await run.alone(prompt)
    listener.close()
    assert not connected
    async with run.session.post(
        f"http://{HOST}:{PREFILL}/v1/completions", json={"model": "tiny", "prompt": "x", "kv_transfer_params": foreign}
    ) as answer:
        assert answer.status == 425


async def revision(run: Run) -> None:
    run.revision = "another"
    await run.equal("revision")
    run.revision = ""
    await run.equal("remote")


async def silent(run: Run) -> None:
    """The prefill engine stops before it answers."""
    run.prefill.send(signal.SIGSTOP)
    begin = time.monotonic()
    await run.equal("silent")
    print(f"silent: {time.monotonic() - begin:.1f} s", flush=True)
    run.prefill.send(signal.SIGCONT)
    await run.equal("remote silent")


async def silent_read(run: Run) -> None:
    """The prefill engine stops after its answer, before its blocks are read."""

    async def stop(status: int, text: bytes) -> Answer:
        run.prefill.send(signal.SIGSTOP, core=True)
        return status, text

    run.after = stop
    begin = time.monotonic()
    await run.equal("read")
    print(f"silent in the read: {time.monotonic() - begin:.1f} s", flush=True)
    run.after = None
    run.prefill.send(signal.SIGCONT, core=True)
    await drained(run)
    await run.equal("remote")


async def drained(run: Run) -> None:
    """Nothing of what was given up keeps blocks of the decode engine."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        usage = await run.metric("vllm:kv_cache_usage_perc")
        if not usage:
            return
        await asyncio.sleep(0.5)
    raise AssertionError(f"the KV cache is used: {usage}")


async def gone(run: Run) -> None:
    """A client leaves between the two steps."""
    run.prefill.send(signal.SIGSTOP)
    task = asyncio.create_task(run.ask(run.prompt()))
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.wait({task})
    run.prefill.send(signal.SIGCONT)
    end = time.monotonic() + 20
    while not (await run.counts()).get("gone") and time.monotonic() < end:  # noqa: ASYNC110 - another process counts
        await asyncio.sleep(0.2)
    assert (await run.counts()).get("gone") == 1
    await run.equal("remote")


async def dead_in_the_step(run: Run) -> None:
    run.prefill.send(signal.SIGSTOP)
    task = asyncio.create_task(run.equal("reset refused status"))
    await asyncio.sleep(0.5)
    run.prefill.kill()
    await task
    await run.equal("refused")


async def dead_before_the_read(run: Run) -> None:
    run.prefill.start()
    await run.ready(run.prefill)

    async def kill(status: int, text: bytes) -> Answer:
        run.prefill.kill()
        return status, text

    run.after = kill
    await run.equal("remote read error")
    run.after = None
    await run.equal("refused")
    await drained(run)


async def other_version(run: Run) -> None:
    """A prefill engine whose blocks are of another model, with the same revision: no handshake."""
    other = run.folder / "other"
    shutil.copytree(run.job["model"], other, dirs_exist_ok=True)
    run.prefill.start(str(other))
    await run.ready(run.prefill)
    await run.equal("remote read error")
    run.prefill.kill()


async def garbage(run: Run) -> None:
    """Garbage at the side channel ends its listener. The prefill engine says so within 60 s, and a restart helps."""
    run.prefill.start()
    await run.ready(run.prefill)
    url = f"http://{HOST}:{PREFILL}/health"
    with zmq.Context() as context, context.socket(zmq.REQ) as channel:
        channel.setsockopt(zmq.LINGER, 1000)
        channel.connect(f"tcp://{HOST}:{run.job['side']}")
        channel.send(b"\xc1garbage")
        await asyncio.sleep(1)
    begin, status = time.monotonic(), 200
    while status == 200 and time.monotonic() < begin + 60:
        async with run.session.get(url) as answer:
            status = answer.status
        await asyncio.sleep(1)
    print(f"garbage: {time.monotonic() - begin:.0f} s", flush=True)
    assert status == 503
    await run.equal("remote read error")
    run.prefill.start()
    await run.ready(run.prefill)
    await run.equal("remote read")  # the first handshake may take long


async def late(run: Run) -> None:
    """The decode engine stands still between the steps for longer than a third of the lease."""

    async def stop(status: int, text: bytes) -> Answer:
        run.decode.send(signal.SIGSTOP)
        await asyncio.sleep(run.job["lease"] / 3 + 1)
        run.decode.send(signal.SIGCONT)
        return status, text

    run.after = stop
    await run.equal("stale silent")
    run.after = None
    await run.equal("remote")


async def paused(run: Run) -> None:
    """A prefill engine stands still for longer than its lease, and its blocks get other prompts: no answer has them."""
    stopped = asyncio.Event()

    async def stop(status: int, text: bytes) -> Answer:
        run.prefill.send(signal.SIGSTOP, core=True)
        stopped.set()
        return status, text

    run.after = stop
    asked = asyncio.create_task(run.equal("read"))
    await stopped.wait()
    run.after = None
    await asked
    await asyncio.sleep(run.job["lease"] + 2)
    run.prefill.send(signal.SIGCONT, core=True)
    for _ in range(4):
        await run.equal("remote read silent", run.prompt(150))
    await drained(run)


async def off(run: Run) -> None:
    """An engine without a connector, and so without the middleware: parameters of clients change nothing."""
    run.prefill.start(role="alone")
    await run.ready(run.prefill)
    for fields in ({"kv_transfer_params": FOREIGN}, {"vllm_xargs": {"kv_transfer_params": 0}}, {}):
        for path in ("/v1/completions", "/v1/chat/completions"):
            prompt = run.prompt()
            assert await run.ask(prompt, path=path, port=PREFILL, **fields) == await run.alone(prompt, path=path)


CASES: dict[str, Callable[[Run], Awaitable[None]]] = {
    case.__name__: case
    for case in (
        *(equality, preempted, hostile, revision, silent, silent_read, gone, late, paused),
        *(dead_in_the_step, dead_before_the_read, other_version, garbage, off),
    )
}
"""The last five end the prefill engine."""


@asynccontextmanager
async def running(job: dict[str, Any], folder: Path) -> AsyncIterator[Run]:
    run = Run(job, folder)
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/{path:.*}", run.forward)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, HOST, FORWARDER).start()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as run.session:
        try:
            yield run
        finally:
            run.prefill.kill()
            run.decode.kill()
            await runner.cleanup()


async def results(job: dict[str, Any], folder: Path, names: list[str]) -> dict[str, str]:
    """What is wrong in each case."""
    wrong = dict[str, str]()
    async with running(job, folder) as run:
        for engine in (run.prefill, run.decode):
            engine.start()
        for engine in (run.prefill, run.decode):
            await run.ready(engine)
        while not (await run.counts()).get("remote"):  # the first ones take long
            await run.ask(run.prompt())
        for name in names:
            begin = time.monotonic()
            try:
                await CASES[name](run)
                wrong[name] = ""
            except (AssertionError, aiohttp.ClientError, OSError, TimeoutError) as error:
                wrong[name] = repr(error)
                run.after = None
                for engine in (run.prefill, run.decode):
                    engine.resume()
            print(f"{name}: {wrong[name] or 'as one engine'} ({time.monotonic() - begin:.0f} s)", flush=True)
    return wrong


def main() -> None:
    """Run the cases."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the engines end with this process
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    job = json.loads((folder / "job.json").read_text())
    (folder / "results.json").write_text(json.dumps(asyncio.run(results(job, folder, names or [*CASES]))))


if __name__ == "__main__":
    main()
