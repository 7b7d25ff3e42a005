"""What clients get while routers are replaced one by one: real HAProxies with another configuration each, under load.

The Service is a list of routers. `e2e/test_rollout.py` renews the pods of routers.
"""

import asyncio
from asyncio.subprocess import create_subprocess_exec
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from e2e.router.loopback import LEAST_IMAGE, Loopback, unpacked
from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.router.deployment import stop_hook

WORKERS, ROUTERS = 32, 2
PART = 1000
"""Requests answered before, between and after the changes, each."""
STREAM = {"chunks": 3, "gap": 0.01}
ENDPOINT_REMOVAL_SECONDS, DRAIN_SECONDS = 2, 60
"""How long a stopping router still accepts connections. A pod has 10 s; the clients here notice within one request."""
STOP_SECONDS = 60.0
"""Limit in seconds for a stop that takes five on an idle machine."""


class Service:
    """The routers that take new requests, and clients that send requests to them until they are told to end."""

    def __init__(self) -> None:
        self.routers: list[Loopback] = []
        self.answers: Counter[tuple[int, bool]] = Counter()
        self.ended = False

    async def load(self) -> None:
        """Send requests to all routers in turn, on kept connections and on new ones, half of them streams."""
        kept, new = aiohttp.TCPConnector(limit=0), aiohttp.TCPConnector(limit=0, force_close=True)
        async with aiohttp.ClientSession(connector=kept) as keeping, aiohttp.ClientSession(connector=new) as renewing:
            await asyncio.gather(*(self._work((keeping, renewing)[n % 2], n) for n in range(WORKERS)))

    async def until_answered(self, number: int) -> None:
        """Wait for this number of further answers."""
        wanted = self.answers.total() + number
        while self.answers.total() < wanted:  # noqa: ASYNC110 - the workers count without an event for each
            await asyncio.sleep(0.02)

    async def _work(self, session: aiohttp.ClientSession, number: int) -> None:
        for turn in count(number):
            if self.ended:
                return
            router = self.routers[turn % len(self.routers)]
            answer = await router.ask(session, **(STREAM if turn // 2 % 2 else {}))
            self.answers[answer.status, answer.whole] += 1


@pytest.fixture(params=["", LEAST_IMAGE])
def former(request: pytest.FixtureRequest, loopback: Loopback, tmp_path: Path) -> Loopback:
    """Routers before the renewal: of the same image, or of that which an earlier release had."""
    if not request.param:
        return loopback
    return replace(loopback, root=tmp_path / "root", command=unpacked(tmp_path / "root", request.param))


async def test_a_renewal_of_routers_loses_no_request(loopback: Loopback, former: Loopback) -> None:
    service = Service()
    for _ in range(ROUTERS):
        service.routers.append(await _started(former, RouterSpec()))
        loopback.engine_port = former.engine_port
    earlier = tuple(service.routers)
    for _ in range(2):
        await loopback.start_engine()
    for router in earlier:
        await router.until_served(2)
    load = asyncio.ensure_future(service.load())
    await service.until_answered(PART)
    for router in earlier:
        new = await _started(loopback, RouterSpec(strategy=RouterStrategy.PREFIX_AFFINITY))
        await new.until_served(2)
        service.routers.append(new)
        await service.until_answered(PART)
        await _stopped(router, service)
    loopback.router, loopback.twin = (router.router for router in service.routers)  # the fixture ends these two
    await service.until_answered(PART)
    service.ended = True
    await load
    assert service.answers == {(200, True): service.answers.total()}
    assert service.answers.total() >= 4 * PART


async def _started(loopback: Loopback, spec: RouterSpec) -> Loopback:
    """A further router for the same engines, with ports of its own."""
    router = replace(loopback, spec=spec)
    await router.start_router()
    loopback.engine_port = router.engine_port
    return router


async def _stopped(router: Loopback, service: Service) -> None:
    """End a router as the kubelet does, and take it out of the Service meanwhile, as Kubernetes does."""
    command = router.chrooted(*stop_hook(DRAIN_SECONDS, ENDPOINT_REMOVAL_SECONDS), metrics_port=router.metrics_port)
    hook = await create_subprocess_exec(*command)
    await service.until_answered(WORKERS)  # kube-proxy takes its time
    service.routers.remove(router)
    assert await asyncio.wait_for(hook.wait(), STOP_SECONDS) == 0
    router.soft_stop()
    assert router.router is not None
    assert await asyncio.wait_for(router.router.wait(), STOP_SECONDS) == 0
