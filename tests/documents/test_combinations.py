"""What goes with what: the operator's rules against what vLLM said (`e2e/test_combinations.py` compares its table)."""

from generators.combinations import GUESSING, OF_CLUSTER, PAIRS, Pair, of_vllm, refusal
from tests.testing.for_each import for_each

STRICTER: dict[Pair, str] = {
    ("a pipeline", "data parallel"): "the plan and the routers count either stages or ranks of an engine",
}
"""Pairs that vLLM's configuration accepts and the operator refuses, and why."""


@for_each(PAIRS)
def test_the_operator_accepts_what_vllm_accepts_and_nothing_else(pair: Pair) -> None:
    if set(pair) & set(OF_CLUSTER):
        return
    refused, error = refusal(pair), of_vllm()[pair]
    if pair in STRICTER:
        assert refused
        assert not error
    else:
        assert bool(refused) == bool(error), (refused, error)


def test_vllm_was_asked_about_each_pair_that_it_sees() -> None:
    assert of_vllm().keys() == {pair for pair in PAIRS if not set(pair) & set(OF_CLUSTER)}


def test_vllm_was_asked_about_forty_plans_that_guess_or_keep_caches_otherwise() -> None:
    """The image's parser and configuration read the arguments of each (`e2e/test_combinations.py`)."""
    kinds = {*GUESSING, "an FP8 KV cache", "KV offload"}
    assert sum(bool(set(pair) & kinds) for pair in of_vllm()) >= 40
