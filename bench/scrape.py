"""What it costs to look at the metrics of everything that is served.

    python -m bench.scrape [--resources N] [--seconds N] [--output text|json]

The scraper as the operator runs it, with the settings that it ships with, in a process of its own; each
InferenceDeployment has two engines and two routers of two processes. All pods are one HTTP server on this machine, in
another process: its engines show the recorded metrics of a vLLM 0.32.0, its routers the recorded statistics of an
HAProxy 3.0, in which everything has work and gets on. CPU is of one core.
"""

import asyncio
import itertools
import multiprocessing
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from bench.figures import Figure, json_of, parser_of
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Key
from inference_operator.observed.pod import PodView
from inference_operator.reconcile.samples import SampleStore
from inference_operator.resources.names import ENGINE, ROUTER
from inference_operator.scrape.agenda import CALM_ROUNDS
from inference_operator.scrape.scraper import Known, Scraper, Told
from inference_operator.settings import Settings

TESTS = Path(__file__).parents[1] / "tests"
METRICS = (TESTS / "engines" / "vllm-0.32.0-metrics.txt").read_bytes()
STATISTICS = (TESTS / "router" / "haproxy-3.0-stats.csv").read_bytes()
RESOURCES, SECONDS = 1000, 120
"""So long that everything is looked at once more."""
CPU_AIM, MEMORY_AIM = 5.0, 40.0
"""Percent of one core, and MiB beside what the operator has without it."""
_MIB_IN_KIB = 1024


def main(arguments: Sequence[str]) -> int:
    """Measure, and print."""
    parser = parser_of("python -m bench.scrape", "What it costs to look at metrics.")
    parser.add_argument("--resources", type=int, default=RESOURCES, help="InferenceDeployments")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="how long to measure, after one whole round")
    asked = parser.parse_args(arguments)
    figures = _measured(asked.resources, asked.seconds)
    if asked.output == "json":
        print(json_of(figures))
    else:
        for figure in figures:
            aim = "" if figure.aim is None else f"(aim: at most {figure.aim:g})"
            print(f"{figure.name:40} {figure.value:8.2f} {figure.unit:12} {aim}".rstrip())
    return 0


def _measured(resources: int, seconds: int) -> list[Figure]:
    """Figures of a scraper in a new process, so that nothing of another one is in its memory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    pods = context.Process(target=_serve, args=(theirs,), daemon=True)
    pods.start()
    port: int = ours.recv()
    scraper = context.Process(target=_scrape, args=(theirs, port, resources, seconds), daemon=True)
    scraper.start()
    figures: list[Figure] = ours.recv()
    scraper.join()
    pods.terminate()
    pods.join()
    return figures


def _serve(pipe: Connection) -> None:
    asyncio.run(_serving(pipe))


async def _serving(pipe: Connection) -> None:
    steps = itertools.count()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            request = await reader.readuntil(b"\r\n\r\n")
            body = STATISTICS
            if request.startswith(b"GET /metrics "):
                body = METRICS.replace(b" 1452.0", b" %d.0" % next(steps))  # the number of its steps
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    pipe.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _scrape(pipe: Connection, port: int, resources: int, seconds: int) -> None:
    pipe.send(asyncio.run(_scraping(port, resources, seconds)))


async def _scraping(port: int, resources: int, seconds: int) -> list[Figure]:
    settings = Settings()
    pods = {Key("default", f"r{number}"): _pods(number, port) for number in range(resources)}
    looks: Counter[bool] = Counter()

    def look(component: str, *, answered: bool) -> None:  # noqa: ARG001 - all count alike
        looks[answered] += 1

    told = Told(stalled=lambda _: None, stall=lambda _: None, look=look, cache=lambda _: None)
    scraper = Scraper(Known(lambda: pods, lambda key: pods[key]), SampleStore(), Vllm(), told, settings)
    memory = _memory()
    task = asyncio.create_task(scraper.run())
    await asyncio.sleep(CALM_ROUNDS * settings.scrape_seconds)  # until everything has been looked at once
    before, cpu = looks.copy(), _cpu()
    await asyncio.sleep(seconds)
    seen, cpu = looks - before, _cpu() - cpu
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return [
        Figure(f"pods of {resources} resources looked at", seen.total() / seconds, "per second"),
        Figure("of which gave no answer", seen[False] / seconds, "per second", 0.0),
        Figure("CPU", 100 * cpu / seconds, "% of a core", CPU_AIM),
        Figure("memory", (_memory() - memory) / _MIB_IN_KIB, "MiB", MEMORY_AIM),
    ]


def _pods(number: int, port: int) -> Sequence[PodView]:
    ports = {ENGINE: {"http": port}, ROUTER: {"metrics": port, "metrics-drain": port}}
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
            address="127.0.0.1",
            ports=ports[component],
        )
        for component in (ENGINE, ROUTER)
        for one in range(2)
    ]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _memory() -> int:
    """Most memory so far, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
