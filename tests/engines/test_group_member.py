"""The program of each member, run as the kubelet runs it: joining, one fate, messages and strangers."""

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.localkube.waiting import eventually
from inference_operator.engines.group.ends import FirstEnd, absent_members, first_end
from inference_operator.engines.group.options import EXIT, LOST, SILENT
from inference_operator.engines.group.peers import LINE_BYTES, MOST_OF_SOURCE, MOST_VISITORS
from tests.engines.group_of_pods import GONE, SERVICE, WAIT_SECONDS, Group, Pod
from tests.testing.hostile_readers import survives

NAMES = [f"qwen-engine-0-{rank}" for rank in range(3)]


@pytest.fixture
def group(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Group]:
    made = Group(tmp_path, **getattr(request, "param", {"size": 2}))
    yield made
    made.close()


def waits(pod: Pod, joined: Sequence[int], missing: Sequence[int]) -> bool:
    """Whether a member waits, and knows for whom."""
    said = {"joined": [NAMES[rank] for rank in joined], "missing": [NAMES[rank] for rank in missing]}
    state = pod.state()
    return {"joined": state.get("joined"), "missing": state.get("missing")} == said and state["phase"] == "waiting"


def alive(pid: object) -> bool:
    try:
        os.kill(int(str(pid)), 0)
    except ProcessLookupError:
        return False
    return True


# Joining


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (2, 1, 0)], ids=lambda order: "-".join(map(str, order)))
@pytest.mark.parametrize("group", [{"size": 3}], indirect=True)
def test_nobody_starts_before_all_have_joined(group: Group, order: Sequence[int]) -> None:
    for count, rank in enumerate(order[:2], start=1):
        group.pods[rank].start()
        here = sorted(order[:count])
        for one in here:
            joined, missing = here, sorted(set(range(3)) - set(here))
            if 0 not in here:
                joined, missing = [], [0]
            known = group.pods[one]
            eventually(
                lambda known=known, joined=joined, missing=missing: waits(known, joined, missing),  # type: ignore[misc]
                seconds=WAIT_SECONDS,
                what=lambda: f"{group.leader.state()}:\n{group.logs()}",
            )
            assert (known.status("/live"), known.status("/ready")) == (200, 503)
        if 0 in here:
            assert absent_members(group.leader.log()) == {NAMES[rank] for rank in range(3) if rank not in here}
    assert not any(pod.started() for pod in group.pods)
    group.pods[order[2]].start()
    group.until_ready()
    assert absent_members(group.leader.log()) == frozenset()
    told = [pod.started() for pod in group.pods]
    assert [one["args"] for one in told] == [
        ["--rank=0", "--size=3", "--leader=127.0.0.1"],
        ["--rank=1", "--headless"],
        ["--rank=2", "--headless"],
    ]
    assert {one["address"] for one in told} == {"127.0.0.1"}
    for pod in group.pods:
        state = pod.state()
        assert (state["phase"], state["joined"], state["missing"], state["size"]) == ("serving", NAMES, [], 3)


def test_a_worker_that_waits_outlives_its_leader(group: Group) -> None:
    group.pods[1].start()
    group.leader.options["size"] = "3"
    group.leader.start()
    eventually(lambda: waits(group.leader, [0, 1], [2]), seconds=WAIT_SECONDS, what=group.logs)
    group.leader.kill()
    eventually(lambda: waits(group.pods[1], [], [0]), seconds=WAIT_SECONDS, what=group.logs)
    group.leader.options["size"] = "2"
    group.leader.start()
    group.until_ready()
    assert group.pods[1].running.poll() is None


@pytest.mark.parametrize("group", [{"size": 3}], indirect=True)
def test_a_worker_that_starts_again_before_go_joins_in_place_of_its_former_self(group: Group) -> None:
    group.leader.start()
    eventually(lambda: group.leader.status("/live") == 200, seconds=WAIT_SECONDS, what=group.logs)
    hello = {"hello": 1, "rank": 1, "name": NAMES[1], "service": SERVICE}
    with group.connect() as former, former.makefile("rb") as lines:
        former.sendall(json.dumps(hello).encode() + b"\n")
        eventually(lambda: waits(group.leader, [0, 1], [2]), seconds=WAIT_SECONDS, what=group.logs)
        group.pods[1].start()
        with suppress(ConnectionError):
            assert b'"go"' not in lines.read()
    group.pods[2].start()
    group.until_ready()


