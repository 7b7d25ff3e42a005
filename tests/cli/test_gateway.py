"""`infd gateway list` and `status`."""

import json

import pytest

from inference_operator.cli.parser import EXIT_NOT_FOUND
from inference_operator.manifest import MODEL_GATEWAY, Manifest
from inference_operator.objects.adapter_list import ADVERTISED
from tests.cli.conftest import Infd
from tests.testing.stored_answers import ApiServer, listing

PATH = "/apis/inference-operator.dev/v1alpha1/namespaces/default/modelgateways"
LIST = "/api/v1/namespaces/default/configmaps/models-models"
NAMES = "chat *9|10.0.0.7|80|qwen;f|10.0.0.8|80|small\nqwen 10.0.0.7|80|qwen\nold -|Paused|old\n"


def gateway(*, ready: str = "True", reason: str = "Serving", **status: object) -> Manifest:
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": "Serving" if ready == "True" else "RouterUnavailable",
        "message": "2/2 pods are ready. 2 of 3 models can answer.",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    shown = {"modelsReady": "2/3", "readyReplicas": 2, "names": 3, "url": "http://models.default.svc", **status}
    return {
        "apiVersion": MODEL_GATEWAY.api_version,
        "kind": MODEL_GATEWAY.name,
        "metadata": {"name": "models", "namespace": "default", "uid": "u", "generation": 1, "resourceVersion": "1"},
        "spec": {},
        "status": {"conditions": [condition], "reason": reason, "message": condition["message"], **shown},
    }


@pytest.fixture(autouse=True)
def answers(server: dict[str, bytes]) -> dict[str, bytes]:
    server[PATH] = listing(gateway())
    server[f"{PATH}/models"] = json.dumps(gateway()).encode()
    server[LIST] = json.dumps({"metadata": {"name": "models-models"}, "data": {ADVERTISED: NAMES}}).encode()
    return server


def test_the_list_tells_models_and_pods_and_what_is_wrong(infd: Infd, answers: dict[str, bytes]) -> None:
    status, said, _ = infd("gateway", "list")
    assert (status, said.splitlines()) == (
        0,
        ["NAME    READY  REASON   MODELS  PODS  NAMES", "models  True   Serving  2/3     2     3"],
    )
    answers[PATH] = listing(gateway(reason="NameRefused", message="The name `a` is taken."))
    assert infd("gateway", "list")[1].splitlines()[1:] == [
        "models  True   NameRefused  2/3     2     3",
        "",
        "models: The name `a` is taken.",
    ]
    answers[PATH] = listing()
    assert infd("gateway", "list")[1] == "There is no ModelGateway in the namespace `default`.\n"


def test_a_gateway_is_shown_with_who_answers_for_each_name(infd: Infd, answers: dict[str, bytes]) -> None:
    status, said, _ = infd("gateway", "status", "models")
    assert (status, said.splitlines()) == (
        0,
        [
            "models: Serving. 2/2 pods are ready. 2 of 3 models can answer.",
            "http://models.default.svc",
            "",
            "MODEL  ANSWERED BY",
            "chat   qwen (9), else small",
            "qwen   qwen",
            "old    nobody: old says Paused",
        ],
    )
    shown = json.loads(infd("gateway", "status", "models", "-o", "json")[1])
    assert (shown["ready"], shown["modelsReady"], shown["answeredBy"]["old"]) == (
        True,
        "2/3",
        "nobody: old says Paused",
    )
    answers[f"{PATH}/models"] = json.dumps(gateway(ready="False", reason="RouterUnavailable")).encode()
    assert infd("gateway", "status", "models")[0] == 1


@pytest.mark.parametrize("command", ["status", "chat"])
def test_a_gateway_that_is_not_there_is_named(infd: Infd, command: str) -> None:
    words = ["other", "qwen", "Hi"] if command == "chat" else ["other"]
    status, _, complaint = infd("gateway", command, *words)
    assert (status, complaint) == (EXIT_NOT_FOUND, "There is no ModelGateway `other` in the namespace `default`.\n")


def test_a_gateway_without_a_ready_pod_is_not_asked(infd: Infd, answers: dict[str, bytes]) -> None:
    answers[f"{PATH}/models"] = json.dumps(
        gateway(ready="False", readyReplicas=0, message="No node has room.")
    ).encode()
    status, _, complaint = infd("gateway", "chat", "models", "qwen", "Hi")
    assert (status, complaint) == (1, "No pod of models is ready: No node has room.\n")
    assert not [path for path in ApiServer.asked if path.endswith("/pods")]
