"""Mixed load through routers for a long time, while engines come and go and configurations change.

One router runs all the time: its memory and descriptors must not grow. A second one is replaced again and again by one
with another configuration, as a rolling restart does: its successor serves first, then it gets no new connections, and
then SIGUSR1. Engines leave DNS first, and end later. So no request may be lost.
"""

import asyncio
import io
import json
import os
import random
import signal
import time
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp.client import _RequestContextManager

from e2e.router.loopback import Engine, Loopback
from e2e.router.simulated import MODEL, started
from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.cli.drill.completion import DATA, DONE

ENGINES, FEWEST = 6, 3
WORKERS = 24
PAUSE_SECONDS = 0.2
CHURN_SECONDS = 5.0
STALE_SECONDS = 15.0
"""Time from an engine's end in DNS to its end: more than a record's life and the router's `hold`."""
ENDPOINT_SECONDS = 2.0
"""Time from a router's last new connection to its SIGUSR1; in a cluster, its `preStop`."""
SAMPLE_SECONDS = 10.0
BODIES_KIB = (1, 1, 1, 16, 64, 2048)
TOKENS = 16
LEAVES = 0.05
"""Part of the streams that the client ends before the engine does."""
FAST = {"SIMULATOR_DECODE_STEP_SECONDS": "0.02", "SIMULATOR_PREFILL_TOKENS_PER_SECOND": "2000000"}
_JSON = {"Content-Type": "application/json"}
FAST |= {"SIMULATOR_MAX_MODEL_LEN": "1000000", "SIMULATOR_KV_CACHE_TOKENS": "10000000"}


@dataclass(frozen=True, slots=True)
class Sample:
    """The long-running router at one moment."""

    rss_kib: int
    descriptors: int
    processes: int


@dataclass(slots=True)
class Report:
    """What a soak saw."""

    outcomes: Counter[str] = field(default_factory=Counter)
    """`ok`, `left` for clients that left, and every loss by its kind."""
    samples: list[Sample] = field(default_factory=list)
    churns: int = 0
    changes: int = 0
    still_there: int = 0
    """Processes of replaced routers that did not end."""
    idle_before: Sample | None = None
    idle_after: Sample | None = None
    running_after: float = 0.0
    """Requests that engines still compute after all clients have gone."""

    @property
    def lost(self) -> dict[str, int]:
        """Losses by their kind."""
        return {kind: count for kind, count in self.outcomes.items() if kind not in ("ok", "left")}


