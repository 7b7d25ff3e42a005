"""`infd explain`: a resource's state and its engines' metrics, from an API server over real HTTP."""

import json
from pathlib import Path

from inference_operator.manifest import Manifest
from tests.cli.conftest import Infd, listing
from tests.status.situations import CRASHING, RAW, SERVING, loading, reported, view
from tests.testing.builders import pod, ready_pod

METRICS = (Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt").read_bytes()
RESOURCE = "/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments/qwen"
PODS = "/api/v1/namespaces/default/pods"


def engine_pod() -> Manifest:
    container = {"name": "engine", "ports": [{"name": "http", "containerPort": 8000}]}
    return {**pod(name="qwen-engine-a", status=ready_pod()), "spec": {"containers": [container]}}


def stored(situation_status: Manifest) -> bytes:
    return json.dumps({**RAW, "status": situation_status}).encode()


def test_a_serving_engine_with_waiting_requests_is_explained_from_its_metrics(
    infd: Infd, server: dict[str, bytes]
) -> None:
    server[RESOURCE] = stored(reported(SERVING).status.dump())
    server[PODS] = listing(engine_pod())
    server[f"{PODS}/qwen-engine-a:8000/proxy/metrics"] = METRICS
    status, output, complaints = infd("explain", "qwen")
    assert (status, complaints) == (0, "")
    assert output == (
        "qwen-engine-a: slow. 8 requests wait in its queue and 2 run; 0 % of its KV cache is in use."
        " Raise `spec.replicas`.\n"
    )


def test_an_engine_that_does_not_start_is_explained_with_what_helps(infd: Infd, server: dict[str, bytes]) -> None:
    server[RESOURCE] = stored(reported(loading(pods=[view(CRASHING)])).status.dump())
    server[PODS] = listing()
    status, output, _ = infd("explain", "qwen")
    assert status == 0
    assert "Reconciling: CrashLoop. Pod qwen-engine-a does not run" in output
    assert "What helps: Read `kubectl logs --previous`" in output
    assert output.endswith("No engine is ready, so there are no metrics.\n")


def test_metrics_that_cannot_be_read_are_said_so(infd: Infd, server: dict[str, bytes]) -> None:
    server[RESOURCE] = stored(reported(SERVING).status.dump())
    server[PODS] = listing(engine_pod())
    _, output, _ = infd("explain", "qwen")
    assert output.startswith("qwen-engine-a: its metrics cannot be read: ")


def test_a_resource_that_does_not_exist_is_said_on_one_line(infd: Infd, server: dict[str, bytes]) -> None:
    assert not server
    status, output, complaints = infd("explain", "qwen", "-n", "other")
    assert (status, output) == (2, "")
    assert complaints == "There is no InferenceDeployment `qwen` in the namespace `other`.\n"
