"""`spec.engine.kind`: which engine serves a model, what the status says about it, and when it changes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.engines.registry import ENGINES as RELEASED
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Planned, Refused
from inference_operator.status.report import report
from inference_operator.views.pod import PodProblem, pod_view
from tests.testing.builders import CONFIG, ENGINES, inference_deployment, inputs, model_known, pod

VLLM, TRANSFORMERS, LLAMA_CPP = RELEASED.in_order
HELIUM, NEO = "HeliumForCausalLM", "XGLMForCausalLM"
"""An architecture that vLLM runs through Transformers, and one that only Transformers runs."""
NO_NODE = PodProblem(Reason.UNSCHEDULABLE, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
NAMED = {"kind": TRANSFORMERS}


def given(architecture: str = "", *, weights: str = "model.safetensors", commit: str = "", **spec: object) -> Inputs:
    """A resource whose model was inspected; its config is that of Qwen3-8B with another architecture."""
    raw = inference_deployment(**{"source": "hf://org/model", **spec})  # type: ignore[arg-type] # fields of the spec
    return inputs(raw, children=[model_known(raw, architecture=architecture, origin=weights, commit=commit)])


def planned(found: Inputs) -> Planned:
    decided = outcome(found)
    assert isinstance(decided, Planned), decided
    return decided


def engine_of(found: Inputs) -> tuple[str, str]:
    """Engine and implementation of the decision."""
    plan = planned(found).plan
    return plan.engine, plan.plan.implementation


def refused(found: Inputs) -> Refused:
    decided = outcome(found)
    assert isinstance(decided, Refused), decided
    return decided


def command(found: Inputs) -> list[str]:
    (container,) = planned(found).desired[ENGINES]["spec"]["template"]["spec"]["containers"]
    return [*container["command"], *container["args"]]


@pytest.mark.parametrize(
    ("architecture", "engine", "implementation"),
    [
        ("Qwen3ForCausalLM", VLLM, ""),
        (HELIUM, VLLM, "transformers"),
        (NEO, TRANSFORMERS, ""),
        ("NeverHeardOfForCausalLM", VLLM, ""),
    ],
)
def test_auto_takes_the_first_engine_that_knows_the_architecture(
    architecture: str, engine: str, implementation: str
) -> None:
    assert engine_of(given(architecture)) == (engine, implementation)


def test_the_implementation_becomes_an_argument_of_vllm_unless_the_user_names_one() -> None:
    assert "--model-impl=transformers" in command(given(HELIUM))
    named = command(given(HELIUM, engine={"args": ["--model-impl=auto"]}))
    assert [word for word in named if word.startswith("--model-impl")] == ["--model-impl=auto"]


def test_the_status_says_which_link_was_taken_why_the_former_could_not_and_what_is_lost() -> None:
    found = given(NEO)
    status = report(found, outcome(found), []).status
    sized = next(one for one in status.conditions if one.type == "Sized")
    for part in ("The engine is Transformers.", "vLLM 0.32.0 has no implementation", "one request at a time"):
        assert part in sized.message
    assert status.engine is not None
    assert status.engine.kind == TRANSFORMERS
    usual = report(given(), outcome(given()), []).status
    assert "The engine is" not in next(one for one in usual.conditions if one.type == "Sized").message


def test_an_engine_for_one_request_at_a_time_has_the_context_of_its_model() -> None:
    plan = planned(given(NEO)).plan.plan
    assert (plan.max_model_len, plan.max_num_seqs, plan.context_reduced) == (40960, 1, False)


def test_routers_send_as_many_requests_as_the_engine_computes_and_list_the_models_themselves() -> None:
    config = planned(given(NEO)).desired[CONFIG]["data"]["haproxy.cfg"]
    assert "maxconn 1 " in config
    assert "if METH_GET { path /v1/models }" in config
    assert "if METH_GET no_engine { path /v1/models }" in planned(given()).desired[CONFIG]["data"]["haproxy.cfg"]


def test_a_kind_that_is_named_is_taken_and_another_kind_is_another_plan() -> None:
    before = planned(given())
    found = replace(given(engine=NAMED), children={**given(engine=NAMED).children, **before.desired})
    after = planned(found)
    assert (before.plan.engine, after.plan.engine) == (VLLM, TRANSFORMERS)
    assert after.plan.plan.implementation == "batched"
    assert after.desired[ENGINES] != before.desired[ENGINES]


def test_an_engine_that_was_chosen_stays_while_the_specification_is_the_same() -> None:
    made = planned(given(NEO))
    again = replace(given("Qwen3ForCausalLM"), children={**given("Qwen3ForCausalLM").children, **made.desired})
    assert engine_of(again) == (TRANSFORMERS, "")
    assert planned(again).plan == made.plan


def test_an_engine_that_was_chosen_stays_where_its_pods_cannot_be_scheduled() -> None:
    made = planned(given(NEO))
    waiting = replace(pod_view(pod(), component=ENGINE), problem=NO_NODE)
    again = given("Qwen3ForCausalLM")
    found = outcome(replace(again, children={**again.children, **made.desired}, pods=(waiting,)))
    assert isinstance(found, Planned)
    assert found.plan.engine == TRANSFORMERS


@pytest.mark.parametrize(
    ("architecture", "spec", "field", "said"),
    [
        ("", {"engine": NAMED, "parallelism": {"tensor": 2}}, "spec.parallelism.tensor", "divides no model"),
        ("", {"engine": NAMED, "parallelism": {"pipeline": 2}}, "spec.parallelism.pipeline", "divides no model"),
        (NEO, {"parallelism": {"tensor": 2}}, "spec.parallelism.tensor", "The engine is Transformers. vLLM 0.32.0"),
        ("", {"engine": {**NAMED, "kvCacheDtype": "fp8"}}, "spec.engine.kvCacheDtype", "does not support the field"),
        ("", {"engine": {**NAMED, "args": ["--max-num-seqs=8"]}}, "spec.engine.args[0]", "takes no such option"),
        ("", {"engine": {**NAMED, "args": ["--trust-remote-code"]}}, "spec.engine.args[0]", "managed"),
        ("", {"engine": {**NAMED, "args": ["--default-seed"]}}, "spec.engine.args[0]", "has no value"),
        ("", {"engine": {**NAMED, "image": "ollama/ollama:1"}}, "spec.engine.image", "an image of Ollama"),
        ("", {"engine": {"image": "lmsysorg/sglang:v0.5.23"}}, "spec.engine.image", "an image of SGLang"),
        ("LlavaForConditionalGeneration", {"engine": NAMED}, "spec.engine.kind", "serves text models only"),
    ],
)
def test_what_transformers_cannot_do_is_refused_in_words(
    architecture: str, spec: Mapping[str, Any], field: str, said: str
) -> None:
    refusal = refused(given(architecture, **spec)).refusal
    assert (refusal.field, said in refusal.problem) == (field, True), refusal.message
    assert refusal.cure


def test_weights_that_an_engine_does_not_read_are_refused_by_name() -> None:
    refusal = refused(given(weights="1 .gguf files", engine=NAMED)).refusal
    assert refusal.problem == "Transformers does not read weights that are GGUF."


def test_adapters_are_refused_where_the_model_names_them() -> None:
    adapters = [{"name": "sql", "source": "pvc://loras/sql"}]
    asked = {"source": "hf://Qwen/Qwen3-8B", "adapters": adapters}
    found = inputs(inference_deployment(engine=NAMED, model=asked, cache={"claimName": "models"}))
    refusal = refused(found).refusal
    assert (refusal.reason, refusal.field) == (Reason.INVALID_SPEC, "spec.model.adapters")


def test_on_cpus_the_sizes_are_those_of_the_server() -> None:
    asked = {**NAMED, "maxNumSeqs": 4}
    words = command(given(hardware={"device": "CPU"}, engine=asked))
    for word in ("sequences=4", "context=32768", "--device=cpu", "--continuous-batching"):
        assert word in words


def test_on_cpus_a_model_is_inspected_for_an_engine_that_must_know_it() -> None:
    unknown = {"source": "pvc://models/nothing"}
    by_vllm, by_transformers = (
        outcome(inputs(inference_deployment(model=unknown, hardware={"device": "CPU"}, engine=engine)))
        for engine in ({"kind": VLLM}, NAMED)
    )
    assert isinstance(by_vllm, Planned)
    assert isinstance(by_transformers, NeedsInspection)
