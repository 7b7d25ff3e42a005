"""An engine over two pods: real vLLM, pipeline parallel over gloo, with the operator and routers around it.

Both pods are on the one node of the cluster, each with its own network and processes.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from e2e import stack
from e2e.cluster.handle import LocalCluster
from e2e.containers import container_processes, kill_processes
from e2e.group_forms import NAME, START_SECONDS, pair
from e2e.load import GENTLE_PAUSE_SECONDS, Load, Loss
from e2e.said import Say
from e2e.served import PROMPT, Served
from e2e.waiting import eventually

pytestmark = pytest.mark.full  # two starts of two pods take minutes on two cores
LEADER, WORKER = f"{NAME}-engine-0-0", f"{NAME}-engine-0-1"
OUT_SECONDS = 20
"""Limit from the end of a member until the group is not ready; a probe may take so long."""
MOST_HUNG_SECONDS = 30
"""No request waits longer for an answer that a group without a member will never give."""
BEFORE, AFTER = 100, 100


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The sample over two pods, behind two routers."""
    served = Served(cluster, NAME)
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(pair()))
    try:
        stack.wait_ready(cluster, NAME)
        served.await_routers(2)
        yield served
    finally:
        served.kubectl("delete", f"infd/{NAME}", "--wait=true")
        served.await_gone()


@pytest.fixture(scope="module")
def load(served: Served) -> Load:
    """A client with a long timeout, which has learned the right answers."""
    load = Load(served.address, NAME, request_seconds=START_SECONDS)
    load.learn()
    return load


def members(served: Served) -> list[dict[str, Any]]:
    """The pods of the group."""
    selector = f"--selector=inference-operator.dev/name={NAME},app.kubernetes.io/component=engine"
    pods: list[dict[str, Any]] = json.loads(served.kubectl("get", "pods", selector, "--output=json"))["items"]
    return pods


def restarts(served: Served) -> Mapping[str, int]:
    """How often each member's engine has been restarted in its pod, by uid of the pod."""
    return {
        pod["metadata"]["uid"]: status["restartCount"]
        for pod in members(served)
        for status in pod["status"]["containerStatuses"]
        if status["name"] == "engine"
    }


def ready(served: Served) -> Mapping[str, bool]:
    """Whether each member is ready, by name."""
    return {
        pod["metadata"]["name"]: any(
            one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", [])
        )
        for pod in members(served)
    }


def uids(served: Served) -> Mapping[str, str]:
    """The uid of each member that stays, by name."""
    staying = (pod["metadata"] for pod in members(served) if "deletionTimestamp" not in pod["metadata"])
    return {meta["name"]: meta["uid"] for meta in staying}


def evict(served: Served, pod: str) -> None:
    """Evict a pod through the API, as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    served.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(eviction))


def kill_engine(served: Served, pod: str) -> None:
    """Kill the engine in a member's container: every process but the first, which is the operator's program."""
    kill_processes(container_processes(served.cluster, pod, container="engine")[1:])


def test_two_pods_answer_as_one_and_restart_in_place_when_the_engine_of_one_is_killed(
    served: Served, tiny: Served, load: Load, say: Say
) -> None:
    assert served.complete(PROMPT) == tiny.complete(PROMPT)
    before = restarts(served)
    assert len(before) == len(ready(served)) == 2
    with load.phase("a worker is killed", at_least=AFTER, seconds=START_SECONDS, pause=GENTLE_PAUSE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        killed = time.monotonic()
        phase.mark()
        kill_engine(served, WORKER)
        eventually(lambda: not any(ready(served).values()), seconds=OUT_SECONDS, what="no member is ready")
        out = time.monotonic()
        eventually(lambda: all(ready(served).values()), seconds=START_SECONDS, what="both members are ready again")
        again = time.monotonic()
        phase.await_answers(AFTER)
    say(f"  a worker's engine is killed: unready after {out - killed:.1f} s, ready after {again - killed:.1f} s")
    say(f"{phase.result}, longest time without an answer {phase.result.gap:.1f} s")
    assert {uid: count - before[uid] for uid, count in restarts(served).items()} == dict.fromkeys(before, 1)
    assert Loss.DIFFERENT not in {one.loss for one in phase.result.lost}
    assert max((one.seconds for one in phase.result.lost), default=0.0) <= MOST_HUNG_SECONDS


def test_an_evicted_worker_moves_alone_and_no_request_is_lost(served: Served, load: Load, say: Say) -> None:
    before = uids(served)
    served.kubectl("patch", f"infd/{NAME}", "--type=merge", '--patch={"spec":{"scheduling":{"evictionWait":"0s"}}}')
    eventually(
        lambda: "maxUnavailable" in served.kubectl("get", "poddisruptionbudget", f"{NAME}-engine", "--output=yaml"),
        seconds=OUT_SECONDS,
        what="a budget that lets the only group go",
    )
    with load.phase("a worker is evicted", at_least=AFTER, seconds=START_SECONDS, pause=GENTLE_PAUSE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        evict(served, WORKER)
        eventually(
            lambda: uids(served).get(WORKER, before[WORKER]) != before[WORKER] and all(ready(served).values()),
            seconds=2 * START_SECONDS,
            what=lambda: f"a new worker, and a group that serves: {ready(served)}",
        )
        phase.await_answers(AFTER)
    say(f"{phase.result}, longest time without an answer {phase.result.gap:.1f} s")
    assert phase.result.lost == ()
    assert uids(served)[LEADER] == before[LEADER], "only the evicted pod moves"


def test_a_group_heals_while_the_operator_is_down(served: Served, say: Say) -> None:
    def scale_operator(replicas: int) -> None:
        operator = f"deployment/{stack.RELEASE}"
        served.cluster.kubectl("--namespace", stack.SYSTEM, "scale", operator, f"--replicas={replicas}")

    scale_operator(0)
    try:
        before = uids(served)
        killed = time.monotonic()
        kill_engine(served, LEADER)
        eventually(lambda: not any(ready(served).values()), seconds=OUT_SECONDS, what="no member is ready")
        eventually(lambda: all(ready(served).values()), seconds=START_SECONDS, what="both members are ready again")
        say(f"  without an operator: ready {time.monotonic() - killed:.1f} s after the leader's engine was killed")
        assert uids(served) == before
    finally:
        scale_operator(2)
    assert served.complete(PROMPT)
