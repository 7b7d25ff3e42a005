"""What a ModelGateway adds to the routers behind it, on one core, beside other proxies that choose by `model`.

    LITELLM=/path/of/litellm python -m bench.gateway [--seconds N] [--only NAME,...] [--output text|json]

Needs root, two cores and `wrk`, as `bench.router`, whose load, engines and cores these are. With the same engines
behind each, wrk asks in turn:

- *router*: with keys, limits and an access log; it reads no body.
- *gateway*: the same, and it chooses by `model`.
- *envoy by body*: Envoy with its filter `json_to_metadata`, and a route for the model.
- *litellm proxy*: with its defaults, one worker and a master key.

*latency*: the times of requests through gateway and router less those through the router alone, which take turns.
*isolation*: times at the four processes of a gateway of two pods, before and while 10,000 requests are held by another
model.
"""

import asyncio
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from urllib.parse import urlsplit

from bench.balancers import COMMIT, ENGINE_PORT, ENGINES, EVERYTHING, ROUTER, Balancers, named, rss_mib
from bench.figures import Figure, as_known, at_least, at_most, exactly, parser_of, shown, unmeasured
from bench.latency import latencies_ms
from bench.rendered import rendered
from bench.rivals import ENVOY_BY_BODY, KEY, LITELLM, LITELLM_PROXY, MODEL, Endpoint
from bench.router import PASSES, SECONDS, Rate, best_rates, bodies, quantile, rate
from e2e.helpers.free_ports import free_ports
from e2e.router.loopback import unpacked
from e2e.router.names import Names
from inference_operator.api.router import RouterSpec
from inference_operator.objects.names import GATEWAY as COMPONENT

GATEWAY, LATENCY, ISOLATION = "gateway", "latency", "isolation"
NAMES = (ROUTER, GATEWAY, ENVOY_BY_BODY, LITELLM_PROXY, LATENCY, ISOLATION)
SIZES = ((2, False), (16, False), (64, True))
"""KiB of a body, and whether `model` stands behind everything else."""
_TITLES = tuple(f"{kib} KiB{', model last' if last else ''}" for kib, last in SIZES)
AIMS = {2: at_least(0.8), 16: at_least(0.8), 64: at_least(0.5)}
LATENCY_SECONDS = 10.0
HELD = 10_000
PROCESSES = 4
"""Of a gateway of two pods; with its default memory each has 3,276 places, of which a model may have four fifths."""
SOURCES = 25
"""Client addresses that hold requests; one alone may have four fifths of the places too."""
HELD_MODEL, _HOLDER, _ARRIVE_SECONDS, _HELD_SECONDS = "held", "127.0.54.9", 10, 120


@dataclass(frozen=True, slots=True)
class Gateways:
    """Starts gateways beside what `bench.router` starts; each HAProxy has an image of its own."""

    balancers: Balancers
    own: Balancers

    @asynccontextmanager
    async def started(self, name: str) -> AsyncIterator[Endpoint]:
        if name != GATEWAY:
            async with self.balancers.started(name) as endpoint:
                yield endpoint
            return
        async with named() as names, self.gateway(names, {MODEL: f"{ENGINES[0]}|{ENGINE_PORT}"}) as endpoint:
            yield endpoint

    @asynccontextmanager
    async def gateway(self, names: Names, models: dict[str, str], processes: int = 1) -> AsyncIterator[Endpoint]:
        """A gateway of so many processes that sends requests for each model to an address."""
        spec = RouterSpec.model_validate(EVERYTHING)
        kind = {"component": COMPONENT, "has_adapters": True, "model_names": ()}
        async with self.own.haproxy(names, spec=spec, engine_key="bench", **kind) as loopback:
            loopback.write_adapters("".join(f"{name} {address}|{name}\n" for name, address in models.items()))
            await loopback.start_router()
            assert loopback.router is not None  # noqa: S101 - it has just been started
            more = [
                await loopback.start_haproxy(port, loopback.log.with_name(f"{port}.log"))
                for port in free_ports(processes - 1)
            ]
            try:
                yield Endpoint(loopback.url, loopback.router.pid)
            finally:
                for process in more:
                    process.terminate()
                    await process.wait()


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.gateway", "What a gateway adds to routers.")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="time of each measurement")
    parser.add_argument("--only", default=",".join(NAMES), metavar="NAME,...", help="what to measure")
    args = parser.parse_args(arguments)
    if not shutil.which("wrk"):
        sys.exit("error: wrk is missing; on Debian: apt-get install wrk")
    names = args.only.split(",")
    if unknown := [name for name in names if name not in NAMES]:
        sys.exit(f"error: {', '.join(unknown)}: choose from {', '.join(NAMES)}")
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        roots = (Path(folder) / "router", Path(folder) / "gateway")
        found = asyncio.run(
            _measured(Gateways(*(Balancers(root, unpacked(root), COMMIT) for root in roots)), names, args.seconds)
        )
    print(shown([*found, Figure("load average before", load, "processes")], args.output))
    return 0


