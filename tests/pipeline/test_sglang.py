"""SGLang in the pipeline: only where it is named, what its server gets, and what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.engines.registry import ENGINES as RELEASED
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.settings import Settings
from inference_operator.status.report import report
from tests.pipeline.test_engine_choice import VLLM, engine_of, given, planned, refused
from tests.testing.builders import ENGINES

SGLANG = "SGLang"
NAMED = {"kind": SGLANG}
QWEN = "Qwen3ForCausalLM"


def container(**spec: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of the spec
    found = given(QWEN, **{"engine": NAMED, **spec})
    (one,) = planned(found).desired[ENGINES]["spec"]["template"]["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def test_auto_never_takes_it_and_its_options_count_only_where_it_is_named() -> None:
    assert engine_of(given(QWEN)) == (VLLM, "")
    assert SGLANG not in RELEASED.in_order
    assert "--enable-mixed-chunk" not in RELEASED.option_classes["Auto"].safe
    assert "--enable-mixed-chunk" in RELEASED.option_classes[SGLANG].safe


def test_a_named_engine_is_taken_and_the_status_says_what_is_not_known() -> None:
    found = given(QWEN, engine=NAMED)
    assert engine_of(found) == (SGLANG, "")
    status = report(found, outcome(found), []).status
    sized = next(one for one in status.conditions if one.type == "Sized")
    assert "no release of the operator was tested with it on a GPU" in sized.message


def test_the_server_gets_its_sizes_its_image_and_the_check_of_its_gpus() -> None:
    found = container(engine={**NAMED, "maxNumSeqs": 64, "maxModelLen": 4096}, parallelism={"tensor": 2})
    args = set(found["args"])
    assert {"--tp-size=2", "--context-length=4096", "--max-running-requests=64"} <= args
    assert {"--cuda-graph-max-bs-decode=64", "--enable-metrics", "--load-format=safetensors"} <= args
    assert found["image"] == "docker.io/lmsysorg/sglang:v0.5.23"
    assert "gpus=2" in found["command"]
    assert found["livenessProbe"]["httpGet"]["path"] == "/health"
    assert set(found["lifecycle"]["preStop"]) == {"sleep"}, "it finishes its requests itself"
    variables = {one["name"]: one.get("value") for one in found["env"]}
    assert variables["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "false"


def test_it_works_with_a_cache_keys_and_autoscaling() -> None:
    found = given(
        QWEN,
        engine=NAMED,
        cache={"claimName": "models"},
        commit="0123",
        autoscaling={"minReplicas": 0, "maxReplicas": 4},
        router={"keys": {"secretRef": {"name": "keys"}}},
    )
    decided = outcome(found)
    assert not hasattr(decided, "refusal"), decided


@pytest.mark.parametrize(
    ("architecture", "spec", "field", "said"),
    [
        (QWEN, {"hardware": {"device": "CPU"}}, "spec.hardware.device", "does not run on a CPU"),
        ("Qwen2VLForConditionalGeneration", {}, "spec.engine.kind", "serves no models of the architecture"),
        (QWEN, {"engine": {**NAMED, "generation": {"temperature": 1}}}, "spec.engine.generation", "does not support"),
        (QWEN, {"engine": {**NAMED, "multimodal": {"video": True}}}, "spec.engine.multimodal", "does not support"),
        (
            QWEN,
            {"engine": {**NAMED, "image": "docker.io/vllm/vllm-openai:v0.32.0"}},
            "spec.engine.image",
            "an image of vLLM, and the engine needs one of SGLang",
        ),
        (QWEN, {"engine": {**NAMED, "kvCacheDtype": "float16"}}, "spec.engine.kvCacheDtype", "no such type"),
        (QWEN, {"engine": {**NAMED, "toolCallParser": "otter"}}, "spec.engine.toolCallParser", "has no such name"),
        (QWEN, {"engine": {**NAMED, "args": ["--port=1"]}}, "spec.engine.args[0]", "managed by the operator"),
        (
            QWEN,
            {"engine": {**NAMED, "env": [{"name": "SGLANG_PLUGINS", "value": "a"}]}},
            "spec.engine.env[SGLANG_PLUGINS]",
            "is not allowed here",
        ),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(architecture: str, spec: dict[str, Any], field: str, said: str) -> None:
    refusal = refused(given(architecture, **{"engine": NAMED, **spec})).refusal
    assert (refusal.field, said in refusal.message) == (field, True), refusal.message
    assert "otter" not in refusal.message


def test_a_model_whose_files_cannot_be_read_is_refused_also_with_named_sizes() -> None:
    blind = replace(given(QWEN, engine=NAMED, parallelism={"tensor": 1}), nodes=None, children={}, settings=Settings())
    decided = outcome(blind)
    assert not isinstance(decided, Planned), "it could read files, or bring code"


def test_another_image_does_not_switch_the_table_off() -> None:
    engine = {**NAMED, "image": "docker.io/lmsysorg/sglang:v9"}
    refusal = refused(given("Qwen2VLForConditionalGeneration", engine=engine)).refusal
    assert "serves no models of the architecture" in refusal.message


def test_a_model_in_gguf_is_refused() -> None:
    refusal = refused(given("qwen3", weights="a.gguf", engine=NAMED)).refusal
    assert refusal.reason is Reason.UNSUPPORTED_ARCHITECTURE
    assert refusal.problem == "SGLang does not read weights that are GGUF."
