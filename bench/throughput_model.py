"""The model of a step's time against published measurements: `python -m bench.throughput_model [--write]`.

Of each measurement follows the share of the tensor cores' speed with which the model gives it. Shares are averaged
(geometric means) by class of kernels, arithmetic and kind of GPU. A mean of n shares counts as n against `SHRINKAGE`
of the level above it; a share of another engine than vLLM counts as `OTHER_WEIGHT`. A point is predicted with shares of
other sources only. Pairs are points of one page with the same metric and workload and different configurations, whose
values differ by at least `APART`.

`--write` stores the shares of all points in `sizing/measured_shares.json`, and the table of
docs/contributing/sizing.md.
"""

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from bench.figures import Figure, at_least, at_most, parser_of, shown
from bench.throughput_points import Point, points
from inference_operator.sizing import efficiency
from inference_operator.sizing.efficiency import Arithmetic, KernelClass

LEAST_SHARE, MOST_SHARE = 0.02, 1.0
BISECTIONS = 14
SHRINKAGE = 2.0
"""Measurements that the level above counts for."""
OWN, OTHER_WEIGHT = "vLLM", 0.25
"""The engine whose steps the model predicts, and what a measurement of another one counts for: TensorRT-LLM reaches two
to three times the share of vLLM with 8 bits on the same GPUs. Every smaller weight down to 0.1 has smaller errors of
vLLM's own rows too; this one still lets them speak for kinds that vLLM has no row of."""
APART = 0.03
MEDIAN_AIM, P90_AIM, ORDER_AIM = at_most(0.25), at_most(0.75), at_least(0.85)
RATED_AIM = at_most(1.2)
"""A speed that is too high buys too few GPUs: large models with experts were rated 1.3 to 2.1 times too fast."""

PAGE = Path(__file__).parents[1] / "docs" / "contributing" / "sizing.md"
RATED = "speed of vLLM on B200, predicted to measured, page held out"
TABLE = "| | value | aim |\n|---|---|---|\n"
"""Begins the page's table of these figures."""

Key = tuple[str, str, str]
"""Class, arithmetic, kind of GPU; empty parts are all."""


def implied(point: Point) -> float:
    """The share with which the model gives a measurement; the nearest possible one if none does."""
    low, high = LEAST_SHARE, MOST_SHARE
    for _ in range(BISECTIONS):
        middle = math.sqrt(low * high)
        too_slow = point.predicted(middle) > point.value if point.is_time else point.predicted(middle) < point.value
        low, high = (middle, high) if too_slow else (low, middle)
    return math.sqrt(low * high)


def shares(found: Sequence[tuple[Point, float]]) -> Mapping[Key, tuple[float, int]]:
    """Shares, and numbers of vLLM's measurements, by class, arithmetic and kind; of their parents too."""
    logarithms: dict[Key, list[tuple[float, float]]] = defaultdict(list)
    for point, share in found:
        for key in _levels(point):
            logarithms[key].append((1.0 if point.engine == OWN else OTHER_WEIGHT, math.log(share)))
    means: dict[Key, float] = {}
    for key in sorted(logarithms, key=lambda one: sum(map(bool, one))):
        values, parent = logarithms[key], _parent(key)
        middle = median(value for _, value in values)
        before = means.get(parent, middle) if parent else middle
        total = sum(weight for weight, _ in values)
        means[key] = (sum(weight * value for weight, value in values) + SHRINKAGE * before) / (total + SHRINKAGE)
    own = {key: sum(weight == 1 for weight, _ in values) for key, values in logarithms.items()}
    return {key: (math.exp(mean), own[key]) for key, mean in means.items()}


def _levels(point: Point) -> tuple[Key, ...]:
    one = point.cell
    return (
        ("", "", ""),
        (one.kernels, "", ""),
        (one.kernels, one.arithmetic, ""),
        (one.kernels, one.arithmetic, one.gpu),
    )


def _parent(key: Key) -> Key | None:
    kernels, arithmetic, gpu = key
    if gpu:
        return kernels, arithmetic, ""
    if arithmetic:
        return kernels, "", ""
    return ("", "", "") if kernels else None


def share_of(point: Point, known: Mapping[Key, tuple[float, int]]) -> float:
    """The share of the most exact level that is known for a point."""
    return next(known[key][0] for key in reversed(_levels(point)) if key in known)


def held_out(found: Sequence[tuple[Point, float]], same: Callable[[Point], str]) -> Mapping[Point, float]:
    """The predictions of points, each with shares of the points of other groups."""
    predictions: dict[Point, float] = {}
    for group in sorted({same(point) for point, _ in found}):
        known = shares([one for one in found if same(one[0]) != group])
        predictions.update({p: p.predicted(share_of(p, known)) for p, _ in found if same(p) == group})
    return predictions


def errors(predictions: Mapping[Point, float]) -> list[float]:
    """The errors as factors above 1, ascending: 0.25 is 25 % too much, or the true value 25 % above the prediction."""
    return sorted(math.exp(abs(math.log(found / point.value))) - 1 for point, found in predictions.items())


def ordered(predictions: Mapping[Point, float]) -> Iterator[tuple[Point, Point, bool]]:
    """Comparable pairs, and whether the model orders them as they were measured."""
    for one, other in combinations(predictions, 2):
        if one.workload != other.workload or one.configuration == other.configuration:
            continue
        if abs(one.value / other.value - 1) >= APART:
            yield one, other, (predictions[one] < predictions[other]) == (one.value < other.value)


