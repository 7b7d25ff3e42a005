"""Engines behind routers that require API keys: nobody asks them directly, and everything else goes on."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.deploy import stack
from e2e.engines import vllm_options
from e2e.helpers.container_processes import engine_core
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.security.conftest import GUARDED
from e2e.test_keys import status
from e2e.test_watchdog import SHORT_STALL, stalled
from inference_operator.engines.programs import (
    KEY_FILE,
    KEY_PROGRAMS,
    MIDDLEWARE,
    PROGRAMS_VARIABLE,
    guard_of,
    programs_text,
)

NAME, KEY = GUARDED, "a" * 64
REPLACED_SECONDS = 300
OPEN = {"GET /health", "HEAD /health", "GET /metrics"}
KNOWN = {"GET /v1/models", "POST /v1/load_lora_adapter", "POST /tokenize", "POST /pause", "POST /collective_rpc"}
"""Some of the routes that vLLM itself leaves open, or that matter most."""
ASK = (
    'exec 3<>"/dev/tcp/$0/8000"; printf "%s %s HTTP/1.0\\r\\nContent-Length: 2\\r\\n" "$1" "$2" >&3;'
    ' printf "Content-Type: application/json\\r\\n\\r\\n{}" >&3; head -c 12 <&3'
)
"""A request without the key, for bash in another pod."""


def test_no_route_of_vllm_but_health_and_metrics_is_answered_without_the_key(tmp_path: Path) -> None:
    question = {
        "args": ["/models/a", f"--middleware={MIDDLEWARE}"],
        "before": guard_of("qwen").command,
        "file": KEY_FILE,
        "key": KEY,
        "env": {
            PROGRAMS_VARIABLE: programs_text(KEY_PROGRAMS),
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        },
    }
    found: dict[str, dict[str, int]] = vllm_options.answer_of("guarded", question, tmp_path)
    for name in ("without", "wrong"):
        assert found[name].keys() >= KNOWN
        assert {one for one, code in found[name].items() if code != 401} == OPEN
        assert found[name]["GET /metrics"] == 200
    assert 401 not in found["right"].values()
    assert found["right"]["GET /version"] == 200


@pytest.fixture(scope="module")
def guarded(cluster: LocalCluster, key: str) -> tuple[Served, str]:
    """A resource with API keys from its beginning, and a key of a user."""
    stack.wait_ready(cluster, NAME)
    return Served(cluster, NAME), key


def test_an_engine_refuses_another_pod_and_answers_its_routers(guarded: tuple[Served, str]) -> None:
    served, key = guarded
    eventually(lambda: status(served, key) == 200, seconds=120, what="an answer through the router")
    assert status(served, "wrong") == 401
    ((engine, address),) = served.pods("engine").items()
    # From a pod that the NetworkPolicy admits, so that only the key can keep it out.
    (router,) = served.pods("router")
    for method, path, code in (
        *(("GET", "/v1/models", "401"), ("POST", "/v1/completions", "401"), ("POST", "/tokenize", "401")),
        *(("GET", "/version", "401"), ("GET", "/health", "200"), ("GET", "/metrics", "200")),
    ):
        ask = ("exec", router, "--container=haproxy-1", "--", "bash", "-c", ASK, address, method, path)
        assert served.kubectl(*ask).split()[-1] == code, path
    (policy,) = json.loads(served.kubectl("get", "networkpolicies", "--output=json"))["items"]
    assert policy["metadata"]["name"] == f"{NAME}-engine"
    assert stack.conditions(served.cluster, NAME)["Ready"]["status"] == "True"
    assert "without a key" not in stack.conditions(served.cluster, NAME)["Ready"]["message"]
    log = served.kubectl("logs", engine, "--container=engine", "--tail=-1")
    (secret,) = [name for name in served.kubectl("get", "secrets", "--output=name").split() if f"{NAME}-engine" in name]
    hidden = served.kubectl("get", secret, "--output=go-template={{.data.key | base64decode}}")
    pods = served.kubectl("get", "pods,deployments,configmaps,infd", "--output=yaml")
    assert len(hidden) == 64
    assert hidden not in log
    assert hidden not in pods


@pytest.mark.full  # minutes; e2e/test_watchdog.py has the same without keys
def test_an_engine_that_hangs_is_found_and_replaced_although_it_asks_for_a_key(guarded: tuple[Served, str]) -> None:
    served, key = guarded
    (pod,) = served.pods("engine")
    stack.install_operator(served.cluster, numbers=SHORT_STALL)
    try:
        os.kill(engine_core(served.cluster, pod), signal.SIGSTOP)
        with ThreadPoolExecutor(1) as client:
            body = {"model": NAME, "prompt": "otters", "max_tokens": 4}
            answer = client.submit(served.post, "/v1/completions", body, key=key, seconds=REPLACED_SECONDS)
            eventually(lambda: pod in stalled(served), seconds=REPLACED_SECONDS, what=f"{pod} has stalled")
            eventually(lambda: pod not in served.pods("engine"), seconds=REPLACED_SECONDS, what=f"{pod} has ended")
            stack.wait_engines(served.cluster, NAME, 1)
            assert answer.result()[0] == 200, "routers sent the request to the new engine"
    finally:
        stack.install_operator(served.cluster)
