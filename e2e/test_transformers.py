"""The real `transformers serve` behind real routers: what users get, and what becomes of requests when it stops."""

import asyncio
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
import yaml

from e2e import images, stack
from e2e.claim import claim_of
from e2e.cluster.handle import LocalCluster
from e2e.containers import container_processes
from e2e.faults import kill_container
from e2e.images.detect import found_builder
from e2e.images.errors import ImageError
from e2e.load import Load
from e2e.load.completion import Question, answer_text
from e2e.load.load import PROMPTS
from e2e.model.tiny_models import expected, tiny_models
from e2e.said import Say
from e2e.served import PROMPT, Served, metric
from e2e.test_cache import outside
from e2e.test_keys import SECRET, created, status
from e2e.test_models import repository
from e2e.vllm_options import answer_of
from e2e.waiting import eventually
from inference_operator.engines import transformers
from inference_operator.engines.transformers.architectures import VERSION
from inference_operator.engines.transformers.options import OPTIONS
from inference_operator.engines.transformers.transformers import RUNNING
from tests.testing.hub import serving

SLOW_WORDS = 1500
"""Several seconds of work."""
STREAMS = 4
BEFORE, AFTER = 100, 200
PHASE_SECONDS = 300
END_SECONDS = 40
"""`dnsStaleness` of 15 s, the end of the server, and a margin for two busy cores."""
CLOSED = ("/load_model", "/reset", "/v1/audio/transcriptions", "/metrics", "/docs", "/openapi.json")
NEO = "neo"
ONLY_TEXT = "this server is for models that read only text"
HANG_SECONDS = 420
"""Five liveness probes of 60 s each, the grace period of 10 s, and a margin."""
SMALL = {
    "dtype": "float32",
    "maxNumSeqs": 64,
    "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
}


@contextmanager
def applied(cluster: LocalCluster, name: str, **spec: Any) -> Iterator[Served]:  # noqa: ANN401 - any JSON
    """The sample for CPUs with other fields, at rest; deleted at the end of the block."""
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = name
    resource["spec"] = {**resource["spec"], "router": {"replicas": 1}, **spec}
    served = Served(cluster, name)
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    try:
        yield served
    finally:
        served.kubectl("delete", f"infd/{name}", "--wait=true")
        served.await_gone()


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