async def _measured(gateways: Gateways, names: Sequence[str], seconds: int) -> list[Figure]:
    found, rates, memory = list[Figure](), dict[str, list[list[Rate]]](), dict[str, float]()
    async with gateways.balancers.answering():
        proxies = [name for name in NAMES if name in names and name not in {LATENCY, ISOLATION}]
        if LITELLM_PROXY in proxies and not shutil.which(os.environ.get(LITELLM, "litellm")):
            proxies.remove(LITELLM_PROXY)
            cause = f"name its command in the variable {LITELLM}"
            found.append(unmeasured(f"{LITELLM_PROXY}, rates", "requests/s", cause))
        for name in proxies * PASSES:
            print(f"measuring {name}", file=sys.stderr, flush=True)
            async with gateways.started(name) as endpoint:
                of_pass = [await rate(endpoint, kib, seconds, kept=True, last=last) for kib, last in SIZES]
                rates.setdefault(name, []).append(of_pass)
                memory[name] = max(memory.get(name, 0.0), rss_mib(endpoint.group))
        for name, measure in ((LATENCY, _latency), (ISOLATION, _isolation)):
            if name in names:
                print(f"measuring {name}", file=sys.stderr, flush=True)
                found += as_known(await measure(gateways))
    best = {name: best_rates(passes) for name, passes in rates.items()}
    of_proxies = [figure for name in best for figure in as_known(_of_proxy(name, best[name], memory[name]))]
    return [*of_proxies, *found, *_ratios(best)]


def _of_proxy(name: str, rates: Sequence[Rate], memory_mib: float) -> Iterator[Figure]:
    for title, one in zip(_TITLES, rates, strict=True):
        failed = f" ({one.failed})" if one.failed else ""
        yield Figure(f"{name}, {title}{failed}", one.per_second, "requests/s")
        yield Figure(f"{name}, {title}: CPU", one.cpu_us, "us/request")
    yield Figure(f"{name}, memory", memory_mib, "MiB")


def _ratios(rates: Mapping[str, Sequence[Rate]]) -> Iterator[Figure]:
    for other in (one for one in rates if one != GATEWAY and GATEWAY in rates):
        for title, ours, theirs in zip(_TITLES, rates[GATEWAY], rates[other], strict=True):
            if not theirs.per_second or not theirs.cpu_us:
                continue  # it has answered nothing in this time
            aim = AIMS[ours.body_kib] if other == ROUTER else None
            yield Figure(f"{GATEWAY} / {other}, {title}", ours.per_second / theirs.per_second, "", aim)
            # Says most on a machine with other work, where rates depend on that work.
            yield Figure(f"{GATEWAY} / {other}, {title}: CPU", ours.cpu_us / theirs.cpu_us, "")


async def _latency(gateways: Gateways) -> list[Figure]:
    async with (
        named() as names,
        gateways.balancers.router(rendered(EVERYTHING), names) as router,
        gateways.gateway(names, {MODEL: f"127.0.0.1|{urlsplit(router.url).port}"}) as both,
    ):
        urls, body = [router.url, both.url], bodies(SIZES[0][0])[0].encode()
        alone, through = await asyncio.to_thread(latencies_ms, urls, body, LATENCY_SECONDS, key=KEY)
    return [
        Figure("added to a router, p50", quantile(through, 0.5) - quantile(alone, 0.5), "ms", at_most(0.2)),
        Figure("added to a router, p99", quantile(through, 0.99) - quantile(alone, 0.99), "ms", at_most(0.5)),
    ]


async def _isolation(gateways: Gateways) -> list[Figure]:
    models = {MODEL: f"{ENGINES[0]}|{ENGINE_PORT}", HELD_MODEL: f"{_HOLDER}|{ENGINE_PORT}"}
    body = bodies(SIZES[0][0])[0].encode()
    context = multiprocessing.get_context("spawn")
    held = context.Value("i", 0)
    holder = context.Process(target=_hold, args=(held,), daemon=True)
    holder.start()
    async with named() as names, gateways.gateway(names, models, PROCESSES) as endpoint:
        before = (await asyncio.to_thread(latencies_ms, [endpoint.url], body, LATENCY_SECONDS, key=KEY))[0]
        port = int(urlsplit(endpoint.url).port or 0)
        waiting = [asyncio.create_task(_ask(port, number)) for number in range(HELD)]
        with suppress(TimeoutError):
            async with asyncio.timeout(_HELD_SECONDS):
                while held.value + sum(task.done() for task in waiting) < HELD:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(1)
        refused = [task for task in waiting if task.done()]
        beside = (await asyncio.to_thread(latencies_ms, [endpoint.url], body, LATENCY_SECONDS, key=KEY))[0]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    holder.terminate()
    holder.join()
    p99 = quantile(before, 0.99), quantile(beside, 0.99)
    return [
        Figure("held requests of another model that were refused", len(refused), "requests", exactly(0)),
        Figure("p50 at a gateway", quantile(before, 0.5), "ms"),
        Figure(f"p50 beside {HELD} held requests", quantile(beside, 0.5), "ms"),
        Figure("p99 at a gateway", p99[0], "ms"),
        Figure(f"p99 beside {HELD} held requests", p99[1], "ms"),
        Figure(f"p99 beside {HELD} held requests / without", p99[1] / p99[0], "", at_most(1.2)),
    ]


def _hold(held: "Synchronized[int]") -> None:
    """The router of a model that answers nobody; it counts its requests."""

    async def hold(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}")
        held.value += 1
        await reader.read()

    async def serve() -> None:
        server = await asyncio.start_server(hold, _HOLDER, ENGINE_PORT, backlog=HELD)
        await server.serve_forever()

    asyncio.run(serve())


async def _ask(port: int, number: int) -> None:
    """One request that is held, from one of the addresses; returns if it is answered."""
    await asyncio.sleep(number / HELD * _ARRIVE_SECONDS)  # not all of them in the queue of the socket at once
    local = (f"127.0.70.{number % SOURCES + 1}", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
    body = b'{"model": "%b"}' % HELD_MODEL.encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {KEY}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await reader.read(1)
    writer.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
