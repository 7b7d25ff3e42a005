"""Where Kubernetes' own controllers and scheduler place members of groups: a part of them, in one rack, and on a node
that is gone."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.views.draining_node import OUT_OF_SERVICE
from inference_operator.views.pod import GROUP_LABEL
from inference_operator.workload.eviction.half_placed import GIVEN_BACK_ANNOTATION
from inference_operator.workload.eviction.lost_nodes import LOST_AFTER
from tests.testing.workspace import QWEN, Workspace

POOL, LATE, GONE = "groups", "groups-late", "groups-gone"
TAINT, LATE_TAINT = ({"key": key, "value": "test", "effect": "NoSchedule"} for key in (POOL, LATE))
RACK = "example.com/rack"
RACKS = 4
"""Of two nodes each: that members are in one by chance happens once in 35 runs."""
UNREACHABLE = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 1,
}
"""Kubernetes deletes the pods of a node that is missed after a second, and not after five minutes."""
SOON_SECONDS = 20
GIVE_BACK_SECONDS = 85
"""60 s of waiting, and one look every 10 s."""
RETRY_SECONDS = 60
"""The first backoff of 30 s, and the start of two pods."""


class Pool:
    """Nodes with as many GPUs each, for one test alone."""

    def __init__(self, kubernetes: LocalCluster, gpus: int = 1) -> None:
        self._kubernetes, self._gpus = kubernetes, str(gpus)
        self._nodes: list[str] = []

    def add(self, name: str, *more: dict[str, str], is_run: bool = True, rack: str = "") -> None:
        """Add a node, with more taints. Without a kubelet that is played, it is ready until it is missed."""
        node = json.loads(self._kubernetes.kubectl("get", "node", "gpu-0", "--output=json"))
        room = {**node["status"]["capacity"], "nvidia.com/gpu": self._gpus}
        labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name, "pool": POOL, RACK: rack or name}
        noted = {"kwok.x-k8s.io/node": "fake", "node.alpha.kubernetes.io/ttl": "0"} if is_run else {}
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "annotations": noted},
            "spec": {"taints": [TAINT, *more]},
            "status": {"capacity": room, "allocatable": room},
        }
        self._nodes.append(name)
        self._kubernetes.kubectl("apply", "--filename=-", input=json.dumps(made))
        if not is_run:
            self.heard_of(name, "True", datetime.now(UTC))

    def heard_of(self, name: str, ready: str, since: datetime) -> None:
        """Say whether a node is ready, and since when, in the place of its kubelet or of who misses it."""
        moment = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        times = {"lastHeartbeatTime": moment, "lastTransitionTime": moment}
        condition = {"type": "Ready", "status": ready, **times, "reason": "Test", "message": "played"}
        status = json.dumps({"status": {"conditions": [condition]}})
        self._kubernetes.kubectl("patch", "node", name, "--subresource=status", "--type=merge", f"--patch={status}")

    def taint(self, name: str, taint: str) -> None:
        self._kubernetes.kubectl("taint", "node", name, taint)

    def remove(self) -> None:
        self._kubernetes.kubectl("delete", "node", "--ignore-not-found", *self._nodes)


@pytest.fixture
def pool(kubernetes: LocalCluster) -> Iterator[Pool]:
    """One node; each test adds more."""
    found = Pool(kubernetes)
    found.add(POOL)
    yield found
    found.remove()


def spec(*tolerations: dict[str, Any], **scheduling: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    where = {"nodeSelector": {"pool": POOL}, "tolerations": [TAINT, *tolerations], **scheduling}
    return {**QWEN, "parallelism": {"tensor": 1, "nodes": 2}, "scheduling": where, "router": {"replicas": 1}}


def nodes_of(workspace: Workspace, name: str) -> dict[str, str]:
    """The nodes of the members that stay, by the uids of the members; empty where one has none."""
    pods = workspace.all("pod", f"inference-operator.dev/name={name},app.kubernetes.io/component=engine")
    staying = (pod for pod in pods if "deletionTimestamp" not in pod["metadata"])
    return {pod["metadata"]["uid"]: pod["spec"].get("nodeName", "") for pod in staying}


def await_placed(workspace: Workspace, name: str, count: int, *, seconds: float = SOON_SECONDS) -> None:
    eventually(
        lambda: sum(map(bool, nodes_of(workspace, name).values())) == count,
        seconds=seconds,
        what=lambda: f"{count} members of {name} have nodes: {nodes_of(workspace, name)}",
    )


def joined(workspace: Workspace, name: str) -> str:
    """What the status says about the members of a group; empty if it says nothing."""
    told = workspace.get("infd", name).get("status", {}).get("message", "")
    members = f"members of group `{name}-engine-0` have joined"
    return f"{told[told.index(members) - len('1 of 2 ') :]}" if members in told else ""


def test_the_status_says_what_each_member_waits_for_until_all_have_a_node(workspace: Workspace, pool: Pool) -> None:
    workspace.create("qwen", spec())
    await_placed(workspace, "qwen", 1)
    eventually(
        lambda: "waits for a node" in joined(workspace, "qwen"),
        seconds=SOON_SECONDS,
        what=lambda: str(workspace.get("infd", "qwen").get("status")),
    )
    placed = next(
        pod["metadata"]["name"][-1]
        for pod in workspace.all("pod", "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine")
        if pod["spec"].get("nodeName")
    )
    start, waits = {
        "0": ("1 of 2", "member 0 waits for 1 member to join; member 1 waits for a node."),
        "1": ("0 of 2", "member 0 waits for a node; member 1 waits for the leader."),
    }[placed]
    said = f"{start} members of group `qwen-engine-0` have joined: {waits}"
    eventually(lambda: joined(workspace, "qwen") == said, seconds=SOON_SECONDS, what=lambda: joined(workspace, "qwen"))
    pool.add("groups-more")
    workspace.settled("qwen")
    eventually(lambda: not joined(workspace, "qwen"), seconds=SOON_SECONDS, what=lambda: joined(workspace, "qwen"))


def record(workspace: Workspace, name: str) -> str:
    noted: dict[str, str] = workspace.get("statefulset", f"{name}-engine-0")["metadata"]["annotations"]
    return noted.get(GIVEN_BACK_ANNOTATION.key, "")


@pytest.mark.full
def test_of_two_half_placed_groups_the_younger_gives_way_and_has_its_turn_later(
    workspace: Workspace, pool: Pool
) -> None:
    workspace.create("able", spec())
    await_placed(workspace, "able", 1)
    pool.add(LATE, LATE_TAINT)
    workspace.create("baker", spec(LATE_TAINT))
    await_placed(workspace, "baker", 1)
    pool.taint(LATE, f"{LATE}-")  # the older group may use that node now, and it is full
    await_placed(workspace, "able", 2, seconds=GIVE_BACK_SECONDS)
    workspace.settled("baker", "Reconciling", "True", "WaitingForOlderGroup", saying="older group `able-engine-0`")
    workspace.settled("able")
    workspace.kubectl("delete", "infd", "able", "--wait=false")
    await_placed(workspace, "baker", 2, seconds=RETRY_SECONDS)
    workspace.settled("baker")
    eventually(lambda: not record(workspace, "baker"), seconds=SOON_SECONDS, what="its record ends")


def test_a_member_on_a_node_that_is_gone_starts_elsewhere_and_the_other_one_stays(
    workspace: Workspace, pool: Pool, audit: AuditLog
) -> None:
    pool.add(GONE, is_run=False)
    workspace.create("qwen", spec())
    await_placed(workspace, "qwen", 2)
    before = nodes_of(workspace, "qwen")
    (lost,) = (uid for uid, node in before.items() if node == GONE)
    mark = audit.mark()
    pool.taint(GONE, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
    pool.add(LATE)
    eventually(
        lambda: sorted(nodes_of(workspace, "qwen").values()) == [POOL, LATE] or None,
        seconds=SOON_SECONDS,
        what=lambda: f"a member elsewhere: {nodes_of(workspace, 'qwen')}",
    )
    workspace.settled("qwen")
    assert set(before) - set(nodes_of(workspace, "qwen")) == {lost}
    deleted = [one for one in audit.writes(mark, namespace=workspace.namespace) if one.verb == "delete"]
    assert {one.resource for one in deleted} == {"pods"}
    assert len({one.name for one in deleted}) == 1  # a second request for it may come before the event of its end


@pytest.mark.full
def test_a_member_on_a_node_that_was_not_ready_for_minutes_starts_elsewhere_once_kubernetes_has_given_it_up(
    workspace: Workspace, pool: Pool, audit: AuditLog
) -> None:
    """The node has no taint of a person. Kubernetes deletes the pod, which no kubelet ends; the operator ends it."""
    pool.add(GONE, is_run=False)
    workspace.create("qwen", spec(UNREACHABLE))
    await_placed(workspace, "qwen", 2)
    before = nodes_of(workspace, "qwen")
    (lost,) = (uid for uid, node in before.items() if node == GONE)
    mark = audit.mark()
    pool.heard_of(GONE, "Unknown", datetime.now(UTC) - LOST_AFTER + timedelta(seconds=SOON_SECONDS))
    workspace.settled(
        "qwen", "Reconciling", "True", "NodeLost", saying=f"is on node `{GONE}`, which has not been ready"
    )
    assert [one for one in audit.writes(mark, namespace=workspace.namespace) if one.verb == "delete"] == []
    pool.add(LATE)
    eventually(
        lambda: sorted(nodes_of(workspace, "qwen").values()) == [POOL, LATE] or None,
        seconds=3 * SOON_SECONDS,
        what=lambda: f"a member elsewhere: {nodes_of(workspace, 'qwen')}",
    )
    workspace.settled("qwen")
    assert set(before) - set(nodes_of(workspace, "qwen")) == {lost}


def test_the_members_of_each_group_are_in_one_rack_and_two_groups_in_two(workspace: Workspace, pool: Pool) -> None:
    racks = {POOL: "0", "groups-0-b": "0"}
    racks |= {f"groups-{number}-{side}": str(number) for number in range(1, RACKS) for side in "ab"}
    for name, rack in racks.items():
        pool.add(name, rack=rack)
    workspace.create("qwen", spec(topologyKey=RACK))
    for count in (1, 2):
        workspace.kubectl("scale", "infd/qwen", f"--replicas={count}")
        await_placed(workspace, "qwen", 2 * count)
        pods = workspace.all("pod", "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine")
        places = {(pod["metadata"]["labels"][GROUP_LABEL], racks[pod["spec"]["nodeName"]]) for pod in pods}
        assert len(places) == len({group for group, _ in places}) == len({rack for _, rack in places}) == count
