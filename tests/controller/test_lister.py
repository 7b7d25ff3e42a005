"""Listings of several namespaces, some of them unreadable; and watches without events."""

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from inference_operator.controller.cache import Cache
from inference_operator.controller.cluster import ClusterError, ForbiddenError, Listing, NotFoundError
from inference_operator.controller.lister import Lister
from inference_operator.controller.relist_loop import RelistLoop
from inference_operator.controller.workqueue import Priority
from inference_operator.manifest import (
    CHILD_KINDS,
    HTTP_ROUTE,
    INFERENCE_DEPLOYMENT,
    NODE,
    POD,
    Key,
    Kind,
    Manifest,
    Ref,
)
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER, NAME_LABEL
from inference_operator.settings import Settings
from tests.testing.builders import KEY, SETTINGS, inference_deployment, pod
from tests.testing.memory_cluster import SYSTEM_METADATA, MemoryCluster
from tests.testing.nodes import node

A, B = Key("team-a", "qwen"), Key("team-b", "qwen")


class Guarded(MemoryCluster):
    """Some namespaces cannot be listed."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str | None, ClusterError] = {}
        self.nodes_error: ClusterError | None = None
        self.routes_error: ClusterError | None = None
        self.breaks_off = False
        """Whether every listing fails after its first page."""

    async def pages(
        self, kind: Kind, *, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[Listing]:
        of_kind = {NODE: self.nodes_error, HTTP_ROUTE: self.routes_error}
        error = of_kind.get(kind) or self.errors.get(namespace)
        if error:
            raise error
        async for page in super().pages(kind, namespace=namespace, selector=selector):
            yield page
            if self.breaks_off:
                raise ClusterError("the answer broke off")


def asked(key: Key, *, replicas: int = 1) -> Manifest:
    manifest = inference_deployment(name=key.name, replicas=replicas)
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    return {**manifest, "metadata": {**meta, "namespace": key.namespace}}


class Scene:
    def __init__(self, *namespaces: str) -> None:
        self.cluster = Guarded()
        self.cache = Cache(SETTINGS)
        self.added: list[Key] = []
        self.urgent: list[Key] = []
        """The keys of `added` with high priority."""
        self.lister = Lister(self.cluster, self.cache, Settings(namespaces=namespaces), self.add)
        for key in (A, B):
            self.cluster.apply_as("kubectl", asked(key))

    def add(self, key: Key, priority: Priority) -> None:
        self.added.append(key)
        if priority is Priority.HIGH:
            self.urgent.append(key)


async def test_an_operator_of_the_whole_cluster_lists_all_namespaces_at_once() -> None:
    scene = Scene()
    assert await scene.lister.list_all()
    assert scene.cache.resource_keys() == [A, B]
    assert scene.lister.readable == frozenset()
    assert {request.ref.namespace for request in scene.cluster.reads} == {""}


async def test_only_the_namespaces_that_are_served_are_listed() -> None:
    scene = Scene("team-b")
    assert await scene.lister.list_all()
    assert scene.cache.resource_keys() == [B]
    assert scene.added == [B]
    assert scene.urgent == [], "a listing concerns all resources, and none in particular"
    assert {request.ref.namespace for request in scene.cluster.reads} == {"team-b"}


async def test_a_listing_that_is_older_than_the_one_before_ends_the_process_and_changes_no_cache() -> None:
    """As after a restore of etcd: half of a cache that is replaced kind by kind would plan serving engines anew."""
    scene = Scene()
    backup = scene.cluster.backup()
    scene.cluster.apply_as("kubectl", asked(A, replicas=2))
    assert await scene.lister.list_all()
    scene.added.clear()
    scene.cluster.restore(backup)
    loop, stop = RelistLoop(scene.lister, Settings(resync_seconds=1)), asyncio.Event()
    work = asyncio.create_task(loop.work(stop))
    await asyncio.wait_for(stop.wait(), 30)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    assert scene.lister.history_went_back
    assert scene.added == []
    assert scene.cache.resource_keys() == [A, B]


@pytest.mark.parametrize("steps", range(5))
async def test_a_loop_that_is_cancelled_while_a_watch_loses_events_ends(steps: int) -> None:
    """`wait_for` of Python 3.11 loses a cancellation that comes together with what it waits for."""
    loop = RelistLoop(Scene().lister, Settings())
    work = asyncio.create_task(loop.work(asyncio.Event()))
    await asyncio.sleep(0)  # it waits
    await asyncio.sleep(0)
    loop.on_events_lost()
    for _ in range(steps):
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait({work}, timeout=5)
    assert work.cancelled()


async def test_a_listing_that_is_older_than_an_event_before_it_changes_no_cache() -> None:
    """As after a restore of a snapshot that is younger than the listing before: no two listings show it."""
    scene = Scene()
    assert await scene.lister.list_all()
    backup = scene.cluster.backup()
    for replicas in (2, 3):
        scene.cluster.apply_as("kubectl", asked(A, replicas=replicas))
    changed = await scene.cluster.get(Ref(INFERENCE_DEPLOYMENT, A.namespace, A.name))
    assert changed is not None
    scene.lister.on_event("MODIFIED", changed)
    scene.added.clear()
    scene.cluster.restore(backup)
    scene.cluster.apply_as("kubectl", asked(B, replicas=2))
    await scene.lister.list_all()
    assert scene.lister.history_went_back
    assert scene.added == []


async def test_a_listing_queues_no_key_before_it_is_complete() -> None:
    """After a restore of etcd with larger versions, the children of a resource that is back are listed after it."""
    scene = Scene()
    backup = scene.cluster.backup()
    scene.cluster.remove(Ref(INFERENCE_DEPLOYMENT, A.namespace, A.name))
    assert await scene.lister.list_all()
    scene.added.clear()
    scene.cluster.restore(backup, bump=1_000_000)
    scene.cluster.routes_error = ClusterError("of a kind that is listed after the children")
    await scene.lister.list_all()
    assert scene.cache.resource_keys() == [B, A]
    assert scene.added == [], "half of a cache would plan serving engines anew"
    scene.cluster.routes_error = None
    await scene.lister.list_all()
    assert scene.added == [A], "no listing concerns it any more, but it is not forgotten"


async def test_what_the_pages_before_a_failed_one_have_changed_is_not_forgotten() -> None:
    scene = Scene()
    assert await scene.lister.list_all()
    scene.cluster.apply_as("kubectl", asked(A, replicas=2))
    scene.added.clear()
    scene.cluster.breaks_off = True
    await scene.lister.list_all()
    scene.cluster.breaks_off = False
    await scene.lister.list_all()
    assert scene.added == [A]


async def test_an_event_of_a_resource_has_priority_over_a_listing() -> None:
    scene = Scene()
    assert await scene.lister.list_all()
    scene.cluster.apply_as("kubectl", asked(A, replicas=2))
    changed = await scene.cluster.get(Ref(INFERENCE_DEPLOYMENT, A.namespace, A.name))
    assert changed is not None
    scene.lister.on_event("MODIFIED", changed)
    assert scene.urgent == [A]


async def test_a_forbidden_namespace_blocks_no_other_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene("team-a", "team-b")
    scene.cluster.errors["team-a"] = ForbiddenError("inferencedeployments is forbidden")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            assert await scene.lister.list_all()
    assert scene.cache.resource_keys() == [B]
    assert scene.lister.readable == frozenset({"team-b"})
    assert list(scene.lister.unreadable) == ["team-a"]
    told = "Cannot list namespace team-a, will try again: inferencedeployments is forbidden"
    assert [record.message for record in caplog.records] == [told]
    scene.cluster.errors.clear()
    with caplog.at_level(logging.INFO):
        assert await scene.lister.list_all()
    assert scene.cache.resource_keys() == [B, A]
    assert scene.lister.readable == frozenset({"team-a", "team-b"})
    assert list(scene.lister.unreadable) == []
    assert caplog.records[-1].message == "Can list namespace team-a again"


async def test_a_namespace_whose_right_is_withdrawn_becomes_unreadable_and_its_cache_stays() -> None:
    scene = Scene("team-a", "team-b")
    await scene.lister.list_all()
    scene.cluster.errors["team-a"] = ForbiddenError("no")
    assert await scene.lister.list_all()
    assert scene.lister.readable == {"team-b"}
    assert scene.cache.resource_keys() == [A, B]


async def test_a_failed_listing_leaves_its_namespace_readable_and_cached() -> None:
    scene = Scene("team-a", "team-b")
    await scene.lister.list_all()
    scene.cluster.errors = dict.fromkeys(("team-a", "team-b"), ClusterError("HTTP 503"))
    assert await scene.lister.list_all()
    assert scene.lister.readable == {"team-a", "team-b"}
    assert scene.cache.resource_keys() == [A, B]


async def test_a_listing_without_a_readable_namespace_reports_failure() -> None:
    scene = Scene()
    scene.cluster.errors[None] = ClusterError("HTTP 503")
    assert not await scene.lister.list_all()
    assert scene.lister.unreadable == [""]


async def test_a_listing_of_one_namespace_removes_no_objects_of_another() -> None:
    scene = Scene("team-a", "team-b")
    await scene.lister.list_all()
    scene.added.clear()
    for key in (A, B):
        scene.cluster.remove(next(ref for ref in scene.cluster.live() if ref.namespace == key.namespace))
    scene.cluster.errors["team-b"] = ClusterError("HTTP 503")
    await scene.lister.list_all()
    assert scene.cache.resource_keys() == [B]
    assert scene.added == [A]


def test_a_child_that_gets_another_label_queues_the_resource_that_misses_it_too() -> None:
    scene, relabelled = Scene(), pod(version=2)
    relabelled["metadata"]["labels"][NAME_LABEL] = "other"
    scene.lister.on_event("ADDED", pod(version=1))
    scene.lister.on_event("MODIFIED", relabelled)
    assert scene.added[:1] == [KEY]
    assert sorted(scene.added[1:]) == [Key(KEY.namespace, "other"), KEY]


async def test_a_watch_without_events_is_dead_when_two_listings_find_changes() -> None:
    scene = Scene()
    await scene.lister.list_all()
    for replicas in (2, 3):
        assert scene.lister.dead_watches() == []
        scene.cluster.apply_as("kubectl", asked(A, replicas=replicas))
        await scene.lister.list_all()
    assert scene.lister.dead_watches() == [INFERENCE_DEPLOYMENT]
    scene.lister.on_event("MODIFIED", asked(A))
    scene.cluster.apply_as("kubectl", asked(A, replicas=4))
    await scene.lister.list_all()
    assert scene.lister.dead_watches() == []


async def test_a_watch_without_events_is_not_dead_when_listings_find_no_changes() -> None:
    scene = Scene()
    for _ in range(5):
        await scene.lister.list_all()
        scene.lister.on_event("MODIFIED", node("gpu-a", gpus=1))
    assert scene.lister.dead_watches() == []


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (NotFoundError("the server could not find the requested resource"), "Install its CustomResourceDefinition"),
        (ForbiddenError("httproutes is forbidden"), "Update the chart"),
    ],
)
async def test_a_cluster_without_gateway_api_is_served_and_http_routes_are_found_when_they_come(
    error: ClusterError, fix: str
) -> None:
    scene = Scene()
    scene.cluster.routes_error = error
    assert await scene.lister.list_all()
    assert HTTP_ROUTE not in scene.lister.watchable
    assert fix in scene.cache.unavailable_kinds[HTTP_ROUTE]
    scene.cluster.routes_error = None
    assert await scene.lister.list_all()
    assert HTTP_ROUTE in scene.lister.watchable
    assert not scene.cache.unavailable_kinds


async def test_a_failed_listing_leaves_unknown_whether_gateway_api_has_gone_or_come() -> None:
    scene = Scene()
    scene.cluster.routes_error = NotFoundError("the server could not find the requested resource")
    await scene.lister.list_all()
    scene.cluster.routes_error = ClusterError("HTTP 500: etcd is slow")
    await scene.lister.list_all()
    assert HTTP_ROUTE not in scene.lister.watchable


@pytest.mark.parametrize(
    ("event", "kind", "seen", "priority"),
    [
        ("MODIFIED", "Deployment", 3, Priority.NORMAL),
        ("MODIFIED", "Deployment", 2, Priority.HIGH),
        ("DELETED", "Deployment", 3, Priority.HIGH),
        ("MODIFIED", "Service", None, Priority.HIGH),
        ("ADDED", "Pod", None, Priority.NORMAL),
        ("MODIFIED", "InferenceDeployment", 3, Priority.HIGH),
    ],
    ids=["status", "edit", "deletion", "kind without generation", "pod", "resource"],
)
async def test_the_status_of_a_child_and_pods_wait_for_edits(
    event: str, kind: str, seen: int | None, priority: Priority
) -> None:
    scene = Scene()
    await scene.lister.list_all()
    given: list[Priority] = []
    scene.lister = Lister(scene.cluster, scene.cache, Settings(), lambda _, priority: given.append(priority))
    (found,) = (one for one in (*CHILD_KINDS, POD, INFERENCE_DEPLOYMENT) if one.name == kind)
    meta = {"name": A.name, "namespace": A.namespace, "uid": "1", "resourceVersion": "999", "generation": 3}
    of_a = {"labels": {NAME_LABEL: A.name, MANAGED_BY_LABEL: MANAGER}}
    status = {} if seen is None else {"status": {"observedGeneration": seen}}
    manifest = {"apiVersion": found.api_version, "kind": kind, "metadata": {**meta, **of_a}, **status}
    if event == "DELETED":
        scene.cache.put(manifest)
    scene.lister.on_event(event, manifest)
    assert given == [priority]
