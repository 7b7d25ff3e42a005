"""What adapters and a draft model take was computed beforehand; a real vLLM on the CPU tells what is."""

import pytest

from e2e.beside import DRAFTED, measured

WITHOUT_ENDS = "latent"
"""Of this one vLLM gives embedding and head no adapters; the operator counts them, for it is most that have them."""
MOST_OVER = 1.25
"""Of a model this small, whose vocabulary is as large as a layer."""


def test_adapters_and_a_draft_model_take_what_was_computed(capsys: pytest.CaptureFixture[str]) -> None:
    adapters, shared = measured()
    with capsys.disabled():
        print("", *(f"{one.name}: {one.computed:,} bytes computed, {one.told:,} kept" for one in adapters), sep="\n  ")
        print(f"  {DRAFTED} with a draft model: {shared.computed} blocks computed, {shared.told} told", flush=True)
    for one in adapters:
        assert one.told <= one.computed <= one.told * (MOST_OVER if one.name == WITHOUT_ENDS else 1), one.name
    assert shared.computed == shared.told
