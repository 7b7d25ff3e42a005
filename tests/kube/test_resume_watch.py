"""How kopf's listings and watches are changed on their way to the API server."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import ClientConnectionError, ClientRequest, ClientResponse, ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from inference_operator.kube.resume_watch import ResumeWatch

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


class Scene:
    """A server that records requests, and when events were reported as lost."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.status = 200
        self.versions = {PODS: 41, NODES: 42}
        self.narrow = ResumeWatch(self.versions, lambda: self.seen.append("missed"))
        self.narrow.revise({PODS, NODES})
        self.server = TestServer(web.Application())
        self.server.app.router.add_get("/{path:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        self.seen.append(request.path_qs)
        return web.Response(status=self.status)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not done():  # noqa: ASYNC110 - the server does not tell of its answers
                await asyncio.sleep(0.01)

    async def ask(self, *paths: str) -> list[str]:
        self.seen.clear()
        async with ClientSession(middlewares=[self.narrow]) as session:
            for path in paths:
                async with session.get(self.server.make_url(path)):
                    pass
        return list(self.seen)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = Scene()
    async with scene.server:
        yield scene


LIST, WATCH = f"{PODS}?labelSelector=a", f"{PODS}?watch=true&resourceVersion=99"
NARROWED = f"{PODS}?labelSelector=a&fieldSelector=metadata.name%3D-"


async def test_the_first_watch_starts_at_the_version_of_the_operators_listing(scene: Scene) -> None:
    asked = await scene.ask(LIST, WATCH, f"{NODES}?watch=true&resourceVersion=99")
    assert asked == [
        NARROWED,
        f"{PODS}?watch=true&resourceVersion=41",
        f"{NODES}?watch=true&resourceVersion=42",
    ]


async def test_a_reopened_watch_keeps_its_own_version(scene: Scene) -> None:
    await scene.ask(LIST, WATCH)
    assert await scene.ask(WATCH) == [WATCH]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_refused_first_watch_starts_at_the_same_version_again(scene: Scene, status: int) -> None:
    scene.status = status
    begun = [f"{PODS}?watch=true&resourceVersion=41"]
    assert await scene.ask(WATCH) == begun
    scene.status = 200
    assert await scene.ask(LIST, WATCH) == [NARROWED, *begun]
    assert await scene.ask(WATCH) == [WATCH]


async def test_a_first_watch_whose_connection_broke_starts_at_the_same_version_again(scene: Scene) -> None:
    async def broken(_: ClientRequest) -> ClientResponse:
        raise ClientConnectionError

    request = ClientRequest("GET", URL(f"http://127.0.0.1{WATCH}"), loop=asyncio.get_running_loop())
    with pytest.raises(ClientConnectionError):
        await scene.narrow(request, broken)
    assert await scene.ask(WATCH) == [f"{PODS}?watch=true&resourceVersion=41"]


async def test_a_repeated_listing_before_the_first_watch_reports_no_lost_events(scene: Scene) -> None:
    assert "missed" not in await scene.ask(LIST, LIST, WATCH)


async def test_a_listing_after_the_first_watch_reports_lost_events(scene: Scene) -> None:
    await scene.ask(LIST, WATCH)
    asked = await scene.ask(LIST, WATCH)
    assert asked == [NARROWED, "missed", WATCH]


async def test_requests_for_other_paths_are_not_changed(scene: Scene) -> None:
    paths = ["/apis/apps/v1", f"{PODS}/one"]
    assert await scene.ask(*paths) == paths


@pytest.mark.parametrize("status", [403, 404])
@pytest.mark.parametrize("path", [LIST, WATCH])
async def test_a_refused_request_waits_for_a_listing_and_is_sent_again_as_a_first_one(
    scene: Scene, path: str, status: int
) -> None:
    await scene.ask(LIST, WATCH)
    scene.status = status
    asking = asyncio.create_task(scene.ask(path, WATCH))
    await scene.until(lambda: "missed" in scene.seen)
    scene.status = 200
    scene.versions[PODS] = 50
    scene.narrow.revise({NODES})
    assert scene.seen[1:] == ["missed"], "it is watched no more"
    scene.narrow.revise({PODS, NODES})
    asked = await asking
    assert asked.count("missed") == 1
    assert asked[-1] == (f"{PODS}?watch=true&resourceVersion=50" if path == LIST else WATCH)


async def test_a_request_of_a_collection_that_is_watched_no_more_asks_for_no_listing(scene: Scene) -> None:
    scene.narrow.revise({NODES})
    scene.status = 404
    asking = asyncio.create_task(scene.ask(WATCH))
    await scene.until(lambda: bool(scene.seen))
    asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled()
    assert "missed" not in scene.seen
