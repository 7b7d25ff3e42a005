"""An idle operator with default settings sends no write to the API server."""

import time

import pytest

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.audit_log import AuditLog
from e2e.localkube.waiting import eventually

ACCOUNT = f"system:serviceaccount:{stack.SYSTEM}:{stack.RELEASE}"
IDLE_SECONDS = 300


@pytest.mark.full
def test_an_idle_operator_writes_nothing_for_five_minutes(tiny: Served) -> None:
    audit = AuditLog(tiny.cluster.audit_log, ACCOUNT)
    mark = audit.mark()
    tiny.kubectl("label", f"service/{tiny.name}", "app.kubernetes.io/managed-by=somebody", "--overwrite")
    eventually(lambda: audit.writes(mark), seconds=30, what="the operator reverts a manual edit")
    time.sleep(5)
    mark = audit.mark()
    time.sleep(IDLE_SECONDS)
    assert audit.writes(mark) == []
