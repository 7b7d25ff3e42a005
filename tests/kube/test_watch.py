"""kopf as the watch engine: what holds for its public interface, and what each workaround is for."""

import asyncio
import gc
import logging
import tracemalloc
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from inference_operator.controller.cache import Cache
from inference_operator.controller.cluster import ClusterError
from inference_operator.controller.lister import Lister
from inference_operator.kube.watch import INACTIVITY_SECONDS, KOPF_STOP_SECONDS, Watches, loop_error_log
from inference_operator.manifest import CONFIG_MAP, SERVICE, Kind, Manifest
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER
from tests.kube.watch_server import NAMESPACE, VERSION, WatchServer, bookmark, config_map, serving
from tests.testing.builders import SETTINGS
from tests.testing.memory_cluster import MemoryCluster

SECONDS = 120.0
"""Limit of a wait. With traced memory, in a process that has run thousands of tests, events take half a minute."""
OPERATOR_VERSION = VERSION - 1
"""The resourceVersion of the operator's own listing, older than that of kopf's."""
KINDS = (CONFIG_MAP, SERVICE)
MANY = 300
BYTES_PER_OBJECT = 512
"""kopf 1.45.2 would keep a record of 0.9 KiB for each object of which a watch has sent an event."""


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[WatchServer]:
    # kopf logs in with the client that reads KUBECONFIG when it is imported.
    path = tmp_path / "kubeconfig"
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    async with serving(WatchServer(), path) as server:
        yield server


class Watching:
    """The watches of ConfigMaps and Services, and what they called."""

    def __init__(
        self,
        kinds: Collection[Kind] = KINDS,
        *,
        inactivity: float = INACTIVITY_SECONDS,
        stop_seconds: float = KOPF_STOP_SECONDS,
    ) -> None:
        self._kinds = kinds
        self.events: list[tuple[str, str]] = []
        self.lost = 0
        self.stop = asyncio.Event()
        self.versions = {kind.path(NAMESPACE): OPERATOR_VERSION for kind in kinds}
        """The resourceVersion of the operator's own listing, by the path of each collection."""
        self.watches = Watches(
            lambda *event: self.on_event(*event),  # noqa: PLW0108 - a test sets another `on_event`
            versions=self.versions,
            on_watch_started=lambda _: None,
            on_events_lost=self.on_events_lost,
            inactivity_seconds=inactivity,
            stop_seconds=stop_seconds,
        )

    def on_event(self, event: str, manifest: Manifest) -> None:
        self.events.append((event, manifest["metadata"]["name"]))

    def on_events_lost(self) -> None:
        self.lost += 1

    async def run(self) -> None:
        await asyncio.gather(self.watches.run(self.stop), self.watches.revise(self._kinds, [NAMESPACE]))

    async def until_events(self, count: int) -> None:
        await until(lambda: len(self.events) >= count)


@asynccontextmanager
async def running(watching: Watching) -> AsyncIterator[None]:
    task = asyncio.create_task(watching.run())
    try:
        yield
    finally:
        watching.stop.set()
        await task


async def added(*names: str) -> AsyncIterator[Manifest]:
    for name in names:
        yield {"type": "ADDED", "object": config_map(name)}


async def test_kopf_lists_no_objects_at_the_start_and_watches_from_the_operators_listing(server: WatchServer) -> None:
    server.items = [config_map("old")]
    server.streams = [lambda: added("new")]
    watching = Watching()
    async with running(watching):
        await watching.until_events(1)
    assert watching.events == [("ADDED", "new")]
    assert [query["fieldSelector"] for query in server.listings] == ["metadata.name=-"]
    assert [query["resourceVersion"] for query in server.watches] == [str(OPERATOR_VERSION)]


async def test_memory_that_kopf_keeps_for_each_object_is_bounded(server: WatchServer) -> None:
    begin = asyncio.Event()

    async def stream() -> AsyncIterator[Manifest]:
        async for event in added("first"):
            yield event
        await begin.wait()
        async for event in added(*(f"config-{number}" for number in range(MANY))):
            yield event

    server.streams = [stream]
    watching = Watching()
    async with running(watching):
        await watching.until_events(1)
        tracemalloc.start()
        try:
            before = traced()
            begin.set()
            await watching.until_events(1 + MANY)
            await until(lambda: traced() - before < MANY * BYTES_PER_OBJECT)  # kopf first ends a task for each object
        finally:
            tracemalloc.stop()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not done():  # noqa: ASYNC110 - neither kopf's tasks nor the memory tell of a change
            await asyncio.sleep(0.05)


