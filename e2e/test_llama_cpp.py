"""The real `llama-server` behind real routers: what users get, and what becomes of requests when it stops."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e import images
from e2e.deploy import stack
from e2e.helpers.engine_contract import EngineBehindRouter, applied, status_of
from e2e.helpers.served_deployment import PROMPT, Served
from e2e.helpers.volume_claim import claim_of
from e2e.images.detect import found_builder
from e2e.images.process import log_path
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.model.tiny_gguf import write_gguf
from e2e.model.tiny_llama import model_folder
from e2e.test_cache import outside
from e2e.test_keys import SECRET, created, status
from inference_operator.engines.llama_cpp.llama_cpp import RUNNING
from inference_operator.engines.llama_cpp.options import OPTIONS, VERSION
from inference_operator.engines.options import Class
from tests.engines.test_llama_cpp import CLOSED
from tests.testing.hub import COMMIT, Hub, serving

IMAGE = "engine-llama-cpp"
WHOLE, SMALL_FILE = "tiny-f32.gguf", "tiny-q8_0.gguf"
SMALL = {
    "maxNumSeqs": 32,
    "args": ["--threads=1"],
    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
}
"""Idle threads wait in a loop for each other, which costs two busy cores more than it brings."""


@pytest.fixture(scope="module")
def server_image(cluster: LocalCluster) -> None:
    images.build([IMAGE])
    stack.load(cluster, IMAGE)


@pytest.fixture(scope="module")
def folder(cluster: LocalCluster) -> Iterator[str]:
    """A claim with the tiny model in two precisions in one folder."""
    disk = cluster.volumes / "gguf"
    (disk / "both").mkdir(parents=True)
    write_gguf(model_folder(), disk / "both" / WHOLE)
    write_gguf(model_folder(), disk / "both" / SMALL_FILE, quantized=True)
    with claim_of(cluster, "gguf", disk) as claim:
        yield claim


@pytest.fixture(scope="module")
def named(cluster: LocalCluster, server_image: None, folder: str) -> Iterator[Served]:  # noqa: ARG001 - is there
    """`Auto` takes llama.cpp for a source that names a file."""
    model = {"source": f"pvc://{folder}/both/{WHOLE}"}
    with applied(cluster, "of-llama-cpp", model=model, engine=SMALL) as served:
        stack.wait_ready(cluster, served.name)
        assert status_of(served)["engine"]["kind"] == "LlamaCpp"
        yield served


def test_every_option_of_the_real_server_has_a_class() -> None:
    images.build([IMAGE])
    log_path(IMAGE).unlink(missing_ok=True)
    found_builder().run(IMAGE, images.reference(IMAGE), ("llama-server", "--help"), {})
    text = log_path(IMAGE).read_text()
    heads = option_heads(text)
    assert set(OPTIONS.by_name) == long_names(heads)
    flags = [head for head in heads if not re.sub(r"--?[\w.-]+|,", "", head).strip()]
    usable = {name for name, one in OPTIONS.by_name.items() if one.kind is not Class.MANAGED}
    assert usable & long_names(flags) == OPTIONS.flags, "the parser reads a value of a flag as an option"


def option_heads(text: str) -> list[str]:
    """Names and value of each option in the help: before the description, in column 41 or on the next line."""
    lines = [line for line in text.splitlines() if re.match(r"--?\w", line)]
    return [line[:40] if line[39:40] == " " else line for line in lines]


def long_names(heads: Sequence[str]) -> set[str]:
    return {name for head in heads for name in re.findall(r"(?<![\w-])--[\w.-]+", head)}


def test_the_image_has_the_version_of_the_tables() -> None:
    log_path(IMAGE).unlink(missing_ok=True)
    found_builder().run(IMAGE, images.reference(IMAGE), ("llama-server", "--version"), {})
    assert f"version: {VERSION} " in log_path(IMAGE).read_text()


def test_a_folder_with_several_models_is_refused_before_any_pod(cluster: LocalCluster, folder: str) -> None:
    engine = {**SMALL, "kind": "LlamaCpp"}
    with applied(cluster, "several", model={"source": f"pvc://{folder}/both"}, engine=engine) as several:
        said = eventually(lambda: stalled(several), seconds=120, what="it is refused")
        assert "there are 2 GGUF models, and which one to load is unknown." in said
        assert not several.pods("engine")


def stalled(served: Served) -> str:
    """Why it is stalled; empty while it is not."""
    found = stack.conditions(served.cluster, served.name).get("Stalled", {})
    return str(found["message"]) if found.get("status") == "True" else ""


@pytest.mark.full
def test_from_zero_with_keys_autoscaling_and_a_cache_and_a_quantized_model(
    cluster: LocalCluster,
    server_image: None,  # noqa: ARG001 - is there
    tmp_path: Path,
) -> None:
    """`Auto` takes llama.cpp for a hub's GGUF. The claim has the model, so the engine starts while the hub is down."""
    secret, key = created("alice")
    cluster.kubectl("apply", "--filename=-", input=secret)
    write_gguf(model_folder(), tmp_path / SMALL_FILE, quantized=True)
    hub = Hub("otters/tiny-GGUF", large={SMALL_FILE: (tmp_path / SMALL_FILE).read_bytes(), WHOLE: b"not asked for"})
    disk = cluster.volumes / "of-llama-cpp"
    disk.mkdir()
    scaling = {"minReplicas": 0, "maxReplicas": 2, "idleTimeout": "30s"}
    router = {"replicas": 1, "keys": {"secretRef": {"name": SECRET}}}
    with claim_of(cluster, disk.name, disk, access="ReadWriteMany"), ExitStack() as resources:
        with serving(hub, address=outside(cluster)) as served_hub:
            engine = {**SMALL, "env": [{"name": "HF_ENDPOINT", "value": served_hub.endpoint}]}
            model, cache = {"source": f"hf://{hub.repository}/{SMALL_FILE}"}, {"claimName": disk.name}
            fields = {"model": model, "engine": engine, "cache": cache, "autoscaling": scaling, "router": router}
            served = resources.enter_context(applied(cluster, "keyed-gguf", **fields))
            eventually(lambda: list(disk.rglob("*.gguf")), seconds=120, what="the model is on the claim")
            eventually(lambda: status(served, "wrong") == 401, seconds=60, what="the router answers")
        eventually(lambda: status(served, key) == 200, seconds=120, what="an engine has started without the hub")
        found = status_of(served)
        assert (found["engine"]["kind"], found["engine"]["modelCommit"]) == ("LlamaCpp", COMMIT)
        eventually(lambda: not served.pods("engine"), seconds=180, what="no engine is left")
        assert status(served, key) == 200
    cluster.kubectl("delete", "secret", SECRET)


def test_tools_are_called_in_the_form_of_the_api(named: Served) -> None:
    """The tiny model calls none; the server reads the list, and answers in words."""
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
    body = {"model": named.name, "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4, "tools": [tool]}
    status, text = named.post("/v1/chat/completions", body)
    assert (status, json.loads(text)["choices"][0]["message"]["role"]) == (200, "assistant")


class TestLlamaCpp(EngineBehindRouter):
    """The tests of every engine."""

    running = RUNNING
    too_long = "exceeds the available context size"
    closed = CLOSED
