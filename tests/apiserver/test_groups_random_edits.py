"""Twenty engines of two pods each through random edits and faults: what holds at every look, and at rest.

At every look: the pod template of a group never changes, no group has more pods than nodes, its pods are on different
nodes, and there are never more groups than engines and a rollout's surge. At rest: as many groups as engines, all of
one template, with all members ready and all leaders in rotation; nothing is written any more; and nothing depends on
what was there before.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.views.draining_node import OUT_OF_SERVICE
from tests.apiserver.test_groups import groups, leaders, members
from tests.apiserver.test_groups_half_placed import POOL, Pool, spec
from tests.testing.workspace import QUIET_SECONDS, Workspace

ENGINES, MEMBERS = 20, 2
NODES, GPUS = 24, 2
"""Room for all engines without the nodes of one fault, and for one engine more."""
SURGE = 2
"""A rollout creates one group more than serve, and the next one just before it deletes the one that this replaces."""
ROUNDS, EDITS = 2, 6
REST_SECONDS = 400
"""A rollout starts one group after the other, and KWOK starts a pod within seconds; on a busy machine."""
TEMPLATE, PLAN = "inference-operator.dev/template", "inference-operator.dev/plan"


@pytest.fixture
def nodes(kubernetes: LocalCluster) -> Iterator[Pool]:
    """The nodes of this test alone."""
    pool = Pool(kubernetes, gpus=GPUS)
    for number in range(NODES):
        pool.add(f"{POOL}-{number}")
    yield pool
    pool.remove()


class Edits:
    """Random edits and faults of one resource, and what has been seen of its groups."""

    def __init__(self, workspace: Workspace, nodes: Pool, seed: int) -> None:
        self._workspace, self._nodes, self._random = workspace, nodes, random.Random(seed)  # noqa: S311 - no secret
        self._templates: dict[str, Any] = {}
        self._lost: list[str] = []
        self.replicas = self.most = ENGINES
        self.done: list[str] = []

    def one(self) -> None:
        """Do one of them."""
        ways: list[Callable[[], None]] = [
            *(self.roll, self.renew, self.scale, self.scale, self.pause, self.to_zero),
            *(self.lose_pod, self.lose_group, self.drift, self.lose_node),
        ]
        way = self._random.choice(ways)
        self.done.append(way.__name__)
        way()

    def roll(self) -> None:
        self._workspace.patch("qwen", {"engine": {"args": [f"--seed={self._random.randrange(99)}"]}})

    def renew(self) -> None:
        noted = {"example.com/renewed": str(self._random.randrange(99))}
        self._workspace.patch("qwen", {"podTemplate": {"annotations": noted}})

    def scale(self) -> None:
        self._scale(self._random.randint(ENGINES // 2, ENGINES))

    def to_zero(self) -> None:
        before = self.replicas
        self._scale(0)
        self._scale(before)

    def pause(self) -> None:
        self._workspace.patch("qwen", {"paused": True})
        self.roll()
        self._workspace.patch("qwen", {"paused": False})

    def lose_pod(self) -> None:
        if found := sorted(members(self._workspace)):
            self._workspace.kubectl(
                "delete", "pod", self._random.choice(found), "--wait=false", "--ignore-not-found", "--force"
            )

    def lose_group(self) -> None:
        if found := sorted(groups(self._workspace)):
            name = self._random.choice(found)
            self._workspace.kubectl("delete", "statefulset", name, "--wait=false", "--ignore-not-found")

    def drift(self) -> None:
        if found := sorted(groups(self._workspace)):
            self._workspace.kubectl("scale", "statefulset", self._random.choice(found), "--replicas=1")

    def lose_node(self) -> None:
        """One node at a time is lost; the one before comes back."""
        while self._lost:
            self._nodes.taint(self._lost.pop(), f"{OUT_OF_SERVICE}-")
        name = f"{POOL}-{self._random.randrange(NODES)}"
        self._nodes.taint(name, f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute")
        self._lost.append(name)

    def _scale(self, replicas: int) -> None:
        self._workspace.kubectl("scale", "infd/qwen", f"--replicas={replicas}")
        self.replicas, self.most = replicas, max(self.most, replicas)

    def look(self) -> None:
        """What holds at any time."""
        found = groups(self._workspace)
        for one in found.values():
            template = one["spec"]["template"]
            assert self._templates.setdefault(one["metadata"]["uid"], template) == template, self.done
        running = [
            one for one in found.values() if one["spec"]["replicas"] and "deletionTimestamp" not in one["metadata"]
        ]
        assert len(running) <= self.most + SURGE, (self.done, sorted(found))
        placed: dict[str, list[str]] = {}
        for pod in self.pods():
            name, _, _ = pod["metadata"]["name"].rpartition("-")
            placed.setdefault(name, []).append(pod["spec"].get("nodeName") or pod["metadata"]["name"])
        for name, on in placed.items():
            assert len(on) == len(set(on)) <= MEMBERS, (self.done, name, on)

    def pods(self) -> list[dict[str, Any]]:
        """The pods of engines that stay."""
        found = self._workspace.all("pod", "inference-operator.dev/name=qwen,app.kubernetes.io/component=engine")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def is_at_rest(self) -> bool:
        """Whether everything is as asked for."""
        self.look()
        resource, found = self._workspace.get("infd", "qwen"), groups(self._workspace)
        told = self._workspace.condition("qwen", "Reconciling")
        current = told.get("observedGeneration") == resource["metadata"]["generation"]
        serving = {f"{name}-0" for name in found}
        ready = [pod for pod in self.pods() if _is_ready(pod)]
        return (
            current
            and told["status"] == "False"
            and len(found) == self.replicas
            and len(ready) == len(self.pods()) == MEMBERS * self.replicas
            and leaders(self._workspace) == serving
        )


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _of_groups(workspace: Workspace) -> set[tuple[str, str, int]]:
    """Template, plan and pods of every group."""
    return {
        (one["spec"]["template"]["metadata"]["annotations"][TEMPLATE], one["metadata"]["annotations"][PLAN], pods)
        for one in groups(workspace).values()
        for pods in (one["spec"]["replicas"],)
    }


def await_rest(edits: Edits, workspace: Workspace) -> None:
    def state() -> str:
        found = {name: one["spec"]["replicas"] for name, one in groups(workspace).items()}
        return f"{edits.replicas} engines after {edits.done}: {found}, {workspace.get('infd', 'qwen')['status']}"

    eventually(edits.is_at_rest, seconds=REST_SECONDS, what=state)
    assert len(_of_groups(workspace)) == 1, "all groups have one template and one plan"


@pytest.mark.full
@pytest.mark.parametrize("seed", [1])
def test_groups_hold_their_invariants_through_random_edits_and_faults(
    workspace: Workspace, nodes: Pool, audit: AuditLog, seed: int
) -> None:
    asked = {**spec(), "replicas": ENGINES}
    workspace.create("qwen", asked)
    edits = Edits(workspace, nodes, seed)
    await_rest(edits, workspace)
    for _ in range(ROUNDS):
        for _ in range(EDITS):
            edits.one()
            edits.look()
        await_rest(edits, workspace)
        edits.most = edits.replicas
        mark, before = audit.quiet(QUIET_SECONDS, namespace=workspace.namespace), members(workspace)
        workspace.kubectl("annotate", "infd", "qwen", f"look={len(edits.done)}", "--overwrite")
        audit.quiet(QUIET_SECONDS, namespace=workspace.namespace)
        assert audit.writes(mark, namespace=workspace.namespace) == [], edits.done
        assert members(workspace) == before, edits.done
        print(f"at rest with {edits.replicas} engines after {edits.done}")  # noqa: T201 - how far a long run is
    last, with_history = workspace.get("infd", "qwen")["spec"], _of_groups(workspace)
    workspace.kubectl("delete", "infd", "qwen")
    eventually(lambda: not groups(workspace) and not edits.pods(), seconds=REST_SECONDS, what="nothing is left over")
    workspace.create("qwen", last)
    await_rest(edits, workspace)
    assert _of_groups(workspace) == with_history, "groups do not depend on what was there before"
