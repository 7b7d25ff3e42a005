"""Cost of scraping the metrics of all engines and routers.

    python -m bench.scrape [--resources N] [--seconds N] [--routers-every SECONDS] [--at-zero] [--output text|json]

Runs the scraper with the default settings in a process of its own. Each
InferenceDeployment has two engines and two routers of two processes. One HTTP server on this machine, in another
process, plays all pods: engines answer with recorded metrics of vLLM 0.32.0, routers with recorded statistics of
HAProxy 3.0. All engines have requests and make progress. Each pod has its own address in 127.0.0.0/8, so
connections are kept as in a cluster. CPU is of one core.

With --at-zero, each resource has autoscaling, two routers and no engine: each router process keeps one request open.
"""

import asyncio
import itertools
import multiprocessing
import re
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from bench.figures import Figure, at_most, exactly, parser_of, shown
from inference_operator.autoscaling.decision import ScalingSettings
from inference_operator.autoscaling.request import ScalingRequest
from inference_operator.controller.sample_store import SampleStore
from inference_operator.controller.scaling_store import ScalingStore
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Key
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.router.observe import HELD_PATH, HELD_SECONDS
from inference_operator.scrape.schedule import Intervals
from inference_operator.scrape.scraper import Callbacks, Scraper, Targets, default_intervals
from inference_operator.settings import Settings
from inference_operator.views.pod import PodView

TESTS = Path(__file__).parents[1] / "tests"
METRICS = (TESTS / "engines" / "vllm-0.32.0-metrics.txt").read_bytes()
STATISTICS = (TESTS / "router" / "haproxy-3.0-stats.csv").read_bytes()
IDLE_STATISTICS = re.sub(rb"(?m)^(engines,[^,]*,)(\d*),(\d*),\d+,", rb"\1\2,\3,0,", STATISTICS)
"""The same without a request."""
HELD_REQUEST = f"GET {HELD_PATH} ".encode()
RESOURCES, SECONDS = 1000, 120
"""Long enough to scrape each pod once more."""
CPU_AIM, MEMORY_AIM = at_most(5), at_most(40)
"""Percent of one core, and MiB that the scraper adds to the operator."""
_MIB_IN_KIB = 1024


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.scrape", "Cost of scraping metrics.")
    parser.add_argument("--resources", type=int, default=RESOURCES, help="InferenceDeployments")
    parser.add_argument(
        "--seconds", type=int, default=SECONDS, help="how long to measure, after everything was scraped once"
    )
    parser.add_argument("--routers-every", type=float, help="scrape interval of routers in seconds")
    parser.add_argument("--at-zero", action="store_true", help="resources with autoscaling and without engines")
    args = parser.parse_args(arguments)
    figures = _measured(args.resources, args.seconds, args.routers_every, at_zero=args.at_zero)
    print(shown(figures, args.output))
    return 0


