"""Every kind of model from a hub, served by real vLLM on a CPU from nothing but `model.source`.

The hub is a mirror on this machine that the operator's default `HF_ENDPOINT` names. What an engine answers is compared
with what transformers answers with the same files.
"""

import base64
import io
import json
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.state import read_record
from e2e.localkube.waiting import eventually
from e2e.model.tiny_models import expected, tiny_models
from inference_operator.engines.vllm.options import VERSION
from inference_operator.engines.vllm.parsers import parsers_of
from tests.testing.hub import COMMIT, Hub, serving

ORGANIZATION = "otters"
DECODER, GATED, THINKING = "decoder", "gated", "Qwen3-tiny-Thinking"
TOKEN = "hf_of_the_test"  # noqa: S105 - of a hub on this machine
REFUSED_SECONDS = 240
"""Limit for the first result of an inspection on two busy cores."""
LEAST_SIMILARITY, SCORE_ERROR = 0.999, 0.02
CUT_BYTES = 300_000
"""Where the first download of weights breaks off; each model's file is larger."""
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}

pytestmark = pytest.mark.full  # seven starts of an engine; e2e/test_start.py covers one start from a hub


@pytest.fixture(scope="module")
def hubs(cluster: LocalCluster) -> Iterator[Mapping[str, Hub]]:
    """A mirror with all models, which the operator's defaults name for inspections and engines."""
    record = read_record(cluster.name)
    assert record is not None
    folders = {path.name: path for path in sorted(tiny_models().iterdir()) if path.is_dir()}
    found = {name: repository(name, folder) for name, folder in folders.items()}
    found[GATED] = repository(GATED, folders[DECODER])
    found[GATED].token = TOKEN
    with serving(*found.values(), address=str(record.subnets[0].outside)) as first:
        variable = {"name": "HF_ENDPOINT", "value": first.endpoint}
        stack.install_operator(
            cluster, {f"settings.engineDefaults.env[0].{key}": value for key, value in variable.items()}
        )
        try:
            yield found
        finally:
            stack.install_operator(cluster)


def repository(name: str, folder: Path) -> Hub:
    """A repository with a model's files; weights come by redirect, as from the real hub."""
    hub = Hub(f"{ORGANIZATION}/{name}")
    for path in (path for path in folder.rglob("*") if path.is_file()):
        kept = hub.large if path.suffix == ".safetensors" else hub.files
        kept[path.relative_to(folder).as_posix()] = path.read_bytes()
    return hub


@contextmanager
def applied(cluster: LocalCluster, model: str, *environment: Mapping[str, Any]) -> Iterator[Served]:
    """A resource with a source. The engine's image has no compiler, and the node no room for usual memory requests."""
    served = Served(cluster, model.lower())
    resource = {
        "apiVersion": "inference-operator.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": served.name},
        "spec": {
            "model": {"source": f"hf://{ORGANIZATION}/{model}"},
            "hardware": {"device": "CPU"},
            "engine": {"args": ["--enforce-eager"], "env": list(environment), **_parsers(model)},
            "router": {"replicas": 1},
        },
    }
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        yield served
    finally:
        served.kubectl("delete", f"infd/{served.name}", "--wait=true")
        served.await_gone()


def _parsers(model: str) -> dict[str, str]:
    """The parsers of the model's family. The tag of the image built here names no version, so none is chosen for it."""
    chosen = parsers_of(f"vllm:v{VERSION}", model=model, architecture="")
    named = {"toolCallParser": chosen.tool_call, "reasoningParser": chosen.reasoning}
    return {field: parser for field, parser in named.items() if parser}


