"""Predicted gains of speculative decoding beside published ones: `python -m bench.speculation`.

A gain is the time of a token without guesses, divided by that with them. The rows of one page fitted two constants of
`sizing/step_costs.py`; the others are held out. Rows of SpecForge are of SGLang with chains of guesses; the size of
their head is that of its `configs/qwen3-30B-eagle3.json`.
"""

import csv
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median

from bench.figures import Figure, at_most, parser_of, shown
from bench.throughput_points import facts_of
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.hardware.kinds import kind_named
from inference_operator.hardware.offers import offer_of_kind
from inference_operator.sizing.budget import TYPICAL_TOKENS
from inference_operator.sizing.shape import ParallelSizes, Shape, Speculation

FILE = Path(__file__).parent / "data" / "speculation.csv"
FITTED = "vllm-project/vllm#20780"
CONTEXT = TYPICAL_TOKENS / 4
"""Mean tokens of a sequence: the rows are of MT-Bench, whose prompts are short."""
AIM = at_most(0.15)
"""Median error of a gain, and the largest of rows that fitted nothing: what a gain must be for `Auto`."""


@dataclass(frozen=True, slots=True)
class Row:
    """A published gain."""

    source: str
    name: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        return abs(self.predicted / self.published - 1)


@cache
def rows() -> tuple[Row, ...]:
    with FILE.open(encoding="utf-8", newline="") as file:
        return tuple(_row(row) for row in csv.DictReader(file))


def _row(row: dict[str, str]) -> Row:
    kind, facts, tokens = kind_named(row["gpu"]), facts_of(row["model"]), int(row["tokens"])
    if kind is None:
        raise ValueError(row["gpu"])
    head = round(2 * float(row["head_parameters"]))
    guesses = Speculation(tokens, head_bytes=head, accepted=(float(row["step_tokens"]) - 1) / tokens)
    parallel = ParallelSizes(int(row["tensor"]))
    engine = Vllm().on_gpus("", offer_of_kind(kind, per_node=parallel.tensor, nodes=1))
    plain, guessing = (engine.step_costs(facts, Shape(parallel, speculation=each)) for each in (None, guesses))
    if plain is None or guessing is None:
        raise ValueError(row["model"])
    at = float(row["concurrency"])
    without, with_them = (costs.seconds(at, context=CONTEXT) / costs.tokens_of_step for costs in (plain, guessing))
    gpus, guessed = f"{row['tensor']} x {row['gpu']}", f"{row['draft']}, {tokens} guessed"
    name = f"{row['model']} on {gpus}, {guessed}, {row['concurrency']} at once"
    return Row(row["source"], name, float(row["gain"]), without / with_them)


def figures() -> Iterator[Figure]:
    for row in rows():
        yield Figure(f"{row.name} ({row.source}): published {row.published:.2f}, predicted", row.predicted, "times")
    held_out = [row.error for row in rows() if row.source != FITTED]
    yield Figure("median error", median(row.error for row in rows()), "", AIM)
    yield Figure("largest error of the rows that fitted nothing", max(held_out), "", AIM)


def main(arguments: Sequence[str]) -> int:
    """Print the predictions beside what is published, and their errors."""
    asked = parser_of("python -m bench.speculation", "Predicted gains of speculative decoding.").parse_args(arguments)
    print(shown(list(figures()), asked.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
