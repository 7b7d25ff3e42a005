"""Autoscaled resources: rounds of scrapes of HTTP servers on loopback become decisions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from inference_operator.autoscaling.decision import ScalingSettings
from inference_operator.autoscaling.inputs import ScalingInputs
from inference_operator.autoscaling.target import Target, TargetBound
from inference_operator.controller.sample_store import SampleStore, ScalingStore
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Key
from inference_operator.objects.names import ENGINE
from inference_operator.scrape.schedule import Pace
from inference_operator.scrape.scraper import Callbacks, Scraper, Targets
from inference_operator.settings import Settings
from inference_operator.views.pod import PodView
from tests.scrape.pods import LOADED, answering, engine, engines_among, router

KEY = Key("default", "qwen")
SOON = 60.0
"""Limit in seconds for what takes two."""
REQUEST = ScalingInputs(
    ScalingSettings(0, 4, target_concurrency=4, start_seconds=60, idle_seconds=600),
    replicas=0,
    bypasses_routers=False,
    target=Target(4, TargetBound.REQUESTED, {}),
    role=ENGINE,
)


@dataclass(slots=True)
class Router:
    """A router without engines, whose page answers once it holds a request."""

    held: asyncio.Event = field(default_factory=asyncio.Event)
    pages: int = 0
    port: int = 0

    async def statistics(self, _: web.Request) -> web.Response:
        number = int(self.held.is_set())
        return web.Response(text=f"# pxname,svname,qcur,scur,stot,addr,\nengines,BACKEND,0,{number},{number},,\n")

    async def page(self, _: web.Request) -> web.Response:
        self.pages += 1
        await self.held.wait()
        return web.Response(text="inference_operator_router_held_requests 1\n")


@asynccontextmanager
async def holding() -> AsyncIterator[Router]:
    served = Router()
    application = web.Application()
    application.add_routes([web.get("/stats;up;csv", served.statistics), web.get("/metrics/router", served.page)])
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    served.port = runner.addresses[0][1]
    try:
        yield served
    finally:
        await runner.cleanup()


def engine_of(_key: Key, pod: PodView) -> Vllm | None:
    return Vllm() if pod.component == ENGINE else None


@dataclass(slots=True)
class Hands:
    """A scraper with the pods of one resource."""

    pods: Sequence[PodView]
    store: ScalingStore = field(default_factory=ScalingStore)
    told: asyncio.Queue[Key] = field(default_factory=asyncio.Queue)

    @property
    def scraper(self) -> Scraper:
        callbacks = Callbacks(
            on_stalled=lambda _: None,
            on_no_progress=lambda _: None,
            on_stall=lambda _: None,
            on_scrape=lambda _, answered: None,  # noqa: ARG005 - the protocol's name
            on_room=lambda _: None,
            on_readable=lambda _: None,
            on_scaling=self.told.put_nowait,
            on_adapters=self.told.put_nowait,
        )
        targets = Targets(lambda: [KEY], lambda _: self.pods, lambda _: engines_among(self.pods), engine_of)
        return Scraper(targets, SampleStore(), callbacks, Settings(), scaling=self.store)


async def test_a_request_that_a_router_holds_leads_to_a_decision_for_one_engine() -> None:
    async with holding() as served:
        pod = router(name="r")
        hands = Hands([_with_port(pod, served.port)])
        hands.store.want(KEY, [REQUEST])
        running = asyncio.create_task(hands.scraper.run())
        try:
            async with asyncio.timeout(SOON):
                await hands.told.get()  # the first round
                assert hands.store.result(KEY) is not None
                assert _replicas(hands) == 0
                served.held.set()
                await hands.told.get()
            assert _replicas(hands) == 1
            assert served.pages >= 1
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_round_with_requests_sets_the_pace_of_demand_and_one_without_that_of_none() -> None:
    async with holding() as routed, answering(LOADED) as served:
        hands = Hands([_with_port(router(name="r"), routed.port), engine(served)])
        hands.store.want(KEY, [REQUEST])
        scraper = hands.scraper
        assert (await scraper.scrape(KEY)).pace is Pace.DEMAND
        hands.pods = hands.pods[:1]
        assert (await scraper.scrape(KEY)).pace is Pace.CALM, "at zero, the routers tell of the first request"
        hands.store.want(KEY, [replace(REQUEST, replicas=1)])
        assert (await scraper.scrape(KEY)).pace is Pace.NO_DEMAND
        await scraper.close()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "1e999"])
async def test_numbers_that_are_none_count_as_missing_metrics(value: str) -> None:
    text = LOADED.replace(
        'vllm:num_requests_waiting{engine="0",model_name="tiny"} 8.0',
        f'vllm:num_requests_waiting{{engine="0",model_name="tiny"}} {value}',
    )
    async with holding() as routed, answering(text) as served:
        hands = Hands([_with_port(router(name="r"), routed.port), engine(served, "broken")])
        hands.store.want(KEY, [REQUEST])
        scraper = hands.scraper
        for _ in range(2):
            await scraper.scrape(KEY)
        await scraper.close()
    result = hands.store.result(KEY)
    assert result is not None
    assert result.missing == ("broken",)


def _with_port(pod: PodView, port: int) -> PodView:
    return PodView(
        name=pod.name,
        component=pod.component,
        created=None,
        ready=True,
        terminating=False,
        failed=False,
        problem=None,
        uid=pod.uid,
        address=pod.address,
        ports={"metrics-0": port},
    )


def _replicas(hands: Hands) -> int:
    result = hands.store.result(KEY)
    assert result is not None
    return result.decision.replicas
