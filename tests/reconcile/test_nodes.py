"""Nodes as they are known, and who is asked when they change."""

from inference_operator.manifest import Key, Manifest
from inference_operator.reconcile.cluster import ClusterError, ForbiddenError, Listing
from inference_operator.reconcile.nodes import NodeStore
from tests.listings import pages
from tests.nodes import node
from tests.reconcile.test_resync import Scene


def at(version: int, manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(version)}}


def names(store: NodeStore) -> list[str] | None:
    return None if store.nodes is None else [one.name for one in store.nodes]


async def test_only_nodes_with_gpus_are_kept_in_the_order_of_their_names() -> None:
    store = NodeStore()
    assert names(store) is None
    assert not await store.replace(pages(Listing([node("cpu")], 9)))
    assert names(store) == []
    assert await store.replace(pages(Listing([node("b", gpus=1), node("a", gpus=1), node("cpu")], 9)))
    assert names(store) == ["a", "b"]


async def test_a_heartbeat_changes_nothing_and_a_label_does() -> None:
    store = NodeStore()
    await store.replace(pages(Listing([at(1, node("a", gpus=1))], 9)))
    assert not store.put(at(2, node("a", gpus=1)))
    assert store.put(at(3, node("a", gpus=1, labels={"pool": "x"})))
    assert not store.put(at(2, node("a", gpus=8))), "an event from before"
    assert store.put(at(4, node("a", gpus=0))), "its device plugin has gone"
    assert names(store) == []


def test_a_deleted_node_is_forgotten() -> None:
    store = NodeStore()
    store.put(node("a", gpus=1))
    assert store.forget(node("a", gpus=1))
    assert not store.forget(node("a", gpus=1))


async def test_a_change_of_nodes_asks_for_those_that_do_not_serve_as_they_are_asked() -> None:
    scene = Scene()
    await scene.resync.list_all()
    scene.added.clear()
    scene.resync.hear("ADDED", at(1, node("a", gpus=8)))
    assert sorted(scene.added) == [Key("team-a", "qwen"), Key("team-b", "qwen")]
    scene.added.clear()
    scene.resync.hear("MODIFIED", at(2, node("a", gpus=8)))
    scene.resync.hear("ADDED", at(1, node("cpu")))
    assert scene.added == []


async def test_without_the_right_to_nodes_nothing_else_is_missing() -> None:
    scene = Scene()
    scene.cluster.nodes_error = ForbiddenError("nodes is forbidden")
    assert await scene.resync.list_all()
    assert scene.cache.nodes.nodes is None
    assert scene.resync.watchable == scene.resync.kinds


async def test_an_operator_of_some_namespaces_does_not_ask_for_nodes() -> None:
    scene = Scene("team-a")
    await scene.resync.list_all()
    assert scene.cache.nodes.nodes is None
    assert "Node" not in {request.ref.kind.name for request in scene.cluster.reads}


async def test_nodes_that_cannot_be_listed_for_a_moment_are_no_nodes_that_nobody_may_see() -> None:
    scene = Scene()
    scene.cluster.nodes_error = ClusterError("HTTP 500: etcd is slow")
    assert not await scene.resync.list_all(), "the start waits"
    scene.cluster.nodes_error = None
    assert await scene.resync.list_all()
    scene.cluster.nodes_error = ClusterError("HTTP 500: etcd is slow")
    assert await scene.resync.list_all(), "what is known stays known"
    assert scene.cache.nodes.nodes == ()
