"""Requests per second through a router on one core, beside no load balancer, an earlier commit, and other ones.

    uv run --group bench python -m bench.router [--seconds N] [--passes N] [--before COMMIT] [--only NAME,...]

Needs root, two cores and `wrk` (Debian package of this name). What is measured has the first core for itself; wrk with
32 connections, and the stand-in for four engines (HAProxy, which reads the request and answers 600 bytes), share the
second one. So *direct* is the limit of the load generator. Each is measured `PASSES` times, in turns. Other programs
of the machine, and of its host, only make a load balancer slower: its best pass counts for each figure. In one run:

- *direct*: wrk asks the stand-in itself.
- *router*: what `infd render` prints for `EVERYTHING` (`bench/balancers.py`), with `LeastOutstanding`.
- *router TLS*: the same, which clients reach by HTTPS.
- *router before*: what it printed at another commit.
- *router affinity*: as *router*, with `PrefixAffinity`.
- Envoy, `vllm-router` and `sglang-router` with their defaults (`bench/rivals.py`).
- *envoy same work*: Envoy with keys, a limit, an access log and buffered retries, by its own filters.

Only where `--only` names them, the router with other ways to treat connections:

- *httpclose*: a connection of the client for each request.
- *new to engines*: a connection to an engine for each request, as before HAProxy sent requests again.

Beside rates: what each adds to an answer's time at 200 requests per second, how late the chunks of 40 streams arrive,
what a chunk costs its CPU, and its memory after the load.
"""

import asyncio
import json
import os
import re
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from bench.balancers import (
    BEFORE,
    COMMIT,
    DEFAULT,
    DIRECT,
    OTHER_CORE,
    ROUTER,
    WITH_AFFINITY,
    WITH_TLS,
    Balancers,
    cpu_seconds,
    known,
    rss_mib,
)
from bench.figures import Aim, Figure, at_least, at_most, parser_of, shown
from bench.latency import latencies_ms, unchecked
from bench.rivals import KEY, MODEL, SAME_WORK, Endpoint
from bench.streams import streamed
from e2e.router.loopback import unpacked

SECONDS, PASSES = 3, 3
CONNECTIONS = 32
CONVERSATIONS = 64
BODIES_KIB = (2, 16, 64)
LATENCY_SECONDS = 4.0
RIVAL = "sglang-router cache aware"
BARE = "envoy least request"
OF_BEFORE, OF_SAME_WORK, OF_BARE = at_least(1.5), at_least(1.0), at_least(1.0)
OF_RIVAL = {2: at_least(0.9), 16: at_least(1.2), 64: at_least(1.8)}
"""By the KiB of a body: a search for the beginnings of prompts costs a small request most."""
CPU_OF = {SAME_WORK: at_most(1.0)}
ADDED_P50, LAG_P99 = at_most(0.15), at_most(1)
BAR = 50
"""Characters of the longest bar of the plot."""
_RATE = re.compile(r"Requests/sec:\s+([0-9.]+)")
_COUNT = re.compile(r"([0-9]+) requests in")
_FAILED = re.compile(r"(Non-2xx|Socket errors).*")


@dataclass(frozen=True, slots=True)
class Rate:
    """One measurement of wrk."""

    body_kib: int
    kept: bool
    per_second: float
    cpu_us: float
    """The proxy's CPU for each request, in microseconds; 0 without a proxy."""
    failed: str = ""

    @property
    def title(self) -> str:
        """Size and connections."""
        return f"{self.body_kib} KiB, {'kept' if self.kept else 'new'} connections"


@dataclass(frozen=True, slots=True)
class Measured:
    """All of one load balancer; times in milliseconds beside those without it."""

    name: str
    rates: tuple[Rate, ...]
    added_p50: float
    added_p99: float
    rss_mib: float
    lag_p50: float
    lag_p99: float
    chunk_us: float
    broken: int


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.router", "Requests per second through a router.")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="time of each measurement")
    parser.add_argument("--passes", type=int, default=PASSES, help="how often each is measured")
    parser.add_argument("--before", default=COMMIT, metavar="COMMIT", help="commit to compare with")
    parser.add_argument("--only", default=",".join(DEFAULT), metavar="NAME,...", help="what to measure")
    args = parser.parse_args(arguments)
    if not shutil.which("wrk"):
        sys.exit("error: wrk is missing; on Debian: apt-get install wrk")
    names = known(args.only.split(","))
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        balancers = Balancers(root, unpacked(root), args.before)
        passes = [[asyncio.run(measured(balancers, name, args.seconds)) for name in names] for _ in range(args.passes)]
        found = [best(of_one) for of_one in zip(*passes, strict=True)]
    print(shown([*figures(found), Figure("load average before", load, "processes")], args.output))
    if args.output == "text":
        print(plot(found))
    return 0


