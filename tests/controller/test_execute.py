"""Execution of changes: which objects may be written, and the result of each kind of change."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.controller.changes import Apply, Change, Delete, Label, changes
from inference_operator.controller.cluster import ClusterError, RejectedError
from inference_operator.controller.execute import execute
from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.objects.child import ADOPT_ANNOTATION
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.objects.pod_patch import PodDeletion, PodPatch
from inference_operator.status.write_results import Applied, Conflict, Deleted, Failed, Rejected, Waiting, WriteResult
from inference_operator.views.pod import ADAPTERS_ANNOTATION, DELETION_COST_ANNOTATION, TRAFFIC_LABEL, pod_view
from tests.testing.builders import CONFIG, KEY, UID, inference_deployment, planned, pod, ready_pod
from tests.testing.for_each import for_each
from tests.testing.memory_cluster import MemoryCluster

OURS = Owner(KEY, UID)
WANTED = planned(inference_deployment()).desired[CONFIG]
FIRST = Apply(CONFIG, WANTED, OURS, None, "absent")
FOREIGN: Manifest = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": CONFIG.name, "namespace": CONFIG.namespace},
    "data": {"haproxy.cfg": "theirs"},
}


class Racing(MemoryCluster):
    """Somebody creates an object right before the operator does."""

    async def create(self, ref: Ref, manifest: Manifest) -> Manifest:
        self.apply_as("somebody-else", FOREIGN)
        return await super().create(ref, manifest)


class Brief(MemoryCluster):
    """Somebody deletes an object right before the operator reads it."""

    async def get(self, ref: Ref) -> Manifest | None:
        self.remove(ref)
        return await super().get(ref)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def verbs(cluster: MemoryCluster, change: Change) -> tuple[WriteResult, list[str]]:
    """The result of a change, and the verbs of the requests that it took."""
    answer = await execute(cluster, change)
    return answer, [request.verb for request in cluster.requests]


async def test_an_absent_object_is_created_with_one_request(cluster: MemoryCluster) -> None:
    answer, requests = await verbs(cluster, FIRST)
    assert answer == Applied(cluster.live()[CONFIG])
    assert requests == ["apply"]


async def test_an_own_object_that_is_not_cached_is_applied(cluster: MemoryCluster) -> None:
    cluster.apply_as("somebody-else", {**WANTED, "data": {"haproxy.cfg": "edited"}})
    answer, requests = await verbs(cluster, FIRST)
    assert isinstance(answer, Applied)
    assert answer.manifest["data"] == WANTED["data"]
    assert requests == ["create", "get", "apply"]


async def test_an_own_object_that_is_being_deleted_is_waited_for(cluster: MemoryCluster) -> None:
    cluster.apply_as("us", {**WANTED, "metadata": {**WANTED["metadata"], "finalizers": ["example.com/slow"]}})
    cluster.remove(CONFIG)
    assert await verbs(cluster, FIRST) == (Waiting(CONFIG), ["create", "get"])


async def test_an_object_that_another_client_created_first_is_left_unchanged() -> None:
    cluster = Racing()
    answer, _ = await verbs(cluster, FIRST)
    assert isinstance(answer, Conflict)
    assert cluster.live()[CONFIG]["data"] == FOREIGN["data"]


async def test_an_object_that_vanishes_between_create_and_get_is_retried_later() -> None:
    cluster = Brief()
    cluster.apply_as("somebody-else", FOREIGN)
    assert await execute(cluster, FIRST) == Waiting(CONFIG)
    assert isinstance(await execute(cluster, FIRST), Applied)


async def test_a_cached_object_is_applied_without_reading_it_first(cluster: MemoryCluster) -> None:
    live = cluster.apply_as("somebody-else", {**WANTED, "data": {"haproxy.cfg": "edited"}})
    answer, requests = await verbs(cluster, Apply(CONFIG, WANTED, OURS, live["metadata"]["uid"], ".data"))
    assert isinstance(answer, Applied)
    assert answer.manifest["data"] == WANTED["data"]
    assert requests == ["apply"]


async def test_a_foreign_object_of_the_same_name_is_a_conflict_and_stays_unchanged(cluster: MemoryCluster) -> None:
    theirs = cluster.apply_as("somebody-else", FOREIGN)
    answer = await execute(cluster, Apply(CONFIG, WANTED, OURS, "the uid of ours", ".data"))
    assert isinstance(answer, Conflict)
    assert await execute(cluster, Delete(CONFIG, "the uid of ours")) == Deleted(CONFIG)
    assert cluster.live() == {CONFIG: theirs}


async def test_a_cached_object_that_no_longer_exists_is_created_again(cluster: MemoryCluster) -> None:
    answer, requests = await verbs(cluster, Apply(CONFIG, WANTED, OURS, "the uid of ours", ".data"))
    assert isinstance(answer, Applied)
    assert requests == ["apply", "apply"]


async def test_deleting_an_absent_object_counts_as_deleted(cluster: MemoryCluster) -> None:
    assert await execute(cluster, Delete(CONFIG, "u")) == Deleted(CONFIG)


@pytest.mark.parametrize("change", [FIRST, Delete(CONFIG, "u")], ids=["apply", "delete"])
async def test_a_rejected_apply_is_a_result_and_not_an_exception(cluster: MemoryCluster, change: Change) -> None:
    cluster.fail_next(RejectedError("denied by policy"))
    assert await execute(cluster, change) == Rejected(CONFIG, "denied by policy")


@pytest.mark.parametrize("change", [FIRST, Delete(CONFIG, "u")], ids=["apply", "delete"])
async def test_a_failed_apply_is_a_result_and_not_an_exception(cluster: MemoryCluster, change: Change) -> None:
    cluster.fail_next(ClusterError("HTTP 429: too many", request="PATCH /api", retry_after=7))
    assert await execute(cluster, change) == Failed(CONFIG, "HTTP 429: too many", 7)


async def test_an_object_that_changed_since_the_decision_is_not_deleted(cluster: MemoryCluster) -> None:
    judged = cluster.apply_as("us", WANTED)["metadata"]
    edited = cluster.apply_as("somebody-else", {**WANTED, "data": {"haproxy.cfg": "edited"}})
    answer, requests = await verbs(cluster, Delete(CONFIG, judged["uid"], judged["resourceVersion"]))
    assert answer == Failed(CONFIG, "it has changed meanwhile")
    assert sorted(requests) == ["delete", "get"]
    assert cluster.live() == {CONFIG: edited}


async def test_deleting_a_replaced_object_counts_as_deleted_and_keeps_the_new_object(
    cluster: MemoryCluster,
) -> None:
    theirs = cluster.apply_as("somebody-else", FOREIGN)
    assert await execute(cluster, Delete(CONFIG, "the uid of ours", "1")) == Deleted(CONFIG)
    assert cluster.live() == {CONFIG: theirs}


def going(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": "u", "deletionTimestamp": "2026-01-02T03:04:05Z"}}


def test_an_object_that_is_being_deleted_is_neither_applied_nor_deleted_again() -> None:
    edited = {**WANTED, "data": {"haproxy.cfg": "edited"}}
    assert changes({CONFIG: going(edited)}, {CONFIG: WANTED}, (), OURS) == []
    assert changes({CONFIG: going(WANTED)}, {}, (), OURS) == []


def test_changes_follow_the_order_of_the_desired_objects_and_deletions_come_last() -> None:
    desired = planned(inference_deployment(replicas=2)).desired
    assert [change.ref for change in changes({}, desired, (), OURS)] == list(desired)
    extra = Ref(CONFIG.kind, "default", "extra")
    live = {extra: {**WANTED, "metadata": {**WANTED["metadata"], "uid": "u"}}}
    assert changes(live, desired, (), OURS)[-1] == Delete(extra, "u")


ENGINE_POD = replace(
    pod_view(pod(name="a", status=ready_pod()), component=ENGINE), adapters="1", deletion_cost=7, traffic=True
)


@for_each(
    [
        PodPatch(pod=ENGINE_POD, deletion_cost=0),
        PodPatch(pod=ENGINE_POD, labels={TRAFFIC_LABEL: "false"}),
        PodPatch(pod=ENGINE_POD, annotations={ADAPTERS_ANNOTATION: "2"}),
    ]
)
def test_a_label_of_a_pod_has_all_that_is_ours_since_server_side_apply_removes_the_rest(patch: PodPatch) -> None:
    (label,) = changes({}, {}, [patch], OURS)
    assert isinstance(label, Label)
    assert label.labels == {TRAFFIC_LABEL: "true", **patch.labels}
    cost = "7" if patch.deletion_cost is None else str(patch.deletion_cost)
    assert label.annotations == {ADAPTERS_ANNOTATION: "1", DELETION_COST_ANNOTATION: cost, **patch.annotations}


def test_deletion_costs_come_before_all_objects_and_deletions_of_pods_after_them() -> None:
    gone = PodDeletion("it has stalled", Reason.ENGINE_STALLED, grace_seconds=1)
    router = replace(ENGINE_POD, name="b", component=ROUTER, adapters="", deletion_cost=0)
    patches = [
        PodPatch(pod=ENGINE_POD, deletion_cost=3, why="it has 3 requests", delete=gone),
        PodPatch(pod=router, annotations={ADAPTERS_ANNOTATION: "2"}),
    ]
    first, applied, deleted, label = changes({}, {CONFIG: WANTED}, patches, OURS)
    assert isinstance(first, Label)
    assert isinstance(applied, Apply)
    assert deleted == Delete(first.ref, ENGINE_POD.uid, grace_seconds=1, why="it has stalled")
    assert isinstance(label, Label)
    assert (label.labels, label.annotations) == ({}, {ADAPTERS_ANNOTATION: "2"})


def test_an_apply_names_the_path_of_the_drift() -> None:
    live = {**WANTED, "metadata": {**WANTED["metadata"], "uid": "u"}, "data": {"haproxy.cfg": "edited"}}
    assert changes({CONFIG: live}, {CONFIG: WANTED}, (), OURS) == [
        Apply(CONFIG, WANTED, OURS, "u", ".data.haproxy.cfg")
    ]


@pytest.mark.parametrize(
    ("said", "owners", "adopts"),
    [("true", 0, "7"), ("true", 1, None), ("begun", 0, "7"), ("begun", 1, "7"), ("", 0, None)],
)
def test_an_adoption_that_has_begun_goes_on_and_an_owned_object_is_adopted_once(
    said: str, owners: int, adopts: str | None
) -> None:
    meta = {**WANTED["metadata"], "uid": "u", "resourceVersion": "7"}
    meta["annotations"] = {**meta["annotations"], ADOPT_ANNOTATION: said}
    meta["ownerReferences"] = meta["ownerReferences"][:owners]
    found = changes({CONFIG: {**WANTED, "metadata": meta}}, {CONFIG: WANTED}, (), OURS)
    assert [change.adopts for change in found if isinstance(change, Apply)] == (
        [adopts] if adopts or not owners else []
    )
