"""The page on which the operator waits for the first request to a resource without engines."""

import asyncio
import re
import time

from e2e.router.loopback import Loopback
from e2e.runs.printed_figures import Say
from inference_operator.autoscaling.decision import ScalingSettings
from inference_operator.autoscaling.inputs import ScalingInputs
from inference_operator.autoscaling.target import Target, TargetBound
from inference_operator.controller.sample_store import SampleStore, ScalingStore
from inference_operator.manifest import Key
from inference_operator.objects.names import ROUTER
from inference_operator.router.observe import HELD_PATH
from inference_operator.router.stats import SAMPLE_PATH, router_sample
from inference_operator.scrape.scraper import Callbacks, Scraper, Targets
from inference_operator.settings import Settings
from inference_operator.views.pod import PodView

SOON = 30.0
"""Limit in seconds for steps that take one on an idle machine; below the time after which the page answers anyway."""


def _held(page: str) -> int:
    found = re.search(r"^inference_operator_router_held_requests (\d+)$", page, re.MULTILINE)
    assert found, page
    return int(found[1])


async def test_the_page_answers_when_a_request_is_held_and_not_before(loopback: Loopback) -> None:
    await loopback.start_router()
    page = asyncio.create_task(loopback.metrics(HELD_PATH))
    done, _ = await asyncio.wait([page], timeout=2)
    assert not done, "nothing is held"
    asked = asyncio.create_task(loopback.ask())
    async with asyncio.timeout(SOON):
        assert _held(await page) == 1
    sample = router_sample(await loopback.metrics(SAMPLE_PATH))
    assert sample is not None
    assert (sample.held, sample.arrivals) == (1, 1)
    await loopback.start_engine()
    assert (await asked).status == 200


async def test_a_router_that_stops_answers_the_page_and_does_not_wait_for_its_reader(loopback: Loopback) -> None:
    await loopback.start_router()
    page = asyncio.create_task(loopback.metrics(HELD_PATH))
    await asyncio.wait([page], timeout=2)
    loopback.soft_stop()
    async with asyncio.timeout(SOON):
        assert _held(await page) == 0


async def test_the_operator_wants_an_engine_once_haproxy_holds_a_request(loopback: Loopback, say: Say) -> None:
    await loopback.start_router()
    key, store, told = Key("default", "qwen"), ScalingStore(), asyncio.Queue[Key]()
    limits = ScalingSettings(0, 4, target_concurrency=4, start_seconds=60, idle_seconds=600)
    target = Target(4, TargetBound.REQUESTED, {})
    scaled = ScalingInputs(limits, 0, bypasses_routers=False, target=target, role="engine")
    store.want(key, [scaled])
    scraper = Scraper(
        Targets(lambda: [key], lambda _: [_pod(loopback)], lambda _: [], lambda _key, _component: None),
        SampleStore(),
        _callbacks(told),
        Settings(),
        scaling=store,
    )
    running = asyncio.create_task(scraper.run())
    try:
        async with asyncio.timeout(SOON):
            await told.get()  # the first round
        assert _replicas(store, key) == 0
        asked, began = asyncio.create_task(loopback.ask()), time.monotonic()
        async with asyncio.timeout(SOON):
            await told.get()
        say(f"an engine was wanted {time.monotonic() - began:.2f} s after the first request")
        assert _replicas(store, key) == 1
        await loopback.start_engine()
        assert (await asked).status == 200
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _replicas(store: ScalingStore, key: Key) -> int:
    result = store.result(key)
    assert result is not None
    return result.decision.replicas


def _callbacks(told: asyncio.Queue[Key]) -> Callbacks:
    return Callbacks(
        on_stalled=lambda _: None,
        on_no_progress=lambda _: None,
        on_stall=lambda _: None,
        on_scrape=lambda _, answered: None,  # noqa: ARG005 - the protocol's name
        on_room=lambda _: None,
        on_readable=lambda _: None,
        on_scaling=told.put_nowait,
        on_adapters=told.put_nowait,
    )


def _pod(loopback: Loopback) -> PodView:
    """The router as a pod."""
    return PodView(
        name="qwen-router",
        component=ROUTER,
        created=None,
        ready=True,
        terminating=False,
        failed=False,
        problem=None,
        uid="r",
        address="127.0.0.1",
        ports={"metrics-0": loopback.metrics_port},
    )
