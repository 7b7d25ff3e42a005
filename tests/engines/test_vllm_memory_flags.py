"""Arguments of `vllm serve` that decide its memory, and which of them are refused."""

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.memory_flags import MAX_CACHE_BYTES, with_arguments
from inference_operator.engines.vllm.speculation import speculation_of
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.settings import Settings
from inference_operator.sizing.shape import Adapters, Shape, Speculation

IMAGE = "docker.io/vllm/vllm-openai:v0.32.0"


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], None),
        (["--max-loras=4"], None),
        (["--enable-lora"], Adapters(16)),
        (["--enable-lora", "--no-enable-lora"], None),
        (["--enable_lora", "--max_loras", "2", "--max-lora-r=8"], Adapters(8, active=2, kept=2)),
        (["--enable-lora", "--max-loras=2", "--max-cpu-loras=5"], Adapters(16, active=2, kept=5)),
        (
            ["--enable-lora", "--fully-sharded-loras", "--lora-dtype=float16"],
            Adapters(16, divided=True, element_bytes=2),
        ),
        (["--enable-lora", "--max-loras=4", "--specialize-active-lora"], Adapters(16, 4, 4, graph_sets=5)),
        (["--enable-lora", "--enable-tower-connector-lora"], Adapters(16, tower=True)),
        (["--enable-lora", "--max-loras=many", "--max-lora-rank"], Adapters(16)),
        (["--enable-lora", "--max-loras=999999999"], Adapters(16, 65536, 65536)),
    ],
)
def test_lora_adapters_are_read_from_the_arguments(args: list[str], expected: Adapters | None) -> None:
    assert with_arguments(Shape(), args).adapters == expected


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--seed=1"], None),
        (['--speculative-config={"method":"ngram","num_speculative_tokens":5,"prompt_lookup_max":4}'], Speculation(5)),
        (['--speculative-config={"model":"[ngram]","num_speculative_tokens":5}'], Speculation(5)),
        (["--spec-method=suffix", "--spec-tokens=8"], Speculation(8)),
        (["-sc", '{"method":"deepseek_mtp","num-speculative-tokens":2}'], Speculation(2, own_layer=True)),
        (["--spec-model", "org/draft", "--spec-tokens", "3"], Speculation(3, draft="org/draft")),
        (
            ['--speculative_config={"method":"eagle3","model":"org/head","revision":"v1","num_speculative_tokens":3}'],
            Speculation(3, draft="org/head", draft_revision="v1"),
        ),
        (["-sc.model=org/draft", "-sc.num-speculative-tokens", "3"], Speculation(3, draft="org/draft")),
        (['--speculative-config={"model":"org/draft"}'], Speculation(1, draft="org/draft")),
        (["--spec-method=ngram_gpu"], Speculation(1, unknown="the speculative decoding method `ngram_gpu`")),
        (
            ['--speculative-config={"method":"custom_class","model":"mine.Proposer"}'],
            Speculation(1, unknown="the speculative decoding method `custom_class`"),
        ),
        (["--speculative-config={not json"], None),
        (["--speculative-config=[]"], None),
        (["--speculative-config=" + "[" * 60_000], None),
        (["--speculative-config"], None),
        (['--speculative-config={"num_speculative_tokens":5}'], None),
        (['--speculative-config={"model":5,"method":{}}'], None),
        (['--speculative-config={"model":"a\\u0000b"}'], None),
    ],
)
def test_speculative_decoding_is_read_from_the_arguments(args: list[str], expected: Speculation | None) -> None:
    assert speculation_of(args) == expected


@pytest.mark.parametrize(
    ("args", "gib"),
    [
        ([], 0.0),
        (["--kv-offloading-size=12.5"], 12.5),
        (["--kv-offloading-size=64", "--kv-offloading-backend=lmcache"], 0.0),
        (["--kv-offloading-size=nan"], 0.0),
        (["--kv-offloading-size=99999999999"], 0.0),
    ],
)
def test_the_size_of_the_kv_cache_in_host_memory_is_read_from_the_arguments(args: list[str], gib: float) -> None:
    assert with_arguments(Shape(), args).kv_offload_gib == gib


def test_a_kv_cache_larger_than_any_gpu_memory_is_refused() -> None:
    asked = EngineSpec(args=("--seed=1", "--kv-cache-memory-bytes", "2048T"))
    refusal = Vllm().check(asked, image=IMAGE, settings=Settings())
    assert refusal is not None
    assert refusal.reason is Reason.INVALID_SPEC
    assert refusal.message == (
        "spec.engine.args[1]: `--kv-cache-memory-bytes` asks for a KV cache of 2,048 TiB on each GPU, which none has. "
        "Give the bytes of one GPU's cache, for example `64G`, or remove it to use all free memory."
    )
    most = EngineSpec(args=(f"--kv-cache-memory-bytes={MAX_CACHE_BYTES}",))
    assert Vllm().check(most, image=IMAGE, settings=Settings()) is None


def test_an_amount_that_vllm_cannot_read_is_refused_with_its_bytes() -> None:
    refusal = Vllm().check(EngineSpec(args=("--kv-cache-memory-bytes=57.5G",)), image=IMAGE, settings=Settings())
    assert refusal is not None
    assert refusal.message == (
        "spec.engine.args[0]: vLLM takes no decimals with the unit `G`, as in `57.5G`. "
        "Write `61740154880`, which is the same number of bytes."
    )
    for accepted in ("61740154880", "57.5g", "57G"):
        asked = EngineSpec(args=(f"--kv-cache-memory-bytes={accepted}",))
        assert Vllm().check(asked, image=IMAGE, settings=Settings()) is None
        assert Vllm().shape(asked).kv_cache_bytes
