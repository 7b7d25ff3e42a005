"""Requests lost when a router's HAProxy is killed, or when engines behind it are.

    python -m bench.router_death [--loopback | --engines] [--runs N] [--output text|json]

Runs on a real node (needs root) with the CPU sample, its two routers and 64 concurrent requests, half of them streamed.
Each run sends SIGKILL to every process of one router container, as the kernel does when memory runs out. The load
continues until the container is ready again.

With `--loopback` there is no cluster: the two HAProxy processes of one router pod have all requests, and simulated
engines answer them. So each process has half of the requests, instead of a quarter.

With `--engines`, one HAProxy and three engines that compute for 50 ms run on loopback, and engines are killed in turn,
each with requests in its hands: for each way in which clients ask. No request is lost but those with bodies that
the router does not keep.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import aiohttp

from bench.figures import Figure, exactly, parser_of, shown
from e2e.deploy import stack
from e2e.helpers.faults import kill_container
from e2e.helpers.served_deployment import Served
from e2e.load import Load, Loss, Result
from e2e.localkube.network import IpFamily
from e2e.router import engine_deaths
from e2e.router.engine_deaths import HUNG_UP, EngineDeaths
from e2e.router.loopback import NAME_SERVER, Loopback, unpacked
from e2e.router.names import Names
from e2e.router.simulated import MODEL, started
from inference_operator.api.router import RouterSpec
from inference_operator.router.resources import buffered_body_bytes

RUNS = 8
ROUTERS = 2
BEFORE, AFTER = 200, 1000
"""Requests answered before and after each kill, which takes several seconds."""
RUN_SECONDS = 300
ENGINES = ("127.0.54.1", "127.0.54.2")
KEPT = buffered_body_bytes(RouterSpec())
BODIES = {"small": 2 * 1024, "long": KEPT - 1024, "too long": 8 * KEPT}
"""Bytes of a body: a chat, the longest that is kept, and one that is not."""
ANSWERS_FOR_EACH_KILL = 1300
DECODE = {"SIMULATOR_DECODE_STEP_SECONDS": "0.02"}


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.router_death", "Requests lost when a router's HAProxy is killed.")
    parser.add_argument("--runs", type=int, default=RUNS, help="number of kills")
    parser.add_argument("--loopback", action="store_true", help="without a cluster, with simulated engines")
    parser.add_argument("--engines", action="store_true", help="kill engines instead, without a cluster")
    args = parser.parse_args(arguments)
    if args.engines:
        print(shown(asyncio.run(engines_killed(args.runs)), args.output))
        return 0
    results = asyncio.run(measured_on_loopback(args.runs)) if args.loopback else measured(args.runs)
    if args.output == "text":
        print(*results, sep="\n")
    print(shown(figures(results), args.output))
    return 0


def measured(runs: int) -> list[Result]:
    """One result for each kill, on the cluster of the e2e tests."""
    with stack.tests_cluster(IpFamily.IPV4) as cluster:
        cluster.kubectl("apply", "--filename", str(stack.SAMPLE))
        served = Served(cluster, stack.SAMPLE_NAME)
        stack.wait_ready(cluster, served.name)
        load = Load(served.address, served.name)
        load.learn()
        return [_killed(served, load, number) for number in range(1, runs + 1)]


async def measured_on_loopback(runs: int) -> list[Result]:
    """The same without a cluster: of the two HAProxy processes of a router pod, one is killed."""
    with tempfile.TemporaryDirectory() as folder:
        root, names = Path(folder) / "root", Names()
        command = unpacked(root)
        await names.listen(NAME_SERVER, 53)
        async with aiohttp.ClientSession() as session:
            loopback = Loopback(root, command, names=names, session=session)
            try:
                await loopback.start_router()
                for address in ENGINES:
                    await started(loopback, address, **DECODE)
                    names.addresses.append(address)
                await loopback.until_served(len(ENGINES))
                load = Load(f"127.0.0.1:{loopback.port}", MODEL)
                await asyncio.to_thread(load.learn)
                return [await _killed_twin(loopback, load, number) for number in range(1, runs + 1)]
            finally:
                await loopback.close()


async def _killed_twin(loopback: Loopback, load: Load, number: int) -> Result:
    await loopback.start_twin()
    await loopback.until_twin_served(len(ENGINES))
    with load.phase(f"kill {number}", at_least=BEFORE, seconds=RUN_SECONDS) as phase:
        await asyncio.to_thread(phase.await_answers, BEFORE)
        await loopback.kill_twin()
        phase.mark()
        await asyncio.to_thread(phase.await_answers, AFTER)
    return phase.result


async def engines_killed(runs: int) -> list[Figure]:
    """The figures of each way in which clients ask, with bodies of each size."""
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        command = unpacked(root)
        for way in engine_deaths.WAYS:
            for name, size in BODIES.items():
                if size > KEPT and way != engine_deaths.KEPT:
                    continue  # how clients ask makes no difference at engines
                names = Names()
                await names.listen(NAME_SERVER, 53)
                async with aiohttp.ClientSession() as session:
                    deaths = EngineDeaths(Loopback(root, command, names=names, session=session), way, size)
                    found += _of_engines(
                        f"{way}, {name} bodies", await _engines_killed(deaths, runs), is_kept=size < KEPT
                    )
    return found


async def _engines_killed(deaths: EngineDeaths, runs: int) -> Counter[str]:
    """Answers by status."""
    if deaths.way in engine_deaths.WITH_TLS:
        deaths.loopback.spec = RouterSpec.model_validate({"tls": {"secretRef": {"name": "router-tls"}}})
    try:
        await engine_deaths.start(deaths.loopback)
        await deaths.run(kills=runs, at_least=ANSWERS_FOR_EACH_KILL * runs)
    finally:
        await deaths.loopback.close()
    return deaths.statuses


def _of_engines(row: str, statuses: Counter[str], *, is_kept: bool) -> list[Figure]:
    others = statuses.total() - statuses["200"] - statuses["502"] - statuses[HUNG_UP]
    return [
        Figure(f"{row}: requests", statuses.total(), "requests"),
        Figure(f"{row}: 502", statuses["502"], "requests", exactly(0) if is_kept else None),
        Figure(f"{row}: {HUNG_UP}", statuses[HUNG_UP], "requests", exactly(0)),
        Figure(f"{row}: other answers", others, "requests", exactly(0)),
    ]


def figures(results: Sequence[Result]) -> list[Figure]:
    """The figures of all kills together."""
    lost_later = sum(len(result.lost_later) for result in results)
    lost = [answer for result in results for answer in result.lost]
    return [
        Figure("kills", len(results), "kills"),
        Figure("requests", sum(result.sent for result in results), "requests"),
        Figure("requests lost", len(lost), "requests"),
        Figure("requests lost by the worst kill", max((len(result.lost) for result in results), default=0), "requests"),
        Figure("requests refused", sum(answer.loss is Loss.REFUSED for answer in lost), "requests", exactly(0)),
        Figure("requests lost that were sent after the kill", lost_later, "requests", exactly(0)),
    ]


def _killed(served: Served, load: Load, number: int) -> Result:
    served.await_routers(ROUTERS)
    with load.phase(f"kill {number}", at_least=BEFORE, seconds=RUN_SECONDS) as phase:
        phase.await_answers(BEFORE)
        kill_container(served.cluster, sorted(served.pods("router"))[number % ROUTERS])
        phase.mark()
        phase.await_answers(AFTER)
        served.await_routers(ROUTERS)
        phase.await_answers(BEFORE)
    return phase.result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
