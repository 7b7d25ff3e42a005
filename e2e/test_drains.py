"""A drain of the node of the only engine under load: with a place for its successor, and without one.

The cluster has one real node. Where the successor shall have a place, the engines tolerate the taint of a cordon, so
that it starts on the same node: eviction, budget, start, shift of traffic and stop are those of two nodes.
`tests/apiserver/test_drains.py` has several nodes and no processes.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from e2e import stack
from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import LocalCluster
from e2e.load import GENTLE_PAUSE_SECONDS, Load, Result
from e2e.offered_gpus import NODE
from e2e.said import Say
from e2e.served import Served
from e2e.waiting import eventually

pytestmark = pytest.mark.full  # three starts of vLLM; tests/apiserver/test_drains.py decides about the same evictions

NAME = "drained"
REQUESTS, AT_MOST = 1000, 200_000
"""Requests of each phase: at least, and a limit that no phase reaches."""
BEFORE, AFTER = 200, 300
"""Requests answered before the cordon and after the move."""
MOVE_SECONDS = 900
"""Limit of a drain: an engine starts on two cores that the load keeps busy, another one stops."""
PATIENT_SECONDS = 310.0
"""The client's timeout: a router holds a request for 300 s at most."""
CORDON = "node.kubernetes.io/unschedulable"
TOLERATION = {"key": CORDON, "operator": "Exists", "effect": "NoSchedule"}

Drain = Callable[[str, Callable[[], None]], Result]


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The sample, with engines that may start on a cordoned node."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    resource["spec"]["scheduling"] = {"tolerations": [TOLERATION]}
    served = Served(cluster, NAME)
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        stack.wait_ready(cluster, NAME)
        served.await_routers(2)
        yield served
    finally:
        cluster.kubectl("uncordon", NODE)
        served.kubectl("delete", f"infd/{NAME}", "--wait=true")
        served.await_gone()


@pytest.fixture(scope="module")
def load(served: Served) -> Load:
    """A client with a long timeout, which has learned the right answers."""
    load = Load(served.address, NAME, request_seconds=PATIENT_SECONDS)
    load.learn()
    return load


@pytest.fixture
def drain(served: Served, load: Load, say: Say) -> Drain:
    """Cordons the node, evicts the engine until that is allowed, does more, and makes the node whole again."""

    def _drain(name: str, after: Callable[[], None]) -> Result:
        pause = GENTLE_PAUSE_SECONDS
        with load.phase(name, at_least=REQUESTS, seconds=2 * MOVE_SECONDS, at_most=AT_MOST, pause=pause) as phase:
            phase.await_answers(BEFORE)
            phase.mark()
            (first,) = _engines(served)
            served.cluster.kubectl("cordon", NODE)
            refused = _evict(served, first)
            after()
            served.cluster.kubectl("uncordon", NODE)
            eventually(
                lambda: len(_engines(served)) == _ready(served) == 1 and first not in served.pods("engine"),
                seconds=MOVE_SECONDS,
                what=lambda: f"another engine alone: {_engines(served)}",
            )
            phase.await_answers(AFTER)
        say(f"{phase.result}, {refused} evictions refused, longest time without an answer {phase.result.gap:.1f} s")
        for line in phase.result.losses()[:4]:
            say(f"  {line}")
        assert refused >= 1, "the budget is there before the cordon"
        return phase.result

    return _drain


def test_a_drain_of_the_only_engine_with_a_place_for_its_successor_loses_no_request(
    served: Served, drain: Drain
) -> None:
    def serves() -> None:
        assert _ready(served) >= 1, "the successor serves when the eviction is allowed"

    result = drain("drain of 1 engine, a place is free", serves)
    assert result.ok == result.sent >= REQUESTS


def test_a_drain_without_a_place_goes_on_after_a_while_and_routers_hold_the_requests(
    served: Served, drain: Drain
) -> None:
    (before,) = _engines(served)
    patch = json.dumps({"spec": {"scheduling": None}})
    served.kubectl("patch", "infd", NAME, "--type=merge", f"--patch={patch}")
    eventually(
        lambda: before not in served.pods("engine") and len(_engines(served)) == _ready(served) == 1,
        seconds=MOVE_SECONDS,
        what=lambda: f"an engine that tolerates no cordon: {_engines(served)}",
    )
    result = drain("drain of 1 engine, no place is free", lambda: None)
    assert result.ok == result.sent >= REQUESTS, "routers hold requests for up to 300 s"
    assert result.gap < PATIENT_SECONDS


def _evict(served: Served, pod: str) -> int:
    """Evict a pod as `kubectl drain` does: again and again, until it is allowed; returns how often it was refused."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    refused = 0

    def allowed() -> bool:
        nonlocal refused
        try:
            served.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(eviction))
        except ClusterError as error:
            if "disruption budget" not in str(error):
                return "not found" in str(error)  # the operator has ended it
            refused += 1
            return False
        return True

    eventually(allowed, seconds=MOVE_SECONDS, what=lambda: f"the eviction is allowed: {_status(served)}")
    return refused


def _engines(served: Served) -> list[str]:
    """The engines that are not being deleted."""
    selector = f"--selector=inference-operator.dev/name={NAME},app.kubernetes.io/component=engine"
    found = json.loads(served.kubectl("get", "pods", selector, "--output=json"))
    return [pod["metadata"]["name"] for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]


def _status(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(served.kubectl("get", "infd", NAME, "--output=json"))["status"]
    return found


def _ready(served: Served) -> int:
    return int(_status(served)["readyReplicas"])
