"""What adapters and a draft model take was computed beforehand; a real vLLM on the CPU tells what is."""

from e2e.beside import DRAFTED, measured
from e2e.said import Say

WITHOUT_ENDS = "latent"
"""Of this one vLLM gives embedding and head no adapters; the operator counts them, for it is most that have them."""
MOST_OVER = 1.25
"""Of a model this small, whose vocabulary is as large as a layer."""


def test_lora_adapters_and_a_draft_model_take_the_computed_memory(say: Say) -> None:
    adapters, shared = measured()
    for one in adapters:
        say(f"{one.name}: {one.computed:,} bytes computed, {one.told:,} kept")
    say(f"{DRAFTED} with a draft model: {shared.computed} blocks computed, {shared.told} told")
    for one in adapters:
        assert one.told <= one.computed <= one.told * (MOST_OVER if one.name == WITHOUT_ENDS else 1), one.name
    assert shared.computed == shared.told
