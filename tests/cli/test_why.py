"""`infd status --why`: a resource's state and its engines' metrics, from an API server over real HTTP."""

import json
from pathlib import Path

from inference_operator.api.resource import resource
from inference_operator.cli.live_resource import LiveResource
from inference_operator.cli.status.why import explanation
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ENGINE, PREFILL
from tests.cli.conftest import Infd
from tests.status.situations import CRASHING, RAW, SERVING, loading, reported, view
from tests.status.test_states import STATES, report_of
from tests.testing.builders import pod, ready_pod
from tests.testing.for_each import for_each
from tests.testing.stored_answers import listing

METRICS = (Path(__file__).parents[1] / "engines" / "vllm-0.32.0-metrics.txt").read_bytes()
RESOURCE = "/apis/inference-operator.dev/v1alpha1/namespaces/default/inferencedeployments/qwen"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"


def engine_pod(component: str = ENGINE) -> Manifest:
    container = {"name": "engine", "ports": [{"name": "http", "containerPort": 8000}]}
    return {**pod(name="qwen-engine-a", component=component, status=ready_pod()), "spec": {"containers": [container]}}


def stored(situation_status: Manifest) -> bytes:
    return json.dumps({**RAW, "status": situation_status}).encode()


def test_a_serving_engine_with_waiting_requests_is_explained_from_its_metrics(
    infd: Infd, server: dict[str, bytes]
) -> None:
    server[RESOURCE] = stored(reported(SERVING).status.dump())
    server[PODS], server[EVENTS] = listing(engine_pod()), listing()
    server[f"{PODS}/qwen-engine-a:8000/proxy/metrics"] = METRICS
    status, output, complaints = infd("status", "--why", "qwen")
    assert (status, complaints) == (0, "")
    assert output == (
        "qwen-engine-a: slow. 8 requests wait in its queue and 2 run; 0 % of its KV cache is in use."
        " Raise `spec.replicas`.\n"
    )


def test_an_engine_that_does_not_start_is_explained_with_what_helps(infd: Infd, server: dict[str, bytes]) -> None:
    server[RESOURCE] = stored(reported(loading(pods=[view(CRASHING)])).status.dump())
    server[PODS], server[EVENTS] = listing(), listing()
    status, output, _ = infd("status", "--why", "qwen")
    assert status == 1
    assert output.startswith("Reconciling, Ready: CrashLoop. Pod qwen-engine-a does not run")
    assert "What helps: Correct what the message names." in output
    assert output.endswith("No engine is ready, so there are no metrics.\n")


def test_engines_that_compute_prompts_alone_are_no_engine_that_is_ready(infd: Infd, server: dict[str, bytes]) -> None:
    server[RESOURCE] = stored(reported(loading(pods=[view(CRASHING)])).status.dump())
    server[PODS], server[EVENTS] = listing(engine_pod(PREFILL)), listing()
    _, output, _ = infd("status", "--why", "qwen")
    assert "No engine is ready, so there are no metrics.\nqwen-engine-a: " in output


@for_each(STATES)
def test_a_reason_and_its_cure_are_printed_once_and_no_message_is_lost(state: str) -> None:
    found = resource({**RAW, "status": report_of(state).status.dump()})
    lines = list(explanation(LiveResource({}, found)))
    cures = [line for line in lines if line.startswith("  What helps")]
    heads = [line.partition(". ")[0].partition(": ")[2] for line in lines if ": " in line and line not in cures]
    assert len(set(cures)) == len(cures)
    assert len(set(heads)) == len(heads)
    wrong = [one for one in found.status.conditions if one.type == "Stalled" and one.status == "True"]
    assert all(line.startswith("Stalled") and one.message in line for one in wrong for line in lines[:1])


def test_metrics_that_cannot_be_read_are_said_so(infd: Infd, server: dict[str, bytes]) -> None:
    server[RESOURCE] = stored(reported(SERVING).status.dump())
    server[PODS], server[EVENTS] = listing(engine_pod()), listing()
    _, output, _ = infd("status", "--why", "qwen")
    assert output.startswith("qwen-engine-a: its metrics cannot be read: ")


def test_a_resource_that_does_not_exist_is_said_on_one_line(infd: Infd, server: dict[str, bytes]) -> None:
    assert not server
    status, output, complaints = infd("status", "--why", "qwen", "-n", "other")
    assert (status, output) == (3, "")
    assert complaints == "There is no InferenceDeployment `qwen` in the namespace `other`.\n"


def scaled(autoscaling: Manifest | None) -> bytes:
    raw = {**RAW, "spec": {**RAW["spec"], **({"autoscaling": {"maxReplicas": 4}} if autoscaling else {})}}
    return json.dumps({**raw, "status": {"autoscaling": autoscaling} if autoscaling else {}}).encode()


def test_the_number_of_engines_is_explained_with_the_requests_now_and_the_changes_before(
    infd: Infd, server: dict[str, bytes]
) -> None:
    server[RESOURCE] = scaled(
        {"desiredReplicas": 3, "reason": "20 requests", "lastScaleTime": "2026-01-02T03:04:05Z", "startSeconds": 90}
    )
    router = pod(name="qwen-router-a", component="router", status=ready_pod())
    ports = [{"name": "metrics-0", "containerPort": 8404}]
    server[PODS] = listing(engine_pod(), {**router, "spec": {"containers": [{"name": "router", "ports": ports}]}})
    server[f"{PODS}/qwen-engine-a:8000/proxy/metrics"] = METRICS
    server[f"{PODS}/qwen-router-a:8404/proxy/stats;up;csv"] = (
        b"# pxname,svname,qcur,scur,stot,addr,\nengines,BACKEND,2,2,9,,\n"
    )
    event = {"kind": "Event", "metadata": {"name": "e"}, "reason": "ScaledUp", "eventTime": "2026-01-02T03:04:05.0Z"}
    server[EVENTS] = listing(
        {**event, "message": "From 1 to 3 engines: 20 requests."}, {**event, "reason": "Serving", "message": "Other."}
    )
    status, output, complaints = infd("status", "--why", "qwen")
    assert (status, complaints) == (1, "")
    assert output.splitlines()[1:] == [
        "Limits: 1 to 4 engines; backend BuiltIn.",
        "Wanted: 3, since 2026-01-02T03:04:05Z: 20 requests.",
        "A start takes 90 s, from the new pod to its readiness.",
        "Now: 12 requests. 2 run and 8 wait in 1 ready engines; 2 are queued and 0 held in routers. 0 engines start.",
        "Changes:",
        "  2026-01-02T03:04:05.0Z    1 -> 3   ###      20 requests.",
    ]


def test_programs_get_the_explanation_with_the_facts(infd: Infd, server: dict[str, bytes]) -> None:
    server[RESOURCE] = scaled(None)
    server[PODS], server[EVENTS] = listing(), listing()
    found = json.loads(infd("status", "--why", "qwen", "-o", "json")[1])
    assert (found["name"], found["why"]) == ("qwen", ["No engine is ready, so there are no metrics."])
