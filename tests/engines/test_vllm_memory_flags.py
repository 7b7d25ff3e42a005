"""Arguments of `vllm serve` that decide its memory, and which of them are refused."""

import pytest

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.engines.vllm.memory_flags import MAX_CACHE_BYTES, shape_of
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.settings import Settings
from inference_operator.sizing.shape import Adapters

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
    assert shape_of(EngineSpec(args=args)).adapters == expected


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
