"""KV cache blocks and tokens that vLLM 0.32.0 on a CPU logged for caches of 256 MiB (`python -m bench.cpu_sizing`)."""

import pytest

from e2e.engines.cache_memory import computed
from e2e.model.kinds import KINDS
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import model_facts

TOLD = {
    "multi-head": (512, 65536),
    "grouped-query": (1024, 131072),
    "grouped-query, 1.3 GB of weights": (64, 8192),
    "multi-query": (2048, 262144),
    "mixture of experts": (1024, 131072),
    "window": (1024, 199728),
    "windows, 6 of 7 layers": (4096, 106184),
    "windows, every other layer, experts": (2048, 167772),
    "chunks, 3 of 4 layers": (4096, 182361),
    "latent": (3640, 58240),
    "linear attention, 3 of 4 layers": (2048, 381300),
    "Mamba 2, 3 of 4 layers": (1365, 279552),
    "Mamba 2, attention and MLPs apart": (682, 164321),
}


@pytest.mark.parametrize("name", TOLD)
def test_the_computed_kv_cache_equals_that_of_a_real_vllm(name: str) -> None:
    facts = model_facts({**KINDS[name], "dtype": "bfloat16"})
    assert isinstance(facts, ModelFacts)
    found = computed(facts)
    assert (found.blocks, found.tokens) == TOLD[name]
