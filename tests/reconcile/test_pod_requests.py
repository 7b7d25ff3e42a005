"""HTTP requests to pods as a kind of change: the result of each response, and when no request is sent."""

import pytest

from inference_operator.controller.changes import Apply, PodRequest, changes
from inference_operator.controller.cluster import ClusterError, PodResponse
from inference_operator.controller.execute import execute
from inference_operator.manifest import POD, Manifest, Owner, Ref
from inference_operator.status.write_results import Failed, PodAccepted, PodRefused
from inference_operator.views.pod_request import PodRequestSpec
from inference_operator.workload.stall import Removal
from tests.testing.builders import CONFIG, KEY, UID, inference_deployment, planned
from tests.testing.memory_cluster import MemoryCluster

OURS = Owner(KEY, UID)
ENGINE_POD = Ref(POD, KEY.namespace, "qwen-engine-0")
LOAD = PodRequestSpec(
    ENGINE_POD, "pod-uid", "10.0.0.1", 8000, "/v1/load_lora_adapter", {"lora_name": "a"}, "adapter `a` is not loaded"
)


@pytest.fixture
def cluster() -> MemoryCluster:
    """A cluster in which the pod runs."""
    cluster = MemoryCluster()
    meta = {"name": ENGINE_POD.name, "namespace": ENGINE_POD.namespace}
    pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
    cluster.apply_as("kubelet", pod)
    return cluster


async def test_a_request_that_the_pod_accepts_is_sent_once_with_its_body(cluster: MemoryCluster) -> None:
    assert await execute(cluster, PodRequest(LOAD)) == PodAccepted(ENGINE_POD, 200)
    assert cluster.pod_requests == [LOAD]
    assert cluster.writes == []


@pytest.mark.parametrize("status", [307, 400, 404, 422])
async def test_a_request_that_the_pod_refuses_gives_the_status_and_the_message(
    cluster: MemoryCluster, status: int
) -> None:
    cluster.respond(ENGINE_POD, PodResponse(status, "no such adapter"))
    assert await execute(cluster, PodRequest(LOAD)) == PodRefused(ENGINE_POD, status, "no such adapter")


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_request_to_an_overloaded_or_broken_pod_counts_as_failed_and_is_tried_again(
    cluster: MemoryCluster, status: int
) -> None:
    cluster.respond(ENGINE_POD, PodResponse(status, ""))
    assert await execute(cluster, PodRequest(LOAD)) == Failed(ENGINE_POD, f"the pod responded with HTTP {status}")


async def test_a_request_to_a_deleted_pod_counts_as_failed_and_raises_no_exception() -> None:
    assert await execute(MemoryCluster(), PodRequest(LOAD)) == Failed(ENGINE_POD, "the pod cannot be reached")


async def test_a_request_whose_response_is_lost_counts_as_failed(cluster: MemoryCluster) -> None:
    cluster.fail_at(1, ClusterError("the pod did not respond in time"), took_effect=True)
    assert await execute(cluster, PodRequest(LOAD)) == Failed(ENGINE_POD, "the pod did not respond in time")


def test_requests_to_pods_come_after_all_changes_of_objects() -> None:
    wanted = planned(inference_deployment()).desired[CONFIG]
    found = changes({}, {CONFIG: wanted}, (), OURS, requests=[LOAD])
    assert found == [Apply(CONFIG, wanted, OURS, None, "absent"), PodRequest(LOAD)]


def test_a_pod_that_is_to_be_replaced_gets_no_request() -> None:
    removal = Removal(ENGINE_POD, LOAD.uid, "it stalled")
    assert [type(change).__name__ for change in changes({}, {}, (removal,), OURS, requests=[LOAD])] == ["Delete"]
