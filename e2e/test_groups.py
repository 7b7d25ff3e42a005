"""An engine over two pods: real vLLM over gloo, with the operator and routers around it.

Both pods are on the one node of the cluster, each with its own network and processes. Faults under more load:
`test_group_faults.py`.
"""

import time
from collections.abc import Iterator

import pytest

from e2e.helpers.group_manifests import NAME, START_SECONDS
from e2e.helpers.group_members import MOST_HUNG_SECONDS, OUT_SECONDS, WORKER, kill_engine, ready, restarts, served_pair
from e2e.helpers.served_deployment import PROMPT, Served
from e2e.load import GENTLE_PAUSE_SECONDS, Load, Loss
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say

BEFORE, AFTER = 50, 50


@pytest.fixture
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The sample over two pods, behind two routers."""
    with served_pair(cluster) as served:
        yield served


@pytest.mark.full
def test_two_pods_that_share_each_layer_answer_as_one(cluster: LocalCluster, tiny: Served) -> None:
    with served_pair(cluster, parallelism={"tensor": 2, "pipeline": 1, "nodes": 2}) as served:
        assert served.complete(PROMPT) == tiny.complete(PROMPT)


def test_two_pods_answer_as_one_and_none_serves_once_the_engine_of_one_is_killed(
    served: Served, tiny: Served, say: Say
) -> None:
    assert served.complete(PROMPT) == tiny.complete(PROMPT)
    kill_engine(served, WORKER)
    killed = time.monotonic()
    eventually(lambda: not any(ready(served).values()), seconds=OUT_SECONDS, what="no member is ready")
    say(f"  a worker's engine is killed: unready after {time.monotonic() - killed:.1f} s")


@pytest.mark.full
def test_two_pods_answer_as_one_and_restart_in_place_when_the_engine_of_one_is_killed(
    served: Served, tiny: Served, say: Say
) -> None:
    assert served.complete(PROMPT) == tiny.complete(PROMPT)
    load = Load(served.address, NAME, request_seconds=START_SECONDS)
    load.learn()
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
