"""A model in a folder of an existing volume, and one in a volume that cannot be mounted."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.faults import paused
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of, claim_of_model
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.diagnosis.startup_progress import PHRASES
from inference_operator.engines.start_log import Phase
from inference_operator.engines.vllm.start_log import phase

NAME, FOLDER = "from-volume", "llamas/tiny"
MOUNT_SECONDS = 150
"""The operator waits 60 s for a volume before it reads the pod's Events, and reads them again every 30 s."""

REPORTED_SECONDS = 60
"""The operator reads a starting engine's log every 15 s; the rest is a margin for a busy machine."""


@pytest.fixture
def claim(cluster: LocalCluster) -> Iterator[str]:
    """A claim of a local disk that holds the tiny model's files."""
    with claim_of_model(cluster, "models", FOLDER) as name:
        yield name


@pytest.fixture
def broken_claim(cluster: LocalCluster) -> Iterator[str]:
    """A claim of a local folder that does not exist."""
    with claim_of(cluster, "broken", cluster.volumes / "nosuch") as name:
        yield name


@pytest.mark.full  # e2e/test_inspection.py serves from a volume too
def test_a_model_from_a_volume_answers_and_a_missing_volume_is_reported(
    cluster: LocalCluster, claim: str, broken_claim: str
) -> None:
    """Both are applied at once, since it takes a minute until the operator reports a missing volume."""
    served, stuck = Served(cluster, NAME), Served(cluster, "no-volume")
    _apply(stuck, broken_claim)
    _apply(served, claim)
    try:
        messages: list[str] = []
        with ThreadPoolExecutor() as pool:
            ready = pool.submit(stack.wait_ready, cluster, NAME, tell=messages.append)
            _pause_until_reported(served, messages)
            ready.result()
        assert len(served.complete(max_tokens=8).split()) == 8
        _check_steps(messages, _engine_log(served))
        _await_volume_message(stuck)
    finally:
        for resource in (served, stuck):
            resource.kubectl("delete", f"infd/{resource.name}", "--wait=true")
            resource.await_gone()


def _apply(served: Served, claim: str) -> None:
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = served.name
    resource["spec"]["model"]["source"] = f"pvc://{claim}/{FOLDER}"
    resource["spec"]["router"] = {"replicas": 1}
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))


def _pause_until_reported(served: Served, messages: list[str]) -> None:
    """Pause the engine in a step until the status reports it: steps are shorter than the time between two log reads."""
    eventually(lambda: phase("\n".join(_engine_log(served))), seconds=stack.READY_SECONDS, what="the log shows a step")
    (pod,) = served.pods("engine")
    with paused(served.cluster, pod):
        eventually(
            lambda: any(PHRASES[step] in message for step in Phase for message in messages),
            seconds=REPORTED_SECONDS,
            what=lambda: f"the status reports the step of the log: {messages}",
        )


def _engine_log(served: Served) -> list[str]:
    """The lines of the engine's log so far; none before its container runs."""
    try:
        (pod,) = served.pods("engine")
        return served.kubectl("logs", pod, "--container=engine").splitlines()
    except (ValueError, ClusterError):
        return []


def _check_steps(messages: list[str], log: list[str]) -> None:
    """Assert that the status reported steps of the log, each once and in the log's order."""
    print("\n".join(messages))  # shown when the test fails, and by `pytest -s`
    words = list(PHRASES.values())
    steps = [step for message in messages for step in PHRASES if message.endswith(f" {PHRASES[step]}.")]
    assert set(steps) & set(Phase), f"no message reports a step of the log: {messages}"
    assert [PHRASES[step] for step in steps] == sorted({PHRASES[step] for step in steps}, key=words.index)
    shown = dict.fromkeys(phase("\n".join(log[:number])) for number in range(len(log) + 1))
    in_order = [words.index(PHRASES[step]) for step in shown if step]
    assert in_order == sorted(in_order)
    assert {"sets up its engine", "loads the weights", "warms up"} == {PHRASES[step] for step in shown if step}


def _await_volume_message(stuck: Served) -> None:
    def condition() -> dict[str, Any] | None:
        reconciling = stack.conditions(stuck.cluster, stuck.name).get("Reconciling", {})
        return reconciling if reconciling.get("reason") == "VolumeUnavailable" else None

    reported = eventually(
        condition,
        seconds=MOUNT_SECONDS,
        what=lambda: f"VolumeUnavailable: {stack.conditions(stuck.cluster, stuck.name)}",
    )
    assert reported is not None
    assert "a volume cannot be mounted: " in reported["message"]
    assert "nosuch" in reported["message"]
