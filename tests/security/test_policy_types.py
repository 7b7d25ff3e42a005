"""The API's own check of types finds nothing in the admission policies of an installation.

It is a controller of the controller manager. In the clusters of tests it does not run: it takes a minute of CPU for
each installation. Here it runs alone.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube.control_plane import POLICY_TYPES_CONTROLLER
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.operated_cluster import RELEASE

pytestmark = pytest.mark.full  # a minute of CPU
CHECKED_SECONDS = 600


@pytest.fixture
def checker(kubernetes: LocalCluster, account: object, tmp_path: Path) -> Iterator[Path]:
    """The log of the controller that checks the types of all policies."""
    assert account, "the chart is installed"
    command = [
        str(kubernetes.binary("kube-controller-manager")),
        f"--kubeconfig={kubernetes.kubeconfig}",
        f"--controllers={POLICY_TYPES_CONTROLLER}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    log = tmp_path / "controller.log"
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield log
        finally:
            process.kill()


def test_the_api_finds_no_type_error_in_any_policy(kubernetes: LocalCluster, checker: Path) -> None:
    def policies() -> list[dict[str, Any]]:
        found = json.loads(kubernetes.kubectl("get", "validatingadmissionpolicies", "--output=json"))["items"]
        return [one for one in found if RELEASE in one["metadata"]["name"]]

    def unchecked() -> list[str]:
        return [one["metadata"]["name"] for one in policies() if "typeChecking" not in one.get("status", {})]

    assert len(policies()) > 1
    eventually(
        lambda: not unchecked(),
        seconds=CHECKED_SECONDS,
        what=lambda: f"the types of all policies are checked; left: {unchecked()}; its log:\n{checker.read_text()}",
    )
    for one in policies():
        assert not one["status"]["typeChecking"].get("expressionWarnings"), one["metadata"]["name"]
