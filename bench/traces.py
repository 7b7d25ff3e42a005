"""Workloads for `bench/autoscaling.py`: public traces, and bursts.

Formats of files (`--format`):

- `azure`: CSV with TIMESTAMP, ContextTokens, GeneratedTokens: one line a request (Azure/AzurePublicDataset, 2023).
- `servegen`: CSV with t_s, rate_rps, active_clients, rate_weighted_cv: one line for each 10 minutes (sums of
  alibaba/ServeGen); lengths come from the file of quantiles with the same prefix. Arrivals inside the 10 minutes are
  drawn from a Gamma distribution with a coefficient of variation of 2.
- `mooncake`: JSON lines with timestamp in ms, input_length, output_length, and hash_ids: one for each 512 tokens
  (kvcache-ai/Mooncake). What an earlier request of the file began with is in the prefix cache, which is without end.
"""

import csv
import json
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from math import isfinite
from pathlib import Path

import numpy as np

from bench.engine_steps import Floats
from bench.fleet_simulation import Workload

ARRIVAL_CV = 2.0
"""Coefficient of variation of the time between two arrivals within a line of rates."""
BURST_CV = 1.5
BLOCK = 512
"""Tokens of a block in Mooncake's traces."""


class TraceError(Exception):
    """A trace file that cannot be read; the message names the file, the place and the reason."""


class Format(StrEnum):
    """Format of a trace file."""

    AZURE = "azure"
    SERVEGEN = "servegen"
    MOONCAKE = "mooncake"


def read(
    path: Path, form: Format, *, seed: int, divide: float = 1.0, start: float = 0.0, hours: float = 24.0
) -> Workload:
    """The workload of a trace file.

    Args:
        path: the file.
        form: its format.
        seed: for what the file does not tell: arrivals within a line of rates, lengths, the choice of requests.
        divide: the rate is divided by this; below 1, requests are repeated at other times.
        start: seconds of the file to leave out.
        hours: how much of it to read.

    Returns:
        requests with their times from `start` on, in seconds.

    Raises:
        TraceError: the file is missing, is not in this format, or has nothing in this time.
    """
    try:
        workload = _read(path, form, seed=seed, divide=divide, start=start, seconds=3600 * hours)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is not text; the formats are CSV and JSON lines") from error
    if len(workload.arrivals) == 0:
        raise TraceError(f"{path} has no request between {start:g} s and {start + 3600 * hours:g} s")
    return workload


def _read(path: Path, form: Format, *, seed: int, divide: float, start: float, seconds: float) -> Workload:
    random = np.random.default_rng([seed, 1])
    if form is Format.SERVEGEN:
        return _servegen(path, random, divide, start, seconds)
    table = np.array(list(_azure(path) if form is Format.AZURE else _mooncake(path))).reshape(-1, 4)
    table = table[(table[:, 0] >= start) & (table[:, 0] < start + seconds)]
    table[:, 0] -= start
    if divide > 1:
        table = table[random.random(len(table)) < 1 / divide]
    copies = round(1 / divide) - 1 if divide < 1 else 0
    table = np.concatenate([table, *(_moved(table, random) for _ in range(copies))])
    table = table[np.argsort(table[:, 0], kind="stable")]
    tokens = np.maximum(table[:, 1:3], 1)
    return Workload(
        path.stem,
        table[:, 0].copy(),
        tokens[:, 0].copy(),
        tokens[:, 1].copy(),
        float(table[-1, 0]) + 1 if len(table) else 0.0,
        np.minimum(table[:, 3], tokens[:, 0] - 1),
    )


def _moved(table: Floats, random: np.random.Generator) -> Floats:
    """The same requests at other times, up to a minute away, with lengths in another order."""
    times = np.clip(table[:, 0] + random.uniform(-60, 60, len(table)), 0, None)
    return np.column_stack([times, random.permutation(table[:, 1:])])


def flash(seed: int, *, step_seconds: float = 1200.0) -> Workload:
    """Bursts: 4, 40, 4, 24 and 4 requests per second, each for `step_seconds`."""
    random = np.random.default_rng([seed, 2])
    rates = (4.0, 40.0, 4.0, 24.0, 4.0)
    arrivals = [n * step_seconds + _gamma(rate, step_seconds, BURST_CV, random) for n, rate in enumerate(rates)]
    times = np.concatenate(arrivals)
    return Workload("flash", times, *_lengths(len(times), random), step_seconds * len(rates))


def day(seed: int, *, seconds: float = 14_400.0) -> Workload:
    """A day in four hours: from 4 to 28 requests per second and back, in lines of 10 minutes as traces have them."""
    random = np.random.default_rng([seed, 3])
    times = _in_lines(16, 12, 0.1, seconds, random)
    return Workload("day", times, *_lengths(len(times), random), seconds)


def long_tail(seed: int, *, seconds: float = 10_800.0) -> Workload:
    """From 3 to 15 requests per second and back, with prompts of a heavy tail: a median of 545, 1 % beyond 11,000."""
    random = np.random.default_rng([seed, 4])
    times = _in_lines(9, 6, 0.15, seconds, random)
    prompts = np.clip(random.lognormal(6.3, 1.3, len(times)), 1, 100_000).round()
    outputs = np.clip(random.lognormal(5.0, 1.0, len(times)), 1, 4000).round()
    return Workload("long tail", times, prompts, outputs, seconds)


