"""Times of honest requests to a router beside attacks on it.

    python -m bench.hostile [--requests N] [--output text|json]

A small router and an engine on loopback. The attacks are those of `e2e/router/attacks.py`, one after the other, from
one address. Honest clients connect while an attack runs, and keep their connections if they may.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import quantiles

import aiohttp

from bench.figures import Figure, at_most, exactly, parser_of, shown
from e2e.router.attacks import ON_METRICS, ON_THE_API, Attack, attacked, start_small
from e2e.router.loopback import NAME_SERVER, Loopback, unpacked
from e2e.router.names import Names

METRICS = "metrics"
ATTACKS: Mapping[str, Mapping[str, Attack]] = {"API": ON_THE_API, METRICS: ON_METRICS}
"""By the port that they attack."""
REQUESTS, CLIENTS = 1_000, 8
LOST_SECONDS = 10.0
"""A request without an answer until then is lost."""
MOST_SLOWER = 3.0
"""The most that an attack may multiply the 99th percentile by."""


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.hostile", "Times of honest requests to a router beside attacks on it.")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="honest requests beside each attack")
    args = parser.parse_args(arguments)
    print(shown(asyncio.run(measured(args.requests)), args.output))
    return 0


async def measured(requests: int) -> list[Figure]:
    """The figures of all attacks, each on a router of its own."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        command = unpacked(root)
        p99 = _p99(await _beside(root, command, requests))
        found = [Figure("p99 alone", 1000 * p99, "ms")]
        for port, attacks in ATTACKS.items():
            for name, attack in attacks.items():
                times = await _beside(root, command, requests, port, attack)
                found += figures(f"{name} ({port})", times, requests, p99)
    return found


def figures(name: str, times: Sequence[float], requests: int, alone: float) -> list[Figure]:
    """The figures of one attack.

    Examples:
        >>> [(one.name, round(one.value, 6)) for one in figures("x", [0.002] * 100, requests=101, alone=0.001)]
        [('lost beside x', 1), ('p99 beside x', 2.0)]
    """
    return [
        Figure(f"lost beside {name}", requests - len(times), "requests", exactly(0)),
        Figure(f"p99 beside {name}", _p99(times) / alone, "of alone", at_most(MOST_SLOWER)),
    ]


def _p99(times: Sequence[float]) -> float:
    return quantiles(times, n=100)[98] if len(times) > 1 else float("nan")


async def _beside(
    root: Path, command: list[str], requests: int, port: str = "", attack: Attack | None = None
) -> list[float]:
    """Seconds of each honest request that was answered with 200, beside an attack on a port if one is given."""
    names = Names()
    await names.listen(NAME_SERVER, 53)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        router = Loopback(root, command, names=names, session=session)
        try:
            await start_small(router)
            if attack is None:
                return await _times(router, requests)
            async with attacked(router.metrics_port if port == METRICS else router.port, attack):
                return await _times(router, requests)
        finally:
            await router.close()


async def _times(router: Loopback, requests: int) -> list[float]:
    times: list[float] = []

    async def client() -> None:
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LOST_SECONDS)) as session:
            for _ in range(requests // CLIENTS):
                began = time.monotonic()
                try:
                    if (await router.ask(session, gap=0)).status == 200:  # noqa: PLR2004 - HTTP
                        times.append(time.monotonic() - began)
                except TimeoutError:
                    pass

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return times


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
