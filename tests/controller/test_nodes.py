"""The store of nodes, and which resources are reconciled when nodes change."""

from inference_operator.controller.cluster import ClusterError, ForbiddenError, Listing
from inference_operator.controller.node_store import NodeStore
from inference_operator.manifest import MODEL_GATEWAY, OPTIONAL_KINDS, Key, Manifest
from tests.controller.guarded import Scene
from tests.testing.builders import pod
from tests.testing.listings import pages
from tests.testing.nodes import node


def at(version: int, manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(version)}}


def names(store: NodeStore) -> list[str] | None:
    return None if store.nodes is None else [one.name for one in store.nodes]


async def test_only_nodes_with_gpus_are_stored_sorted_by_name() -> None:
    store = NodeStore()
    assert names(store) is None
    assert not await store.replace(pages(Listing([node("cpu")], 9)))
    assert names(store) == []
    assert await store.replace(pages(Listing([node("b", gpus=1), node("a", gpus=1), node("cpu")], 9)))
    assert names(store) == ["a", "b"]


async def test_a_changed_node_label_is_a_change_and_a_node_heartbeat_is_none() -> None:
    store = NodeStore()
    await store.replace(pages(Listing([at(1, node("a", gpus=1))], 9)))
    assert not store.put(at(2, node("a", gpus=1)))
    assert store.put(at(3, node("a", gpus=1, labels={"pool": "x"})))
    assert not store.put(at(2, node("a", gpus=8))), "an event from before"
    assert store.put(at(4, node("a", gpus=0))), "its device plugin has gone"
    assert names(store) == []


def test_a_deleted_node_is_removed_from_the_store() -> None:
    store = NodeStore()
    store.put(node("a", gpus=1))
    assert store.forget(node("a", gpus=1))
    assert not store.forget(node("a", gpus=1))


async def test_a_change_of_nodes_queues_only_resources_that_are_not_fully_ready() -> None:
    scene = Scene()
    await scene.lister.list_all()
    scene.added.clear()
    scene.lister.on_event("ADDED", at(1, node("a", gpus=8)))
    assert sorted(scene.added) == [Key("team-a", "qwen"), Key("team-b", "qwen")]
    scene.added.clear()
    scene.lister.on_event("MODIFIED", at(2, node("a", gpus=8)))
    scene.lister.on_event("ADDED", at(1, node("cpu")))
    assert scene.added == []


async def test_without_the_right_to_list_nodes_everything_else_is_listed() -> None:
    scene = Scene()
    scene.cluster.nodes_error = ForbiddenError("nodes is forbidden")
    assert await scene.lister.list_all()
    assert scene.cache.nodes.nodes is None
    assert scene.lister.watchable == (*scene.lister.kinds, MODEL_GATEWAY, *OPTIONAL_KINDS)


async def test_an_operator_of_some_namespaces_does_not_list_nodes() -> None:
    scene = Scene("team-a")
    await scene.lister.list_all()
    assert scene.cache.nodes.nodes is None
    assert "Node" not in {request.ref.kind.name for request in scene.cluster.reads}


async def test_a_temporary_failure_to_list_nodes_is_not_taken_for_a_missing_right() -> None:
    scene = Scene()
    scene.cluster.nodes_error = ClusterError("HTTP 500: etcd is slow")
    assert not await scene.lister.list_all(), "the start waits"
    scene.cluster.nodes_error = None
    assert await scene.lister.list_all()
    scene.cluster.nodes_error = ClusterError("HTTP 500: etcd is slow")
    assert await scene.lister.list_all(), "what is known stays known"
    assert scene.cache.nodes.nodes == ()


async def test_a_node_that_is_leaving_is_known_with_gpus_or_without() -> None:
    store = NodeStore()
    assert store.leaving is None, "nodes cannot be listed"
    await store.replace(pages(Listing([node("gpu", gpus=1), node("cpu", cordoned=True)], 9)))
    assert (names(store), list(store.leaving or ())) == (["gpu"], ["cpu"])
    assert store.put(at(10, node("gpu", gpus=1, cordoned=True)))
    assert sorted(store.leaving or ()) == ["cpu", "gpu"]
    store.put(at(11, node("cpu")))
    store.forget(node("gpu", gpus=1))
    assert names(store) == []
    assert not store.leaving


async def test_the_resources_with_pods_on_a_node_are_queued_first_when_it_is_leaving_or_stays_again() -> None:
    scene = Scene()
    await scene.lister.list_all()
    engine = {**pod(version=20), "spec": {"nodeName": "cpu"}}
    engine["metadata"]["namespace"] = "team-a"
    scene.lister.on_event("ADDED", engine)
    scene.added.clear()
    scene.lister.on_event("MODIFIED", at(21, node("cpu", cordoned=True)))
    assert scene.added == [Key("team-a", "qwen")]
    scene.lister.on_event("MODIFIED", at(22, node("cpu", cordoned=True)))
    assert scene.added == [Key("team-a", "qwen")], "nothing new"
    scene.lister.on_event("MODIFIED", at(23, node("cpu")))
    assert scene.added == [Key("team-a", "qwen"), Key("team-a", "qwen")]
