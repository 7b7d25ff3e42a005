"""A Secret that an engine has never reaches who asked for the engine: a real kubelet, a real vLLM."""

import json

import pytest

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.security.conftest import CANARY, EXPANDS, EXPANSION, apply_expanding

NAME = EXPANDS
REPORTED_SECONDS = 240


@pytest.fixture(scope="module")
def served(cluster: LocalCluster, key: str) -> Served:  # noqa: ARG001 - it begins the start
    """An engine that has the Secret in a variable, and names this variable in an argument that its answers repeat."""
    stack.wait_ready(cluster, NAME)
    return Served(cluster, NAME)


def test_an_argument_is_no_way_to_read_a_secret_of_the_engine(served: Served) -> None:
    messages = [{"role": "user", "content": "a"}]
    body = {"model": NAME, "messages": messages, "max_tokens": 1}

    def answered() -> str | None:
        status, text = served.post("/v1/chat/completions", body)
        return text if status == 200 else None

    text = eventually(answered, seconds=60, what="an answer")
    assert json.loads(text or "")["choices"][0]["message"]["role"] == EXPANSION
    (pod,) = served.pods("engine")
    environment = served.kubectl("exec", pod, "--", "cat", "/proc/1/environ").split("\0")
    assert f"HF_TOKEN={CANARY}" in environment
    assert f"OTHER=-{EXPANSION}-" in environment


def test_the_status_names_the_option_that_an_engine_refused_and_not_its_value(served: Served) -> None:
    hostile = "canary-value-0815"
    apply_expanding(served, f"--seed={hostile}-{EXPANSION}")

    def said() -> str | None:
        conditions = stack.conditions(served.cluster, NAME)
        return next((one["message"] for one in conditions.values() if "--seed" in one["message"]), None)

    message = eventually(said, seconds=REPORTED_SECONDS, what=lambda: str(stack.conditions(served.cluster, NAME)))
    assert "`--seed`" in (message or "")
    status = served.kubectl("get", "infd", NAME, "--output=jsonpath={.status}")
    events = served.kubectl("get", "events", "--output=json", f"--field-selector=involvedObject.name={NAME}")
    log = served.cluster.kubectl(
        "--namespace", stack.SYSTEM, "logs", f"--selector=app.kubernetes.io/instance={stack.RELEASE}", "--tail=-1"
    )
    for place in (status, events, log):
        assert hostile not in place
        assert CANARY not in place
        assert EXPANSION not in place