def traced() -> int:
    """Bytes that are allocated now."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


async def test_a_watch_that_fails_ends_all_watches_within_seconds(server: WatchServer) -> None:
    # Without the limit kopf 1.45.2 waits for the watch of Services without end, since it closed its session before.
    server.streams = [failed]
    watching = Watching(stop_seconds=0.5)
    with pytest.raises(ClusterError, match="The watches ended"):
        async with asyncio.timeout(SECONDS):
            await watching.run()
    assert watching.stop.is_set()


async def failed() -> AsyncIterator[Manifest]:
    yield {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is away"}}


async def test_a_kind_that_comes_is_watched_from_the_operators_listing_on_and_the_others_go_on(
    server: WatchServer,
) -> None:
    server.streams = [lambda: added("new")]
    watching = Watching([SERVICE])
    async with running(watching):
        await until(lambda: server.begun == [SERVICE.plural])
        watching.versions[CONFIG_MAP.path(NAMESPACE)] = OPERATOR_VERSION
        await watching.watches.revise(KINDS, [NAMESPACE])
        await watching.until_events(1)
    assert server.begun == [SERVICE.plural, CONFIG_MAP.plural]
    assert [query["resourceVersion"] for query in server.watches] == [str(OPERATOR_VERSION)]
    assert watching.events == [("ADDED", "new")]


async def test_a_kind_that_goes_and_comes_again_ends_no_other_watch_and_begins_at_the_new_listing(
    server: WatchServer,
) -> None:
    watching = Watching()
    async with running(watching):
        await until(lambda: len(server.begun) == 2)
        server.refuse(CONFIG_MAP.plural)
        await until(lambda: watching.lost == 1)
        await watching.watches.revise([SERVICE], [NAMESPACE])
        server.refused.clear()
        watching.versions[CONFIG_MAP.path(NAMESPACE)] = VERSION + 7
        await watching.watches.revise(KINDS, [NAMESPACE])
        await until(lambda: len(server.begun) == 3)
        assert not watching.stop.is_set()
    assert server.begun[2:] == [CONFIG_MAP.plural]
    assert [query["resourceVersion"] for query in server.watches] == [str(OPERATOR_VERSION), str(VERSION + 7)]
    assert watching.lost == 1


async def test_a_kind_that_flaps_faster_than_the_operator_lists_is_watched_from_its_next_listing(
    server: WatchServer,
) -> None:
    watching = Watching()
    async with running(watching):
        await until(lambda: len(server.begun) == 2)
        server.refuse(CONFIG_MAP.plural)
        await until(lambda: watching.lost == 1)
        server.refused.clear()
        watching.versions[CONFIG_MAP.path(NAMESPACE)] = VERSION + 7
        await watching.watches.revise(KINDS, [NAMESPACE])
        await until(lambda: len(server.begun) == 3)
    assert [query["resourceVersion"] for query in server.watches] == [str(OPERATOR_VERSION), str(VERSION + 7)]


async def test_a_refused_watch_asks_once_for_each_listing(server: WatchServer) -> None:
    server.refused = {CONFIG_MAP.plural}
    watching = Watching()
    async with running(watching):
        for listings in range(1, 4):
            await until(lambda count=listings: watching.lost == count)  # type: ignore[misc]
            assert server.asked == listings
            await watching.watches.revise(KINDS, [NAMESPACE])
        assert not watching.stop.is_set()
    assert server.begun == [SERVICE.plural]


async def test_a_namespace_whose_right_is_withdrawn_is_watched_no_more_and_again_when_it_is_back(
    server: WatchServer,
) -> None:
    watching = Watching()
    async with running(watching):
        await until(lambda: len(server.begun) == 2)
        await watching.watches.revise((), [])
        await until(lambda: server.open == 0)
        await watching.watches.revise(KINDS, [NAMESPACE])
        await until(lambda: server.open == 2)
    assert sorted(server.begun) == sorted([CONFIG_MAP.plural, SERVICE.plural] * 2)


async def test_tasks_that_existed_before_kopf_started_survive_its_stop(server: WatchServer) -> None:
    older = asyncio.create_task(asyncio.sleep(SECONDS))
    server.streams = [lambda: added("new")]
    watching = Watching()
    async with asyncio.timeout(4.0), running(watching):  # kopf waits 5 s for a task that it takes for its own
        await watching.until_events(1)
    assert not older.done()
    older.cancel()


async def test_a_silent_watch_is_opened_again_by_kopf_after_the_inactivity_timeout(server: WatchServer) -> None:
    def since() -> AsyncIterator[Manifest]:
        # A watch that ends before its event is read is opened again at the same version, and gets the event again.
        return added("before" if server.watches[-1]["resourceVersion"] == str(OPERATOR_VERSION) else "after")

    server.streams = [since] * MANY
    watching = Watching(inactivity=0.3)
    async with running(watching):
        await watching.until_events(2)
    assert watching.events[:2] == [("ADDED", "before"), ("ADDED", "after")]
    assert {query["resourceVersion"] for query in server.watches} == {str(OPERATOR_VERSION), str(VERSION + 1)}


async def test_a_watch_with_bookmarks_but_no_events_escapes_kopf_and_is_found_by_the_listings(
    server: WatchServer,
) -> None:
    inactivity = 0.5
    bookmarks = 0

    async def only_bookmarks() -> AsyncIterator[Manifest]:
        nonlocal bookmarks
        while True:
            yield bookmark()
            bookmarks += 1
            await asyncio.sleep(inactivity / 5)

    server.streams = [only_bookmarks]
    cluster, watching = MemoryCluster(), Watching(inactivity=inactivity)
    lister = Lister(cluster, Cache(SETTINGS), SETTINGS, lambda *_: None)
    watching.on_event = lister.on_event  # type: ignore[method-assign]
    async with running(watching):
        for number in range(3):
            cluster.apply_as("kubectl", managed_config_map(number))
            await lister.list_all()
        await until(lambda: bookmarks > 15)  # three times the inactivity timeout
    assert len(server.watches) == 1
    assert lister.dead_watches() == [CONFIG_MAP]


def managed_config_map(number: int) -> Manifest:
    meta = {
        "name": f"config-{number}",
        "namespace": NAMESPACE,
        "labels": {MANAGED_BY_LABEL: MANAGER},
    }
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"number": str(number)}}


async def test_an_error_that_no_task_awaits_is_logged_as_one_unless_the_stop_caused_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    handle = loop_error_log(stop)
    with caplog.at_level(logging.INFO):
        handle(loop, {"message": "an error occurred", "asyncgen": None})
        assert caplog.records == []
        handle(loop, {"message": "nobody awaits this"})
        assert [record.getMessage() for record in caplog.records] == ["nobody awaits this"]
        stop.set()
        handle(loop, {"message": "nobody awaits this either", "exception": RuntimeError("Connection closed.")})
        assert len(caplog.records) == 1
