from inference_operator.controller.cache import Cache
from inference_operator.controller.cluster import Listing
from inference_operator.engines import registry
from inference_operator.manifest import INFERENCE_DEPLOYMENT, POD, Key, Manifest, Ref
from inference_operator.objects.names import NAME_LABEL
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.status.write_results import Applied, Deleted, Waiting
from tests.testing.builders import CONFIG, ENGINES, KEY, NOW, ROUTERS, SETTINGS, inference_deployment, planned, pod
from tests.testing.listings import pages

RAW = inference_deployment()
CHILD = planned(RAW).desired[CONFIG]
POD_REF = Ref.of(pod())


def at(version: int, manifest: Manifest, **metadata: object) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(version), **metadata}}


def cache_of(*manifests: Manifest) -> Cache:
    cache = Cache(SETTINGS)
    for manifest in manifests:
        cache.put(manifest)
    return cache


def children(cache: Cache, key: Key = KEY) -> dict[str, str]:
    inputs = cache.inputs(key, now=NOW)
    assert inputs is not None
    return {str(ref): m["metadata"]["resourceVersion"] for ref, m in inputs.children.items()}


def pods(cache: Cache) -> list[str]:
    inputs = cache.inputs(KEY, now=NOW)
    assert inputs is not None
    return [view.name for view in inputs.pods]


def test_a_new_object_concerns_the_key_of_its_resource() -> None:
    cache = Cache(SETTINGS)
    assert cache.put(at(1, RAW)) == {KEY}
    assert cache.put(at(2, CHILD)) == {KEY}
    assert cache.put(pod(version=3)) == {KEY}
    assert cache.resource_keys() == [KEY]
    assert children(cache) == {str(CONFIG): "2"}
    assert pods(cache) == ["qwen-engine-7c9f-abcde"]


def test_an_object_of_a_cached_or_older_version_concerns_no_key() -> None:
    cache = cache_of(at(1, RAW), at(10, CHILD))
    assert cache.put(at(10, CHILD)) == set()
    assert cache.put(at(9, CHILD)) == set()
    assert children(cache) == {str(CONFIG): "10"}
    assert cache.put(at(11, CHILD)) == {KEY}


def test_an_object_deleted_by_the_operator_is_not_restored_by_an_older_event() -> None:
    cache = cache_of(at(1, RAW), at(10, CHILD))
    cache.record(Deleted(CONFIG))
    assert cache.put(at(10, CHILD)) == set()
    assert children(cache) == {}
    assert cache.put(at(11, CHILD, deletionTimestamp="2026-01-02T03:04:05Z")) == {KEY}


def test_resource_versions_are_compared_as_numbers() -> None:
    cache = cache_of(at(1, RAW), at(9, CHILD))
    assert cache.put(at(10, CHILD)) == {KEY}


def test_own_writes_are_in_the_cache_at_once() -> None:
    cache = cache_of(at(1, RAW))
    cache.record(Applied(at(5, CHILD)))
    assert children(cache) == {str(CONFIG): "5"}
    assert cache.put(at(5, CHILD)) == set()
    cache.record(Waiting(CONFIG))
    assert children(cache) == {str(CONFIG): "5"}
    cache.record(Deleted(CONFIG))
    assert children(cache) == {}


def test_a_deletion_concerns_its_key_only_the_first_time() -> None:
    cache = cache_of(at(1, RAW), at(5, CHILD))
    assert cache.forget(at(6, CHILD)) == {KEY}
    assert cache.forget(at(6, CHILD)) == set()
    assert children(cache) == {}


def test_a_late_deletion_event_does_not_remove_a_newer_object_of_that_name() -> None:
    cache = cache_of(at(1, RAW), at(5, CHILD))
    cache.record(Applied(at(8, CHILD)))
    assert cache.forget(at(6, CHILD)) == set()
    assert children(cache) == {str(CONFIG): "8"}


