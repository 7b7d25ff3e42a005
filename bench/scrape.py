"""Cost of scraping the metrics of all engines and routers.

    python -m bench.scrape [--resources N] [--seconds N] [--routers-every SECONDS] [--at-zero | --busy N] [--output
        text|json]

Runs the scraper with the default settings in a process of its own. Each
InferenceDeployment has two engines and two routers of two processes. One HTTP server on this machine, in another
process, plays all pods: engines answer with recorded metrics of vLLM 0.32.0, routers with recorded statistics of
HAProxy 3.0. All engines have requests and make progress. Each pod has its own address in 127.0.0.0/8, so
connections are kept as in a cluster. CPU is of one core.

With --at-zero, each resource has autoscaling, two routers and no engine: each router process keeps one request open.

With --busy N, each resource has autoscaling, two routers and three engines; N of them have requests and are read every
five seconds, the others every thirty. The bench also says how long their rounds take, and how late the event loop runs
other work, such as reconciles.
"""

import asyncio
import itertools
import multiprocessing
import os
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import quantiles
from time import monotonic
from typing import Any

from bench.figures import Figure, at_most, exactly, parser_of, shown
from inference_operator.autoscaling.decision import ScalingSettings
from inference_operator.autoscaling.inputs import ScalingInputs
from inference_operator.autoscaling.target import Target, TargetBound
from inference_operator.controller.sample_store import SampleStore, ScalingStore
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Key
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.router.observe import HELD_PATH, HELD_SECONDS
from inference_operator.scrape.schedule import Intervals
from inference_operator.scrape.scraper import ENGINES, Callbacks, Scraped, Scraper, Targets, default_intervals
from inference_operator.settings import Settings
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView

TESTS = Path(__file__).parents[1] / "tests"
METRICS = (TESTS / "engines" / "vllm-0.32.0-metrics.txt").read_bytes()
STATISTICS = (TESTS / "router" / "haproxy-3.0-stats.csv").read_bytes()
IDLE_STATISTICS = re.sub(rb"(?m)^(engines,[^,]*,)(\d*),(\d*),\d+,", rb"\1\2,\3,0,", STATISTICS)
"""The same without a request."""
IDLE_METRICS = re.sub(rb"(?m)^(vllm:num_requests_(?:running|waiting)\{.*\}) .*$", rb"\1 0.0", METRICS)
HELD_REQUEST = f"GET {HELD_PATH} ".encode()
RESOURCES, SECONDS = 1000, 120
"""Long enough to scrape each pod once more."""
CPU_AIM, BUSY_CPU_AIM, MEMORY_AIM = at_most(5), at_most(25), at_most(40)
"""Percent of one core, and MiB that the scraper adds to the operator."""
ROUND_AIM, LATE_AIM = at_most(5), at_most(50)
"""Seconds and milliseconds."""
TICK_SECONDS = 0.05
_MIB_IN_KIB = 1024


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.scrape", "Cost of scraping metrics.")
    parser.add_argument("--resources", type=int, default=RESOURCES, help="InferenceDeployments")
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help="how long to measure, after everything was scraped once"
    )
    parser.add_argument("--routers-every", type=float, help="scrape interval of routers in seconds")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--at-zero", action="store_true", help="resources with autoscaling and without engines")
    group.add_argument("--busy", type=int, help="resources with autoscaling and requests")
    args = parser.parse_args(arguments)
    load = Load(args.resources, args.seconds, args.routers_every, at_zero=args.at_zero, busy=args.busy)
    figures = _measured(load)
    print(shown(figures, args.output))
    return 0


@dataclass(frozen=True, slots=True)
class Load:
    """What is measured."""

    resources: int
    seconds: int
    routers_every: float | None
    at_zero: bool = False
    busy: int | None = None
    """Resources with autoscaling that have requests; None: without autoscaling, unless at zero."""

    @property
    def engines(self) -> int:
        """Engines of each resource."""
        return 0 if self.at_zero else 2 if self.busy is None else 3


