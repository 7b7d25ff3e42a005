"""The built-in autoscaler on a real API server: pods of KWOK nodes, one of whose routers is a server of the test."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.waiting import eventually
from inference_operator.router.observe import HELD_PATH
from inference_operator.router.process import METRICS_PORTS
from tests.apiserver.hung_engine import idle_engine
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

SECONDS = 60
SCALED = {
    **QWEN,
    "replicas": 0,
    "router": {"replicas": 1},
    "autoscaling": {"minReplicas": 0, "maxReplicas": 3, "targetConcurrency": 4},
}


class _Process(ThreadingHTTPServer):
    """One of the two processes of a router: how many requests it holds, and how many have come."""

    daemon_threads = True
    held = 0

    def page(self, path: str) -> str:
        if path == HELD_PATH:
            return f"inference_operator_router_held_requests {self.held}\n"
        return (
            "# pxname,svname,qcur,scur,stot,addr,\n"
            "engines,hold,0,0,0,127.0.0.1:9,\n"
            f"engines,BACKEND,0,{self.held},{self.held},,\n"
        )


class _Handler(BaseHTTPRequestHandler):
    server: _Process

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.page(self.path).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def router(workspace: Workspace, pod: str) -> Iterator[_Process]:
    """Give a router's pod the address of the test's own server; yields the first of its processes.

    The address is one of loopback, by chance: several test runs share a machine.
    """
    address = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}.{random.randint(2, 250)}"  # noqa: S311
    processes = [_Process((address, port), _Handler) for port in METRICS_PORTS]
    threads = [threading.Thread(target=process.serve_forever) for process in processes]
    for thread in threads:
        thread.start()
    try:
        patch = json.dumps({"status": {"podIP": address, "podIPs": [{"ip": address}]}})
        workspace.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", f"--patch={patch}")
        yield processes[0]
    finally:
        for process, thread in zip(processes, threads, strict=True):
            process.shutdown()
            process.server_close()
            thread.join()


@pytest.fixture
def at_zero(workspace: Workspace) -> Iterator[_Process]:
    """A resource without engines, and the server that stands for its router."""
    workspace.create("qwen", SCALED)
    workspace.settled("qwen", "RouterAvailable")
    (pod,) = workspace.all("pods", "inference-operator.dev/name=qwen,app.kubernetes.io/component=router")
    with router(workspace, pod["metadata"]["name"]) as process:
        workspace.settled("qwen", "ScalingActive", reason="FollowingDemand")
        yield process


def writes_of_replicas(audit: AuditLog, mark: int, workspace: Workspace) -> int:
    writes = audit.writes(mark, namespace=workspace.namespace)
    return sum(write.resource == "deployments" and write.name == "qwen-engine" for write in writes)


def metrics_missing(workspace: Workspace) -> str:
    """Wait until missing metrics decide, which they do once the demand of before has passed; returns the message."""
    eventually(
        lambda: workspace.condition("qwen", "ScalingActive").get("reason") == "MetricsMissing",
        seconds=SECONDS,
        what=lambda: str(workspace.get("infd", "qwen")["status"]),
    )
    return str(workspace.settled("qwen", "ScalingActive", "False", "MetricsMissing")["message"])


def test_the_first_held_request_starts_an_engine_with_one_write_and_a_reason(
    workspace: Workspace, at_zero: _Process, audit: AuditLog
) -> None:
    assert workspace.replicas("qwen") == 0
    mark = audit.mark()
    at_zero.held = 1
    eventually(lambda: workspace.replicas("qwen") == 1, seconds=SECONDS, what="one engine")
    eventually(lambda: writes_of_replicas(audit, mark, workspace), seconds=SECONDS, what="its line in the audit log")
    assert writes_of_replicas(audit, mark, workspace) == 1
    eventually(
        lambda: workspace.get("infd", "qwen")["status"]["autoscaling"]["desiredReplicas"] == 1,
        seconds=SECONDS,
        what=lambda: str(workspace.get("infd", "qwen")["status"]),
    )
    told = workspace.get("infd", "qwen")["status"]["autoscaling"]
    assert "at 4 for each engine" in told["reason"]
    assert told["lastScaleTime"]
    eventually(
        lambda: "ScaledUp" in workspace.kubectl("get", "events", "--output=jsonpath={.items[*].reason}"),
        seconds=SECONDS,
        what="an Event of the change",
    )


def test_engines_stay_and_the_pods_are_named_while_metrics_are_missing_also_after_a_restart_of_the_operator(
    workspace: Workspace, at_zero: _Process, operator: OperatorProcess, audit: AuditLog
) -> None:
    at_zero.held = 9
    eventually(lambda: workspace.replicas("qwen") == 3, seconds=SECONDS, what="three engines")
    at_zero.held = 0  # the pods of KWOK nodes answer nothing, so nobody knows whether the engines are idle
    assert "no engine is removed" in metrics_missing(workspace)
    mark = audit.mark()
    operator.stop()
    operator.start()
    metrics_missing(workspace)
    assert workspace.replicas("qwen") == 3
    assert writes_of_replicas(audit, mark, workspace) == 0


@pytest.mark.full
def test_held_requests_start_groups_and_all_but_one_end_when_their_leaders_have_nothing_to_do(
    workspace: Workspace,
) -> None:
    limits = {"minReplicas": 1, "maxReplicas": 3, "targetConcurrency": 4, "scaleDownDelay": "30s"}
    pair = {"parallelism": {"tensor": 1, "nodes": 2}, "replicas": 1, "autoscaling": limits}
    workspace.create("qwen", {**SCALED, **pair})
    workspace.settled("qwen")
    selector = "inference-operator.dev/name=qwen,app.kubernetes.io/component="
    (pod,) = workspace.all("pods", f"{selector}router")

    def groups() -> list[str]:
        return [one["metadata"]["name"] for one in workspace.all("statefulset", f"{selector}engine")]

    assert groups() == ["qwen-engine-0"]
    with router(workspace, pod["metadata"]["name"]) as process, ExitStack() as engines:
        process.held = 9
        eventually(lambda: len(groups()) == 3, seconds=SECONDS, what=lambda: f"three groups: {groups()}")
        workspace.settled("qwen", saying="3 of 3 engines are ready")
        for name in groups():
            engines.enter_context(idle_engine(workspace, f"{name}-0"))
        process.held = 0
        eventually(lambda: len(groups()) == 1, seconds=2 * SECONDS, what=lambda: f"one group: {groups()}")
        eventually(
            lambda: len(workspace.all("pods", f"{selector}engine")) == 2, seconds=SECONDS, what="the pods of one group"
        )
        time.sleep(QUIET_SECONDS)
        assert len(groups()) == 1
    assert workspace.get("infd", "qwen")["spec"]["replicas"] == 1


def test_a_foreign_hpa_on_the_engines_keeps_its_number_and_is_named_until_it_is_deleted(
    workspace: Workspace, audit: AuditLog
) -> None:
    """The HorizontalPodAutoscaler controller of Kubernetes raises the Deployment to its own minimum."""
    workspace.create("qwen", {**QWEN, "autoscaling": {"maxReplicas": 4}})
    workspace.settled("qwen")
    mark = audit.mark()
    workspace.kubectl("autoscale", "deployment", "qwen-engine", "--name=cpu", "--min=3", "--max=5", "--cpu=50%")
    told = workspace.settled("qwen", "ScalingActive", "False", "AutoscalerConflict")["message"]
    assert "HorizontalPodAutoscaler `cpu` acts on the Deployment" in told
    eventually(lambda: workspace.replicas("qwen") == 3, seconds=SECONDS, what="the number of the HPA")
    eventually(
        lambda: workspace.get("infd", "qwen")["status"]["autoscaling"]["desiredReplicas"] == 3,
        seconds=SECONDS,
        what="it is told",
    )
    time.sleep(QUIET_SECONDS)
    assert workspace.replicas("qwen") == 3
    assert writes_of_replicas(audit, mark, workspace) <= 1, "at most one that records the number"
    workspace.kubectl("delete", "hpa", "cpu")
    eventually(
        lambda: workspace.condition("qwen", "ScalingActive").get("reason") != "AutoscalerConflict",
        seconds=SECONDS,
        what="no conflict",
    )
    assert workspace.replicas("qwen") == 3


def test_a_handover_between_the_operator_and_an_hpa_takes_no_engine_away(
    workspace: Workspace, at_zero: _Process, audit: AuditLog
) -> None:
    at_zero.held = 9
    eventually(lambda: workspace.replicas("qwen") == 3, seconds=SECONDS, what="three engines")
    mark = audit.mark()
    workspace.patch("qwen", {"replicas": 1, "autoscaling": {"backend": "HPA", "minReplicas": 1}})
    eventually(lambda: workspace.exists("horizontalpodautoscaler", "qwen"), seconds=SECONDS, what="the HPA")
    workspace.settled("qwen", "ScalingActive", "False", "AutoscalerFailed")  # no adapter serves its metric
    assert workspace.replicas("qwen") == 3
    workspace.patch("qwen", {"autoscaling": {"backend": "BuiltIn"}})
    eventually(lambda: not workspace.exists("horizontalpodautoscaler", "qwen"), seconds=SECONDS, what="no HPA")
    workspace.settled("qwen", "ScalingActive", "False", "MetricsMissing")
    assert workspace.replicas("qwen") == 3
    assert writes_of_replicas(audit, mark, workspace) == 0
