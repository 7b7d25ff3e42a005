"""A ModelGateway on a real node: two models of one name, weights that change and a pod that goes under load."""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator

import openai
import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.load import GENTLE_PAUSE_SECONDS, Load
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from inference_operator.router.gateway import TARGET_HEADER

NAME, TWIN = "models", "twin"
SECONDS = 60
LISTED_SECONDS = 30
"""Far more than a list takes on an idle machine."""
REQUESTS, WORKERS = 150, 8
ASKED = 12


@pytest.fixture(scope="module")
def twin(tiny: Served) -> Iterator[Served]:
    """Another model with the served name of the first one."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = TWIN
    resource["spec"]["model"]["servedName"] = tiny.name
    resource["spec"]["router"] = {"replicas": 1}
    served = Served(tiny.cluster, TWIN)
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        stack.wait_ready(tiny.cluster, TWIN)
        yield served
    finally:
        served.leave()


@pytest.fixture(scope="module")
def gateway(tiny: Served) -> Iterator[Served]:
    served = Served(tiny.cluster, NAME)
    _apply(served, {})
    try:
        _await(served, "Ready", "True")
        served.kubectl("rollout", "status", f"deployment/{NAME}-gateway", f"--timeout={SECONDS}s")
        yield served
    finally:
        served.kubectl("delete", "mgw", NAME, "--ignore-not-found")


def _apply(served: Served, spec: object) -> None:
    meta = {"name": NAME, "namespace": served.namespace}
    manifest = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "ModelGateway", "metadata": meta, "spec": spec}
    served.kubectl("apply", "--filename=-", input=json.dumps(manifest))


def _status(served: Served) -> dict[str, dict[str, str]]:
    live = json.loads(served.kubectl("get", "mgw", NAME, "--output=json"))
    return {one["type"]: one for one in live.get("status", {}).get("conditions", ())}


def _await(served: Served, condition: str, status: str) -> None:
    eventually(
        lambda: _status(served).get(condition, {}).get("status") == status,
        seconds=SECONDS,
        what=lambda: f"{condition} is {status}: {_status(served)}",
    )


def _aliases(served: Served, **weights: int) -> None:
    targets = [{"name": name, "weight": weight} for name, weight in weights.items()]
    _apply(served, {"aliases": [{"name": "tiny", "targets": targets}]})


def _targets(served: Served) -> Counter[str]:
    """Who answers so many requests, each of another session."""
    counted: Counter[str] = Counter()
    for number in range(ASKED):
        body = json.dumps({"model": "tiny", "prompt": "otters", "max_tokens": 1}).encode()
        headers = {"content-type": "application/json", "x-session-id": str(number)}
        request = urllib.request.Request(f"http://{served.address}/v1/completions", body, headers)
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 - http
            assert json.load(answer)["model"] == "tiny"
            counted[answer.headers[TARGET_HEADER]] += 1
    return counted


def _pods(served: Served) -> dict[str, int]:
    """The pods of the gateway and how often their containers have restarted."""
    pods = json.loads(served.kubectl("get", "pods", f"--selector=inference-operator.dev/name={NAME}", "--output=json"))
    return {
        pod["metadata"]["name"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))
        for pod in pods["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }


def test_clients_find_every_model_at_one_address(tiny: Served, gateway: Served) -> None:
    eventually(lambda: '"tiny"' in gateway.get("/v1/models")[1], seconds=LISTED_SECONDS, what="the model is listed")
    client = openai.OpenAI(base_url=f"http://{gateway.address}/v1", api_key="none", max_retries=0)
    assert tiny.name in [model.id for model in client.models.list()]
    expected = tiny.complete()
    assert (
        client.completions.create(model="tiny", prompt="Tell me about otters", max_tokens=8, temperature=0)
        .choices[0]
        .text
        == expected
    )
    stream = client.completions.create(
        model="tiny", prompt="Tell me about otters", max_tokens=8, temperature=0, stream=True
    )
    assert "".join(chunk.choices[0].text for chunk in stream) == expected
    with pytest.raises(openai.NotFoundError, match="Did you mean `tiny`"):
        client.completions.create(model="tinyy", prompt="x")
    by_path = openai.OpenAI(base_url=f"http://{gateway.address}/models/tiny/v1", api_key="none", max_retries=0)
    assert by_path.completions.create(model="tiny", prompt="Tell me about otters", max_tokens=8, temperature=0).choices
    status, text = gateway.post("/v1/completions", {"prompt": "x"})
    assert (status, json.loads(text)["error"]["code"]) == (400, "model_missing")


def test_weights_and_pods_change_under_load_and_no_request_is_lost(
    tiny: Served, gateway: Served, twin: Served, say: Say
) -> None:
    _await(gateway, "NamesAccepted", "False")
    assert (
        f"of the InferenceDeployment {twin.name} is taken by {tiny.name}"
        in _status(gateway)["NamesAccepted"]["message"]
    )
    assert _targets(gateway) == {"tiny": ASKED}
    before = _pods(gateway)
    load = Load(gateway.address, "tiny", workers=WORKERS)
    load.learn()
    with load.phase("a gateway changes", at_least=REQUESTS, seconds=300, pause=GENTLE_PAUSE_SECONDS) as phase:
        phase.await_answers(20)
        _aliases(gateway, tiny=0, twin=1)
        eventually(lambda: _targets(gateway) == {"twin": ASKED}, seconds=SECONDS, what="all weight is at the twin")
        _await(gateway, "NamesAccepted", "True")
        _aliases(gateway, tiny=1, twin=1)
        eventually(lambda: len(_targets(gateway)) == 2, seconds=SECONDS, what="both answer")
        assert _pods(gateway) == before, "no pod has changed"
        gateway.kubectl("delete", "pod", next(iter(before)), "--wait=false")
        phase.await_answers(60)
    say(str(phase.result))
    assert phase.result.lost == ()
    assert phase.result.rejected == 0
    _apply(gateway, {})


def test_a_gateway_that_goes_leaves_the_models(tiny: Served, gateway: Served) -> None:
    gateway.kubectl("delete", "mgw", NAME)
    eventually(lambda: not _pods(gateway), seconds=SECONDS, what="its pods are gone")
    assert tiny.complete()
