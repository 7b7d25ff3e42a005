"""What reaches the API server of kopf's listings and watches."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientConnectionError, ClientRequest, ClientResponse, ClientSession, web
from aiohttp.test_utils import TestServer
from yarl import URL

from inference_operator.kube.watch_from import WatchFrom

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


class Scene:
    """A server that notes what it is asked, and when something counts as missed."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.status = 200
        self.narrow = WatchFrom({PODS: 41, NODES: 42}, lambda: self.seen.append("missed"))
        self.server = TestServer(web.Application())
        self.server.app.router.add_get("/{path:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.Response:
        self.seen.append(request.path_qs)
        return web.Response(status=self.status)

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


async def test_a_watch_begins_where_the_operators_listing_ended(scene: Scene) -> None:
    asked = await scene.ask(LIST, WATCH, f"{NODES}?watch=true&resourceVersion=99")
    assert asked == [
        NARROWED,
        f"{PODS}?watch=true&resourceVersion=41",
        f"{NODES}?watch=true&resourceVersion=42",
    ]


async def test_a_watch_that_is_taken_up_again_goes_on_where_it_was(scene: Scene) -> None:
    await scene.ask(LIST, WATCH)
    assert await scene.ask(WATCH) == [WATCH]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_watch_that_was_not_answered_has_not_begun(scene: Scene, status: int) -> None:
    scene.status = status
    begun = [f"{PODS}?watch=true&resourceVersion=41"]
    assert await scene.ask(WATCH) == begun
    scene.status = 200
    assert await scene.ask(LIST, WATCH) == [NARROWED, *begun]
    assert await scene.ask(WATCH) == [WATCH]


async def test_a_watch_whose_connection_broke_has_not_begun(scene: Scene) -> None:
    async def broken(_: ClientRequest) -> ClientResponse:
        raise ClientConnectionError

    request = ClientRequest("GET", URL(f"http://127.0.0.1{WATCH}"), loop=asyncio.get_running_loop())
    with pytest.raises(ClientConnectionError):
        await scene.narrow(request, broken)
    assert await scene.ask(WATCH) == [f"{PODS}?watch=true&resourceVersion=41"]


async def test_a_listing_that_failed_before_the_first_watch_has_missed_nothing(scene: Scene) -> None:
    assert "missed" not in await scene.ask(LIST, LIST, WATCH)


async def test_a_watch_that_begins_anew_has_missed_what_happened_before_its_listing(scene: Scene) -> None:
    await scene.ask(LIST, WATCH)
    asked = await scene.ask(LIST, WATCH)
    assert asked == [NARROWED, "missed", WATCH]


async def test_what_is_no_watched_collection_is_left_alone(scene: Scene) -> None:
    paths = ["/apis/apps/v1", f"{PODS}/one"]
    assert await scene.ask(*paths) == paths