@dataclass(slots=True)
class Soak:
    """A running soak."""

    loopback: Loopback
    seconds: float
    changes: int
    report: Report = field(default_factory=Report)
    routers: dict[str, Process] = field(default_factory=dict)
    """By URL, those that clients use."""
    ended: list[Process] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)
    stopped: bool = False

    async def run(self) -> Report:
        """Send load, churn and change; returns once all is quiet again."""
        try:
            return await self._soaked()
        finally:
            for router in self.routers.values():
                if router is not self.loopback.router:  # which ends with the loopback
                    router.terminate()
                    await router.wait()

    async def _soaked(self) -> Report:
        first = await self._start_router(0)
        engines = [await started(self.loopback, f"127.0.54.{n}", **FAST) for n in range(1, ENGINES + 1)]
        self.loopback.names.addresses[:] = [engine.address for engine in engines]
        await self.loopback.until_served(ENGINES)
        await self._learn(engines[0])
        self.report.idle_before = await self._warm(first)
        await self._start_router(1)
        background = asyncio.gather(self._sample(first), self._churn(engines), *map(self._work, range(WORKERS)))
        try:
            await self._change()
        finally:
            self.stopped = True
            await background
        await self._quiet()
        self.report.idle_after = sample(first)
        self.report.still_there = sum([await _lives_on(process) for process in self.ended])
        return self.report

    async def _start_router(self, number: int) -> Process:
        affinity = RouterStrategy.PREFIX_AFFINITY, RouterStrategy.LEAST_OUTSTANDING
        self.loopback.spec = RouterSpec(strategy=affinity[number % 2], sessionHeader=f"x-session-{number}")
        await self.loopback.start_router()
        assert self.loopback.router is not None  # noqa: S101 - it has just been started
        self.routers[self.loopback.url] = self.loopback.router
        return self.loopback.router

    async def _change(self) -> None:
        """Replace the second router as often as asked, spread over the time."""
        begin = time.monotonic()
        for number in range(1, self.changes + 1):
            await asyncio.sleep(max(0.0, begin + self.seconds * number / self.changes - time.monotonic()))
            url = list(self.routers)[1]
            await self._start_router(number + 1)
            await self.loopback.until_served(len(self.loopback.names.addresses))
            old = self.routers.pop(url)
            await asyncio.sleep(ENDPOINT_SECONDS)
            old.send_signal(signal.SIGUSR1)
            self.ended.append(old)
            self.report.changes += 1

    async def _churn(self, engines: Sequence[Engine]) -> None:
        """Take an engine out of DNS or bring it back, every few seconds; its process is another one by then."""
        chosen, present = random.Random(1), list(engines)  # noqa: S311 - the same order in each run
        absent: list[Engine] = []
        while not self.stopped:
            await asyncio.sleep(CHURN_SECONDS)
            if absent and (len(present) <= FEWEST or chosen.random() < len(absent) / ENGINES):
                present.append(absent.pop(0))
            else:
                leaving = present.pop(chosen.randrange(len(present)))
                asyncio.get_running_loop().create_task(self._restart(leaving, absent)).add_done_callback(_raise)
            self.loopback.names.addresses[:] = [engine.address for engine in present]
            self.report.churns += 1

    async def _restart(self, engine: Engine, absent: list[Engine]) -> None:
        await asyncio.sleep(STALE_SECONDS)
        engine.process.terminate()
        await engine.process.wait()
        self.loopback.engines.remove(engine)
        absent.append(await started(self.loopback, engine.address, **FAST))

    async def _sample(self, router: Process) -> None:
        while not self.stopped:
            self.report.samples.append(sample(router))
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _learn(self, engine: Engine) -> None:
        async with aiohttp.ClientSession() as session:
            for size in BODIES_KIB:
                self.expected[_prompt(size)] = await _plain(session, engine.url, _prompt(size))

    async def _warm(self, router: Process) -> Sample:
        """All kinds of requests once, and a moment of quiet."""
        self.stopped = False
        tasks = [asyncio.create_task(self._work(number)) for number in range(WORKERS)]
        await asyncio.sleep(SAMPLE_SECONDS)
        self.stopped = True
        await asyncio.gather(*tasks)
        await asyncio.sleep(1)
        self.stopped = False
        return sample(router)

    async def _work(self, number: int) -> None:
        chosen = random.Random(number)  # noqa: S311 - the same mix in each run
        connector = aiohttp.TCPConnector(limit=0, force_close=bool(number % 2))
        async with aiohttp.ClientSession(connector=connector) as session:
            while not self.stopped:
                self.report.outcomes[await self._ask(session, chosen)] += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask(self, session: aiohttp.ClientSession, chosen: random.Random) -> str:
        url, prompt = chosen.choice(list(self.routers)), _prompt(chosen.choice(BODIES_KIB))
        streamed = chosen.random() < 0.5  # noqa: PLR2004 - half of them
        at_most = TOKENS // 2 if streamed and chosen.random() < LEAVES else None
        try:
            if not streamed:
                text = await _plain(session, url, prompt)
            else:
                text = await _streamed(session, url, prompt, at_most)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return f"{type(error).__name__}: {str(error).replace(url, 'router')}"
        if at_most is not None:
            return "left"
        return "ok" if text == self.expected[prompt] else "another answer"

    async def _quiet(self) -> None:
        """Wait until the absent engines are back; none has a request then."""
        await asyncio.sleep(STALE_SECONDS + SAMPLE_SECONDS)
        self.report.running_after = sum([await self._running(engine) for engine in self.loopback.engines])

    async def _running(self, engine: Engine) -> float:
        async with self.loopback.session.get(f"{engine.url}/metrics") as answer:
            lines = (await answer.text()).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("vllm:num_requests_"))


def sample(router: Process) -> Sample:
    """Memory and descriptors of all processes of a router."""
    pids = _processes(router.pid)
    return Sample(
        rss_kib=sum(_rss_kib(pid) for pid in pids),
        descriptors=sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
        processes=len(pids),
    )


def _processes(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def _rss_kib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


async def _lives_on(router: Process) -> int:
    """Processes of a router that are still there two minutes after its SIGUSR1."""
    deadline = time.monotonic() + 120
    while _processes(router.pid) and time.monotonic() < deadline:  # noqa: ASYNC110 - only /proc says so
        await asyncio.sleep(0.5)
    return len(_processes(router.pid))


def _prompt(kib: int) -> str:
    return f"A prompt of {kib} KiB: ".ljust(kib * 1024 - 100, "x")


def _posted(session: aiohttp.ClientSession, url: str, prompt: str, *, stream: bool) -> _RequestContextManager:
    body = {"model": MODEL, "prompt": prompt, "max_tokens": TOKENS, "stream": stream}
    content = io.BytesIO(json.dumps(body).encode())
    return session.post(f"{url}/v1/completions", data=content, headers=_JSON, raise_for_status=True)


async def _plain(session: aiohttp.ClientSession, url: str, prompt: str) -> str:
    async with _posted(session, url, prompt, stream=False) as answer:
        text: str = (await answer.json())["choices"][0]["text"]
        return text


async def _streamed(session: aiohttp.ClientSession, url: str, prompt: str, at_most: int | None) -> str:
    """The text of a stream; after `at_most` chunks, the client closes the connection."""
    parts: list[str] = []
    async with _posted(session, url, prompt, stream=True) as answer:
        async for line in answer.content:
            if not line.startswith(DATA):
                continue
            data = line.removeprefix(DATA).strip()
            if data == DONE:
                await answer.read()
                return "".join(parts)
            parts.append(json.loads(data)["choices"][0]["text"])
            if len(parts) == at_most:
                answer.close()
                return ""
    raise aiohttp.ClientPayloadError("the stream ended without its end marker")


def _raise(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.result()
