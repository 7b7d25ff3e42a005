"""The rule of who owns what, one change at a time."""

import pytest

from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.observed.answer import Answer, Applied, Conflict, Deleted, Failed, Rejected, Waiting
from inference_operator.reconcile.changes import Apply, Change, Delete, changes
from inference_operator.reconcile.cluster import ClusterError, RejectedError
from inference_operator.reconcile.execute import execute
from tests.builders import CONFIG, KEY, UID, inference_deployment, planned
from tests.memory_cluster import MemoryCluster

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
    """Somebody creates an object right before we do."""

    async def create(self, ref: Ref, manifest: Manifest) -> Manifest:
        self.apply_as("somebody-else", FOREIGN)
        return await super().create(ref, manifest)


class Brief(MemoryCluster):
    """Somebody deletes an object right before we look whose it is."""

    async def get(self, ref: Ref) -> Manifest | None:
        self.remove(ref)
        return await super().get(ref)


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


async def verbs(cluster: MemoryCluster, change: Change) -> tuple[Answer, list[str]]:
    """The answer, and the requests that it took."""
    answer = await execute(cluster, change)
    return answer, [request.verb for request in cluster.requests]


async def test_what_is_absent_is_made_with_one_request(cluster: MemoryCluster) -> None:
    answer, requests = await verbs(cluster, FIRST)
    assert answer == Applied(cluster.live()[CONFIG])
    assert requests == ["apply"]


async def test_what_is_ours_and_was_not_known_is_applied(cluster: MemoryCluster) -> None:
    cluster.apply_as("somebody-else", {**WANTED, "data": {"haproxy.cfg": "edited"}})
    answer, requests = await verbs(cluster, FIRST)
    assert isinstance(answer, Applied)
    assert answer.manifest["data"] == WANTED["data"]
    assert requests == ["create", "get", "apply"]


async def test_what_is_ours_and_on_its_way_out_is_waited_for(cluster: MemoryCluster) -> None:
    cluster.apply_as("us", {**WANTED, "metadata": {**WANTED["metadata"], "finalizers": ["example.com/slow"]}})
    cluster.remove(CONFIG)
    assert await verbs(cluster, FIRST) == (Waiting(CONFIG), ["create", "get"])


async def test_who_is_faster_keeps_what_is_theirs() -> None:
    cluster = Racing()
    answer, _ = await verbs(cluster, FIRST)
    assert isinstance(answer, Conflict)
    assert cluster.live()[CONFIG]["data"] == FOREIGN["data"]


async def test_what_is_gone_before_we_look_is_tried_again() -> None:
    cluster = Brief()
    cluster.apply_as("somebody-else", FOREIGN)
    assert await execute(cluster, FIRST) == Waiting(CONFIG)
    assert isinstance(await execute(cluster, FIRST), Applied)


async def test_what_is_known_is_applied_without_a_look(cluster: MemoryCluster) -> None:
    live = cluster.apply_as("somebody-else", {**WANTED, "data": {"haproxy.cfg": "edited"}})
    answer, requests = await verbs(cluster, Apply(CONFIG, WANTED, OURS, live["metadata"]["uid"], ".data"))
    assert isinstance(answer, Applied)
    assert answer.manifest["data"] == WANTED["data"]
    assert requests == ["apply"]


async def test_another_object_of_that_name_is_left_alone(cluster: MemoryCluster) -> None:
    theirs = cluster.apply_as("somebody-else", FOREIGN)
    answer = await execute(cluster, Apply(CONFIG, WANTED, OURS, "the uid of ours", ".data"))
    assert isinstance(answer, Conflict)
    assert await execute(cluster, Delete(CONFIG, "the uid of ours")) == Deleted(CONFIG)
    assert cluster.live() == {CONFIG: theirs}


async def test_what_was_known_and_is_gone_is_made_anew(cluster: MemoryCluster) -> None:
    answer, requests = await verbs(cluster, Apply(CONFIG, WANTED, OURS, "the uid of ours", ".data"))
    assert isinstance(answer, Applied)
    assert requests == ["apply", "apply"]


async def test_what_is_gone_is_deleted(cluster: MemoryCluster) -> None:
    assert await execute(cluster, Delete(CONFIG, "u")) == Deleted(CONFIG)


@pytest.mark.parametrize("change", [FIRST, Delete(CONFIG, "u")], ids=["apply", "delete"])
async def test_a_rejection_is_an_answer(cluster: MemoryCluster, change: Change) -> None:
    cluster.fail_next(RejectedError("denied by policy"))
    assert await execute(cluster, change) == Rejected(CONFIG, "denied by policy")


@pytest.mark.parametrize("change", [FIRST, Delete(CONFIG, "u")], ids=["apply", "delete"])
async def test_a_fault_is_an_answer_too(cluster: MemoryCluster, change: Change) -> None:
    cluster.fail_next(ClusterError("HTTP 429: too many", request="PATCH /api", retry_after=7))
    assert await execute(cluster, change) == Failed(CONFIG, "HTTP 429: too many", 7)


async def test_what_has_changed_since_it_was_judged_is_not_deleted(cluster: MemoryCluster) -> None:
    judged = cluster.apply_as("us", WANTED)["metadata"]
    edited = cluster.apply_as("somebody-else", {**WANTED, "data": {"haproxy.cfg": "edited"}})
    answer, requests = await verbs(cluster, Delete(CONFIG, judged["uid"], judged["resourceVersion"]))
    assert answer == Failed(CONFIG, "it has changed meanwhile")
    assert sorted(requests) == ["delete", "get"]
    assert cluster.live() == {CONFIG: edited}


async def test_what_is_another_by_now_counts_as_deleted(cluster: MemoryCluster) -> None:
    theirs = cluster.apply_as("somebody-else", FOREIGN)
    assert await execute(cluster, Delete(CONFIG, "the uid of ours", "1")) == Deleted(CONFIG)
    assert cluster.live() == {CONFIG: theirs}


def going(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "uid": "u", "deletionTimestamp": "2026-01-02T03:04:05Z"}}


def test_what_is_on_its_way_out_is_neither_changed_nor_deleted_again() -> None:
    edited = {**WANTED, "data": {"haproxy.cfg": "edited"}}
    assert changes({CONFIG: going(edited)}, {CONFIG: WANTED}, (), OURS) == []
    assert changes({CONFIG: going(WANTED)}, {}, (), OURS) == []


def test_changes_come_in_the_order_of_what_is_wanted_and_deletions_last() -> None:
    desired = planned(inference_deployment(replicas=2)).desired
    assert [change.ref for change in changes({}, desired, (), OURS)] == list(desired)
    extra = Ref(CONFIG.kind, "default", "extra")
    live = {extra: {**WANTED, "metadata": {**WANTED["metadata"], "uid": "u"}}}
    assert changes(live, desired, (), OURS)[-1] == Delete(extra, "u")


def test_a_change_says_where_it_is_needed() -> None:
    live = {**WANTED, "metadata": {**WANTED["metadata"], "uid": "u"}, "data": {"haproxy.cfg": "edited"}}
    assert changes({CONFIG: live}, {CONFIG: WANTED}, (), OURS) == [
        Apply(CONFIG, WANTED, OURS, "u", ".data.haproxy.cfg")
    ]