def figures(found: Sequence[tuple[Point, float]], left_out: int) -> Iterator[Figure]:
    """The figures of the model with each page held out, and with nothing held out."""
    predictions = held_out(found, lambda point: point.source)
    yield Figure("measurements", len(found), "rows")
    yield Figure("rows without a public config", left_out, "rows")
    yield from _spread("error, page held out", list(predictions), predictions)
    yield from _spread("vLLM, page held out", [p for p in predictions if p.engine == OWN], predictions)
    blackwell = [p for p in predictions if p.engine == OWN and p.kind.name == "B200" and not p.is_time]
    yield Figure(RATED, math.exp(fmean(math.log(predictions[p] / p.value) for p in blackwell)), "", RATED_AIM)
    for metric in sorted({point.metric for point in predictions}):
        yield from _spread(f"{metric}, page held out", [p for p in predictions if p.metric == metric], predictions)
    known = shares(found)
    yield from _spread(
        "error, nothing held out", list(predictions), {p: p.predicted(share_of(p, known)) for p, _ in found}
    )
    pairs = list(ordered(predictions))
    yield Figure("pairs", len(pairs), "pairs")
    yield Figure("pairs ordered rightly, page held out", fmean(right for *_, right in pairs), "", ORDER_AIM)
    same = [right for one, other, right in pairs if one.facts == other.facts]
    yield Figure("pairs of one model ordered rightly", fmean(same), "", ORDER_AIM)


def _spread(name: str, chosen: Sequence[Point], predictions: Mapping[Point, float]) -> Iterator[Figure]:
    found = errors({point: predictions[point] for point in chosen})
    aims = (MEDIAN_AIM, P90_AIM) if name == "error, page held out" else (None, None)
    yield Figure(f"{name}: median", median(found), "", aims[0])
    yield Figure(f"{name}: p90", found[min(len(found) - 1, int(0.9 * len(found)))], "", aims[1])


def stored(known: Mapping[Key, tuple[float, int]]) -> str:
    """The text of `sizing/measured_shares.json`: shares of all, of classes with their arithmetic, and of kinds."""
    rows = [
        {
            "kernels": str(kernels),
            "arithmetic": str(arithmetic),
            "gpu": gpu,
            "share": round(share, 3),
            "measurements": n,
        }
        for (kernels, arithmetic, gpu), (share, n) in sorted(_complete(known).items())
    ]
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"


def _complete(known: Mapping[Key, tuple[float, int]]) -> Mapping[Key, tuple[float, int]]:
    """The shares without the level of classes alone; each class has each arithmetic."""
    every: dict[Key, tuple[float, int]] = {
        (kernels, arithmetic, ""): (known[(kernels, "", "")][0], 0)
        for kernels in KernelClass
        for arithmetic in Arithmetic
        if (kernels, "", "") in known
    }
    exact = {key: value for key, value in known.items() if key[1] or not key[0]}
    return {**every, **exact}


def page_with(text: str, found: Sequence[Figure]) -> str:
    """The page with these figures in its table."""
    value = {figure.name: figure.value for figure in found}

    def percent(part: float) -> str:
        return f"{100 * part:.0f} %"

    def errors_of(name: str) -> str:
        return " / ".join(percent(value[f"{name}, page held out: {part}"]) for part in ("median", "p90"))

    rated = f"at most {RATED_AIM.bound}"
    most, least = f"at most {percent(MEDIAN_AIM.bound)} / {percent(P90_AIM.bound)}", percent(ORDER_AIM.bound)
    pairs, of_one = value["pairs ordered rightly, page held out"], value["pairs of one model ordered rightly"]
    right = f"{percent(pairs)} of {value['pairs']:.0f}"
    rows = (
        f"| error, median / 90 % | {errors_of('error')} | {most} |",
        f"| the same, rows of vLLM | {errors_of('vLLM')} | |",
        f"| speed of vLLM's rows on B200, predicted / measured (geometric mean) | {value[RATED]:.2f} | {rated} |",
        f"| pairs of configurations of one page in the right order | {right} | at least {least} |",
        f"| the same, of one model | {percent(of_one)} | at least {least} |",
    )
    head, begin, rest = text.partition(TABLE)
    _, end, tail = rest.partition("\n\n")
    counted = re.sub(r"\d+ published measurements", f"{value['measurements']:.0f} published measurements", head)
    return counted + begin + "\n".join(rows) + end + tail


def main(arguments: Sequence[str]) -> int:
    """Print the figures, or store the shares and the table."""
    parser = parser_of("python -m bench.throughput_model", "The model of a step's time against measurements.")
    parser.add_argument("--write", action="store_true", help="store the shares of all measurements, and the table")
    asked = parser.parse_args(arguments)
    known, left_out = points()
    found = [(point, implied(point)) for point in known]
    if asked.write:
        file = Path(efficiency.__file__).with_name("measured_shares.json")
        file.write_text(stored(shares(found)), encoding="utf-8")
        page = page_with(PAGE.read_text(encoding="utf-8"), list(figures(found, left_out)))
        PAGE.write_text(page, encoding="utf-8")
        return 0
    print(shown(list(figures(found, left_out)), asked.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
