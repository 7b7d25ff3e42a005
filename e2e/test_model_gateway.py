"""A ModelGateway on a real node: two models of one name, weights that change and a pod that goes under load.

`make e2e-full` has five models, and every fault of `infd drill` under 10,000 requests. Answers of simulated engines are
those of their model, so that one of another model shows.
"""

import json
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random

import openai
import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.fault_bed import drilled
from e2e.helpers.faults import kill_container
from e2e.helpers.openai_clients import openai_clients
from e2e.helpers.served_deployment import Served
from e2e.load import GENTLE_PAUSE_SECONDS, Fault, Load, Phase
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.runs.printed_figures import Say
from e2e.test_llama_cpp import folder, named, server_image
from inference_operator.cli.drill import DRILLED
from inference_operator.router.gateway import TARGET_HEADER

__all__ = ["folder", "named", "server_image"]

NAME, TWIN = "models", "twin"
SECONDS = 60
LISTED_SECONDS = 30
"""Far more than a list takes on an idle machine."""
REQUESTS, WORKERS = 150, 8
ASKED = 12
CHEAP, ASLEEP, LATE = "cheap", "asleep", "late"
"""Models with simulated engines."""
MANY, RATE, GENTLE = 10_000, 40.0, 2.0
"""Requests of all models, and of a simulated and a real engine in a second: two cores do all of it."""
FAULTS_SECONDS = 1500
AWAY_ANSWERS = 200
"""Answers without an operator."""
KILL_ANSWERS = 300
SLEEP = {"minReplicas": 0, "maxReplicas": 1, "scaleDownDelay": "30s", "idleTimeout": "30s"}


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


@contextmanager
def simulated(cluster: LocalCluster, name: str, *, replicas: int = 1, **more: object) -> Iterator[Served]:
    served = Served(cluster, name)
    with resource_of_stand_ins(served, replicas=replicas, more=more, simulated=True):
        stack.wait_ready(cluster, name)
        yield served


def _listed(gateway: Served) -> set[str]:
    return {one["id"] for one in json.loads(gateway.get("/v1/models")[1])["data"]}


def _await_listed(gateway: Served, name: str, *, listed: bool = True) -> None:
    what = f"{name} is {'' if listed else 'not '}listed"
    eventually(lambda: (name in _listed(gateway)) == listed, seconds=LISTED_SECONDS, what=what)


def _asked(gateway: Served, model: str) -> str:
    """The answer of a model, which is there as soon as it is listed."""
    status, text = gateway.post("/v1/completions", {"model": model, "prompt": "otters"}, seconds=stack.READY_SECONDS)
    assert status == 200, text
    answer: str = json.loads(text)["choices"][0]["text"]
    return answer


def _await_targets(gateway: Served, wanted: set[str]) -> None:
    eventually(lambda: _targets(gateway).keys() == wanted, seconds=SECONDS, what=f"{wanted} answer")


def change_models(cluster: LocalCluster, gateway: Served) -> None:
    """A model comes, gets another name, is weighted, and goes."""
    before = _pods(gateway)
    with simulated(cluster, LATE) as late:
        _await_listed(gateway, LATE)
        assert _asked(gateway, LATE) != _asked(gateway, CHEAP)
        for weights in ({"tiny": 0, "twin": 1}, {"tiny": 1, "twin": 1}, {"tiny": 1, "twin": 0}):
            _aliases(gateway, **weights)
            _await_targets(gateway, {name for name, weight in weights.items() if weight})
        late.kubectl("patch", "infd", LATE, "--type=merge", '--patch={"spec": {"model": {"servedName": "renamed"}}}')
        _await_listed(gateway, "renamed")
        _await_listed(gateway, LATE, listed=False)
    _apply(gateway, {})
    _await_listed(gateway, "renamed", listed=False)
    assert _pods(gateway) == before, "no pod has changed"


