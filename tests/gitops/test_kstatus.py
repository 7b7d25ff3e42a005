"""What kstatus says of every state: the library with which Helm 4 and Flux decide whether a resource is ready."""

import json
import subprocess
from collections.abc import Sequence

import pytest

from e2e.go_modules import ensure_kstatus
from inference_operator.manifest import Manifest
from tests.gitops.recorded import recorded
from tests.status.test_states import STATES


def kstatus(objects: Sequence[Manifest]) -> list[str]:
    """The status of each object, from the library itself."""
    done = subprocess.run(
        [ensure_kstatus()], input=json.dumps(objects), check=True, capture_output=True, text=True, timeout=60
    )
    return [found["status"] for found in json.loads(done.stdout)]


def expected(found: Manifest) -> str:
    """Failed if waiting does not help, Current if nothing is left to do and requests are answered."""
    ready, reconciling, stalled = (condition["status"] for condition in found["status"]["conditions"][:3])
    if stalled == "True":
        return "Failed"
    return "Current" if (ready, reconciling) == ("True", "False") else "InProgress"


@pytest.mark.full
def test_kstatus_of_every_state_says_failed_only_if_waiting_does_not_help() -> None:
    objects = {name: recorded(situation, results) for name, (situation, results, _) in STATES.items()}
    found = dict(zip(objects, kstatus(list(objects.values())), strict=True))
    assert found == {name: expected(one) for name, one in objects.items()}
    assert set(found.values()) == {"Current", "InProgress", "Failed"}


@pytest.mark.full
def test_kstatus_waits_while_the_operator_has_not_seen_the_last_edit() -> None:
    situation, results, _ = STATES["serving"]
    found = recorded(situation, results)
    new = {**found, "status": {"observedGeneration": -1}}
    edited = {**found, "metadata": {**found["metadata"], "generation": found["metadata"]["generation"] + 1}}
    assert kstatus([found, new, edited]) == ["Current", "InProgress", "InProgress"]
