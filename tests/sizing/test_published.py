"""Computed memory compared with published start-ups; `python -m bench.sizing` prints all figures."""

import pytest

from bench.sizing import measured, ours
from bench.startups import case, excluded, startups
from inference_operator.engines.vllm.memory import vllm_memory
from inference_operator.sizing.budget import SPARE

FIGURES, REMARKS = measured()


@pytest.mark.parametrize(
    "name",
    [
        "KV tokens, median",
        "KV tokens, p90",
        "KV tokens, family held out, median",
        "KV tokens, family held out, p90",
        "KV tokens, first runner, median",
        "KV tokens, first runner, p90",
        "KV tokens, second runner, median",
        "KV tokens, second runner, p90",
        "verdict: unsafe",
        "verdict: over-refusals",
        "verdict: balanced accuracy",
        "verdict: right near the boundary",
    ],
)
def test_a_published_figure_of_sizing_meets_its_target(name: str) -> None:
    (figure,) = (one for one in FIGURES if one.name == name)
    assert figure.aim
    assert figure.aim.met_by(figure.value)


def test_every_published_startup_is_compared_or_excluded_by_a_rule() -> None:
    values = {one.name: one.value for one in FIGURES}
    left_out = sum(value for name, value in values.items() if name.startswith("excluded: "))
    assert values["rows"] == values["rows judged"] + left_out == len(startups())


def test_more_memory_stays_free_until_ten_startups_of_the_second_runner_are_known() -> None:
    (known,) = (one.value for one in FIGURES if one.name == "KV tokens, second runner, rows")
    assert vllm_memory("0.28.0", memory_gib=80).spare == SPARE
    assert (vllm_memory(memory_gib=80).spare > SPARE) is (known < 10), "fit the graphs again, and drop the larger spare"


def test_every_outlier_of_the_published_startups_has_an_explanation() -> None:
    assert all(not line.endswith(": open") for line in REMARKS)


def test_the_published_startup_at_the_limit_of_two_gpus_has_the_expected_kv_cache() -> None:
    (row,) = (row for row in startups() if row.id == "gt-050")
    assert excluded(row) is None
    assert ours(case(row)).kv_gib == pytest.approx(3.04, abs=0.03)
