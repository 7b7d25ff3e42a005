"""Compares rules of scaling: each one is a curve of SLO against GPU-hours over its targets.

A level is a part of requests in percent that shall meet their objectives. What a curve needs for it is interpolated
between its points. A level above all points is unreached: it is never extrapolated.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, log10, nan, sqrt
from statistics import fmean, stdev

STUDENT_95 = {2: 12.71, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Two-sided 95 % quantile of Student's t distribution by the number of values (degrees of freedom plus one)."""


@dataclass(frozen=True, slots=True)
class Point:
    """The result of one rule with one target."""

    target: float
    slo: float
    """Requests that meet both objectives, in percent."""
    gpu_hours: float
    first_token_p99: float
    """Seconds; a request without an answer counts as the longest wait in the router."""
    changes: float
    """Changes of the desired replicas."""


Curve = Sequence[Point]


def mean_point(points: Sequence[Point]) -> Point:
    """The mean over seeds of one target."""
    return Point(
        points[0].target,
        fmean(one.slo for one in points),
        fmean(one.gpu_hours for one in points),
        fmean(one.first_token_p99 for one in points),
        fmean(one.changes for one in points),
    )


def front(curve: Curve) -> list[Point]:
    """The points that no other point beats, from cheap to dear.

    Examples:
        >>> [one.slo for one in front([Point(1, 90, 5, 0, 0), Point(2, 99, 9, 0, 0), Point(3, 89, 6, 0, 0)])]
        [90, 99]
    """
    kept: list[Point] = []
    for point in sorted(curve, key=lambda one: (one.gpu_hours, -one.slo)):
        if not kept or point.slo > kept[-1].slo:
            kept.append(point)
    return kept


def hours_at(curve: Curve, level: float) -> float:
    """GPU-hours that a rule needs for a level; infinite if no target reaches it.

    Examples:
        >>> curve = [Point(1, 98, 10, 0, 0), Point(2, 99, 20, 0, 0)]
        >>> hours_at(curve, 98.5), hours_at(curve, 97), hours_at(curve, 99.5)
        (15.0, 10, inf)
    """
    before: Point | None = None
    for point in front(curve):
        if point.slo >= level:
            if before is None:
                return point.gpu_hours
            part = (level - before.slo) / (point.slo - before.slo)
            return before.gpu_hours + part * (point.gpu_hours - before.gpu_hours)
        before = point
    return inf


def best_at(curves: Mapping[str, Curve], level: float) -> tuple[str, float]:
    """The rule that needs the fewest GPU-hours for a level, and these; an empty name if none reaches it."""
    name = min(curves, key=lambda one: hours_at(curves[one], level))
    hours = hours_at(curves[name], level)
    return (name, hours) if isfinite(hours) else ("", inf)


def highest(curve: Curve) -> Point:
    """The point with the most SLO."""
    return max(curve, key=lambda one: (one.slo, -one.gpu_hours))


def paired_ratio(ours: Sequence[Curve], theirs: Sequence[Curve], level: float) -> tuple[float, float]:
    """The mean ratio of GPU-hours over seeds, with half the width of its 95 % interval.

    Both are not a number if a seed does not reach the level; the half width is, if there is one seed.
    """
    pairs = [(hours_at(one, level), hours_at(other, level)) for one, other in zip(ours, theirs, strict=True)]
    if not all(isfinite(a) and isfinite(b) for a, b in pairs):
        return nan, nan
    ratios = [a / b for a, b in pairs]
    if len(ratios) not in STUDENT_95:
        return fmean(ratios), nan
    return fmean(ratios), STUDENT_95[len(ratios)] * stdev(ratios) / sqrt(len(ratios))


def plotted(curves: Mapping[str, Curve], *, width: int = 72, height: int = 18) -> str:
    """The fronts as text: GPU-hours to the right, logarithmic; SLO upwards, as nines. One letter a rule."""
    letters = {name: chr(ord("a") + place) for place, name in enumerate(curves)}
    points = [(letters[name], one) for name, curve in curves.items() for one in front(curve)]
    across = _scale([_log(one.gpu_hours) for _, one in points], width)
    up = _scale([_nines(one.slo) for _, one in points], height)
    grid = [[" "] * width for _ in range(height)]
    for letter, one in points:
        grid[height - 1 - up(_nines(one.slo))][across(_log(one.gpu_hours))] = letter
    low, high = min(points, key=lambda one: one[1].slo)[1], max(points, key=lambda one: one[1].slo)[1]
    hours = [one.gpu_hours for _, one in points]
    return "\n".join(
        [
            f"SLO {high.slo:.2f} % (top) to {low.slo:.2f} %; {min(hours):.1f} to {max(hours):.1f} GPU-hours",
            *("|" + "".join(line).rstrip() for line in grid),
            "+" + "-" * width,
            "  ".join(f"{letter} {name}" for name, letter in letters.items()),
        ]
    )


def _log(hours: float) -> float:
    return log10(max(hours, 1e-6))


def _nines(slo: float) -> float:
    return -_log(max(100 - slo, 1e-3))


def _scale(values: Sequence[float], size: int) -> Callable[[float], int]:
    low, high = min(values), max(values)
    return lambda value: round((value - low) / max(high - low, 1e-9) * (size - 1))