def without_operator(cheap: Served, gateway: Served, phase: Phase) -> None:
    """While no operator runs, a pod of the gateway, a router and an engine go, and Kubernetes brings others."""
    where, name = ("--namespace", stack.SYSTEM), f"deployment/{stack.RELEASE}"
    operators = cheap.cluster.kubectl(*where, "get", name, "--output=jsonpath={.spec.replicas}")
    cheap.cluster.kubectl(*where, "scale", name, "--replicas=0")
    try:
        for served, component in ((gateway, "gateway"), (cheap, "router"), (cheap, "engine")):
            pods = set(served.pods(component))
            served.kubectl("delete", "pod", min(pods), "--wait=true")
            eventually(lambda: len(served.pods(component)) == len(pods), seconds=SECONDS, what=f"another {component}")  # noqa: B023
        phase.await_answers(AWAY_ANSWERS)
    finally:
        cheap.cluster.kubectl(*where, "scale", name, f"--replicas={operators}")
        cheap.cluster.kubectl(*where, "rollout", "status", name, f"--timeout={stack.READY_SECONDS}s")


@pytest.fixture(scope="module")
def loads(
    cluster: LocalCluster,
    gateway: Served,
    twin: Served,  # noqa: ARG001 - is there
    named: Served,
) -> Iterator[Mapping[str, Load]]:
    """What is sent to each model at the gateway: its right answers are known."""
    with simulated(cluster, CHEAP, replicas=2), simulated(cluster, ASLEEP, autoscaling=SLEEP):
        loads = {CHEAP: Load(gateway.address, CHEAP)}
        loads |= {name: Load(gateway.address, name, workers=WORKERS) for name in ("tiny", named.name)}
        for name, load in loads.items():
            _await_listed(gateway, name)
            load.learn()
        yield loads


@pytest.mark.full
def test_no_fault_behind_a_gateway_loses_a_request(
    cluster: LocalCluster, tiny: Served, gateway: Served, loads: Mapping[str, Load], say: Say
) -> None:
    cheap, asleep = Served(cluster, CHEAP), Served(cluster, ASLEEP)
    eventually(lambda: not asleep.pods("engine"), seconds=stack.READY_SECONDS, what="the model sleeps")
    with ExitStack() as until:
        phases = {
            name: until.enter_context(
                load.phase(name, at_least=MANY if name == CHEAP else 1, seconds=FAULTS_SECONDS, at_most=10 * MANY)
            )
            for name, load in loads.items()
        }
        for name, phase in phases.items():
            phase.rate = RATE if name == CHEAP else GENTLE
        answers = until.enter_context(openai_clients(tiny, 1, gateway=gateway))
        phases[CHEAP].await_answers(WORKERS)
        change_models(cluster, gateway)
        _asked(gateway, ASLEEP)
        without_operator(cheap, gateway, phases[CHEAP])
        for fault in DRILLED:
            say(f"{fault}: {drilled(cheap, fault, Random(1), gateway=NAME)}")  # noqa: S311 - which pods
    for phase in phases.values():
        say(f"{phase.result}, longest time without an answer {phase.result.gap:.1f} s")
        for line in phase.result.losses():
            say(f"  {line}")
    say(f"openai: {answers.right} answers, {len(answers.failures)} failures {answers.failures[:3]}")
    assert not answers.failures
    assert answers.right
    assert [phase.result.lost for phase in phases.values()] == [()] * len(phases)
    assert sum(phase.result.ok for phase in phases.values()) >= MANY
    assert not any(phase.result.rejected for phase in phases.values())


@pytest.mark.full
def test_a_killed_process_of_a_gateway_loses_its_open_requests_only(
    cluster: LocalCluster, gateway: Served, loads: Mapping[str, Load], say: Say
) -> None:
    load = loads[CHEAP]
    with load.phase("a process of a gateway is killed", at_least=KILL_ANSWERS, seconds=SECONDS * 5) as phase:
        phase.await_answers(KILL_ANSWERS)
        kill_container(cluster, min(gateway.pods("gateway")))
        phase.mark()
        phase.await_answers(KILL_ANSWERS)
    say(str(phase.result))
    assert phase.result.beyond(Fault.KILL_ROUTER_PROCESS) == ()


def test_a_gateway_that_goes_leaves_the_models(tiny: Served, gateway: Served) -> None:
    gateway.kubectl("delete", "mgw", NAME)
    eventually(lambda: not _pods(gateway), seconds=SECONDS, what="its pods are gone")
    assert tiny.complete()
