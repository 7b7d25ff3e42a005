"""Listings of several namespaces, some of them unreadable; and watches without events."""

import logging

import pytest

from inference_operator.controller.cluster import ClusterError, ForbiddenError, NotFoundError
from inference_operator.controller.lister import Lister
from inference_operator.controller.workqueue import Priority
from inference_operator.manifest import (
    CHILD_KINDS,
    HTTP_ROUTE,
    INFERENCE_DEPLOYMENT,
    NODE,
    POD,
    Key,
    Ref,
)
from inference_operator.objects.names import MANAGED_BY_LABEL, MANAGER, NAME_LABEL
from inference_operator.settings import Settings
from tests.controller.guarded import A, B, Scene, asked, route, route_of
from tests.testing.builders import KEY, pod
from tests.testing.nodes import node


async def test_an_operator_of_the_whole_cluster_lists_all_namespaces_at_once() -> None:
    scene = Scene()
    assert await scene.lister.list_all()
    assert scene.cache.resource_keys() == [A, B]
    assert scene.lister.readable == {None}
    assert {request.ref.namespace for request in scene.cluster.reads} == {""}


async def test_only_the_namespaces_that_are_served_are_listed() -> None:
    scene = Scene("team-b")
    assert await scene.lister.list_all()
    assert scene.cache.resource_keys() == [B]
    assert scene.added == [B]
    assert scene.urgent == [], "a listing concerns all resources, and none in particular"
    assert {request.ref.namespace for request in scene.cluster.reads} == {"team-b"}


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


