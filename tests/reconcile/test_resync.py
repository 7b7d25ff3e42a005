"""Listings of several namespaces, some of which cannot be read; and watches that tell nothing."""

import logging
from collections.abc import AsyncIterator

import pytest

from inference_operator.manifest import INFERENCE_DEPLOYMENT, NODE, Key, Kind, Manifest
from inference_operator.reconcile.cache import Cache
from inference_operator.reconcile.cluster import ClusterError, ForbiddenError, Listing
from inference_operator.reconcile.resync import Resync
from inference_operator.settings import Settings
from tests.builders import SETTINGS, inference_deployment
from tests.memory_cluster import SYSTEM_METADATA, MemoryCluster
from tests.nodes import node

A, B = Key("team-a", "qwen"), Key("team-b", "qwen")


class Guarded(MemoryCluster):
    """Some namespaces cannot be listed."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str | None, ClusterError] = {}
        self.nodes_error: ClusterError | None = None

    async def pages(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[Listing]:
        error = self.nodes_error if kind == NODE else self.errors.get(namespace)
        if error:
            raise error
        async for page in super().pages(kind, namespace=namespace, selector=selector):
            yield page


def asked(key: Key, *, replicas: int = 1) -> Manifest:
    manifest = inference_deployment(name=key.name, replicas=replicas)
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    return {**manifest, "metadata": {**meta, "namespace": key.namespace}}


class Scene:
    def __init__(self, *namespaces: str) -> None:
        self.cluster = Guarded()
        self.cache = Cache(SETTINGS)
        self.added: list[Key] = []
        self.resync = Resync(self.cluster, self.cache, Settings(namespaces=namespaces), self.added.append)
        for key in (A, B):
            self.cluster.apply_as("kubectl", asked(key))


async def test_the_whole_cluster_is_listed_at_once() -> None:
    scene = Scene()
    assert await scene.resync.list_all()
    assert scene.cache.known() == [A, B]
    assert scene.resync.readable == frozenset()
    assert {request.ref.namespace for request in scene.cluster.reads} == {""}


async def test_only_the_namespaces_that_are_served_are_listed() -> None:
    scene = Scene("team-b")
    assert await scene.resync.list_all()
    assert scene.cache.known() == [B]
    assert scene.added == [B]
    assert {request.ref.namespace for request in scene.cluster.reads} == {"team-b"}


async def test_a_namespace_without_rights_stops_no_other_and_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("team-a", "team-b")
    scene.cluster.errors["team-a"] = ForbiddenError("inferencedeployments is forbidden")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert await scene.resync.list_all()
    assert scene.cache.known() == [B]
    assert scene.resync.readable == frozenset({"team-b"})
    assert list(scene.resync.unreadable) == ["team-a"]
    told = "Cannot list namespace team-a, will try again: inferencedeployments is forbidden"
    assert [record.message for record in caplog.records] == [told]
    scene.cluster.errors.clear()
    with caplog.at_level(logging.INFO):
        assert await scene.resync.list_all()
    assert scene.cache.known() == [B, A]
    assert scene.resync.readable == frozenset({"team-a", "team-b"})
    assert list(scene.resync.unreadable) == []
    assert caplog.records[-1].message == "Can list namespace team-a again"


async def test_a_right_that_is_taken_away_is_noticed_and_what_is_known_stays() -> None:
    scene = Scene("team-a", "team-b")
    await scene.resync.list_all()
    scene.cluster.errors["team-a"] = ForbiddenError("no")
    assert await scene.resync.list_all()
    assert scene.resync.readable == {"team-b"}
    assert scene.cache.known() == [A, B]


async def test_a_fault_takes_nothing_from_what_could_be_read_before() -> None:
    scene = Scene("team-a", "team-b")
    await scene.resync.list_all()
    scene.cluster.errors = dict.fromkeys(("team-a", "team-b"), ClusterError("HTTP 503"))
    assert await scene.resync.list_all()
    assert scene.resync.readable == {"team-a", "team-b"}
    assert scene.cache.known() == [A, B]


async def test_nothing_that_can_be_read_is_said() -> None:
    scene = Scene()
    scene.cluster.errors[None] = ClusterError("HTTP 503")
    assert not await scene.resync.list_all()
    assert scene.resync.unreadable == [""]


async def test_what_vanished_in_one_namespace_is_forgotten_there_only() -> None:
    scene = Scene("team-a", "team-b")
    await scene.resync.list_all()
    scene.added.clear()
    for key in (A, B):
        scene.cluster.remove(next(ref for ref in scene.cluster.live() if ref.namespace == key.namespace))
    scene.cluster.errors["team-b"] = ClusterError("HTTP 503")
    await scene.resync.list_all()
    assert scene.cache.known() == [B]
    assert scene.added == [A]


async def test_a_watch_that_tells_nothing_of_what_listings_show_is_found_out() -> None:
    scene = Scene()
    await scene.resync.list_all()
    for replicas in (2, 3):
        assert scene.resync.deaf() == []
        scene.cluster.apply_as("kubectl", asked(A, replicas=replicas))
        await scene.resync.list_all()
    assert scene.resync.deaf() == [INFERENCE_DEPLOYMENT]
    scene.resync.hear("MODIFIED", asked(A))
    scene.cluster.apply_as("kubectl", asked(A, replicas=4))
    await scene.resync.list_all()
    assert scene.resync.deaf() == []


async def test_a_watch_that_has_nothing_to_tell_is_not_blamed() -> None:
    scene = Scene()
    for _ in range(5):
        await scene.resync.list_all()
        scene.resync.hear("MODIFIED", node("gpu-a", gpus=1))
    assert scene.resync.deaf() == []