def answer(served: Served, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON of an answer 200."""
    status, text = served.post(path, {"model": served.name, **body})
    assert status == 200, text
    parsed: dict[str, Any] = json.loads(text)
    return parsed


def completes(served: Served, right: Mapping[str, Any]) -> None:
    """The first word is that of transformers."""
    assert served.complete(right["prompt"], max_tokens=4).split()[0] == right["word"].strip()


def sees(served: Served, right: Mapping[str, Any]) -> None:
    """An image counts as its tokens, and another image gets another answer."""
    answers = set()
    for colour in ((255, 0, 0), (0, 0, 255)):
        parts = [{"type": "image_url", "image_url": {"url": picture(colour)}}, {"type": "text", "text": " amber"}]
        body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 6, "temperature": 0}
        found = answer(served, "/v1/chat/completions", body)
        assert found["usage"]["prompt_tokens"] > right["image_tokens"]
        answers.add(found["choices"][0]["message"]["content"])
    assert len(answers) == 2


def embeds(served: Served, right: Mapping[str, Any]) -> None:
    """The vectors are those of transformers."""
    found = answer(served, "/v1/embeddings", {"input": right["texts"]})["data"]
    for one, vector in zip(found, right["vectors"], strict=True):
        pairs = zip(one["embedding"], vector, strict=True)
        assert sum(ours * theirs for ours, theirs in pairs) > LEAST_SIMILARITY


def ranks(served: Served, right: Mapping[str, Any]) -> None:
    """The order of the documents and their scores are those of transformers."""
    found = answer(served, "/v1/rerank", {"query": right["query"], "documents": right["documents"]})["results"]
    assert [one["index"] for one in found] == right["order"]
    assert [one["relevance_score"] for one in found] == pytest.approx(right["scores"], abs=SCORE_ERROR)


def thinks_and_calls(served: Served, right: Mapping[str, Any]) -> None:
    """The answer's thought and its call of a tool are fields of the message, by the parsers of the model's family."""
    body = {"messages": [{"role": "user", "content": "Weather?"}], "tools": [TOOL], "temperature": 0}
    (choice,) = answer(served, "/v1/chat/completions", body)["choices"]
    message, call = choice["message"], json.loads(right["call"])
    assert choice["finish_reason"] == "tool_calls"
    assert (message["reasoning"].strip(), message["content"]) == (right["reasoning"], None)
    (called,) = message["tool_calls"]
    assert called["function"]["name"] == call["name"]
    assert json.loads(called["function"]["arguments"]) == call["arguments"]


CHECKS: Mapping[str, Callable[[Served, Mapping[str, Any]], None]] = {
    DECODER: completes,
    "mixture": completes,
    "awq": completes,
    "vision": sees,
    "embedding": embeds,
    "reranker": ranks,
    THINKING: thinks_and_calls,
}


@pytest.mark.parametrize("model", CHECKS)
def test_a_model_of_each_kind_is_served_from_nothing_but_its_source(
    cluster: LocalCluster, hubs: Mapping[str, Hub], model: str
) -> None:
    """The inspection pins a commit, and the engine loads that one, also after a broken download."""
    hub = hubs[model]
    hub.cut_after = CUT_BYTES
    with applied(cluster, model) as served:
        stack.wait_ready(cluster, served.name)
        resource = json.loads(served.kubectl("get", "infd", served.name, "--output=json"))
        assert resource["status"]["engine"]["modelCommit"] == COMMIT
        assert stack.conditions(cluster, served.name)["ModelResolved"]["reason"] == "ModelKnown"
        CHECKS[model](served, expected()[model])
    assert {path.split("/resolve/")[1].split("/")[0] for path in hub.asked if "/resolve/" in path} == {COMMIT}
    # The client writes chunks of 10 MiB, so it starts a small file anew. tests/model_files has a larger one.
    assert len(hub.offsets) > 1, f"the broken download was not repeated: {hub.offsets}"


def test_a_gated_model_is_refused_without_a_token_and_served_with_one(
    cluster: LocalCluster, hubs: Mapping[str, Hub]
) -> None:
    assert hubs[GATED].token
    with applied(cluster, GATED) as served:
        await_refusal(served, "ModelGated")
        assert not served.pods("engine")
        secret = ("secret", "hub", f"--from-literal=token={TOKEN}")
        served.kubectl("create", "secret", "generic", *secret[1:])
        try:
            patch = {"spec": {"model": {"tokenSecretRef": {"name": "hub", "key": "token"}}}}
            served.kubectl("patch", f"infd/{served.name}", "--type=merge", f"--patch={json.dumps(patch)}")
            stack.wait_ready(cluster, served.name)
            completes(served, expected()[DECODER])
        finally:
            served.kubectl("delete", "secret", "hub")


@pytest.mark.usefixtures("hubs")
def test_a_model_that_the_hub_does_not_have_is_refused_before_any_engine(cluster: LocalCluster) -> None:
    with applied(cluster, "nosuch") as served:
        await_refusal(served, "ModelGated", "ModelNotFound")
        assert not served.pods("engine")


def await_refusal(served: Served, *reasons: str) -> None:
    """Wait until the resource is refused for one of the reasons."""
    eventually(
        lambda: stack.conditions(served.cluster, served.name).get("Stalled", {}).get("reason") in reasons,
        seconds=REFUSED_SECONDS,
        what=lambda: f"{reasons}: {stack.conditions(served.cluster, served.name)}",
    )


def picture(colour: tuple[int, int, int], pixels: int = 56) -> str:
    """A PNG of one colour as a data URL."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(colour) * pixels) * pixels
    header = struct.pack(">IIBBBBB", pixels, pixels, 8, 2, 0, 0, 0)
    png = io.BytesIO(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    return f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