def embeddings(seed: int, *, seconds: float = 7200.0) -> Workload:
    """Documents of a pooling model, from 20 to 120 a second and back: a median of 245 tokens, 1 % beyond 2,500."""
    random = np.random.default_rng([seed, 5])
    times = _in_lines(70, 50, 0.15, seconds, random)
    prompts = np.clip(random.lognormal(5.5, 1.0, len(times)), 1, 8000).round()
    return Workload("embeddings", times, prompts, np.ones(len(times)), seconds)


def _lengths(count: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Prompts and answers of a chat in tokens: medians 665 and 200."""
    prompts = np.clip(random.lognormal(6.5, 1.0, count), 1, 8000).round()
    outputs = np.clip(random.lognormal(5.3, 0.8, count), 1, 2000).round()
    return prompts, outputs


def _in_lines(mean: float, swing: float, noise: float, seconds: float, random: np.random.Generator) -> Floats:
    """Arrival times of a day of so many seconds, with a rate for each 10 minutes as traces have them."""
    width = 600.0
    middles = np.arange(width / 2, seconds, width)
    rates = (mean - swing * np.cos(2 * np.pi * middles / seconds)) * random.lognormal(0, noise, len(middles))
    return np.concatenate([n * width + _gamma(float(rate), width, ARRIVAL_CV, random) for n, rate in enumerate(rates)])


def _gamma(rate: float, seconds: float, cv: float, random: np.random.Generator) -> Floats:
    """Arrival times with this rate; gaps are drawn from a Gamma distribution."""
    if rate <= 0:
        return np.zeros(0)
    shape = 1 / cv**2
    count = int(rate * seconds + 6 * cv * np.sqrt(rate * seconds)) + 10
    times = np.cumsum(random.gamma(shape, 1 / (rate * shape), count))
    return times[times < seconds]


def _servegen(path: Path, random: np.random.Generator, divide: float, start: float, seconds: float) -> Workload:
    found = np.array(list(_rows(path, "t_s", "rate_rps"))).reshape(-1, 2)
    if len(found) < 2:  # noqa: PLR2004 - a width needs two lines
        raise TraceError(f"{path} has fewer than two lines of rates")
    width = float(found[1, 0] - found[0, 0])
    lines = [(at - start, rate / divide) for at, rate in found if start <= at < start + seconds]
    times = np.concatenate([np.zeros(0), *(at + _gamma(rate, width, ARRIVAL_CV, random) for at, rate in lines)])
    quantiles = path.with_name(path.name.replace("rate_10min", "token_quantiles"))
    table = np.array(list(_rows(quantiles, "pct", "input_tokens", "output_tokens"))).reshape(-1, 3)
    if not len(table) or quantiles == path:
        raise TraceError(f"{path} needs a file of token quantiles beside it, named *token_quantiles*.csv")
    chances = table[:, 0] / 100
    prompts, outputs = (np.interp(random.random(len(times)), chances, table[:, n]).round() for n in (1, 2))
    end = lines[-1][0] + width if lines else 0.0
    return Workload(path.stem, times, np.maximum(prompts, 1), np.maximum(outputs, 1), end)


def _azure(path: Path) -> Iterator[tuple[float, ...]]:
    first = None
    for at, *tokens in _rows(path, "TIMESTAMP", "ContextTokens", "GeneratedTokens"):
        first = at if first is None else first
        yield at - first, *tokens, 0.0


def _rows(path: Path, *columns: str) -> Iterator[tuple[float, ...]]:
    """These columns of a CSV file; the column TIMESTAMP as seconds."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise TraceError(f"{path} has no column {', '.join(missing)}; it has {', '.join(reader.fieldnames or ())}")
        for number, row in enumerate(reader, start=2):
            try:
                yield tuple(_number(name, row[name]) for name in columns)
            except (TypeError, ValueError) as error:
                raise TraceError(f"{path}, line {number}: {error}") from error


def _number(column: str, text: str) -> float:
    """A value of a column; times have seven digits of a second in these traces, and Python reads six."""
    found = datetime.fromisoformat(text[:26]).timestamp() if column == "TIMESTAMP" else float(text)
    if not isfinite(found):
        raise ValueError(f"{column} is {text}")
    return found


def _mooncake(path: Path) -> Iterator[tuple[float, ...]]:
    known: set[int] = set()
    with path.open() as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
                blocks = row.get("hash_ids", [])
                cached = BLOCK * len(list(takewhile(known.__contains__, blocks)))
                known.update(blocks)
                yield float(row["timestamp"]) / 1000, float(row["input_length"]), float(row["output_length"]), cached
            except (KeyError, TypeError, ValueError) as error:
                said = f"has no {error}" if isinstance(error, KeyError) else str(error)
                raise TraceError(f"{path}, line {number}: {said}") from error
