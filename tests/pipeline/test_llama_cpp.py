"""llama.cpp in the pipeline: which models it gets, how its server is started, and what is refused."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.engines.llama_cpp.llama_cpp import PRE_STOP
from inference_operator.engines.llama_cpp.options import PRE_STOP_VARIABLE
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection
from inference_operator.settings import Settings
from inference_operator.status.report import report
from tests.pipeline.test_engine_choice import LLAMA_CPP, VLLM, engine_of, given, planned, refused
from tests.testing.builders import CONFIG, ENGINES, inference_deployment, inputs

FILE = "qwen3-8b-q8_0.gguf"
NAMED = {"kind": LLAMA_CPP}
ON_CLAIM = {"claimName": "models"}


def in_gguf(architecture: str = "qwen3", **spec: Any) -> Inputs:  # noqa: ANN401 - fields of the spec
    """A model in GGUF on a claim; its config is that of Qwen3-8B."""
    return given(architecture, weights=FILE, **{"source": "pvc://models/qwen", **spec})


def container(found: Inputs) -> dict[str, Any]:
    (one,) = planned(found).desired[ENGINES]["spec"]["template"]["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def value_of(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def test_auto_takes_llama_cpp_for_gguf_and_says_why_the_others_could_not() -> None:
    found = in_gguf()
    assert engine_of(found) == (LLAMA_CPP, "")
    status = report(found, outcome(found), []).status
    sized = next(one for one in status.conditions if one.type == "Sized")
    for said in ("The engine is LlamaCpp. VLLM does not read weights that are GGUF.", "llama.cpp has no adapters"):
        assert said in sized.message


def test_the_server_gets_the_file_the_name_and_a_kv_cache_for_all_slots() -> None:
    words = container(in_gguf(engine={**NAMED, "maxModelLen": 5000, "maxNumSeqs": 3}))["args"]
    assert value_of(words, "--model") == f"/models/qwen/{FILE}"
    assert value_of(words, "--alias") == "qwen"
    assert (value_of(words, "--ctx-size"), value_of(words, "--parallel")) == (str(3 * 5120), "3")
    assert (value_of(words, "--gpu-layers"), value_of(words, "--device")) == ("all", "CUDA0")


def test_the_image_decides_the_command_and_needs_no_python() -> None:
    found = container(in_gguf(engine=NAMED))
    assert "command" not in found
    assert found["image"].startswith("ghcr.io/ggml-org/llama.cpp:server-cuda-")
    assert "python" not in str(found)
    hook = found["lifecycle"]["preStop"]["exec"]["command"]
    assert hook[:3] == ["/bin/bash", "-p", "-c"]
    (program,) = [one["value"] for one in found["env"] if one["name"] == PRE_STOP_VARIABLE]
    assert program == PRE_STOP.replace("$", "$$"), "Kubernetes turns it back"


def test_an_image_of_the_settings_is_that_of_its_device() -> None:
    settings = Settings(engine_images={LLAMA_CPP: {"CPU": "example.com/llama.cpp:1"}}, image_registry="mirror.example")
    on_cpus = in_gguf(engine=NAMED, hardware={"device": "CPU"})
    assert container(with_settings(on_cpus, settings))["image"] == "mirror.example/llama.cpp:1"
    on_gpus = container(with_settings(in_gguf(engine=NAMED), settings))["image"]
    assert on_gpus.startswith("mirror.example/ggml-org/llama.cpp:server-cuda-")


def with_settings(found: Inputs, settings: Settings) -> Inputs:
    return replace(found, settings=settings)


def test_without_known_gpus_the_server_gets_its_file_too() -> None:
    found = in_gguf(engine=NAMED, parallelism={"tensor": 1})
    blind = replace(found, nodes=None, settings=Settings())
    assert value_of(container(blind)["args"], "--model") == f"/models/qwen/{FILE}"


def test_a_batch_that_is_asked_for_is_the_servers() -> None:
    words = container(in_gguf(engine={**NAMED, "maxNumBatchedTokens": 8192}))["args"]
    assert (value_of(words, "--batch-size"), value_of(words, "--ubatch-size")) == ("8192", "512")


def test_several_gpus_divide_the_layers() -> None:
    words = container(in_gguf(engine=NAMED, parallelism={"tensor": 3}))["args"]
    assert value_of(words, "--device") == "CUDA0,CUDA1,CUDA2"
    said = refused(in_gguf(engine=NAMED, parallelism={"pipeline": 2})).refusal.message
    assert "llama.cpp divides layers by `spec.parallelism.tensor` alone." in said


def test_on_cpus_it_uses_no_gpu_and_as_many_threads_as_its_limit() -> None:
    limited = {**NAMED, "resources": {"limits": {"cpu": "1500m"}}}
    words = container(in_gguf(engine=limited, hardware={"device": "CPU"}))["args"]
    assert (value_of(words, "--device"), value_of(words, "--gpu-layers")) == ("none", "0")
    assert value_of(words, "--threads") == "2"
    assert (value_of(words, "--parallel"), value_of(words, "--ctx-size")) == ("4", str(4 * 8192))
    assert "--threads" not in container(in_gguf(engine=NAMED))["args"]


def test_a_model_of_a_hub_is_read_from_the_claim_that_has_its_commit() -> None:
    found = in_gguf(source="hf://org/model", engine=NAMED, cache=ON_CLAIM, commit="0123")
    words = container(replace(found, jobs=False))["args"]
    assert value_of(words, "--model") == f"/model-cache/models--org--model/snapshots/0123/{FILE}"


def test_a_source_can_name_one_of_several_files() -> None:
    found = in_gguf(source="hf://org/model/Q4/a.gguf", engine=NAMED, cache=ON_CLAIM, commit="0123")
    words = container(replace(found, jobs=False))["args"]
    assert value_of(words, "--model") == f"/model-cache/models--org--model/snapshots/0123/Q4/{FILE}"
    words = container(in_gguf(source=f"pvc://models/qwen/{FILE}", engine=NAMED))["args"]
    assert value_of(words, "--model") == f"/models/qwen/{FILE}"


def test_on_cpus_auto_inspects_a_source_that_names_a_file() -> None:
    unknown = {"source": "pvc://models/nothing.gguf"}
    assert isinstance(outcome(inputs(inference_deployment(model=unknown, hardware={"device": "CPU"}))), NeedsInspection)


def test_routers_send_as_many_requests_as_there_are_slots_and_list_the_models() -> None:
    config = planned(in_gguf(engine={**NAMED, "maxNumSeqs": 3})).desired[CONFIG]["data"]["haproxy.cfg"]
    assert "maxconn 3 " in config
    assert "if METH_GET { path /v1/models }" in config


def test_arguments_of_users_come_last_with_their_values_apart() -> None:
    words = container(in_gguf(engine={**NAMED, "args": ["--temp=0.5", "--no-cache-prompt"]}))["args"]
    assert words[-3:] == ["--temp", "0.5", "--no-cache-prompt"]


def test_on_cpus_a_model_is_inspected_although_it_is_a_volume() -> None:
    unknown = {"source": "pvc://models/nothing"}
    found = outcome(inputs(inference_deployment(model=unknown, hardware={"device": "CPU"}, engine=NAMED)))
    assert isinstance(found, NeedsInspection)


@pytest.mark.parametrize(
    ("spec", "field", "said"),
    [
        ({"source": "hf://org/model", "engine": NAMED}, "spec.cache", "would download any revision"),
        ({"source": "hf://org/model"}, "spec.cache", "would download any revision"),
        ({"engine": {"kind": VLLM}}, "spec.model.source", "The weights are GGUF, which this engine does not read"),
        ({"engine": {**NAMED, "dtype": "float16"}}, "spec.engine.dtype", "does not support the field"),
        ({"engine": {**NAMED, "args": ["-t", "8"]}}, "spec.engine.args[0]", "takes no such option"),
        ({"engine": {**NAMED, "args": ["--log_file=/tmp/a"]}}, "spec.engine.args[0]", "takes no such option"),
        ({"engine": {**NAMED, "args": ["--perf=--agent"]}}, "spec.engine.args[0]", "takes no value"),
        ({"engine": {**NAMED, "args": ["--samplers", "--perf"]}}, "spec.engine.args[0]", "has no value"),
        ({"engine": {**NAMED, "args": ["--tools=all"]}}, "spec.engine.args[0]", "managed"),
        ({"engine": {**NAMED, "args": ["--slot-save-path=/tmp"]}}, "spec.engine.args[0]", "managed"),
        ({"engine": {**NAMED, "image": "vllm/vllm-openai:v0.32.0"}}, "spec.engine.image", "an image of vLLM"),
        (
            {"engine": {**NAMED, "env": [{"name": "LLAMA_ARG_TOOLS", "value": "all"}]}},
            "spec.engine.env[LLAMA_ARG_TOOLS]",
            "stands for an option",
        ),
        (
            {"engine": {**NAMED, "env": [{"name": "BASH_ENV", "value": "/models/a.sh"}]}},
            "spec.engine.env[BASH_ENV]",
            "which code bash runs",
        ),
        (
            {"engine": {**NAMED, "env": [{"name": "GGML_BACKEND_PATH", "value": "/a.so"}]}},
            "spec.engine.env[GGML_BACKEND_PATH]",
            "load other libraries",
        ),
    ],
)
def test_what_llama_cpp_cannot_do_or_may_not_be_told_is_refused_in_words(
    spec: Mapping[str, Any], field: str, said: str
) -> None:
    refusal = refused(in_gguf(**spec)).refusal
    assert (refusal.field, said in refusal.problem) == (field, True), refusal.message
    assert refusal.cure


def test_safetensors_an_encoder_and_adapters_are_refused_in_words() -> None:
    refusal = refused(given("Qwen3ForCausalLM", source="pvc://models/qwen", engine=NAMED)).refusal
    assert refusal.problem == "LlamaCpp does not read weights that are safetensors."
    refusal = refused(in_gguf("bert", engine=NAMED)).refusal
    assert refusal.problem == "llama.cpp 0.7.0 generates no text with models of the architecture `bert`."
    adapters = [{"name": "sql", "source": "pvc://loras/sql"}]
    asked = {"source": "pvc://models/qwen", "adapters": adapters}
    refusal = refused(inputs(inference_deployment(engine=NAMED, model=asked, cache=ON_CLAIM))).refusal
    assert refusal.field == "spec.model.adapters"


def test_the_label_of_the_pod_names_the_engine() -> None:
    labels = planned(in_gguf(engine=NAMED)).desired[ENGINES]["spec"]["template"]["metadata"]["labels"]
    assert labels["inference-operator.dev/engine"] == LLAMA_CPP
    assert labels["app.kubernetes.io/component"] == ENGINE
