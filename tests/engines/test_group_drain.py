"""The program of each member, run as the kubelet runs it: its drain and its end in order."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.localkube.waiting import eventually
from tests.engines.group_of_pods import WAIT_SECONDS, Group

SAID = "Member qwen-engine-0-{} was stopped."


@pytest.fixture
def group(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    made = Group(tmp_path, **getattr(request, "param", {"size": 2}))
    yield made
    made.close()


@contextmanager
def request_in_flight(group: Group) -> Iterator[list[tuple[int, str]]]:
    """A request that the leader's engine computes until it is told to end it; its answer, after the block."""
    port, answers = int(group.leader.options["port"]), list[tuple[int, str]]()
    client = threading.Thread(target=lambda: answers.append(group.leader.get("/slow", port=port)))
    client.start()
    counted = lambda: "} 1.0" in group.leader.get("/metrics", port=port)[1]  # noqa: E731
    eventually(counted, seconds=WAIT_SECONDS, what="a request runs")
    try:
        yield answers
    finally:
        group.leader.tell("release")
        client.join(WAIT_SECONDS)


def ready(group: Group) -> list[int]:
    return [pod.status("/ready") for pod in group.pods]


# Drain


@pytest.mark.parametrize("asked", [0, 1])
def test_a_drain_of_any_member_takes_all_out_of_rotation_and_waits_for_the_requests(group: Group, asked: int) -> None:
    group.serve()
    with request_in_flight(group) as answers:
        hook = group.pods[asked].drains()
        eventually(lambda: ready(group) == [503, 503], seconds=WAIT_SECONDS, what=group.logs)
        assert {str(pod.state()["phase"]) for pod in group.pods} == {"draining"}
        assert [pod.status("/live") for pod in group.pods] == [200, 200]
        assert (hook.poll(), answers) == (None, [])
    assert answers == [(200, "whole")]
    assert hook.wait(WAIT_SECONDS) == 0
    assert ready(group) == [503, 503], "it is drained until it ends"
    group.pods[asked].running.terminate()
    assert [pod.ended() for pod in group.pods] == [0 if rank == asked else 1 for rank in range(2)], group.logs()
    assert group.pods[1 - asked].message() == SAID.format(asked)
    group.serve()


@pytest.mark.parametrize("group", [{"size": 2, "waits": None}], indirect=True, ids=["as in a cluster"])
def test_several_hooks_wait_for_the_same_drain(group: Group) -> None:
    group.serve()
    with request_in_flight(group):
        hooks = [pod.drains() for pod in group.pods]
        eventually(lambda: ready(group) == [503, 503], seconds=WAIT_SECONDS, what=group.logs)
        assert [hook.poll() for hook in hooks] == [None, None]
    assert [hook.wait(WAIT_SECONDS) for hook in hooks] == [0, 0]
    for pod in group.pods:
        pod.running.terminate()
    assert [pod.ended() for pod in group.pods] == [0, 0]


@pytest.mark.parametrize("group", [{"size": 2, "drain": "1"}], indirect=True)
def test_a_drain_ends_at_its_limit(group: Group) -> None:
    group.serve()
    with request_in_flight(group) as answers:
        assert group.pods[1].drains().wait(WAIT_SECONDS) == 0
        assert answers == []


def test_there_is_nothing_to_wait_for_while_a_group_waits_or_loads_and_it_ends_at_once(group: Group) -> None:
    leader, worker = group.pods
    assert leader.drains().wait(WAIT_SECONDS) == 0, "no container runs"
    worker.start()
    eventually(lambda: worker.status("/live") == 200, seconds=WAIT_SECONDS, what=group.logs)
    assert worker.drains().wait(WAIT_SECONDS) == 0, "no leader is there"
    leader.tell("loads")
    leader.start()
    loads = lambda: all(pod.started() for pod in group.pods)  # noqa: E731
    eventually(loads, seconds=WAIT_SECONDS, what=group.logs)
    for pod in group.pods:
        assert pod.drains().wait(WAIT_SECONDS) == 0, "no request is there"
    worker.running.terminate()
    assert [pod.ended() for pod in group.pods] == [1, 0], "the engine would not hear SIGTERM"
    assert leader.message() == SAID.format(1)


def test_a_drain_that_nobody_waits_for_any_more_ends(group: Group) -> None:
    group.serve()
    assert group.pods[1].drains().wait(WAIT_SECONDS) == 0
    assert ready(group)[0] == 503
    group.until_ready()
    assert "Nobody waits for the drain any more" in group.leader.log()


# SIGTERM


@pytest.mark.parametrize("asked", [0, 1])
def test_sigterm_to_any_member_lets_the_leader_finish_first(group: Group, asked: int) -> None:
    """Also a request that came after the drain: it needs all members until its end."""
    group.serve()
    with request_in_flight(group) as answers:
        group.pods[asked].running.terminate()
        stopping = group.leader.folder / "stopping"
        eventually(stopping.exists, seconds=WAIT_SECONDS, what=group.logs)
        assert ready(group)[0] == 503
        assert [pod.running.poll() for pod in group.pods] == [None, None]
    assert answers == [(200, "whole")]
    assert [pod.ended() for pod in group.pods] == [0 if rank == asked else 1 for rank in range(2)], group.logs()
    assert [pod.message() for pod in group.pods] == ["" if rank == asked else SAID.format(asked) for rank in range(2)]


@pytest.mark.parametrize("group", [{"size": 2, "stop": "1"}], indirect=True)
def test_an_engine_that_does_not_finish_in_time_is_killed(group: Group) -> None:
    group.serve()
    with request_in_flight(group) as answers:
        for pod in group.pods:
            pod.running.terminate()
        assert [pod.ended() for pod in group.pods] == [0, 0]
    assert answers == [(0, "")]


@pytest.mark.parametrize("asked", [0, 1])
def test_a_member_that_waits_ends_alone(group: Group, asked: int) -> None:
    group.leader.options["size"] = "3"
    group.start()
    joined = lambda: bool(group.leader.state()) and len(list(group.leader.state()["joined"])) == 2  # type: ignore[call-overload] # noqa: E731
    eventually(joined, seconds=WAIT_SECONDS, what=group.logs)
    group.pods[asked].running.send_signal(signal.SIGTERM)
    assert group.pods[asked].ended() == 0
    assert group.pods[1 - asked].status("/live") == 200
    assert group.pods[1 - asked].state()["phase"] == "waiting"
