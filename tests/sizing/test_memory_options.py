"""Arguments of vLLM that change memory: counted, or named as not counted."""

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.engines.options import Class, Memory
from inference_operator.engines.vllm.option_classes import OPTION_CLASSES
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.budget import Budget
from inference_operator.sizing.lora_and_speculative import unaccounted
from inference_operator.sizing.shape import ParallelSizes, SizingInputs
from tests.sizing.pools import model, on_gpus, pool
from tests.sizing.test_limits_at_start import chosen, refused

GEMMA, EXPERTS, KIMI, HYBRID = (
    model(name)
    for name in (
        "google/gemma-3-27b-it",
        "Qwen/Qwen3-235B-A22B-Instruct-2507-FP8",
        "moonshotai/Kimi-K2.5",
        "Qwen/Qwen3.5-27B",
    )
)

BY_FIELD = {
    *("--kv-offloading-backend", "--kv-offloading-size"),
    *("--spec-method", "--spec-model", "--spec-tokens", "--speculative-config"),
}
"""Options that change memory and are counted by the fields of `spec.engine` that set them."""


def budget(facts: ModelFacts, gpus: str, *args: str, tensor: int = 1, context: int | None = None) -> Budget:
    shape = Vllm().shape(EngineSpec(args=args, maxModelLen=context)).with_tensor(tensor)
    return on_gpus(pool(gpus)[0]).budget(facts, shape)


def asked(*args: str, tensor: int | None = None, context: int | None = None) -> SizingInputs:
    return SizingInputs(tensor=tensor, nodes=1, shape=Vllm().shape(EngineSpec(args=args, maxModelLen=context)))


def test_without_the_hybrid_manager_layers_with_windows_keep_every_token() -> None:
    usual = chosen(GEMMA, "H100:1", asked(tensor=1, context=49152))
    found = refused(GEMMA, "H100:1", asked("--disable-hybrid-kv-cache-manager", tensor=1, context=49152))
    assert "KV 23.2 for 49,152 tokens" in found.problem or "KV 23.3 for 49,152 tokens" in found.problem
    assert usual.budget.kv_needed < 12


def test_without_the_hybrid_manager_models_with_states_do_not_start() -> None:
    spec = EngineSpec(args=("--disable-hybrid-kv-cache-manager",))
    found = Vllm().check_request(spec, HYBRID, Vllm().shape(spec), image="")
    assert found
    assert "whose layers keep states" in found.message
    assert Vllm().check_request(spec, GEMMA, Vllm().shape(spec), image="") is None


def test_copies_of_experts_take_the_memory_of_experts() -> None:
    args = ("--enable-expert-parallel", "--enable-eplb")
    plain, balanced = (
        budget(EXPERTS, "H100:8", *args, *more, tensor=8) for more in ((), ("--eplb-config.num_redundant_experts=32",))
    )
    assert balanced.weights - plain.weights == pytest.approx(0.25 * 25, abs=1.5)
    assert balanced.kv_tokens < plain.kv_tokens
    engine = on_gpus(pool("H100:8")[0])
    shape = Vllm().shape(EngineSpec(args=(*args, '--eplb-config={"num_redundant_experts": 3}')))
    assert "131 experts, of which 3 are copies, are not divisible by 8." in str(
        engine.broken_rule(EXPERTS, shape.with_tensor(8))
    )


def test_copies_of_experts_need_whole_experts() -> None:
    spec = EngineSpec(args=("--enable-eplb",))
    found = Vllm().check_request(spec, EXPERTS, Vllm().shape(spec), image="")
    assert found
    assert "Add `--enable-expert-parallel`" in found.cure
    spread = EngineSpec(args=("--enable-expert-parallel",))
    dense = Vllm().check_request(spread, GEMMA, Vllm().shape(spread), image="")
    assert dense
    assert "a model without experts" in dense.message
    assert Vllm().check_request(spread, EXPERTS, Vllm().shape(spread), image="") is None


def test_decode_context_parallelism_divides_the_cache() -> None:
    plain = chosen(KIMI, "H200:8", asked(tensor=8))
    divided = chosen(KIMI, "H200:8", asked("--decode-context-parallel-size=8", tensor=8))
    assert divided.budget.kv_tokens == pytest.approx(8 * plain.budget.kv_tokens, rel=0.02)


@pytest.mark.parametrize(
    ("facts", "tensor", "ranks", "words"),
    [
        (KIMI, 8, 3, "8 ranks are not divisible by 3"),
        (GEMMA, 8, 8, "needs 8 ranks for each of 16 KV heads"),
        (EXPERTS, 8, 2, ""),
        (EXPERTS, 8, 4, "needs 4 ranks for each of 4 KV heads"),
    ],
)
def test_decode_context_parallelism_needs_ranks_for_it(facts: ModelFacts, tensor: int, ranks: int, words: str) -> None:
    args = (f"--decode-context-parallel-size={ranks}", "--enable-expert-parallel")
    rule = on_gpus(pool("H200:8")[0]).broken_rule(facts, Vllm().shape(EngineSpec(args=args)).with_tensor(tensor))
    assert words in (rule or "")
    assert bool(rule) is bool(words)


def test_blocks_of_the_cache_are_multiples_of_16_tokens() -> None:
    for size, words in ((8, "No attention has blocks of 8 tokens. Set `--block-size` to a multiple of 16."), (64, "")):
        spec = EngineSpec(args=(f"--block-size={size}",))
        found = Vllm().check_request(spec, GEMMA, Vllm().shape(spec), image="")
        assert (found.message if found else "").endswith(words)


def test_types_of_states_and_prefixes_decide_about_the_memory_of_states() -> None:
    usual, small, alone = (
        budget(HYBRID, "H200:1", *args, context=8192).concurrency
        for args in ((), ("--mamba-ssm-cache-dtype=bfloat16",), ("--no-enable-prefix-caching",))
    )
    assert small > usual
    assert alone > usual


def test_other_arguments_that_change_memory_are_named() -> None:
    shape = Vllm().shape(EngineSpec(args=("--enable-dbo", "--max-cudagraph-capture-size=64", "--seed=3")))
    assert unaccounted(GEMMA, shape) == (
        "the memory that `--enable-dbo` changes",
        "the memory that `--max-cudagraph-capture-size` changes",
    )
    assert not unaccounted(GEMMA, Vllm().shape(EngineSpec(args=("--seed=3", "--enable-prefix-caching"))))


def test_every_option_has_one_effect_on_memory() -> None:
    effects = {option.name: option.memory for option in OPTION_CLASSES}
    assert effects["--decode-context-parallel-size"] is Memory.COUNTED
    assert effects["--num-gpu-blocks-override"] is Memory.UNCOUNTED
    assert effects["--seed"] is Memory.NONE
    counted = {name for name, effect in effects.items() if effect is Memory.COUNTED}
    managed = {option.name for option in OPTION_CLASSES if option.kind is Class.MANAGED}
    assert managed >= BY_FIELD
    assert len(counted | BY_FIELD) > 25


def test_sizes_of_a_shape_are_those_of_its_arguments() -> None:
    shape = Vllm().shape(EngineSpec(args=("--decode-context-parallel-size=2",)))
    assert (shape.parallel, shape.cache.ranks) == (ParallelSizes(1), 2)