async def measured(balancers: Balancers, name: str, seconds: int) -> Measured:
    """One load balancer: rates and latency with engines that answer at once, lags with engines that stream."""
    print(f"measuring {name}", file=sys.stderr, flush=True)
    async with balancers.answering(), balancers.started(name) as endpoint, balancers.started(DIRECT) as direct:
        sizes = [(body, kept) for body in BODIES_KIB for kept in (True, False)]
        rates = [await rate(endpoint, body, seconds, kept=kept) for body, kept in sizes]
        rss = rss_mib(endpoint.group)
        urls, body = [direct.url, endpoint.url], bodies(BODIES_KIB[0])[0].encode()
        without, with_it = await asyncio.to_thread(latencies_ms, urls, body, LATENCY_SECONDS, key=KEY)
    async with balancers.streaming(), balancers.started(name) as endpoint:
        before = cpu_seconds(endpoint.group)
        parts = urlsplit(endpoint.url)
        assert parts.hostname is not None  # noqa: S101 - the bench's own URL
        assert parts.port is not None  # noqa: S101 - the same
        tls = unchecked() if parts.scheme == "https" else None
        streams = await streamed(parts.hostname, parts.port, key=KEY, tls=tls)
        chunk_us = (cpu_seconds(endpoint.group) - before) / max(1, len(streams.lags_ms)) * 1e6
    return Measured(
        name=name,
        rates=tuple(rates),
        added_p50=quantile(with_it, 0.5) - quantile(without, 0.5),
        added_p99=quantile(with_it, 0.99) - quantile(without, 0.99),
        rss_mib=rss,
        lag_p50=quantile(streams.lags_ms, 0.5),
        lag_p99=quantile(streams.lags_ms, 0.99),
        chunk_us=chunk_us,
        broken=streams.broken,
    )


def best_rates(passes: Sequence[Sequence[Rate]]) -> tuple[Rate, ...]:
    """The highest rate and the least CPU of each size; a failure of any pass is kept."""
    return tuple(
        replace(
            max(of_size, key=lambda rate: rate.per_second),
            cpu_us=min(rate.cpu_us for rate in of_size),
            failed=next((rate.failed for rate in of_size if rate.failed), ""),
        )
        for of_size in zip(*passes, strict=True)
    )


def best(passes: Sequence[Measured]) -> Measured:
    """The best of each figure; broken streams and failures of all passes count."""
    least = {
        name: min(getattr(each, name) for each in passes)
        for name in ("added_p50", "added_p99", "rss_mib", "lag_p50", "lag_p99", "chunk_us")
    }
    return replace(
        passes[0],
        rates=best_rates([each.rates for each in passes]),
        broken=sum(each.broken for each in passes),
        **least,
    )


def quantile(ordered: Sequence[float], part: float) -> float:
    """A quantile of values in ascending order.

    Examples:
        >>> quantile([1, 2, 3], 0.5), quantile([1, 2, 3], 0.99)
        (2, 3)
    """
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else float("nan")


def figures(found: Sequence[Measured]) -> list[Figure]:
    """Every measurement, and the ratios that aims are about."""
    return [figure for one in found for figure in _of_one(one)] + list(_ratios({one.name: one for one in found}))


def _of_one(one: Measured) -> list[Figure]:
    listed = []
    for rate in one.rates:
        title = f"{one.name}, {rate.title}" + (f" ({rate.failed})" if rate.failed else "")
        listed.append(Figure(title, rate.per_second, "requests/s"))
        if rate.cpu_us:
            listed.append(Figure(f"{title}: CPU", rate.cpu_us, "us/request"))
    ours = one.name == ROUTER
    if one.name != DIRECT:
        listed.append(Figure(f"{one.name}, added p50", one.added_p50, "ms", ADDED_P50 if ours else None))
        listed.append(Figure(f"{one.name}, added p99", one.added_p99, "ms"))
        listed.append(Figure(f"{one.name}, CPU of a chunk", one.chunk_us, "us"))
        listed.append(Figure(f"{one.name}, memory", one.rss_mib, "MiB"))
    listed.append(Figure(f"{one.name}, lag of chunks p50", one.lag_p50, "ms"))
    listed.append(Figure(f"{one.name}, lag of chunks p99", one.lag_p99, "ms", LAG_P99 if ours else None))
    return [*listed, *([Figure(f"{one.name}, broken streams", one.broken, "streams")] if one.broken else [])]


