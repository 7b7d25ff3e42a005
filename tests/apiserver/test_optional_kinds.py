"""Optional kinds that come and go on a real API server, while one process of the operator runs."""

import json
from collections.abc import Iterator

import pytest

from e2e.localkube.audit_log import AuditLog, Request
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.definitions import await_established
from tests.testing.keda import scaled_object_crd
from tests.testing.operated_cluster import await_used, optional_kinds
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, Workspace

SECONDS = 60
CRD = "scaledobjects.keda.sh"
CREATED = 201
KEDA = {"autoscaling": {"backend": "KEDA", "maxReplicas": 8, "minReplicas": 1}}
FLAPS = 5
LISTINGS = 10
"""More listings of everything than these within a test would be a busy operator: in 15 s there is one in its turn."""


@pytest.fixture
def scaled(qwen: Workspace, operator: OperatorProcess) -> Iterator[Workspace]:
    """A resource that waits for KEDA. The operator is the same process at the end."""
    process = operator.pid
    qwen.patch("qwen", KEDA)
    qwen.settled("qwen", "ScalingActive", "False", "AutoscalerMissing")
    yield qwen
    assert (operator.is_running(), operator.pid) == (True, process)
    assert "Restarting" not in operator.log()


def until_reason(workspace: Workspace, reason: str) -> None:
    """Wait for the reason of `ScalingActive`."""
    eventually(
        lambda: workspace.condition("qwen", "ScalingActive").get("reason") == reason,
        seconds=SECONDS,
        what=lambda: f"{reason}: {workspace.condition('qwen', 'ScalingActive')}",
    )


def of_scaled_objects(requests: list[Request]) -> list[Request]:
    return [request for request in requests if request.resource == "scaledobjects"]


def test_a_kind_that_comes_goes_and_comes_again_is_used_each_time_with_one_write(
    kubernetes: LocalCluster, operator: OperatorProcess, scaled: Workspace, audit: AuditLog
) -> None:
    uids = []
    for _ in range(2):
        mark = audit.mark()
        with optional_kinds(kubernetes, operator, scaled_object_crd()):
            until_reason(scaled, "AutoscalerPending")
            eventually(lambda: scaled.exists("scaledobject", "qwen"), seconds=SECONDS, what="the ScaledObject")
            uids.append(scaled.get("scaledobject", "qwen")["metadata"]["uid"])
            audit.quiet(QUIET_SECONDS, namespace=scaled.namespace)
            changes = audit.changes(mark, namespace=scaled.namespace)
            assert [(change.verb, change.resource, change.code) for change in changes] == [
                ("patch", "scaledobjects", CREATED)
            ]
            listed = [r for r in of_scaled_objects(audit.requests(mark)) if r.verb == "watch"]
            assert len(listed) == 1, "one watch"

            # What happens to an object of this kind is seen as that of any other.
            scaled.kubectl("delete", "scaledobject", "qwen")
            eventually(lambda: scaled.exists("scaledobject", "qwen"), seconds=SECONDS, what="it is back")
        until_reason(scaled, "AutoscalerMissing")
        mark = audit.quiet(QUIET_SECONDS, namespace=scaled.namespace)
    assert len(set(uids)) == len(uids)


def test_a_kind_that_comes_and_goes_all_the_time_is_followed_in_the_end_with_few_listings(
    kubernetes: LocalCluster, operator: OperatorProcess, scaled: Workspace, audit: AuditLog
) -> None:
    mark = audit.mark()
    for _ in range(FLAPS):
        kubernetes.kubectl("create", f"--filename={scaled_object_crd()}")
        await_established(kubernetes, CRD)
        kubernetes.kubectl("delete", "crd", CRD)
    with optional_kinds(kubernetes, operator, scaled_object_crd()):
        until_reason(scaled, "AutoscalerPending")
        eventually(lambda: scaled.exists("scaledobject", "qwen"), seconds=SECONDS, what="the ScaledObject")
    until_reason(scaled, "AutoscalerMissing")
    listings = [r for r in audit.requests(mark) if (r.verb, r.resource) == ("list", "inferencedeployments")]
    assert len(listings) <= LISTINGS, listings
    assert len(audit.changes(mark, namespace=scaled.namespace)) <= LISTINGS


def test_a_kind_whose_version_is_served_no_more_is_given_up_until_it_is_served_again(
    kubernetes: LocalCluster, operator: OperatorProcess, scaled: Workspace
) -> None:
    with optional_kinds(kubernetes, operator, scaled_object_crd()):
        until_reason(scaled, "AutoscalerPending")
        for served in (False, True):
            _serve(kubernetes, other_only=not served)
            await_used(operator, CRD, used=served)
            until_reason(scaled, "AutoscalerPending" if served else "AutoscalerMissing")
        eventually(lambda: scaled.exists("scaledobject", "qwen"), seconds=SECONDS, what="the ScaledObject")


def _serve(cluster: LocalCluster, *, other_only: bool) -> None:
    """Serve the operator's version and one that it does not know, or the latter only."""
    definition = json.loads(cluster.kubectl("get", "crd", CRD, "--output=json"))
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1alpha1")
    versions = [{**version, "served": not other_only}, {**version, "name": "v9", "storage": False, "served": True}]
    patch = json.dumps({"spec": {"versions": versions}})
    cluster.kubectl("patch", "crd", CRD, "--type=merge", f"--patch={patch}")