async def test_a_listing_replaces_the_cached_objects_of_its_kind() -> None:
    cache = cache_of(at(1, RAW), pod(name="gone", version=2), pod(name="same", version=3), pod(name="old", version=4))
    listed = [pod(name="same", version=3), pod(name="old", version=7), pod(name="new", version=8)]
    assert await cache.replace(POD, pages(Listing(listed, 9))) == {KEY}
    assert pods(cache) == ["new", "old", "same"]
    assert await cache.replace(POD, pages(Listing(listed, 10))) == set()


async def test_a_listing_does_not_remove_objects_that_are_newer_than_the_listing() -> None:
    cache = cache_of(at(1, RAW), pod(name="young", version=12))
    assert await cache.replace(POD, pages(Listing([], 11))) == set()
    assert pods(cache) == ["young"]


async def test_a_listing_from_before_a_deletion_does_not_bring_the_object_back() -> None:
    cache = cache_of(at(1, RAW), at(2, CHILD))
    cache.forget(at(9, CHILD))
    assert await cache.replace(CONFIG.kind, pages(Listing([at(2, CHILD)], version=5))) == set()
    assert children(cache) == {}
    assert cache.put(at(10, CHILD)) == {KEY}


async def test_a_listing_does_not_remove_objects_of_other_kinds() -> None:
    cache = cache_of(at(1, RAW), at(2, CHILD))
    assert await cache.replace(POD, pages(Listing([], 10))) == set()
    assert children(cache) == {str(CONFIG): "2"}
    assert await cache.replace(INFERENCE_DEPLOYMENT, pages(Listing([], 11))) == {KEY}
    assert cache.resource_keys() == []


def test_an_unknown_or_deleting_resource_has_no_inputs() -> None:
    assert Cache(SETTINGS).inputs(KEY, now=NOW) is None
    going = at(2, RAW, deletionTimestamp="2026-01-02T03:04:05Z")
    assert cache_of(going).inputs(KEY, now=NOW) is None


def test_an_object_of_another_owner_is_not_a_child() -> None:
    cache = cache_of(at(1, RAW), at(2, CHILD, ownerReferences=[]))
    assert children(cache) == {}


def test_a_child_whose_label_was_edited_still_concerns_its_owner() -> None:
    cache = cache_of(at(1, RAW), at(2, CHILD))
    assert cache.put(at(3, CHILD, labels={NAME_LABEL: "other"})) == {KEY}
    assert children(cache) == {str(CONFIG): "3"}
    assert cache.put(at(4, CHILD, labels=None)) == {KEY}


def test_a_pod_with_another_label_concerns_both_keys_and_leaves_no_entry_for_its_former_one() -> None:
    cache = cache_of(at(1, RAW), pod(version=2))
    taken_out = at(3, pod(), labels={NAME_LABEL: "quarantine"})
    assert cache.put(taken_out) == {KEY, Key("default", "quarantine")}
    assert pods(cache) == []
    cache.forget(at(4, taken_out))
    assert pods(cache) == []


def test_resources_of_the_same_name_in_two_namespaces_are_separate() -> None:
    elsewhere = at(3, RAW, namespace="elsewhere", uid="other")
    cache = cache_of(at(1, RAW), at(2, CHILD), elsewhere)
    assert sorted(cache.resource_keys()) == [KEY, Key("elsewhere", "qwen")]
    assert children(cache, Key("elsewhere", "qwen")) == {}


def test_managed_fields_are_not_cached() -> None:
    cache = cache_of(at(1, RAW), at(2, CHILD, managedFields=[{"manager": "x"}]))
    inputs = cache.inputs(KEY, now=NOW)
    assert inputs is not None
    assert "managedFields" not in inputs.children[CONFIG]["metadata"]


def test_a_workload_with_an_invalid_plan_annotation_has_the_default_engine() -> None:
    cache, made = Cache(SETTINGS), planned(inference_deployment()).desired
    broken = {**made[ENGINES]["metadata"], "annotations": {PLAN_ANNOTATION.key: "{"}, "resourceVersion": "1"}
    cache.put({**made[ENGINES], "metadata": broken})
    cache.put({**made[ROUTERS], "metadata": {**made[ROUTERS]["metadata"], "resourceVersion": "1"}})
    assert (cache.engine(KEY, "engine"), cache.engine(KEY, "router")) == (registry.ENGINES[registry.VLLM], None)