def _ratios(found: dict[str, Measured]) -> list[Figure]:
    pairs: list[tuple[str, str, Mapping[int, Aim]]] = [
        (ROUTER, BEFORE, dict.fromkeys(BODIES_KIB, OF_BEFORE)),
        (ROUTER, SAME_WORK, dict.fromkeys(BODIES_KIB, OF_SAME_WORK)),
        (ROUTER, BARE, dict.fromkeys(BODIES_KIB, OF_BARE)),
        (WITH_AFFINITY, RIVAL, OF_RIVAL),
        (WITH_TLS, ROUTER, {}),
    ]
    both = [
        (name, other, aims.get(ours.body_kib) if ours.kept else None, ours, theirs)
        for name, other, aims in pairs
        if name in found and other in found
        for ours, theirs in zip(found[name].rates, found[other].rates, strict=True)
    ]
    return [
        Figure(f"{name} / {other}, {ours.title}", ours.per_second / theirs.per_second, "", aim)
        for name, other, aim, ours, theirs in both
    ] + [
        # Says most on a machine with other work, where rates depend on that work.
        Figure(f"{name} / {other}, {ours.title}: CPU", ours.cpu_us / theirs.cpu_us, "", CPU_OF.get(other))
        for name, other, _, ours, theirs in both
        if ours.cpu_us and theirs.cpu_us
    ]


def plot(found: Sequence[Measured]) -> str:
    """Bars of the rates with kept connections, one block for each size."""
    lines = []
    for number in range(0, len(BODIES_KIB) * 2, 2):
        most = max(one.rates[number].per_second for one in found)
        lines.append(f"\nrequests/s, {found[0].rates[number].title}")
        for one in sorted(found, key=lambda one: -one.rates[number].per_second):
            value = one.rates[number].per_second
            lines.append(f"{one.name:26} {'#' * round(value / most * BAR):{BAR}} {value:8.0f}")
    return "\n".join(lines)


def bodies(kib: int, *, last: bool = False) -> list[str]:
    """A chat completion of each conversation, of this size."""
    made = []
    for number in range(CONVERSATIONS):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Question {number} "}]
        members = [("model", MODEL), ("messages", messages)]
        whole = dict(reversed(members) if last else members)
        messages[-1]["content"] += "x" * (kib * 1024 - len(json.dumps(whole)))
        made.append(json.dumps(whole))
    return made


def _script(kib: int, *, kept: bool, last: bool) -> str:
    """A script for wrk that sends the conversations in turn; each request is formatted once."""
    close = "" if kept else 'wrk.headers["Connection"] = "close"\n'
    each = enumerate(bodies(kib, last=last), 1)
    lines = "\n".join(f"bodies[{number}] = {json.dumps(body)}" for number, body in each)
    return (
        f'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n{close}'
        f'wrk.headers["Authorization"] = "Bearer {KEY}"\n'
        f"local bodies, requests, next = {{}}, {{}}, 0\n{lines}\n"
        "function init() for i, body in ipairs(bodies) do requests[i] = wrk.format(nil, nil, nil, body) end end\n"
        f"function request() next = next % {CONVERSATIONS} + 1; return requests[next] end\n"
    )


async def rate(endpoint: Endpoint, body_kib: int, seconds: int, *, kept: bool, last: bool = False) -> Rate:
    """What wrk measures with bodies of a size whose `model` stands first, or last."""
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(_script(body_kib, kept=kept, last=last))
        file.flush()
        before = cpu_seconds(endpoint.group)
        options = ["-t1", f"-c{CONNECTIONS}", f"-d{seconds}", "--script", file.name]
        url = f"{endpoint.url}/v1/chat/completions"
        wrk = await create_subprocess_exec("taskset", "--cpu-list", OTHER_CORE, "wrk", *options, url, stdout=PIPE)
        printed = (await wrk.communicate())[0].decode()
        used = cpu_seconds(endpoint.group) - before
    rate, count, failed = _RATE.search(printed), _COUNT.search(printed), _FAILED.search(printed)
    if not rate or not count:
        sys.exit(f"error: wrk: {printed}")
    return Rate(body_kib, kept, float(rate[1]), used / max(1, int(count[1])) * 1e6, failed[0].strip() if failed else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
