"""The computed memory of engines, KV caches, LoRA adapters and a draft model, compared with a real vLLM on the CPU.

These tests run vLLM in a container of its image, without a cluster.
"""

from pathlib import Path

import pytest

from bench.cpu_sizing import line
from e2e.engines.adapter_memory import DRAFTED, measured
from e2e.engines.cache_memory import Size, sizes
from e2e.model.kinds import KINDS
from e2e.runs.printed_figures import Say

EVERY_RUN = ("grouped-query", "windows, 6 of 7 layers", "latent", "linear attention, 3 of 4 layers")
NOT_RUN = {"Mamba 2 and attention, Bamba": "does not dispatch through the Transformers attention interface"}
"""Models that vLLM 0.32 for CPUs cannot start, and its message."""
WEIGHTS_TOLERANCE = 0.1
"""Relative; in models this small, norms and convolutions have a part in the weights."""
WITHOUT_ENDS = "latent"
"""For this model vLLM has no adapters of embedding and head. The operator counts them, since most models have them."""
BY_CPU = "linear attention, 3 of 4 layers"
"""vLLM 0.32 gives it 2,048 blocks on CPUs with AVX-512, as computed, and 4,096 were seen on an AMD EPYC without it."""
BY_AMX = "latent"
"""On CPUs with AMX, vLLM's blocks of it have 128 tokens, and 16 without, as computed (0.32.0, `platforms/cpu.py`)."""
MOST_OVER = 1.25
"""Limit of computed over measured for it: its vocabulary is as large as one of its layers."""


@pytest.mark.full  # six starts of vLLM
def test_lora_adapters_and_a_draft_model_take_the_computed_memory(say: Say) -> None:
    adapters, shared = measured()
    for model in adapters:
        say(f"{model.name}: {model.computed:,} bytes computed, {model.measured:,} measured")
    say(f"{DRAFTED} with a draft model: {shared.computed} blocks computed, {shared.measured} reported")
    for model in adapters:
        limit = model.measured * (MOST_OVER if model.name == WITHOUT_ENDS else 1)
        assert model.measured <= model.computed <= limit, model.name
    assert shared.computed == shared.measured


def test_vllm_allocates_the_computed_kv_cache_blocks(say: Say) -> None:
    compare(sizes(EVERY_RUN), say)


@pytest.mark.full
def test_vllm_allocates_the_computed_kv_cache_blocks_for_every_architecture(say: Say) -> None:
    compare(sizes([name for name in KINDS if name not in EVERY_RUN]), say)


def compare(results: list[Size], say: Say) -> None:
    """Print the figures, and assert that computed and measured ones agree."""
    for size in results:
        say(line(size))
    for size in results:
        if size.name in NOT_RUN:
            assert NOT_RUN[size.name] in size.error
            continue
        assert size.computed is not None
        assert size.computed_weights == pytest.approx(size.file_bytes, rel=WEIGHTS_TOLERANCE), size.name
        assert 0 < size.memory_bytes <= size.requested_bytes, size.name
        if size.name == BY_CPU and "avx512f" not in Path("/proc/cpuinfo").read_text():
            assert size.computed.tokens <= size.told_tokens, "no more is promised than there is"
            continue
        assert size.computed.tokens == size.told_tokens, size.name
        if size.name != BY_AMX or "amx_tile" not in Path("/proc/cpuinfo").read_text():
            assert size.computed.blocks == size.told_blocks, size.name