def status_of(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(served.kubectl("get", "infd", served.name, "--output=json"))["status"]
    return found


def test_auto_takes_transformers_for_a_model_that_vllm_does_not_know(both: tuple[Served, Served]) -> None:
    _, chosen = both
    right, status = expected()[NEO], status_of(chosen)
    assert status["engine"]["kind"] == "Transformers"
    (sized,) = [one for one in status["conditions"] if one["type"] == "Sized"]
    assert "vLLM 0.32.0 has no implementation of `GPTNeoForCausalLM`" in sized["message"]
    assert chosen.complete(right["prompt"], max_tokens=24) == right["answer"]


def test_answers_are_those_of_vllm(tiny: Served, named: Served) -> None:
    for prompt in (PROMPT, *PROMPTS[:4]):
        assert named.complete(prompt, max_tokens=16) == tiny.complete(prompt, max_tokens=16)


def test_the_openai_client_gets_completions_chats_streams_and_the_list_of_models(named: Served) -> None:
    client = openai.OpenAI(base_url=f"http://{named.address}/v1", api_key="none", max_retries=0)
    assert [one.id for one in client.models.list()] == [named.name]
    assert client.models.retrieve(named.name).id == named.name
    whole = client.completions.create(model=named.name, prompt=PROMPT, max_tokens=8, temperature=0)
    assert (whole.model, whole.choices[0].finish_reason) == (named.name, "length")
    streamed = client.completions.create(model=named.name, prompt=PROMPT, max_tokens=8, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == whole.choices[0].text
    asked: Any = [{"role": "user", "content": PROMPT}]
    chat = client.chat.completions.create(model=named.name, messages=asked, max_tokens=4, temperature=0)
    chunks = client.chat.completions.create(model=named.name, messages=asked, max_tokens=4, temperature=0, stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == chat.choices[0].message.content
    with pytest.raises(openai.NotFoundError, match="There is no such model") as refused:
        client.completions.create(model="nobody", prompt=PROMPT)
    assert refused.value.type == "invalid_request_error"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_each_request_has_sampling_parameters_of_its_own(named: Served) -> None:
    asked = {"model": named.name, "prompt": PROMPT, "max_tokens": 200}
    hot = [json.loads(named.post("/v1/completions", {**asked, "temperature": 2})[1]) for _ in range(3)]
    cold = [named.complete(max_tokens=200) for _ in range(2)]
    assert len({one["choices"][0]["text"] for one in hot}) == 3
    assert len(set(cold)) == 1


def test_a_request_has_at_most_the_context(named: Served) -> None:
    status, body = named.post("/v1/completions", {"model": named.name, "prompt": "otter " * 3000})
    assert (status, "prompt and answer together" in body) == (400, True)
    status, body = named.post("/v1/completions", {"model": named.name, "prompt": PROMPT, "max_tokens": 10**9})
    assert (status, json.loads(body)["usage"]["total_tokens"]) == (200, 2048)


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


def test_routes_that_control_the_server_are_closed_at_the_router_and_at_the_engine(named: Served) -> None:
    (address,) = named.pods("engine").values()
    for path in CLOSED:
        assert named.get(path)[0] == 404
    for path in (*CLOSED[:3], "/v1/models"):
        for body in (None, b"{}"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"http://{address}:8000{path}", body, timeout=10)
            with refused.value:
                assert refused.value.code == 404


def test_every_option_of_the_real_command_has_a_class(tmp_path: Path) -> None:
    found = answer_of("transformers_options", [], tmp_path)
    assert found["version"] == VERSION
    assert {one.name for one in OPTIONS} == {*found["options"], "--help"}


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


def test_a_stopped_engine_finishes_its_streams_and_is_gone_soon_after(named: Served, say: Say) -> None:
    questions = [
        Question(f"http://{named.address}/v1/completions", named.name, prompt, streamed=True, tokens=SLOW_WORDS)
        for prompt in PROMPTS[:STREAMS]
    ]
    right = asyncio.run(_answers(questions))
    ((pod, address),) = named.pods("engine").items()
    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(lambda: asyncio.run(_answers(questions)))
        eventually(lambda: metric(address, RUNNING) == STREAMS, seconds=30, what="all requests are running")
        named.kubectl("delete", "pod", pod, "--wait=false")
        began = time.monotonic()
        assert answers.result() == right
    eventually(lambda: pod not in named.pods("engine"), seconds=END_SECONDS, what="the engine is gone")
    say(f"{STREAMS} streams were finished; their engine was gone {time.monotonic() - began:.1f} s after its deletion")
    stack.wait_engines(named.cluster, named.name, 1)


async def _answers(questions: list[Question]) -> list[str]:
    async with aiohttp.ClientSession() as session:
        return list(await asyncio.gather(*(answer_text(session, question) for question in questions)))


def test_a_killed_engine_loses_only_the_requests_in_progress(named: Served, say: Say) -> None:
    named.scale(2)
    load = Load(named.address, named.name)
    load.learn()
    pod = min(named.pods("engine"))
    with load.phase("SIGKILL of an engine", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        kill_container(named.cluster, pod)
        phase.mark()
        phase.await_answers(AFTER)
    say(str(phase.result))
    assert phase.result.lost_later == ()


@pytest.mark.full
def test_a_server_that_hangs_is_restarted_by_the_kubelet(named: Served) -> None:
    named.scale(1)
    (pod,) = named.pods("engine")
    os.kill(int(container_processes(named.cluster, pod)[0].name), signal.SIGSTOP)
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    eventually(
        lambda: named.kubectl("get", "pod", pod, f"--output={restarts}") == "1",
        seconds=HANG_SECONDS,
        what="the kubelet restarts it",
    )
    stack.wait_engines(named.cluster, named.name, 1)
    assert named.complete()


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


def test_from_none_to_two_to_none(named: Served) -> None:
    named.scale(0)
    with ThreadPoolExecutor(1) as client:
        waiting = client.submit(named.complete)
        assert named.get("/v1/models")[0] == 200
        named.scale(2)
        assert waiting.result() == named.complete()
    named.scale(0)
