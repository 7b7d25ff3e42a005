"""The levels of load of `infd bench`: how many requests at once, the requests, and what each level measured."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import ceil

from inference_operator.api.autoscaling import ObjectiveSpec
from inference_operator.api.resource import Resource
from inference_operator.api.spec import Spec
from inference_operator.cli.chat.answers import COMPLETIONS_PATH, AnswerBrokenError, AnswerRefusedError, AnswerTimes
from inference_operator.cli.chat.client import ServiceClient
from inference_operator.sentences import counted

TYPICAL, MOST = 0.5, 0.95
_WORDS = ("otter", "river", "stone", "light", "north", "seven", "bread", "cloud", "paper", "green", "table", "music")


@dataclass(frozen=True, slots=True)
class LatencyGoal:
    """The latencies that requests shall have, in seconds."""

    ttft: float
    tpot: float
    percentile: int
    """Of 100 requests, as many shall keep each latency."""


@dataclass(frozen=True, slots=True)
class LevelResult:
    """What was measured at one level of load; latencies are None without an answer."""

    concurrency: int
    seconds: float
    answered: int
    failed: int
    requests_per_second: float
    tokens_per_second: float
    ttft_p50_seconds: float | None
    ttft_p95_seconds: float | None
    itl_p50_seconds: float | None
    """Between two pieces of an answer."""
    itl_p95_seconds: float | None
    ttft_objective_seconds: float | None
    """At the percentile of the objective."""
    tpot_objective_seconds: float | None
    """At the percentile of the objective; of one request it is the mean over its tokens after the first."""
    failure: str = ""

    def broken(self, goal: LatencyGoal) -> str:
        if self.failed:
            why = f" ({self.failure})" if self.failure else ""
            return f"{self.failed:,} of its requests failed{why}"
        if self.ttft_objective_seconds is None or not self.tokens_per_second:
            return "no answer came in its time"
        if self.ttft_objective_seconds > goal.ttft:
            shown = f"{self.ttft_objective_seconds:.2f} s (p{goal.percentile})"
            return f"its TTFT of {shown} is over the objective of {goal.ttft:g} s"
        if self.tpot_objective_seconds is not None and self.tpot_objective_seconds > goal.tpot:
            shown = f"{1000 * self.tpot_objective_seconds:.0f} ms (p{goal.percentile})"
            return f"its time per output token of {shown} is over the objective of {1000 * goal.tpot:g} ms"
        return ""


@dataclass(frozen=True, slots=True)
class BenchReport:
    namespace: str
    name: str
    objective: LatencyGoal
    prompt_tokens: int
    """About as many, in words."""
    max_tokens: int
    levels: tuple[LevelResult, ...]
    stopped: str

    @property
    def best(self) -> LevelResult | None:
        kept = [level for level in self.levels if not level.broken(self.objective)]
        return kept[-1] if kept else None


def goal_of(found: Resource) -> LatencyGoal:
    scaling = found.spec.autoscaling if isinstance(found.spec, Spec) else None
    wanted = scaling.objective if scaling else ObjectiveSpec()
    return LatencyGoal(wanted.ttft.total_seconds(), wanted.tpot.total_seconds(), wanted.percentile)


def at_once(concurrency: int) -> str:
    return f"{counted(concurrency, 'request')} at once"


def concurrencies(most: int) -> Iterator[int]:
    """The levels: each the double of the one before, and the last one as given.

    Examples:
        >>> list(concurrencies(6)), list(concurrencies(8))
        ([1, 2, 4, 6], [1, 2, 4, 8])
    """
    level = 1
    while level < most:
        yield level
        level *= 2
    yield most


def level_result(
    concurrency: int,
    answers: Sequence[AnswerTimes],
    *,
    failures: Sequence[str],
    begin: float,
    seconds: float,
    percentile: int,
) -> LevelResult:
    """The figures of a level.

    What arrived within it counts, also of answers that were cut at its end. A request without a token counts with its
    time until then, if that is longer than any time to a first token: it would have been longer still.
    """
    end = begin + seconds
    ended = [one for one in answers if one.ended and one.pieces and one.pieces[-1] <= end]
    first = [one.ttft for one in answers if one.ttft is not None]
    waits = [end - one.begin for one in answers if one.ttft is None]
    first += [wait for wait in waits if wait > max(first, default=0.0)]
    gaps = [gap for one in answers for gap in one.gaps]
    means = [one.tpot for one in ended if one.tpot is not None]
    return LevelResult(
        concurrency=concurrency,
        seconds=seconds,
        answered=len(ended),
        failed=len(failures),
        requests_per_second=len(ended) / seconds,
        tokens_per_second=sum(_tokens(one, end) for one in answers) / seconds,
        ttft_p50_seconds=quantile(first, TYPICAL),
        ttft_p95_seconds=quantile(first, MOST),
        itl_p50_seconds=quantile(gaps, TYPICAL),
        itl_p95_seconds=quantile(gaps, MOST),
        ttft_objective_seconds=quantile(first, percentile / 100),
        tpot_objective_seconds=quantile(means, percentile / 100),
        failure=next(iter(failures), ""),
    )


def _tokens(answer: AnswerTimes, end: float) -> float:
    """Tokens of an answer until a time. Each piece has the same number of them."""
    if not answer.pieces:
        return 0.0
    return answer.tokens * sum(at <= end for at in answer.pieces) / len(answer.pieces)


def quantile(values: Sequence[float], part: float) -> float | None:
    """The least value that this part of the values does not exceed; None without values.

    Examples:
        >>> quantile([3.0, 1.0, 2.0, 4.0], 0.5), quantile([3.0, 1.0], 0.95), quantile([], 0.5)
        (2.0, 3.0, None)
    """
    return sorted(values)[max(0, ceil(part * len(values)) - 1)] if values else None


def prompt(number: int, tokens: int) -> str:
    """A text of about this many tokens. Its begin differs from that of others, so that no prefix cache has it."""
    return " ".join((str(number), *(_WORDS[place % len(_WORDS)] for place in range(tokens - 1))))


WARM_UP_SECONDS = 120.0
"""For the first request, which may compile kernels."""


@dataclass(slots=True)
class BenchLoad:
    client: ServiceClient
    model: str
    prompt_tokens: int
    max_tokens: int
    seconds: float
    _numbers: Iterator[int] = field(default_factory=lambda: count(time.time_ns() // 1000))

    async def warm_up(self) -> None:
        """One request that is not measured; raises the same as `ServiceClient.stream`."""
        async with asyncio.timeout(WARM_UP_SECONDS):
            await self._answer(AnswerTimes(time.monotonic()))

    async def levels(self, goal: LatencyGoal, most: int) -> AsyncIterator[LevelResult]:
        for concurrency in concurrencies(most):
            yield (result := await self._level(concurrency, goal.percentile))
            if result.broken(goal):
                return

    async def _level(self, concurrency: int, percentile: int) -> LevelResult:
        """Keep this number of requests at the service, and cut those that run when the time is over."""
        answers: list[AnswerTimes] = []
        failures: list[str] = []
        begin = time.monotonic()

        async def one_after_the_other() -> None:
            while True:
                times = AnswerTimes(time.monotonic())
                answers.append(times)
                try:
                    await self._answer(times)
                except AnswerRefusedError as error:
                    failures.append(str(error))
                    return  # more of them would only do harm
                except AnswerBrokenError as error:
                    failures.append(f"no answer: {error}")
                    return

        workers = [asyncio.ensure_future(one_after_the_other()) for _ in range(concurrency)]
        try:
            done, _ = await asyncio.wait(workers, timeout=self.seconds, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        took = min(self.seconds, time.monotonic() - begin)
        return level_result(concurrency, answers, failures=failures, begin=begin, seconds=took, percentile=percentile)

    async def _answer(self, times: AnswerTimes) -> None:
        body = {
            "model": self.model,
            "prompt": prompt(next(self._numbers), self.prompt_tokens),
            "max_tokens": self.max_tokens,
            "temperature": 1.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        async for delta in self.client.stream(COMPLETIONS_PATH, body):
            times.add(delta, time.monotonic())
        times.ended = True