def _measured(resources: int, seconds: int, routers_every: float | None, *, at_zero: bool) -> list[Figure]:
    """Figures of a scraper in a new process, whose memory holds nothing else."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    pods = context.Process(target=_serve, args=(theirs, at_zero), daemon=True)
    pods.start()
    ports: tuple[int, int] = tuple(ours.recv())
    asked = (theirs, ports, resources, seconds, routers_every, at_zero)
    scraper = context.Process(target=_scrape, args=asked, daemon=True)
    scraper.start()
    figures: list[Figure] = ours.recv()
    scraper.join()
    pods.terminate()
    pods.join()
    return figures


def _serve(pipe: Connection, at_zero: bool) -> None:  # noqa: FBT001 - the argument of a process
    asyncio.run(_serving(pipe, IDLE_STATISTICS if at_zero else STATISTICS))


async def _serving(pipe: Connection, statistics: bytes) -> None:
    steps = itertools.count()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = b""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while b"Connection: close" not in request:
                request = await reader.readuntil(b"\r\n\r\n")
                body = statistics
                if request.startswith(HELD_REQUEST):
                    await asyncio.sleep(HELD_SECONDS)
                    body = b"inference_operator_router_held_requests 0\n"
                if request.startswith(b"GET /metrics "):
                    body = METRICS.replace(b" 1452.0", b" %d.0" % next(steps))  # the number of its steps
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        writer.close()

    everywhere = "0.0.0.0"  # noqa: S104 - all of 127.0.0.0/8
    one, other = [await asyncio.start_server(answer, everywhere, 0, backlog=1024) for _ in range(2)]
    pipe.send([server.sockets[0].getsockname()[1] for server in (one, other)])
    await asyncio.gather(one.serve_forever(), other.serve_forever())


def _scrape(  # noqa: PLR0917 - the arguments of a process
    pipe: Connection,
    ports: tuple[int, int],
    resources: int,
    seconds: int,
    routers_every: float | None,
    at_zero: bool,  # noqa: FBT001 - as above
) -> None:
    pipe.send(asyncio.run(_scraping(ports, resources, seconds, routers_every, at_zero=at_zero)))


async def _scraping(
    ports: tuple[int, int], resources: int, seconds: int, routers_every: float | None, *, at_zero: bool
) -> list[Figure]:
    settings = Settings()
    default = default_intervals(settings)
    routers = Intervals(routers_every, routers_every, routers_every) if routers_every else default[ROUTER]
    pods = {Key("default", f"r{number}"): _pods(number, *ports) for number in range(resources)}
    if at_zero:
        pods = {key: [pod for pod in both if pod.component == ROUTER] for key, both in pods.items()}
    scrapes: Counter[bool] = Counter()

    def on_scrape(component: str, *, answered: bool) -> None:  # noqa: ARG001 - all count alike
        scrapes[answered] += 1

    callbacks = Callbacks(
        on_stalled=lambda _: None,
        on_no_progress=lambda _: None,
        on_stall=lambda _: None,
        on_scrape=on_scrape,
        on_kv_cache=lambda _: None,
        on_readable=lambda _: None,
        on_scaling=lambda _: None,
    )
    targets = Targets(lambda: pods, lambda key: pods[key], lambda _, component: Vllm() if component == ENGINE else None)
    scaling = _at_zero(pods) if at_zero else ScalingStore()
    intervals = {**default, ROUTER: routers}
    scraper = Scraper(targets, SampleStore(), callbacks, settings, intervals=intervals, scaling=scaling)
    memory, files, most_files = _memory(), _open_files(), 0
    task = asyncio.create_task(scraper.run())
    await asyncio.sleep(default[ENGINE].calm)  # until everything has been scraped once
    before, cpu = scrapes.copy(), _cpu()
    for _ in range(seconds):
        await asyncio.sleep(1)
        most_files = max(most_files, _open_files())
    done, cpu = scrapes - before, _cpu() - cpu
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [
        Figure(f"pods of {resources} resources scraped", done.total() / seconds, "per second"),
        Figure("of which did not answer", done[False] / seconds, "per second", exactly(0)),
        Figure("CPU of the scraper", 100 * cpu / seconds, "% of a core", CPU_AIM),
        Figure("memory of the scraper", (_memory() - memory) / _MIB_IN_KIB, "MiB", MEMORY_AIM),
        Figure("open connections, peak", most_files - files, "connections"),
    ]


def _at_zero(keys: Iterable[Key]) -> ScalingStore:
    """A store in which these keys have autoscaling, and no engine."""
    limits = ScalingSettings(0, 4, target_concurrency=32, start_seconds=300, idle_seconds=900)
    store = ScalingStore()
    for key in keys:
        store.want(key, ScalingRequest(limits, replicas=0, external=False))
    return store


def _pods(number: int, first: int, second: int) -> Sequence[PodView]:
    ports = {ENGINE: {"http": first}, ROUTER: {"metrics-0": first, "metrics-1": second}}
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
            address=f"127.{1 + kind}.{number // 100}.{1 + 2 * (number % 100) + one}",
            ports=ports[component],
        )
        for kind, component in enumerate((ENGINE, ROUTER))
        for one in range(2)
    ]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _memory() -> int:
    """Peak memory so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
