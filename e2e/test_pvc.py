"""A model in a folder of a volume that somebody else made; and one in a volume that cannot be mounted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from e2e import stack
from e2e.claim import claim_of, claim_of_model
from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import LocalCluster
from e2e.faults import paused
from e2e.served import Served
from e2e.waiting import eventually
from inference_operator.diagnosis.startup_progress import PHRASES
from inference_operator.engines.base import Phase
from inference_operator.engines.vllm.phase import phase

NAME, FOLDER = "from-volume", "llamas/tiny"
MOUNT_SECONDS = 150
"""The operator waits 60 s for a volume before it asks what keeps it, and asks again every 30 s."""

TOLD_SECONDS = 60
"""The operator looks at a starting engine's log every 15 s, and a busy machine takes its time."""


@pytest.fixture
def claim(cluster: LocalCluster) -> Iterator[str]:
    """A claim of a local disk that holds the tiny model's files."""
    with claim_of_model(cluster, "models", FOLDER) as name:
        yield name


@pytest.fixture
def broken_claim(cluster: LocalCluster) -> Iterator[str]:
    """A claim of a local disk that is not there."""
    with claim_of(cluster, "broken", cluster.volumes / "nosuch") as name:
        yield name


def test_a_model_from_a_volume_answers_and_a_missing_volume_is_reported(
    cluster: LocalCluster, claim: str, broken_claim: str
) -> None:
    """Both are asked for at once, since it takes a minute until a volume is known to be missing."""
    served, stuck = Served(cluster, NAME), Served(cluster, "no-volume")
    _ask(stuck, broken_claim)
    _ask(served, claim)
    try:
        told: list[str] = []
        with ThreadPoolExecutor() as beside:
            ready = beside.submit(stack.wait_ready, cluster, NAME, tell=told.append)
            _hold_until_told(served, told)
            ready.result()
        assert len(served.complete(max_tokens=8).split()) == 8
        _goes_forward(told, _said_by_engine(served))
        _is_told_of_its_volume(stuck)
    finally:
        for one in (served, stuck):
            one.kubectl("delete", f"infd/{one.name}", "--wait=true")
            one.await_gone()


def _ask(served: Served, claim: str) -> None:
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = served.name
    resource["spec"]["model"]["source"] = f"pvc://{claim}/{FOLDER}"
    resource["spec"]["router"] = {"replicas": 1}
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))


def _hold_until_told(served: Served, told: list[str]) -> None:
    """Its steps are shorter than it takes to look at the log again: it stands still in one until that was told."""
    eventually(
        lambda: phase("\n".join(_said_by_engine(served))), seconds=stack.READY_SECONDS, what="the log tells of a step"
    )
    (pod,) = served.pods("engine")
    with paused(served.cluster, pod):
        eventually(
            lambda: any(PHRASES[step] in message for step in Phase for message in told),
            seconds=TOLD_SECONDS,
            what=lambda: f"what the log says is told: {told}",
        )


def _said_by_engine(served: Served) -> list[str]:
    """What its log says so far; nothing before its container runs."""
    try:
        (pod,) = served.pods("engine")
        return served.kubectl("logs", pod, "--container=engine").splitlines()
    except (ValueError, ClusterError):
        return []


def _goes_forward(told: list[str], log: list[str]) -> None:
    """What status told of the start is what the log shows line by line, in its order, each once."""
    print("\n".join(told))  # shown where a test fails, and by `pytest -s`
    words = list(PHRASES.values())
    steps = [step for message in told for step in PHRASES if message.endswith(f" {PHRASES[step]}.")]
    assert set(steps) & set(Phase), f"nothing was told of what the log says: {told}"
    assert [PHRASES[step] for step in steps] == sorted({PHRASES[step] for step in steps}, key=words.index)
    shown = dict.fromkeys(phase("\n".join(log[:number])) for number in range(len(log) + 1))
    in_order = [words.index(PHRASES[one]) for one in shown if one]
    assert in_order == sorted(in_order)
    assert {"sets up its engine", "loads the weights", "warms up"} == {PHRASES[one] for one in shown if one}


def _is_told_of_its_volume(stuck: Served) -> None:
    def condition() -> dict[str, Any] | None:
        found = stack.conditions(stuck.cluster, stuck.name).get("Reconciling", {})
        return found if found.get("reason") == "VolumeUnavailable" else None

    found = eventually(
        condition,
        seconds=MOUNT_SECONDS,
        what=lambda: f"VolumeUnavailable: {stack.conditions(stuck.cluster, stuck.name)}",
    )
    assert found is not None
    assert "a volume cannot be mounted: " in found["message"]
    assert "nosuch" in found["message"]
