"""Tokens that routers read from the answers of a real vLLM, beside the engine's own counters."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from e2e.helpers.served_deployment import PROMPT, Served, metric
from e2e.localkube.waiting import eventually
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH
from inference_operator.router.process import METRICS_PORTS

SOON = 60
CHAT = {"messages": [{"role": "user", "content": PROMPT}]}
ASKED = {"stream": True, "stream_options": {"include_usage": True}}
REQUESTS: list[tuple[str, Mapping[str, Any]]] = [
    ("/v1/completions", {"prompt": PROMPT, "max_tokens": 7}),
    ("/v1/completions", {"prompt": PROMPT, "max_tokens": 9, **ASKED}),
    ("/v1/chat/completions", {**CHAT, "max_tokens": 11}),
    ("/v1/chat/completions", {**CHAT, "max_tokens": 13, **ASKED}),
    ("/v1/responses", {"input": PROMPT, "max_output_tokens": 15}),
    ("/v1/responses", {"input": PROMPT, "max_output_tokens": 16, "stream": True}),
    ("/v1/messages", {**CHAT, "max_tokens": 17}),
    ("/v1/messages", {**CHAT, "max_tokens": 19, "stream": True}),
]
"""Each form in which vLLM tells the usage of an answer, plain and streamed."""


@pytest.fixture
def counting(tiny: Served) -> Iterator[Served]:
    """The sample whose routers read the tokens of answers; its engine stays."""
    _set_usage(tiny, '"Enabled"')
    tiny.await_routers(2)
    yield tiny
    _set_usage(tiny, "null")
    tiny.await_routers(2)


def _set_usage(served: Served, value: str) -> None:
    before = _generation(served)
    patch = f'{{"spec": {{"router": {{"usage": {value}}}}}}}'
    served.kubectl("patch", "infd", served.name, "--type", "merge", "--patch", patch)
    eventually(lambda: _generation(served) > before, seconds=SOON, what="a new template of the routers")


@pytest.mark.full
def test_tokens_of_real_answers_in_each_form_equal_the_counters_of_the_engine(counting: Served) -> None:
    before = _engine(counting)
    for path, body in REQUESTS:
        status, text = counting.post(path, {"model": "tiny", "temperature": 0, "ignore_eos": True, **body})
        assert status == 200, text
    used = _engine(counting)
    used.subtract(before)
    assert used["completion"] >= 7 + 9 + 11 + 13
    counted = eventually(lambda: (now := _routers(counting)) == used and now, seconds=SOON, what=lambda: str(used))
    assert counted == used
    lines = _logged(counting)
    assert len(lines) == len(REQUESTS)
    for kind in ("prompt", "completion"):
        assert sum(line[f"{kind}_tokens"] for line in lines) == used[kind]
    assert {line["engine"] for line in lines} == set(counting.pods("engine").values())


def _generation(served: Served) -> int:
    deployment = f"deployment/{served.name}-router"
    return int(served.kubectl("get", deployment, "--output", "jsonpath={.metadata.generation}"))


def _engine(served: Served) -> Counter[str]:
    (address,) = served.pods("engine").values()
    names = {"prompt": "vllm:prompt_tokens_total{", "completion": "vllm:generation_tokens_total{"}
    return Counter({kind: int(metric(address, series)) for kind, series in names.items()})


def _routers(served: Served) -> Counter[str]:
    """Tokens that all HAProxy processes have counted, by type."""
    counted = Counter[str]()
    for address in served.pods("router").values():
        for port in METRICS_PORTS:
            for kind in ("prompt", "completion"):
                series = f'{METRIC_PREFIX}tokens_total{{user="",type="{kind}"}}'
                counted[kind] += int(metric(address, series, port=port, path=ROUTER_METRICS_PATH))
    return counted


def _logged(served: Served) -> list[dict[str, Any]]:
    """The lines of the POST requests in the access logs of all routers."""
    logs = [
        served.kubectl("logs", pod, "--container", container)
        for pod in served.pods("router")
        for container in ("haproxy-1", "haproxy-2")
    ]
    lines = [json.loads(line) for log in logs for line in log.splitlines() if line.startswith("{")]
    return [line for line in lines if line["method"] == "POST"]
