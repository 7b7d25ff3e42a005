"""The load of `infd bench`: requests at once to one service, and the times of their answers.

Existing load generators (vLLM's, guidellm, inference-perf, aiperf) bring an engine or a tokenizer with them and cannot
go through a port-forward with a key of a Secret. A loop over the client of `infd chat` is all that is needed.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from itertools import count

from inference_operator.cli.answer_stream import COMPLETIONS_PATH, AnswerBrokenError, AnswerRefusedError, AnswerTimes
from inference_operator.cli.bench_levels import LatencyGoal, LevelResult, concurrencies, level_result, prompt
from inference_operator.cli.service_client import ServiceClient

WARM_UP_SECONDS = 120.0
"""For the first request, which may compile kernels."""


class BenchLoad:
    """Loads a service.

    Args:
        client: of the service.
        model: name of the model in requests.
        prompt_tokens: of each request, about.
        max_tokens: of each answer.
        seconds: of each level.
    """

    def __init__(
        self, client: ServiceClient, model: str, *, prompt_tokens: int, max_tokens: int, seconds: float
    ) -> None:
        self._client = client
        self._model = model
        self._prompt_tokens = prompt_tokens
        self._max_tokens = max_tokens
        self._seconds = seconds
        self._numbers = count(time.time_ns() // 1000)

    async def warm_up(self) -> None:
        """One request that is not measured; raises the same as `ServiceClient.stream`."""
        async with asyncio.timeout(WARM_UP_SECONDS):
            await self._answer(AnswerTimes(time.monotonic()))

    async def levels(self, goal: LatencyGoal, most: int) -> AsyncIterator[LevelResult]:
        """The results of rising levels, until one breaks the objective."""
        for concurrency in concurrencies(most):
            result = await self._level(concurrency)
            yield result
            if result.broken(goal):
                return

    async def _level(self, concurrency: int) -> LevelResult:
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
                    failures.append(f"no answer: {error.cause}")
                    return

        workers = [asyncio.ensure_future(one_after_the_other()) for _ in range(concurrency)]
        try:
            done, _ = await asyncio.wait(workers, timeout=self._seconds, return_when=asyncio.FIRST_EXCEPTION)
            for worker in done:
                worker.result()
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        seconds = min(self._seconds, time.monotonic() - begin)
        return level_result(concurrency, answers, failures=failures, begin=begin, seconds=seconds)

    async def _answer(self, times: AnswerTimes) -> None:
        body = {
            "model": self._model,
            "prompt": prompt(next(self._numbers), self._prompt_tokens),
            "max_tokens": self._max_tokens,
            "temperature": 1.0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        async for delta in self._client.stream(COMPLETIONS_PATH, body):
            times.add(delta, time.monotonic())
        times.ended = True
