"""What a KV cache holds and what an engine takes was computed beforehand; a real vLLM on the CPU tells what is."""

import json

import pytest

from bench.cpu_sizing import line
from e2e.model.kinds import KINDS
from e2e.said import Say
from e2e.served import Served
from e2e.sizes import Size, sizes
from e2e.waiting import eventually

EVERY_RUN = ("grouped-query", "windows, 6 of 7 layers", "latent", "linear attention, 3 of 4 layers")
NOT_RUN = {"Mamba 2 and attention, Bamba": "does not dispatch through the Transformers attention interface"}
"""What vLLM 0.32 for CPUs cannot start, in its own words."""
WEIGHTS_TOLERANCE = 0.1
"""Of models this small, in which norms and convolutions count."""


SEEN_SECONDS = 180
"""All metrics are looked at every 120 s."""
TINY_TOKENS = 64 * 2**20 // (2 * 2 * 2 * 32 * 4)
"""64 MiB, of which a token takes keys and values in 2 layers of 2 heads of 32 elements of 4 bytes."""


def test_status_shows_the_kv_cache_tokens_that_an_engine_reports(tiny: Served) -> None:
    def reported() -> int | None:
        status = json.loads(tiny.kubectl("get", "infd", tiny.name, "--output=json"))["status"]
        tokens: int | None = status["engine"].get("kvCache", {}).get("reportedTokens")
        return tokens

    assert eventually(reported, seconds=SEEN_SECONDS, what="an engine has reported its KV cache") == TINY_TOKENS


def test_vllm_allocates_the_computed_kv_cache_blocks(say: Say) -> None:
    compare(sizes(EVERY_RUN), say)


@pytest.mark.full
def test_vllm_allocates_the_computed_kv_cache_blocks_for_every_architecture(say: Say) -> None:
    compare(sizes([name for name in KINDS if name not in EVERY_RUN]), say)


def compare(found: list[Size], say: Say) -> None:
    """Say what was measured, and judge it."""
    for size in found:
        say(line(size))
    for size in found:
        if size.name in NOT_RUN:
            assert NOT_RUN[size.name] in size.error
            continue
        assert size.computed is not None
        assert (size.computed.blocks, size.computed.tokens) == (size.told_blocks, size.told_tokens), size.name
        assert size.computed_weights == pytest.approx(size.file_bytes, rel=WEIGHTS_TOLERANCE), size.name
        assert 0 < size.memory_bytes <= size.requested_bytes, size.name
