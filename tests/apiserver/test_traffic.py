"""An engine that makes no progress gets no new requests: labels, selector and writes on a real API server."""

import json
import time

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.waiting import eventually
from inference_operator.views.pod import TRAFFIC_LABEL
from tests.apiserver.hung_engine import let_an_engine_stand_still_for_a_while
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace


def test_an_engine_that_hangs_leaves_the_service_with_one_write_and_returns_with_one(
    workspace: Workspace, audit: AuditLog
) -> None:
    workspace.create("qwen", {**QWEN, "replicas": 2})
    workspace.settled("qwen")
    workspace.settled("qwen", "EnginesAvailable", "True", "Serving")
    assert workspace.get("service", "qwen-engines")["spec"]["selector"][TRAFFIC_LABEL] == "true"
    before, mark = workspace.versions("qwen"), audit.mark()
    pod = let_an_engine_stand_still_for_a_while(workspace, "qwen")
    of_pods = [request for request in audit.writes(mark, namespace=workspace.namespace) if request.resource == "pods"]
    assert [(request.verb, request.name, request.code) for request in of_pods] == [("patch", pod, 200)] * 2
    assert workspace.versions("qwen") == before, "no child has changed"
    (owner,) = json.loads(workspace.kubectl("get", "pod", pod, "--output=json"))["metadata"]["ownerReferences"]
    assert owner["kind"] == "ReplicaSet"
    reasons = ("EngineNotProgressing", "Serving")
    eventually(lambda: set(reasons) <= _events(workspace), seconds=10, what=lambda: f"Events: {_events(workspace)}")
    quiet = audit.mark()
    time.sleep(QUIET_SECONDS)
    # A status may still tell that nobody answers at the pods' addresses any more.
    assert audit.changes(quiet, namespace=workspace.namespace) == []


def _events(workspace: Workspace) -> set[str]:
    return set(workspace.kubectl("get", "events", "--output=jsonpath={.items[*].reason}").split())
