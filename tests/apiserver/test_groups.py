"""Engines over several nodes on a real API server, with its StatefulSet controller and simulated nodes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.waiting import eventually
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

PAIR = {**QWEN, "parallelism": {"tensor": 1, "nodes": 2}}
ROLL_SECONDS = 60
EDIT = {"engine": {"args": ["--seed=8"]}}


@pytest.fixture
def pair(workspace: Workspace) -> Workspace:
    """The workspace, in which two engines of two pods each serve."""
    workspace.create("qwen", {**PAIR, "replicas": 2})
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    return workspace


def groups(workspace: Workspace) -> Mapping[str, dict[str, Any]]:
    selector = "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine"
    return {one["metadata"]["name"]: one for one in workspace.all("statefulset", selector)}


def members(workspace: Workspace) -> Mapping[str, str]:
    """The uids of the members that stay, by name."""
    selector = "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine"
    pods = workspace.all("pod", selector)
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]
    }


def leaders(workspace: Workspace) -> set[str]:
    """The pods behind the Service of the engines."""
    selector = "--selector=kubernetes.io/service-name=qwen-engines"
    slices = json.loads(workspace.kubectl("get", "endpointslices", selector, "--output=json"))["items"]
    return {
        end["targetRef"]["name"]
        for one in slices
        for end in one.get("endpoints") or ()
        if end["conditions"].get("ready")
    }


def await_groups(workspace: Workspace, *names: str) -> None:
    eventually(
        lambda: (
            set(groups(workspace)) == set(names)
            and set(members(workspace)) == {f"{name}-{index}" for name in names for index in range(2)}
        ),
        seconds=ROLL_SECONDS,
        what=lambda: f"{names}: {set(groups(workspace))}, {set(members(workspace))}",
    )


def test_each_engine_is_a_group_of_pods_and_only_leaders_get_requests(pair: Workspace) -> None:
    await_groups(pair, "qwen-engine-0", "qwen-engine-1")
    eventually(
        lambda: leaders(pair) == {"qwen-engine-0-0", "qwen-engine-1-0"},
        seconds=20,
        what=lambda: f"both leaders: {leaders(pair)}",
    )
    status = pair.get("infd", "qwen")["status"]
    assert (status["replicas"], status["plan"]["nodes"], status["plan"]["gpusPerReplica"]) == (2, 2, 2)
    scale = json.loads(pair.kubectl("get", "infd", "qwen", "--subresource=scale", "--output=json"))["status"]
    counted = {pod["metadata"]["name"] for pod in pair.all("pod", scale["selector"])}
    assert (scale["replicas"], counted) == (2, {"qwen-engine-0-0", "qwen-engine-1-0"})
    budget = pair.get("pdb", "qwen-engine")["spec"]
    assert (budget["maxUnavailable"], budget["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_fewer_engines_end_whole_groups_and_none_keeps_the_plan(pair: Workspace) -> None:
    pair.kubectl("scale", "infd/qwen", "--replicas=1")
    eventually(lambda: len(groups(pair)) == 1, seconds=ROLL_SECONDS, what="one group")
    plan = next(iter(groups(pair).values()))["metadata"]["annotations"]["inference-operator.dev/plan"]
    pair.kubectl("scale", "infd/qwen", "--replicas=0")
    eventually(lambda: not members(pair), seconds=ROLL_SECONDS, what="no pod")
    (kept,) = groups(pair).values()
    assert (kept["spec"]["replicas"], kept["metadata"]["annotations"]["inference-operator.dev/plan"]) == (0, plan)
    pair.kubectl("scale", "infd/qwen", "--replicas=2")
    pair.settled("qwen", "Reconciling", "False")
    eventually(lambda: len(members(pair)) == 4, seconds=ROLL_SECONDS, what="four pods")


def test_a_rollout_replaces_each_group_and_comes_to_rest(pair: Workspace, audit: AuditLog) -> None:
    old = set(members(pair).values())
    pair.patch("qwen", EDIT)
    eventually(
        lambda: not old & set(members(pair).values()) and len(groups(pair)) == 2,
        seconds=ROLL_SECONDS,
        what=lambda: f"new pods only: {members(pair)}",
    )
    pair.settled("qwen")
    pair.settled("qwen", "Reconciling", "False")
    mark = audit.quiet(QUIET_SECONDS, namespace=pair.namespace)
    pair.kubectl("annotate", "infd", "qwen", "look=again")
    assert audit.quiet(QUIET_SECONDS, namespace=pair.namespace)
    assert [one for one in audit.writes(mark, namespace=pair.namespace) if one.resource == "statefulsets"] == []


def test_a_deleted_member_comes_back_and_the_others_stay(pair: Workspace) -> None:
    before = members(pair)
    pair.kubectl("delete", "pod", "qwen-engine-0-1", "--wait=false")
    eventually(
        lambda: members(pair).get("qwen-engine-0-1", before["qwen-engine-0-1"]) != before["qwen-engine-0-1"],
        seconds=ROLL_SECONDS,
        what="a new pod of that name",
    )
    after = members(pair)
    assert {name for name in before if after.get(name) != before[name]} == {"qwen-engine-0-1"}


def test_an_engine_moves_from_one_node_to_two_and_back_without_a_gap(workspace: Workspace) -> None:
    workspace.create("qwen", {**QWEN, "parallelism": {"tensor": 1}})
    workspace.settled("qwen")
    workspace.patch("qwen", {"parallelism": {"nodes": 2}})
    eventually(
        lambda: not workspace.exists("deployment", "qwen-engine"), seconds=ROLL_SECONDS, what="the Deployment ends"
    )
    await_groups(workspace, "qwen-engine-0")
    workspace.settled("qwen")
    eventually(lambda: leaders(workspace) == {"qwen-engine-0-0"}, seconds=20, what="the leader")
    workspace.patch("qwen", {"parallelism": {"nodes": None}})
    eventually(lambda: not groups(workspace), seconds=ROLL_SECONDS, what="the group ends")
    workspace.settled("qwen")
    eventually(lambda: len(leaders(workspace)) == 1, seconds=20, what="the engine")


def test_a_drifted_group_is_repaired_and_a_deleted_one_comes_back(pair: Workspace) -> None:
    pair.kubectl("scale", "statefulset/qwen-engine-0", "--replicas=1")
    eventually(
        lambda: pair.get("statefulset", "qwen-engine-0")["spec"]["replicas"] == 2,
        seconds=20,
        what="two pods again",
    )
    pair.kubectl("delete", "statefulset", "qwen-engine-1", "--wait=false")
    eventually(lambda: len(groups(pair)) == 2, seconds=ROLL_SECONDS, what="two groups again")
    pair.settled("qwen", "Reconciling", "False")
