"""Faults of an engine over two pods under load: ends, silence, evictions, a rollout, other replicas.

Every answer must be right. A request is lost only if its engine ended under it, or if it was sent before routers could
know. Routers hold requests while no engine serves: none waits longer than that and `MOST_HUNG_SECONDS`.
"""

import json
from collections.abc import Iterator

import pytest

from e2e.deploy import stack
from e2e.helpers.change_under_load import LoadedChange, UnderLoad
from e2e.helpers.faults import cut_off
from e2e.helpers.group_manifests import NAME, START_SECONDS
from e2e.helpers.group_members import (
    LEADER,
    MOST_HUNG_SECONDS,
    OUT_SECONDS,
    WORKER,
    evict,
    kill_engine,
    members,
    ready,
    restarts,
    served_pair,
    uids,
)
from e2e.helpers.served_deployment import PROMPT, Served
from e2e.load import Load, Loss, Result
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say

pytestmark = pytest.mark.full  # each fault is a start of two pods on two cores
SILENT_OUT_SECONDS = 40
"""Limit from the first lost packet until the group is not ready: the silence of 10 s, the end of both, a probe."""
REQUESTS = 2000
"""Requests of each phase, at least."""
BEFORE, AFTER = 500, 500
PHASE_SECONDS = 3 * START_SECONDS


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The sample over two pods, behind two routers. A member may be evicted at once, without a successor."""
    with served_pair(cluster, scheduling={"evictionWait": "0s"}) as served:
        yield served


@pytest.fixture(scope="module")
def load(served: Served) -> Load:
    """64 clients with a long timeout, which have learned the right answers."""
    load = Load(served.address, NAME, request_seconds=START_SECONDS)
    load.learn()
    return load


@pytest.fixture
def under_load(load: Load, say: Say) -> UnderLoad:
    """Does something under load."""
    return LoadedChange(load, say, REQUESTS, PHASE_SECONDS, BEFORE, AFTER)


def await_restart(served: Served, out_seconds: float = OUT_SECONDS) -> None:
    """Wait until no member is ready, and then until both are."""
    eventually(lambda: not any(ready(served).values()), seconds=out_seconds, what="no member is ready")
    _await_ready(served)


def _await_ready(served: Served) -> None:
    eventually(
        lambda: len(ready(served)) == len(uids(served)) and all(ready(served).values()),
        seconds=START_SECONDS,
        what=lambda: f"all members are ready: {ready(served)}",
    )


def assert_only_its_own_are_lost(result: Result, out_seconds: float = OUT_SECONDS) -> None:
    """Assert that no answer is wrong, no request hung, and only requests of the engine that ended are lost."""
    assert Loss.DIFFERENT not in {one.loss for one in result.lost}
    assert max((one.seconds for one in result.lost), default=0.0) <= MOST_HUNG_SECONDS
    assert result.fault is not None
    assert [one for one in result.lost if one.ended < result.fault] == []
    assert [one for one in result.lost if one.started > result.fault + out_seconds] == []
    assert_none_hung(result)


def assert_none_hung(result: Result) -> None:
    """Assert that each answer came soon after there was an engine for it."""
    assert result.slowest <= result.gap + MOST_HUNG_SECONDS


def assert_no_request_notices(result: Result) -> None:
    """Assert that all requests are answered, and soon."""
    assert result.lost == ()
    assert result.slowest <= MOST_HUNG_SECONDS


@pytest.mark.parametrize("pod", [LEADER, WORKER])
def test_the_members_of_a_killed_one_start_again_in_their_pods(served: Served, under_load: UnderLoad, pod: str) -> None:
    before = restarts(served)

    def kill() -> None:
        kill_engine(served, pod)
        await_restart(served)

    assert_only_its_own_are_lost(under_load(f"{pod} is killed", kill))
    assert {uid: count - before[uid] for uid, count in restarts(served).items()} == dict.fromkeys(before, 1)


def test_a_member_that_no_packet_reaches_ends_with_the_others(served: Served, under_load: UnderLoad) -> None:
    before = uids(served)

    def silence() -> None:
        others = [one["status"]["podIP"] for one in members(served) if one["metadata"]["name"] == LEADER]
        with cut_off(served.cluster, WORKER, others, container="engine"):
            eventually(lambda: not ready(served)[LEADER], seconds=SILENT_OUT_SECONDS, what="the leader is not ready")
        _await_ready(served)

    assert_only_its_own_are_lost(under_load("packets of a worker are dropped", silence), SILENT_OUT_SECONDS)
    assert uids(served) == before, "both restart in place"


@pytest.mark.parametrize(("pod", "stays"), [(WORKER, LEADER), (LEADER, WORKER)])
def test_an_evicted_member_moves_alone_and_no_request_is_lost(
    served: Served, under_load: UnderLoad, pod: str, stays: str
) -> None:
    before = uids(served)

    def drain() -> None:
        evict(served, pod)
        eventually(
            lambda: uids(served).get(pod, before[pod]) != before[pod] and all(ready(served).values()),
            seconds=2 * START_SECONDS,
            what=lambda: f"a new member, and a group that serves: {ready(served)}",
        )

    result = under_load(f"{pod} is evicted", drain)
    assert result.lost == ()
    assert_none_hung(result)
    assert uids(served)[stays] == before[stays], "only the evicted pod moves"


def test_a_group_heals_while_the_operator_is_down(served: Served, under_load: UnderLoad) -> None:
    before = uids(served)

    def scale_operator(replicas: int) -> None:
        operator = f"deployment/{stack.RELEASE}"
        served.cluster.kubectl("--namespace", stack.SYSTEM, "scale", operator, f"--replicas={replicas}")

    def kill() -> None:
        kill_engine(served, LEADER)
        await_restart(served)

    scale_operator(0)
    try:
        assert_only_its_own_are_lost(under_load("a leader is killed, without an operator", kill))
        assert uids(served) == before
    finally:
        scale_operator(2)
    assert served.complete(PROMPT)


def test_a_rollout_of_a_group_loses_no_request(served: Served, under_load: UnderLoad) -> None:
    old = set(uids(served).values())

    def roll() -> None:
        env = json.loads(served.kubectl("get", f"infd/{NAME}", "--output=json"))["spec"]["engine"]["env"]
        change = {"spec": {"engine": {"env": [*env, {"name": "ROLLED", "value": "yes"}]}}}
        served.kubectl("patch", f"infd/{NAME}", "--type=merge", f"--patch={json.dumps(change)}")
        eventually(
            lambda: len(members(served)) == 2 and not old & set(uids(served).values()) and all(ready(served).values()),
            seconds=2 * START_SECONDS,
            what=lambda: f"two new members: {ready(served)}",
        )

    assert_no_request_notices(under_load("a group is rolled", roll))


def test_of_two_groups_one_is_killed_and_the_other_serves_on(served: Served, under_load: UnderLoad) -> None:
    def scale(groups: int) -> None:
        served.kubectl("scale", f"infd/{NAME}", f"--replicas={groups}")
        _await_members(served, 2 * groups)

    def kill() -> None:
        kill_engine(served, LEADER)
        eventually(lambda: not ready(served)[LEADER], seconds=OUT_SECONDS, what="the leader is not ready")
        _await_members(served, 4)

    assert_no_request_notices(under_load("a second group comes", lambda: scale(2)))
    result = under_load("one of two groups is killed", kill)
    assert_only_its_own_are_lost(result)
    assert result.gap <= MOST_HUNG_SECONDS, "the other one answers meanwhile"
    assert_no_request_notices(under_load("the second group goes", lambda: scale(1)))


def _await_members(served: Served, number: int) -> None:
    eventually(
        lambda: len(members(served)) == number and all(ready(served).values()),
        seconds=2 * START_SECONDS,
        what=lambda: f"{number} members: {ready(served)}",
    )
