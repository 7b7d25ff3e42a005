"""Contexts beyond a model's own, by `spec.engine.ropeScaling`."""

import json
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.config import Config
from inference_operator.models.context import rope_parameters
from inference_operator.models.facts import ModelFacts
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned, Refused
from tests.sizing.pools import model
from tests.testing.builders import inference_deployment, inputs

ENGINE = Vllm()
QWEN3 = replace(model("Qwen/Qwen3-8B"), rope=(("rope_theta", 1000000),))
YARN = {"factor": 4.0, "originalMaxPositionEmbeddings": 32768}


def refused_as(facts: ModelFacts, *args: str, **scaling: Any) -> str:  # noqa: ANN401 - fields of the API
    spec = EngineSpec(args=args, ropeScaling={**YARN, **scaling})
    found = ENGINE.check_request(spec, facts, ENGINE.shape(spec), image="")
    return found.message if found else ""


def test_the_overrides_are_those_that_vllm_reads_for_a_longer_context() -> None:
    spec = EngineSpec(ropeScaling=YARN)
    served = ENGINE.as_served(QWEN3, spec)
    assert (served.context, served.longest_context) == (131072, 131072)
    assert json.loads(ENGINE.config_overrides(QWEN3, spec)) == {
        "max_position_embeddings": 131072,
        "rope_parameters": {
            "rope_theta": 1000000,
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32768,
        },
    }
    assert ENGINE.config_overrides(QWEN3, EngineSpec()) == ""
    alone = EngineSpec(ropeScaling={"factor": 2, "theta": 5000.0})
    assert ENGINE.as_served(QWEN3, alone).context == 81920
    assert '"rope_theta":5000.0' in ENGINE.config_overrides(QWEN3, alone)


def test_scaling_is_refused_where_vllm_cannot_do_it() -> None:
    assert refused_as(QWEN3) == ""
    assert "Set `spec.engine.ropeScaling.theta`" in refused_as(replace(QWEN3, rope=()))
    assert refused_as(replace(QWEN3, rope=()), theta=1e6) == ""
    assert "`--hf-overrides` in `spec.engine.args` replaces it" in refused_as(QWEN3, "--hf-overrides={}")
    llama = replace(QWEN3, rope=(("rope_theta", 5e5), ("rope_type", "llama3")))
    assert "scaled by `llama3` already" in refused_as(llama)
    assert "Only models that read and write text" in refused_as(model("Qwen/Qwen3.5-27B"))
    assert "Only models that read and write text" in refused_as(model("deepseek-ai/DeepSeek-V3"))


def test_yarn_of_the_model_itself_gives_the_positions_and_the_other_parameters() -> None:
    """vLLM 0.32.0 reads both betas of gpt-oss (`model_executor/models/gpt_oss.py`)."""
    own = {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0}
    scaling = {**own, "original_max_position_embeddings": 4096, "x" * 9000: 1, "note": "y" * 9000, "most": float("inf")}
    config = Config({"max_position_embeddings": 131072, "rope_theta": 150000, "rope_scaling": scaling})
    facts = replace(QWEN3, context=131072, rope=rope_parameters(config))
    spec = EngineSpec(ropeScaling={"factor": 64})
    assert ENGINE.as_served(facts, spec).context == 64 * 4096
    assert json.loads(ENGINE.config_overrides(facts, spec))["rope_parameters"] == {
        **own,
        "factor": 64.0,
        "original_max_position_embeddings": 4096,
        "rope_theta": 150000,
    }
    shorter = EngineSpec(ropeScaling={"factor": 2})
    found = ENGINE.check_request(shorter, facts, ENGINE.shape(shorter), image="")
    assert found
    assert "The model's own factor is 32, so its context would be shorter." in found.message


def test_rotary_positions_of_kinds_of_layers_are_not_scaled() -> None:
    """vLLM 0.32.0 reads `rope_parameters[layer_type]` of them, which one object for all layers lacks."""
    nested = rope_parameters(Config({"rope_parameters": {"full_attention": {"rope_theta": 1e6}}}))
    for facts in (
        replace(QWEN3, rope=nested),
        *(replace(QWEN3, architecture=f"{one}ForCausalLM") for one in ("Gemma3", "Olmo3")),
    ):
        assert "The kinds of layers of this model have rotary positions of their own" in refused_as(facts, theta=1e6)


def decided(**engine: Any) -> Planned | Refused:  # noqa: ANN401 - fields of the API
    found = outcome(inputs(inference_deployment(engine=engine)))
    assert isinstance(found, Planned | Refused)
    return found


def test_an_engine_gets_the_longer_context_and_its_arguments() -> None:
    found = decided(maxModelLen=131072, ropeScaling={**YARN, "theta": 1000000.0})
    assert isinstance(found, Planned)
    assert found.plan.plan.max_model_len == 131072
    (role,) = found.roles
    assert any(
        argument.startswith('--hf-overrides={"max_position_embeddings":131072') for argument in role.process.args
    )


def test_a_context_that_is_too_long_names_the_field() -> None:
    found = decided(maxModelLen=131072)
    assert isinstance(found, Refused)
    assert "If the model's card describes YaRN, set `spec.engine.ropeScaling`." in found.refusal.message
    longer = decided(maxModelLen=200000, ropeScaling={**YARN, "theta": 1000000.0})
    assert isinstance(longer, Refused)
    assert "more than the 131,072 that the model supports" in longer.refusal.message


@pytest.mark.parametrize("factor", [0.5, 65])
def test_a_factor_is_between_1_and_64(factor: float) -> None:
    found = decided(ropeScaling={"factor": factor})
    assert isinstance(found, Refused)
    assert "spec.engine.ropeScaling.factor" in found.refusal.message
