"""`infd drill` on a real node, with simulated engines behind real routers.

`tests/load` has the checker before servers that break answers; `tests/cli/test_drill.py` has what is refused.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.deploy import stack
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.api.drill import DRILL_ANNOTATION
from inference_operator.cli.drill import DRILLED
from inference_operator.cli.drill.faults import ASK_SECONDS
from inference_operator.cli.drill.promises import Fault
from inference_operator.cli.drill.report import report_of, verdict

NAME = "drilled"
ENGINES = 2
RATE = 20
SECONDS = 900
FEW = (Fault.SCALE_DOWN, Fault.DELETE_ROUTER)


GATEWAY = "before-drilled"


@pytest.fixture
def gateway(served: Served) -> Iterator[Served]:
    meta = {"name": GATEWAY, "namespace": served.namespace}
    one = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "ModelGateway", "metadata": meta, "spec": {}}
    served.kubectl("apply", "--filename=-", input=json.dumps(one))
    try:
        served.kubectl("wait", "--for=condition=Ready", f"mgw/{GATEWAY}", f"--timeout={SECONDS}s")
        served.kubectl("rollout", "status", f"deployment/{GATEWAY}-gateway", f"--timeout={SECONDS}s")
        yield Served(served.cluster, GATEWAY)
    finally:
        served.kubectl("delete", "mgw", GATEWAY)


@pytest.fixture(scope="module")
def served(cluster: LocalCluster) -> Iterator[Served]:
    served = Served(cluster, NAME)
    with resource_of_stand_ins(served, replicas=ENGINES, simulated=True):
        stack.wait_ready(cluster, NAME)
        served.await_routers(2)
        yield served


def drill(served: Served, *arguments: str, at: Served) -> tuple[int, dict[str, Any], str]:
    """The exit status of a drill, its report and what it said."""
    options = ("--yes", "--output=json", f"--url=http://{at.address}", f"--rate={RATE}")
    status, out, said = infd(served.cluster, "drill", served.name, *options, *arguments, seconds=SECONDS)
    assert out, said
    return status, json.loads(out), said


def judged_drill(served: Served, say: Say, folder: Path, faults: Sequence[Fault], at: Served) -> None:
    """A drill loses no request, also when its report is judged again."""
    status, report, said = drill(served, "--yes-interrupt", "--seed=7", f"--faults={','.join(faults)}", at=at)
    for line in said.splitlines():
        say(line)
    (folder / "report.json").write_text(json.dumps(report))
    judged = verdict(report_of(json.dumps(report)))
    again, page, _ = infd(served.cluster, "drill", "--judge", str(folder / "report.json"))
    say(page)
    assert (status, again, judged.findings) == (0, 0, ())
    assert {one["fault"] for one in report["faults"]} == set(faults), report["skipped"]
    assert judged.requests == report["sent"] == len(report["answers"])
    assert DRILL_ANNOTATION not in served.kubectl("get", "infd", NAME, "--output=jsonpath={.metadata.annotations}")


def test_faults_lose_no_request(served: Served, say: Say, tmp_path: Path) -> None:
    judged_drill(served, say, tmp_path, FEW, served)


@pytest.mark.full
def test_no_fault_loses_a_request_behind_a_gateway(served: Served, gateway: Served, say: Say, tmp_path: Path) -> None:
    judged_drill(served, say, tmp_path, DRILLED, gateway)


@pytest.mark.full
def test_a_drill_that_is_killed_leaves_as_many_engines_as_before(served: Served) -> None:
    command = (str(Path(sys.executable).with_name("infd")), "drill", NAME, "--yes", "--faults=scale-down")
    environment = {**os.environ, "KUBECONFIG": str(served.cluster.kubeconfig)}
    with subprocess.Popen([*command, f"--url=http://{served.address}"], env=environment) as process:
        eventually(lambda: len(served.pods("engine")) < ENGINES, seconds=SECONDS, what="there are fewer engines")
        process.send_signal(signal.SIGKILL)
    began = time.monotonic()
    eventually(lambda: len(served.pods("engine")) == ENGINES, seconds=2 * ASK_SECONDS, what="as many as before")
    assert time.monotonic() - began < 2 * ASK_SECONDS
    stack.wait_engines(served.cluster, NAME, ENGINES)
