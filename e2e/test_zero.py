"""From no engine to several and back, with real routers and real DNS: no backend is stuck, and no held request is lost.

The engines are stand-ins that start in a second.
"""

import asyncio
import json
import urllib.request
from collections import Counter
from collections.abc import Iterator

import aiohttp
import pytest

from e2e.deploy import stack
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.router.process import METRICS_PORTS
from inference_operator.router.stats import SAMPLE_PATH, router_sample
from inference_operator.views.samples import RouterSample

NAME = "cycled"
ROUTERS = 2
SOON = 120.0
"""Limit in seconds for steps that take ten on an idle machine."""
HELD_SECONDS = 90.0


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    """An InferenceDeployment without engines, whose engines are stand-ins, behind two routers."""
    served = Served(cluster, NAME)
    with resource_of_stand_ins(served, replicas=0):
        eventually(lambda: _routers_run(served), seconds=SOON, what="the routers run")
        yield served


def _routers_run(served: Served) -> bool:
    deployments = json.loads(served.kubectl("get", "deployments", "--output=json"))["items"]
    ready = {one["metadata"]["name"]: one.get("status", {}).get("readyReplicas", 0) for one in deployments}
    return ready.get(f"{NAME}-router") == ROUTERS


def _samples(served: Served) -> list[RouterSample]:
    """What each HAProxy process of the routers says."""
    return [
        _sample(f"http://{stack.authority(address, port)}{SAMPLE_PATH}")
        for address in served.pods("router").values()
        for port in METRICS_PORTS
    ]


def _sample(url: str) -> RouterSample:
    with urllib.request.urlopen(url, timeout=SOON) as answer:  # noqa: S310 - a cluster's own
        sample = router_sample(answer.read().decode())
    assert sample is not None
    return sample


def _engines(served: Served) -> list[int]:
    """The number of engines that each HAProxy process has."""
    return [len(sample.sessions) for sample in _samples(served)]


def _held(served: Served) -> int:
    return sum(sample.held for sample in _samples(served))


async def _ask(served: Served, requests: int) -> list[asyncio.Task[tuple[int, str]]]:
    """Send requests, each on a connection of its own."""
    url = f"http://{served.address}/v1/completions"

    async def one() -> tuple[int, str]:
        connector, timeout = aiohttp.TCPConnector(force_close=True), aiohttp.ClientTimeout(total=None)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.post(url, json={"model": NAME, "prompt": "Hello"}) as answer,
        ):
            text = await answer.text()
            return answer.status, json.loads(text)["choices"][0]["text"] if answer.ok else text

    return [asyncio.create_task(one()) for _ in range(requests)]


async def _eventually(served: Served, engines: int) -> None:
    """Wait until every HAProxy process has this number of engines."""
    wanted = [engines] * ROUTERS * len(METRICS_PORTS)
    await asyncio.to_thread(
        eventually,
        lambda: _engines(served) == wanted,
        seconds=SOON,
        what=lambda: f"{engines} engines in each process: {_engines(served)}",
    )


async def _hold(served: Served, requests: int) -> list[asyncio.Task[tuple[int, str]]]:
    """Stop all engines, and send requests, all of which are held then."""
    served.kubectl("scale", f"infd/{NAME}", "--replicas=0")
    await _eventually(served, 0)
    status, models = await asyncio.to_thread(served.get, "/v1/models")
    assert (status, json.loads(models)["data"][0]["owned_by"]) == (200, "inference-operator")
    asked = await _ask(served, requests)
    await asyncio.to_thread(eventually, lambda: _held(served) == requests, seconds=SOON, what="all are held")
    return asked


async def _cycles(served: Served, cycles: int) -> None:
    """From zero to one, two or three engines and back, again and again."""
    for cycle in range(cycles):
        engines = 1 + cycle % 3
        asked = await _hold(served, 8)
        served.kubectl("scale", f"infd/{NAME}", f"--replicas={engines}")
        answers = await asyncio.wait_for(asyncio.gather(*asked), SOON)
        assert [status for status, _ in answers] == [200] * 8
        await _eventually(served, engines)
        names = {name for _, name in await asyncio.gather(*await _ask(served, 40 * engines))}
        ready = [name for name in names if name in served.pods("engine")]
        assert len(names) == len(ready) == engines, "all engines answer, and no former one"


async def test_from_zero_to_several_engines_and_back_no_router_is_stuck(served: Served) -> None:
    await _cycles(served, 2)


@pytest.mark.full
async def test_500_requests_held_for_90_seconds_are_all_served(served: Served, say: Say) -> None:
    asked = await _hold(served, 500)
    await asyncio.sleep(HELD_SECONDS)
    assert not any(one.done() for one in asked)
    assert _held(served) == len(asked)
    served.kubectl("scale", f"infd/{NAME}", "--replicas=2")
    answers = await asyncio.wait_for(asyncio.gather(*asked), SOON)
    say(f"500 requests held for {HELD_SECONDS:.0f} s: {Counter(status for status, _ in answers)}")
    assert Counter(status for status, _ in answers) == {200: 500}


@pytest.mark.full
async def test_fifty_times_from_zero_to_several_engines_and_back_no_router_is_stuck(served: Served, say: Say) -> None:
    for tens in range(1, 6):
        await _cycles(served, 10)
        say(f"{10 * tens} times from zero to several engines and back")


@pytest.fixture
def slow_dns(cluster: LocalCluster) -> Iterator[None]:
    """The cluster's DNS as many have it: records live and are cached for 30 s, and `dnsStaleness` allows for it."""
    stack.set_record_seconds(cluster, 30)
    stack.install_operator(cluster, numbers={"settings.dnsStalenessSeconds": 35})
    yield
    stack.set_record_seconds(cluster, stack.RECORD_SECONDS)
    stack.install_operator(cluster)


@pytest.mark.full
@pytest.mark.usefixtures("slow_dns")
async def test_with_records_cached_for_30_seconds_no_router_is_stuck_and_scaling_loses_nothing(
    served: Served, say: Say
) -> None:
    await _cycles(served, 3)
    answered: Counter[int] = Counter()
    stopped = asyncio.Event()

    async def ask_on() -> None:
        while not stopped.is_set():
            answered.update([status for status, _ in await asyncio.gather(*await _ask(served, 4))])

    asking = asyncio.create_task(ask_on())
    for engines in (1, 3, 1):
        served.kubectl("scale", f"infd/{NAME}", f"--replicas={engines}")
        await _eventually(served, engines)
    stopped.set()
    await asking
    say(f"records cached for 30 s, 3 to 1 to 3 to 1 engines: {dict(answered)}")
    assert set(answered) == {200}