# One fate


@pytest.mark.parametrize("group", [{"size": 3}], indirect=True)
@pytest.mark.parametrize(("first", "status", "code"), [(1, 3, 3), (0, 4, 4), (2, 0, 1)])
def test_all_end_when_one_engine_ends(group: Group, first: int, status: int, code: int) -> None:
    group.serve()
    told = [pod.started() for pod in group.pods]
    group.pods[first].tell("exit", str(status))
    ended = [pod.ended() for pod in group.pods]
    assert ended == [code if rank == first else 1 for rank in range(3)], group.logs()
    said = f"Member {NAMES[first]} ended first: exit status {status}."
    assert [pod.message() for pod in group.pods] == ["" if rank == first else said for rank in range(3)]
    assert first_end(said) == FirstEnd(NAMES[first], EXIT)
    assert f"The engine has ended: exit status {status}\n" in group.pods[first].log()
    assert not any(alive(one[key]) for one in told for key in ("pid", "orphan")), "also what is in a session of its own"
    group.serve()


@pytest.mark.parametrize("first", [0, 1])
def test_all_end_when_a_member_is_killed_and_they_join_again(group: Group, first: int) -> None:
    group.serve()
    group.pods[first].kill()
    other = group.pods[1 - first]
    assert other.ended() == 1
    assert other.message() == f"Member {NAMES[first]} ended first: its connection broke."
    assert first_end(other.message()) == FirstEnd(NAMES[first], LOST)
    other.start()
    eventually(lambda: other.status("/live") == 200, seconds=WAIT_SECONDS, what=group.logs)
    assert (other.status("/ready"), other.started()) == (503, {})
    group.pods[first].start()
    group.until_ready()


@pytest.mark.parametrize("group", [{"size": 2, "silence": "2"}], indirect=True)
@pytest.mark.parametrize("first", [0, 1])
def test_all_end_when_a_member_is_silent(group: Group, first: int) -> None:
    group.serve()
    stopped, other = group.pods[first], group.pods[1 - first]
    stopped.running.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    assert other.ended() == 1
    assert 1 < time.monotonic() - began < 2 + WAIT_SECONDS / 4
    assert other.message() == f"Member {NAMES[first]} has been silent for 2 s."
    assert first_end(other.message()) == FirstEnd(NAMES[first], SILENT)
    stopped.running.send_signal(signal.SIGCONT)
    assert stopped.ended() == 1, "it hears what the others have said, and that it was left"


def test_a_command_that_does_not_exist_ends_the_group(group: Group) -> None:
    group.pods[1].command = ("/no/such/engine",)
    group.start()
    assert [pod.ended() for pod in group.pods] == [1, 127]
    assert group.leader.message() == f"Member {NAMES[1]} ended first: exit status 127."
    assert "The engine cannot be started: " in group.pods[1].log()


@pytest.mark.parametrize("group", [{"size": 2, "start": "1"}], indirect=True)
def test_an_engine_that_is_not_healthy_in_time_ends_the_group(group: Group) -> None:
    group.leader.tell("loads")
    group.start()
    assert [pod.ended() for pod in group.pods] == [1, 1]
    said = f"Member {NAMES[0]} ended first: its engine was not healthy within 1 s."
    assert [pod.message() for pod in group.pods] == ["", said]
    assert said in group.leader.log()


def test_a_group_whose_engine_fails_is_not_ready_and_its_leader_not_alive(group: Group) -> None:
    group.serve()
    worker = group.pods[1]
    group.leader.tell("sick")
    eventually(lambda: worker.status("/ready") == 503, seconds=WAIT_SECONDS, what=group.logs)
    assert [(pod.status("/ready"), pod.status("/live")) for pod in group.pods] == [(503, 503), (503, 200)]
    (group.leader.folder / "sick").unlink()
    group.until_ready()
    assert group.leader.status("/live") == 200