async def test_a_namespace_whose_right_is_withdrawn_is_forgotten_at_the_second_refusal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An API server that has just started may not know the roles yet."""
    scene = Scene("team-a", "team-b")
    await scene.lister.list_all()
    scene.added.clear()
    scene.cluster.errors["team-a"] = ForbiddenError("no")
    assert await scene.lister.list_all()
    assert scene.lister.readable == {"team-a", "team-b"}
    assert scene.cache.resource_keys() == [A, B]
    assert await scene.lister.list_all()
    assert scene.lister.readable == {"team-b"}
    assert scene.cache.resource_keys() == [B]
    assert scene.added == [A]
    assert [record.message for record in caplog.records] == ["Cannot list namespace team-a, will try again: no"]
    scene.cluster.errors.clear()
    assert await scene.lister.list_all()
    assert sorted(scene.cache.resource_keys()) == [A, B]
    assert scene.lister.readable == {"team-a", "team-b"}


@pytest.mark.parametrize("scope", [("team-a", "team-b"), ()])
async def test_a_refusal_after_another_fault_is_the_first_one(scope: tuple[str, ...]) -> None:
    """An API server that starts refuses connections first, and then lists that its roles would allow."""
    scene = Scene(*scope)
    await scene.lister.list_all()
    watched = scene.lister.readable
    namespace = next(iter(scope), None)
    for error in (
        ClusterError("connection refused"),
        ForbiddenError("no"),
        ClusterError("broke off"),
        ForbiddenError("no"),
    ):
        scene.cluster.errors[namespace] = error
        await scene.lister.list_all()
        assert scene.cache.resource_keys() == [A, B]
        assert scene.lister.readable == watched
    await scene.lister.list_all()
    assert scene.lister.readable == watched - {namespace}


async def test_a_namespace_that_comes_and_goes_is_no_dead_watch() -> None:
    scene = Scene("team-a", "team-b")
    for _ in range(3):
        scene.cluster.errors.clear()
        await scene.lister.list_all()
        scene.cluster.errors["team-a"] = ForbiddenError("no")
        await scene.lister.list_all()
        await scene.lister.list_all()
        assert scene.lister.readable == {"team-b"}
        assert scene.lister.dead_watches() == []


@pytest.mark.parametrize("scope", [("team-a", "team-b"), ()])
async def test_an_event_of_a_namespace_that_is_forgotten_brings_nothing_back(scope: tuple[str, ...]) -> None:
    """A watch outlasts the right to it for some time. A resource without its children would be planned anew."""
    scene = Scene(*scope)
    await scene.lister.list_all()
    scene.cluster.errors[next(iter(scope), None)] = ForbiddenError("no")
    await scene.lister.list_all()
    await scene.lister.list_all()
    scene.added.clear()
    scene.cluster.apply_as("kubectl", asked(A, replicas=2))
    changed = await scene.cluster.get(Ref(INFERENCE_DEPLOYMENT, A.namespace, A.name))
    assert changed is not None
    scene.lister.on_event("MODIFIED", changed)
    assert A not in scene.cache.resource_keys()
    assert scene.added == []


async def test_without_the_right_to_list_anything_nothing_is_watched() -> None:
    scene = Scene()
    await scene.lister.list_all()
    scene.cluster.errors[None] = ForbiddenError("no")
    await scene.lister.list_all()
    assert not await scene.lister.list_all()
    assert (scene.lister.watchable, scene.lister.readable) == ((), frozenset())
    assert scene.cache.resource_keys() == []


async def test_nodes_whose_right_is_withdrawn_are_watched_no_more() -> None:
    scene = Scene()
    await scene.lister.list_all()
    assert NODE in scene.lister.watchable
    scene.cluster.nodes_error = ForbiddenError("no")
    await scene.lister.list_all()
    assert NODE not in scene.lister.watchable
    scene.cluster.nodes_error = None
    await scene.lister.list_all()
    assert NODE in scene.lister.watchable


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


GONE = NotFoundError("the server could not find the requested resource")


async def test_a_kind_that_goes_is_forgotten_with_its_objects_and_all_resources_are_queued(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.cluster.apply_as("kubectl", route(A))
    await scene.lister.list_all()
    scene.added.clear()
    scene.cluster.routes_error = GONE
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            await scene.lister.list_all()
    assert route_of(A) not in children(scene, A)
    assert HTTP_ROUTE in scene.cache.unavailable_kinds
    assert sorted(set(scene.added)) == [A, B]
    assert len(scene.added) == len([A, A, B]), "one queue for its object, and one for each resource"
    assert scene.urgent == []
    (record,) = caplog.records
    assert record.message.startswith("Cannot use httproutes.gateway.networking.k8s.io: the cluster has no httproutes")


async def test_a_kind_that_comes_is_used_after_its_objects_are_listed_and_all_resources_are_queued(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.cluster.routes_error = GONE
    await scene.lister.list_all()
    scene.cluster.apply_as("kubectl", route(A))
    scene.cluster.routes_error = None
    scene.added.clear()
    listed: list[bool] = []

    def add(key: Key, _: Priority) -> None:
        known = HTTP_ROUTE not in scene.cache.unavailable_kinds
        listed.append(not known or route_of(A) in children(scene, A))
        scene.added.append(key)

    scene.lister._add = add  # noqa: SLF001 - what is known at the moment in which keys are queued
    scene.cluster.tried.clear()
    with caplog.at_level(logging.INFO):
        await scene.lister.find_kinds()
    assert scene.cluster.tried == [(HTTP_ROUTE, None)], "nothing else is listed"
    assert HTTP_ROUTE in scene.lister.watchable
    assert sorted(set(scene.added)) == [A, B]
    assert all(listed), "who is queued must not make its objects anew"
    assert [record.message for record in caplog.records] == [
        "Found httproutes.gateway.networking.k8s.io: it is used from now on"
    ]


async def test_an_event_of_a_kind_that_is_gone_brings_no_object_back() -> None:
    """Its watch may have sent it before it ended."""
    scene = Scene()
    scene.cluster.apply_as("kubectl", route(A))
    await scene.lister.list_all()
    live = scene.cluster.peek(route_of(A))
    assert live is not None
    scene.cluster.routes_error = GONE
    await scene.lister.list_all()
    scene.lister.on_event("MODIFIED", {**live, "metadata": {**live["metadata"], "resourceVersion": "999"}})
    assert route_of(A) not in children(scene, A)


async def test_a_search_that_finds_nothing_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    scene.cluster.routes_error = GONE
    await scene.lister.list_all()
    scene.added.clear()
    for error in (GONE, ClusterError("HTTP 500: etcd is slow"), GONE):
        scene.cluster.routes_error = error
        await scene.lister.find_kinds()
    assert scene.added == []
    assert HTTP_ROUTE not in scene.lister.watchable
    assert caplog.records == []


async def test_a_kind_that_one_namespace_may_not_list_is_used_in_none_until_it_may() -> None:
    scene = Scene("team-a", "team-b")
    forbidden = ForbiddenError("no")
    scene.cluster.routes_errors = {"team-b": forbidden}
    await scene.lister.list_all()
    assert "Update the chart" in scene.cache.unavailable_kinds[HTTP_ROUTE]
    scene.cluster.routes_errors = {"team-a": forbidden}
    await scene.lister.find_kinds()
    assert HTTP_ROUTE in scene.cache.unavailable_kinds
    scene.cluster.routes_errors = {}
    await scene.lister.find_kinds()
    assert HTTP_ROUTE in scene.lister.watchable


@pytest.mark.parametrize("first", [ForbiddenError("no"), GONE])
async def test_of_two_reasons_that_of_the_namespace_counts_in_which_the_kind_is_looked_for(first: ClusterError) -> None:
    """The other one may be out of date, and which comes first must not differ after a restart."""
    namespaces = [f"team-{letter}" for letter in "abcdefgh"]
    scene = Scene(*reversed(namespaces))
    scene.cluster.routes_errors = dict.fromkeys(namespaces, GONE if first is not GONE else ForbiddenError("no"))
    scene.cluster.routes_errors["team-a"] = first
    await scene.lister.list_all()
    why = scene.cache.unavailable_kinds[HTTP_ROUTE]
    assert ("Install" in why) == (first is GONE)
    await scene.lister.find_kinds()
    assert scene.cache.unavailable_kinds[HTTP_ROUTE] == why


async def test_a_missing_kind_is_looked_for_in_one_namespace() -> None:
    scene = Scene("team-a", "team-b")
    scene.cluster.routes_error = GONE
    await scene.lister.list_all()
    scene.cluster.tried.clear()
    await scene.lister.find_kinds()
    assert scene.cluster.tried == [(HTTP_ROUTE, "team-a")]


async def test_resources_of_a_namespace_with_half_a_listing_wait_for_the_rest_when_a_kind_comes() -> None:
    scene = Scene("team-a", "team-b")
    scene.cluster.routes_error = GONE
    await scene.lister.list_all()
    scene.cluster.routes_error = None
    scene.cluster.errors["team-a"] = ClusterError("HTTP 503")
    scene.cluster.routes_errors = {}
    scene.added.clear()
    await scene.lister.list_all()
    assert A not in scene.added
    scene.cluster.errors.clear()
    await scene.lister.list_all()
    assert set(scene.added) == {A, B}


async def test_a_kind_that_flaps_is_no_dead_watch() -> None:
    scene = Scene()
    scene.cluster.apply_as("kubectl", route(A))
    for error in (None, GONE, None, GONE, None, GONE, None):
        scene.cluster.routes_error = error
        await scene.lister.list_all()
    assert scene.lister.dead_watches() == []


def children(scene: Scene, key: Key) -> set[Ref]:
    """The children of a resource that the cache knows."""
    return {ref for ref in scene.cache._by_owner.get(key, ()) if ref.kind != POD}  # noqa: SLF001 - also without owner