def _measured(load: Load) -> list[Figure]:
    """Figures of a scraper in a new process, whose memory holds nothing else."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    pods = context.Process(target=_serve, args=(theirs, load), daemon=True)
    pods.start()
    ports: tuple[int, int, int] = tuple(ours.recv())
    scraper = context.Process(target=_scrape, args=(theirs, ports, load), daemon=True)
    scraper.start()
    figures: list[Figure] = ours.recv()
    scraper.join()
    pods.terminate()
    pods.join()
    return figures


def _serve(pipe: Connection, load: Load) -> None:
    asyncio.run(_serving(pipe, IDLE_STATISTICS if load.at_zero or load.busy is not None else STATISTICS))


async def _serving(pipe: Connection, statistics: bytes) -> None:
    steps = itertools.count()

    async def idle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer(reader, writer, IDLE_METRICS)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, metrics: bytes = METRICS) -> None:
        request = b""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while b"Connection: close" not in request:
                request = await reader.readuntil(b"\r\n\r\n")
                body = statistics
                if request.startswith(HELD_REQUEST):
                    await asyncio.sleep(HELD_SECONDS)
                    body = b"inference_operator_router_held_requests 0\n"
                if request.startswith(b"GET /metrics "):
                    body = metrics.replace(b" 1452.0", b" %d.0" % next(steps))  # the number of its steps
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    everywhere = "0.0.0.0"  # noqa: S104 - all of 127.0.0.0/8
    servers = [await asyncio.start_server(one, everywhere, 0, backlog=1024) for one in (answer, answer, idle)]
    pipe.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.gather(*(server.serve_forever() for server in servers))


def _scrape(pipe: Connection, ports: tuple[int, int, int], load: Load) -> None:
    pipe.send(asyncio.run(_scraping(ports, load)))


async def _scraping(ports: tuple[int, int, int], load: Load) -> list[Figure]:
    settings = Settings()
    default = default_intervals(settings)
    every = load.routers_every
    routers = Intervals(every, every, every) if every else default[ROUTER]
    pods = {Key("default", f"r{number}"): _pods(number, ports, load) for number in range(load.resources)}
    scrapes: Counter[bool] = Counter()

    def on_scrape(component: str, *, answered: bool) -> None:  # noqa: ARG001 - all count alike
        scrapes[answered] += 1

    callbacks = Callbacks(
        on_stalled=lambda _: None,
        on_no_progress=lambda _: None,
        on_stall=lambda _: None,
        on_scrape=on_scrape,
        on_room=lambda _: None,
        on_readable=lambda _: None,
        on_scaling=lambda _: None,
        on_adapters=lambda _: None,
    )
    engines = {key: engines_of(pod for pod in each if pod.component == ENGINE) for key, each in pods.items()}
    targets = Targets(pods.keys, pods.__getitem__, engines.__getitem__, lambda _key, _pod: Vllm())
    scaling = _scaled(pods, load)
    intervals = {**default, ROUTER: routers}
    scraper = Rounds(targets, SampleStore(), callbacks, settings, intervals=intervals, scaling=scaling)
    memory, files = _memory(), _open_files()
    task = asyncio.create_task(scraper.run())
    await asyncio.sleep(default[ENGINES].calm)  # until everything has been scraped once
    scraper.seconds.clear()
    before, cpu, began = scrapes.copy(), _cpu(), monotonic()
    late = await _late(load.seconds)
    done, cpu, seconds = scrapes - before, _cpu() - cpu, monotonic() - began
    most_files, cpu_aim = _open_files(), CPU_AIM if load.busy is None else BUSY_CPU_AIM
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    figures = [
        Figure(f"pods of {load.resources} resources scraped", done.total() / seconds, "per second"),
        Figure("of which did not answer", done[False] / seconds, "per second", exactly(0)),
        Figure("CPU of the scraper", 100 * cpu / seconds, "% of a core", cpu_aim),
        Figure("memory of the scraper", (_memory() - memory) / _MIB_IN_KIB, "MiB", MEMORY_AIM),
        Figure("open connections", most_files - files, "connections"),
    ]
    if load.busy is None:
        return figures
    return [
        *figures,
        Figure("round of a resource, p99", _p99(scraper.seconds), "s", ROUND_AIM),
        Figure("lateness of the event loop, p99", 1000 * _p99(late), "ms", LATE_AIM),
    ]


class Rounds(Scraper):
    """A scraper that records how long each round takes, from its turn until its decision."""

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - those of a scraper
        super().__init__(*arguments, **named)
        self.seconds: list[float] = []

    async def scrape(self, key: Key, components: Sequence[str] = (ROUTER, ENGINES)) -> Scraped:
        """Scrape, and record the time."""
        began = monotonic()
        scraped = await super().scrape(key, components)
        self.seconds.append(monotonic() - began)
        return scraped


async def _late(seconds: int) -> list[float]:
    """How late the event loop runs what is due every 50 ms."""
    found, end = [], monotonic() + seconds
    while (due := monotonic() + TICK_SECONDS) < end:
        await asyncio.sleep(TICK_SECONDS)
        found.append(monotonic() - due)
    return found


def _p99(values: Sequence[float]) -> float:
    return quantiles(values, n=100)[98]


def _scaled(keys: Iterable[Key], load: Load) -> ScalingStore:
    """A store in which these keys have autoscaling."""
    store = ScalingStore()
    if load.busy is None and not load.at_zero:
        return store
    limits = ScalingSettings(0, 4, target_concurrency=32, start_seconds=300, idle_seconds=900)
    target = Target(32, TargetBound.REQUESTED, {})
    for key in keys:
        store.want(
            key,
            [ScalingInputs(limits, load.engines, bypasses_routers=False, target=target, role=ENGINE)],
        )
    return store


def _pods(number: int, ports: tuple[int, int, int], load: Load) -> Sequence[PodView]:
    first, second, idle = ports
    busy = load.busy is None or number < load.busy
    named = {ENGINE: {"http": first if busy else idle}, ROUTER: {"metrics-0": first, "metrics-1": second}}
    return [
        PodView(
            name=f"{component}-{number}-{one}",
            component=component,
            created=None,
            ready=True,
            terminating=False,
            failed=False,
            problem=None,
            uid=f"{component}-{number}-{one}",
            address=f"127.{1 + kind}.{number // 80}.{1 + 3 * (number % 80) + one}",
            ports=named[component],
        )
        for kind, (component, count) in enumerate(((ENGINE, load.engines), (ROUTER, 2)))
        for one in range(count)
    ]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - thousands of paths would be a part of the figure


def _memory() -> int:
    """Peak memory so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