# Strangers


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"x" * (100 * LINE_BYTES),
        b"[" * LINE_BYTES + b"\n",
        b"[]\n",
        b"\xff\xfe\n",
        b'{"go": "10.0.0.1"}\n',
        json.dumps({"hello": 1, "rank": 1, "name": "qwen-engine-1-1", "service": SERVICE}).encode() + b"\n",
        json.dumps({"hello": 1, "rank": 1, "name": NAMES[1], "service": "qwen-engine.other.svc"}).encode() + b"\n",
        json.dumps({"hello": 2, "rank": 1, "name": NAMES[1], "service": SERVICE}).encode() + b"\n",
    ],
    ids=["http", "oversize", "nested", "list", "bytes", "go", "another group", "another service", "another version"],
)
def test_a_stranger_is_dropped_and_the_group_joins(group: Group, said: bytes) -> None:
    group.leader.start()
    eventually(lambda: group.leader.status("/live") == 200, seconds=WAIT_SECONDS, what=group.logs)
    with group.connect() as stranger, suppress(ConnectionError):
        stranger.sendall(said)
        assert stranger.recv(1) == b""
    assert waits(group.leader, [0], [1])
    group.pods[1].start()
    group.until_ready()
    assert group.leader.log().count("\n") == 4, "strangers write nothing into the log"


def test_many_silent_strangers_keep_nobody_out(group: Group) -> None:
    group.leader.start()
    eventually(lambda: group.leader.status("/live") == 200, seconds=WAIT_SECONDS, what=group.logs)
    strangers = [group.connect() for _ in range(2 * MOST_VISITORS)]
    group.pods[1].start()
    group.until_ready()
    for one in strangers:
        one.close()


def test_a_stranger_with_the_name_of_a_member_does_not_end_a_run(group: Group) -> None:
    group.serve()
    with group.connect() as stranger, suppress(ConnectionError):
        stranger.sendall(json.dumps({"hello": 1, "rank": 1, "name": NAMES[1], "service": SERVICE}).encode() + b"\n")
        assert stranger.recv(1) == b""
    assert [pod.status("/ready") for pod in group.pods] == [200, 200]


def test_a_stranger_with_the_name_of_a_member_does_not_join_and_keeps_no_member_out(group: Group) -> None:
    group.leader.start()
    eventually(lambda: group.leader.status("/live") == 200, seconds=WAIT_SECONDS, what=group.logs)
    hello = json.dumps({"hello": 1, "rank": 1, "name": NAMES[1], "service": SERVICE}).encode() + b"\n"
    for _ in range(2):
        with group.connect("127.0.0.2") as stranger, suppress(ConnectionError):
            stranger.sendall(hello)
            assert stranger.recv(1) == b""
    assert waits(group.leader, [0], [1])
    group.pods[1].start()
    group.until_ready()
    assert group.leader.log().count(f"{NAMES[1]} is not taken yet: it comes from 127.0.0.2; DNS has 127.0.0.1") == 1


def test_readers_that_leave_or_stay_keep_no_probe_out_and_leave_nothing_behind(group: Group) -> None:
    group.serve()
    pages = [f"GET {path} HTTP/1.1\r\nHost: pod\r\n\r\n".encode() for path in ("/ready", "/state")]
    hello = json.dumps({"hello": 1, "rank": 1, "name": NAMES[1], "service": SERVICE}).encode() + b"\n"
    pid = group.leader.running.pid
    log = group.leader.log()
    for port, requests in ((group.leader.health, pages), (group.control, [hello])):
        survives(pid, port, requests, lambda: group.leader.status("/ready") == 200, share=MOST_OF_SOURCE, spare=2)
    assert (group.leader.log(), group.pods[1].status("/ready")) == (log, 200)


def test_requests_that_are_none_are_refused(group: Group) -> None:
    group.leader.start()
    eventually(lambda: group.leader.status("/live") == 200, seconds=WAIT_SECONDS, what=group.logs)
    for method, path in (("GET", "/"), ("POST", "/ready"), ("GET", "/drain")):
        assert group.leader.get(path, method)[0] == 400
    assert group.leader.get("/" + "x" * 2 * LINE_BYTES)[0] == GONE
    assert group.leader.status("/live") == 200
