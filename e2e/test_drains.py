"""Drains under load: of the only engine, with a place for its successor and without, and of the only router.

`tests/apiserver/test_drains.py` has many nodes, the same evictions and no processes.
"""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from e2e import images
from e2e.deploy import stack
from e2e.helpers.node_status_gpus import NODE
from e2e.helpers.openai_clients import openai_clients
from e2e.helpers.served_deployment import Served
from e2e.load import GENTLE_PAUSE_SECONDS, Fault, Load
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.second_node import NAME as SECOND_NODE
from e2e.localkube.second_node import second_node
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say

pytestmark = pytest.mark.full  # six starts of vLLM

NAME = "drained"
REQUESTS, AT_MOST = 1000, 200_000
"""Requests of each phase: at least, and a limit that no phase reaches."""
BEFORE, AFTER = 200, 300
"""Requests answered before the cordon and after the move."""
MOVE_SECONDS = 900
"""Limit of a drain: an engine starts on two cores that the load keeps busy, another one stops."""
CLOSED = "e2e.inference-operator.dev/closed"
"""A taint that keeps pods away from the second node."""
LATE_SECONDS = 14
"""How long it does in a drain: over 10 s, and less than `surgeWaitSeconds`."""
OPENAI_CLIENTS = 4
PATIENT_SECONDS = 310.0
"""The client's timeout: a router holds a request for 300 s at most."""


@pytest.fixture
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The sample, whose node is whole again after the test."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    served = Served(cluster, NAME)
    try:
        with served.serving(resource):
            yield served
    finally:
        cluster.kubectl("uncordon", NODE)
        served.await_left()


@pytest.fixture(scope="module")
def second(cluster: LocalCluster) -> Iterator[str]:
    """The name of another node, which has the images."""
    with second_node(cluster) as other:
        for image in images.STACK:
            stack.load(other, image)
        yield SECOND_NODE


@pytest.fixture
def closed(cluster: LocalCluster, second: str) -> str:
    """The same: no pod of the service starts there before the test opens it."""
    cluster.kubectl("taint", "node", second, f"{CLOSED}=true:NoSchedule", "--overwrite")
    return second


def test_a_drain_without_a_place_goes_on_after_a_while_and_routers_hold_the_requests(served: Served, say: Say) -> None:
    load = Load(served.address, NAME, request_seconds=PATIENT_SECONDS)
    load.learn()
    pause, name = GENTLE_PAUSE_SECONDS, "drain of 1 engine, no place is free"
    with load.phase(name, at_least=REQUESTS, seconds=2 * MOVE_SECONDS, at_most=AT_MOST, pause=pause) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        (first,) = _engines(served)
        served.cluster.kubectl("cordon", NODE)
        refused = _evict(served, first)
        served.cluster.kubectl("uncordon", NODE)
        eventually(
            lambda: len(_engines(served)) == _ready(served) == 1 and first not in served.pods("engine"),
            seconds=MOVE_SECONDS,
            what=lambda: f"another engine alone: {_engines(served)}",
        )
        phase.await_answers(AFTER)
    result = phase.result
    say(f"{result}, {refused} evictions refused, longest time without an answer {result.gap:.1f} s")
    for line in result.losses()[:4]:
        say(f"  {line}")
    assert refused >= 1, "the budget is there before the cordon"
    assert result.ok == result.sent >= REQUESTS, "routers hold requests for up to 300 s"
    assert result.gap < PATIENT_SECONDS


def test_a_drain_with_a_place_starts_the_successor_first_and_loses_no_request(
    closed: str, served: Served, say: Say
) -> None:
    load = Load(served.address, NAME)
    load.learn()
    name = "drain of 1 engine and 2 routers, another node has room"
    _open(served, closed)
    with (
        openai_clients(served, OPENAI_CLIENTS) as answers,
        load.phase(name, at_least=REQUESTS, seconds=MOVE_SECONDS, at_most=AT_MOST) as phase,
    ):
        phase.await_answers(BEFORE)
        phase.mark()
        said = served.kubectl(*_drain())
        _await_all_on(served, closed)
        phase.await_answers(AFTER)
    result = phase.result
    say(f"{result}, longest time without an answer {result.gap:.1f} s, {said.count('evicting pod')} requests to evict")
    say(f"  openai clients: {answers.right} answers, {len(answers.failures)} failures {answers.failures[:3]}")
    for line in result.losses()[:4]:
        say(f"  {line}")
    assert result.beyond(Fault.DRAIN_NODE) == ()
    assert result.ok == result.sent >= REQUESTS
    assert answers.right >= OPENAI_CLIENTS
    assert not answers.failures


def test_a_drain_starts_the_successor_of_the_only_router_first_on_a_node_that_comes_late(
    closed: str, served: Served, say: Say
) -> None:
    """The node takes pods later than a stopping router takes connections."""
    served.kubectl("patch", "infd", NAME, "--type=merge", '--patch={"spec": {"router": {"replicas": 1}}}')
    served.await_routers(1)
    load = Load(served.address, NAME)
    load.learn()
    name = "drain of 1 engine and 1 router, another node comes late"
    with (
        ThreadPoolExecutor(1) as beside,
        load.phase(name, at_least=REQUESTS, seconds=MOVE_SECONDS, at_most=AT_MOST) as phase,
    ):
        phase.await_answers(BEFORE)
        phase.mark()
        drain = beside.submit(served.kubectl, *_drain())
        time.sleep(LATE_SECONDS)
        assert NODE in _nodes(served, "router"), "no eviction was allowed"
        assert not drain.done()
        _open(served, closed)
        drain.result()
        _await_all_on(served, closed)
        served.await_routers(1)
        phase.await_answers(AFTER)
    result = phase.result
    say(f"{result}, longest time without an answer {result.gap:.1f} s")
    for line in result.losses()[:4]:
        say(f"  {line}")
    assert result.ok == result.sent >= REQUESTS


def _open(served: Served, node: str) -> None:
    """Let pods start on the second node."""
    served.cluster.kubectl("taint", "node", node, f"{CLOSED}-")


def _await_all_on(served: Served, node: str) -> None:
    eventually(lambda: _nodes(served) == {node}, seconds=MOVE_SECONDS, what=lambda: f"{_nodes(served)}")


def _drain() -> tuple[str, ...]:
    """The command that drains the first node of the service's pods."""
    pods = f"--pod-selector=inference-operator.dev/name={NAME}"
    return ("drain", NODE, pods, "--delete-emptydir-data", f"--timeout={MOVE_SECONDS}s")


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


def _nodes(served: Served, *components: str) -> set[str]:
    """The nodes of its pods that are not being deleted; of all components, or of some."""
    of = f",app.kubernetes.io/component in ({','.join(components)})" if components else ""
    selector = f"--selector=inference-operator.dev/name={NAME}{of}"
    found = json.loads(served.kubectl("get", "pods", selector, "--output=json"))
    living = [pod for pod in found["items"] if "deletionTimestamp" not in pod["metadata"]]
    return {pod["spec"].get("nodeName", "") for pod in living}


def _status(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(served.kubectl("get", "infd", NAME, "--output=json"))["status"]
    return found


def _ready(served: Served) -> int:
    return int(_status(served)["readyReplicas"])
