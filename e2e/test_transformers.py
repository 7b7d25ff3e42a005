"""The real `transformers serve` behind real routers: what users get, and what becomes of requests when it stops."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

from e2e import images
from e2e.deploy import stack
from e2e.engines.vllm_options import answer_of
from e2e.helpers.engine_contract import EngineBehindRouter, applied, status_of
from e2e.helpers.served_deployment import PROMPT, Served
from e2e.helpers.volume_claim import claim_of
from e2e.images.detect import found_builder
from e2e.images.errors import ImageError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.model.tiny_models import expected, tiny_models
from e2e.test_cache import outside
from e2e.test_keys import SECRET, created, status
from e2e.test_models import repository
from inference_operator.cli.drill.load import PROMPTS
from inference_operator.engines import transformers
from inference_operator.engines.transformers.memory import VERSION
from inference_operator.engines.transformers.transformers import OPTIONS, RUNNING
from tests.testing.hub import serving

STREAMS = 4
CLOSED = ("/load_model", "/reset", "/v1/audio/transcriptions", "/metrics", "/docs", "/openapi.json")
NEO = "neo"
ONLY_TEXT = "this server is for models that read only text"
SMALL = {
    "dtype": "float32",
    "maxNumSeqs": 64,
    "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
}


@pytest.fixture(scope="module")
def both(cluster: LocalCluster) -> Iterator[tuple[Served, Served]]:
    """The tiny model on the engine that is named, and one that only Transformers knows on the one that is chosen."""
    hub = repository(NEO, tiny_models() / NEO)
    with serving(hub, address=outside(cluster)) as served, ExitStack() as resources:
        mirror = [{"name": "HF_ENDPOINT", "value": served.endpoint}]
        source = {"model": {"source": f"hf://otters/{NEO}"}, "engine": {**SMALL, "env": mirror}}
        named = resources.enter_context(applied(cluster, "by-name", engine={**SMALL, "kind": "Transformers"}))
        chosen = resources.enter_context(applied(cluster, "by-choice", **source))
        for one in (named, chosen):
            stack.wait_ready(cluster, one.name)
        yield named, chosen


@pytest.fixture
def named(both: tuple[Served, Served]) -> Served:
    return both[0]


def test_auto_takes_transformers_for_a_model_that_vllm_does_not_know(both: tuple[Served, Served]) -> None:
    _, chosen = both
    right, status = expected()[NEO], status_of(chosen)
    assert status["engine"]["kind"] == "Transformers"
    (sized,) = [one for one in status["conditions"] if one["type"] == "Sized"]
    assert "vLLM 0.32.0 has no implementation of `GPTNeoForCausalLM`" in sized["message"]
    assert chosen.complete(right["prompt"], max_tokens=24) == right["answer"]


def test_a_model_of_another_name_is_not_there(named: Served) -> None:
    client = openai.OpenAI(base_url=f"http://{named.address}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.NotFoundError, match="There is no such model") as refused:
        client.completions.create(model="nobody", prompt=PROMPT)
    assert refused.value.type == "invalid_request_error"


def test_an_answer_ends_with_the_context(named: Served) -> None:
    """The prompt leaves few tokens to the answer: busy cores take 30 ms for each."""
    prompt = " otter" * 1900
    status, body = named.post("/v1/completions", {"model": named.name, "prompt": prompt, "max_tokens": 10**9})
    usage = json.loads(body)["usage"]
    assert (status, usage["prompt_tokens"], usage["total_tokens"]) == (200, 1900, 2048)


def test_two_requests_with_one_identity_get_their_own_answers(named: Served) -> None:
    """The command itself gives both the answer to one, or none (transformers 5.19.0)."""

    def ask(prompt: str) -> str:
        body = {"model": named.name, "prompt": prompt, "max_tokens": 100, "temperature": 0}
        headers = {"Content-Type": "application/json", "X-Request-ID": "the-same"}
        url = f"http://{named.address}/v1/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - a cluster's own
            text: str = json.load(answer)["choices"][0]["text"]
        return text

    right = [named.complete(prompt, max_tokens=100) for prompt in PROMPTS[:STREAMS]]
    with ThreadPoolExecutor(STREAMS) as clients:
        assert list(clients.map(ask, PROMPTS[:STREAMS])) == right


def test_routes_that_control_the_server_are_closed_at_the_engine(named: Served) -> None:
    (address,) = named.pods("engine").values()
    for path in (*CLOSED[:3], "/v1/models"):
        for body in (None, b"{}"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{address}:8000{path}", body, timeout=10)
            with refused.value:
                assert refused.value.code == 404


def test_every_option_of_the_real_command_has_a_class(tmp_path: Path) -> None:
    found = answer_of("transformers_options", [], tmp_path)
    assert found["version"] == VERSION
    assert set(OPTIONS.by_name) == {*found["options"], "--help"}


def test_a_model_that_reads_images_is_refused_by_the_server() -> None:
    """The library would fetch whatever URL or path a request names. The operator refuses such a model as well."""
    command = (
        "/opt/vllm/bin/python",
        "-I",
        "/program/server_program.py",
        "/models/vision",
        "name=a",
        "revision=",
        "context=0",
    )
    limits = ("sequences=1", "cache=0", "batch=64", "idle=5", "folder=/tmp", "--", "--device=cpu", "--port=8765")
    folder = Path(str(transformers.__file__)).parent
    with pytest.raises(ImageError, match=ONLY_TEXT):
        found_builder().run(
            "reads-images",
            images.reference("engine-cpu"),
            (*command, *limits),
            {folder: "/program:ro", tiny_models(): "/models:ro"},
        )


@pytest.mark.full
def test_from_zero_with_keys_autoscaling_and_a_cache(cluster: LocalCluster) -> None:
    """The claim has the model, so the engine starts while the hub is down."""
    secret, key = created("alice")
    cluster.kubectl("apply", "--filename=-", input=secret)
    folder = cluster.volumes / "of-transformers"
    folder.mkdir()
    scaling = {"minReplicas": 0, "maxReplicas": 2, "idleTimeout": "30s"}
    router = {"replicas": 1, "keys": {"secretRef": {"name": SECRET}}}
    with claim_of(cluster, folder.name, folder, access="ReadWriteMany"), ExitStack() as resources:
        with serving(repository(NEO, tiny_models() / NEO), address=outside(cluster)) as hub:
            engine = {**SMALL, "env": [{"name": "HF_ENDPOINT", "value": hub.endpoint}]}
            model, cache = {"source": f"hf://otters/{NEO}"}, {"claimName": folder.name}
            fields = {"model": model, "engine": engine, "cache": cache, "autoscaling": scaling, "router": router}
            served = resources.enter_context(applied(cluster, "keyed", **fields))
            eventually(lambda: served.pods("router"), seconds=120, what="a router")
            eventually(lambda: list(folder.rglob("*.safetensors")), seconds=120, what="the model is on the claim")
            eventually(lambda: status(served, "wrong") == 401, seconds=60, what="the router answers")
        eventually(lambda: status(served, key) == 200, seconds=120, what="an engine has started without the hub")
        assert status_of(served)["engine"]["kind"] == "Transformers"
        eventually(lambda: not served.pods("engine"), seconds=180, what="no engine is left")
        assert status(served, key) == 200
    cluster.kubectl("delete", "secret", SECRET)


class TestTransformers(EngineBehindRouter):
    """The tests of every engine."""

    running = RUNNING
    too_long = "prompt and answer together"
    closed = CLOSED
    slow_words = 500
