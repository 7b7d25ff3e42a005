"""An engine under a steady load: its latencies, and the most requests at once that keep an objective.

- Requests have a mean prompt, of which the prefix cache has a part, and a mean answer. With b sequences that decode, a
  step of t seconds ends b / answer requests, and as many prompts must be computed in it.
- Prompts are computed in some of the steps only: in those before which one or more arrived (Poisson), but no more
  tokens than `max_num_batched_tokens` leaves. The mean step is of both kinds (chunked prefill).
- If prompts need more than every step has room for, fewer sequences decode.
- The mean step, divided by the tokens that a sequence gets in it, is the mean TPOT. That of a single request differs:
  the number of sequences beside it varies (Poisson), and so does the number of steps with prompts during its answer: a
  compound Poisson process, whose variance grows with the mean square of a prompt. While prompts are computed more of
  them arrive, as in the busy period of a queue. A shorter answer has fewer steps to spread them over, so its variance
  is larger by as much. The percentile of the objective is that of a normal distribution for each length of answers,
  which are lognormally distributed.
- TTFT is the rest of the present step, the prompts that came before, and the steps of the own prompt. Prompts pass as
  through a queue with random arrivals (M/G/1): its mean wait is that of exponential service times (1 + spread) / 2
  (Pollaczek and Khinchine), and times in the queue are about exponentially distributed. Its utilization is the part of
  the time that prompts add, or would add if each step were full, if that is less: prompts that wait share steps, and so
  the weights that a step reads. The queue grows without end only where they need the room of all batches.
- No request is asked to be faster than `LEAST_SLACK` times a lone one. An engine that is slow for its objective would
  else get ever fewer requests, and cost ever more for latencies that it nearly or always misses.
- Sequences in the KV cache have their prompt in the mean, and half of an answer where all are equally long. Longer
  answers run for longer, so of unequal ones more of the longer run at a time than come: the mean age of what is
  renewed at random times grows with its mean square (Cox, Renewal Theory, 1962).
- Pooling models read prompts and answer with one vector: the objective of the first token is that of the whole answer.
  Full batches have so many prompts a second, of which the queue is used by a part; the same queue (M/G/1) tells how
  many requests are there in the mean. They are few until the part is nearly whole.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from statistics import NormalDist, fmean

from inference_operator.sizing.budget import TYPICAL_TOKENS, Budget
from inference_operator.sizing.plan import PerGpu, Plan
from inference_operator.sizing.shape import Objective
from inference_operator.sizing.steptime import StepCosts

TYPICAL_PROMPT, TYPICAL_ANSWER = 1732.0, 316.0
"""Tokens of a typical request where none is measured: `TYPICAL_TOKENS`, divided as in Azure's public trace of
conversations of 2023, whose means are 1,155 and 211 (Azure/AzurePublicDataset, `AzureLLMInferenceTrace_conv.csv`)."""
LEAST_SLACK = 2.0
"""Of an objective, over the latencies of a lone request. Beyond twice the time of a lone token, more requests at once
add little throughput: the weights are then read for as long as everything else takes."""
BUSY = 1.75
"""The power of a step's lengthening by prompts with which the variance of TPOT grows, as in a busy period of a queue.
Fitted to four simulated engines behind a router (`python -m bench.serving_model`); 3 for an engine that gets all."""
LEAST_PLAIN = 1e-6
"""Part of a step without its prompts, at least; somebody may have edited a stored plan."""
FULL = 0.95
"""Part of the KV cache that a steady load may fill. The rest covers requests that are longer than the mean."""


@dataclass(frozen=True, slots=True)
class Load:
    prompt: float = TYPICAL_PROMPT
    answer: float = TYPICAL_ANSWER
    cached: float = 0.0
    """Part of the prompts' tokens that the prefix cache has: 0 to 1."""
    prompt_spread: float = 1.0
    """Variance of the computed tokens of a prompt, divided by the square of their mean. Azure's two traces of 2023 have
    0.92 and 0.93."""
    answer_spread: float = 0.0
    """The same of the tokens of an answer; where none is measured, all answers have the mean length."""
    accepted: float | None = None
    """Part of the guessed tokens that the model accepts: 0 to 1; None where none is measured."""

    @property
    def answers(self) -> tuple[float, ...]:
        """Lengths of answers, divided by their mean, each of an equal part of the requests."""
        return _lognormal(self.answer_spread)

    @property
    def new_prompt(self) -> float:
        """Tokens of a prompt that are computed; at least one."""
        return max(1.0, self.prompt * (1 - self.cached))

    @property
    def resident(self) -> float:
        """Mean tokens of a running request in the KV cache."""
        return self.prompt + self.running_answer

    @property
    def running_answer(self) -> float:
        """Mean tokens that the answer of a running request has already."""
        return self.answer * (1 + self.answer_spread) / 2


TYPICAL_LOAD = Load()
MOST_SPREAD = 100.0
"""More is a mistake: it would be one prompt of 100,000 tokens beside 100 of ten."""
PARTS = 8
"""Parts of the answers, of which the middle stands for all."""


@cache
def _lognormal(spread: float) -> tuple[float, ...]:
    sigma = math.sqrt(math.log1p(spread))
    found = [math.exp(sigma * NormalDist().inv_cdf((part + 0.5) / PARTS)) for part in range(PARTS if spread else 1)]
    return tuple(value * len(found) / sum(found) for value in found)


@dataclass(frozen=True, slots=True)
class Served:
    """An engine with some requests at once. Times are in seconds."""

    concurrency: float
    """Sequences that decode."""
    requests: float
    """Requests that it ends in a second."""
    tpot: float = 0.0
    """Mean."""
    beside: float = 0.0
    """Variance of a request's mean TPOT by the number of sequences beside it."""
    between: float = 0.0
    """The same by the prompts that are computed during an answer of the mean length."""
    load: Load = TYPICAL_LOAD
    begin: float = 0.0
    """Before the steps of a prompt, in the mean."""
    prompt: float = 0.0
    """In which the steps of a prompt are computed, in the mean."""
    prompts_share: float = 0.0
    """Part of the time that prompts add; 1 if they arrive faster than batches have room for them."""

    def tpot_of(self, percentile: float) -> float:
        deviations = [math.sqrt(self.beside + self.between / answer) for answer in self.load.answers]
        low, high = (NormalDist().inv_cdf(percentile / 100) * end for end in (min(deviations), max(deviations)))
        while high - low > TPOT_ERROR * self.tpot:
            middle = (low + high) / 2
            kept = fmean(NormalDist().cdf(middle / deviation) for deviation in deviations)
            low, high = (middle, high) if kept < percentile / 100 else (low, middle)
        return self.tpot + high

    def ttft_of(self, percentile: float) -> float:
        """The TTFT that this percentage of the requests keep; infinite if prompts arrive faster than they pass."""
        if self.prompts_share >= 1:
            return math.inf
        waits = self.prompts_share / (1 - self.prompts_share) * (1 + self.load.prompt_spread) / 2
        return self.begin + self._late(percentile) * (1 + waits)

    def own_ttft_of(self, percentile: float) -> float:
        """The same if no prompt waited for another one."""
        return self.begin + self._late(percentile)

    def keeps(self, objective: Objective) -> bool:
        percentile = objective.percentile
        return self.ttft_of(percentile) <= objective.ttft and self.tpot_of(percentile) <= objective.tpot

    def _late(self, percentile: float) -> float:
        return -math.log(1 - percentile / 100) * self.prompt


class Limit(StrEnum):
    SEQUENCES = "max_num_seqs"
    KV_CACHE = "KV cache"
    TPOT = "time of each output token"
    TTFT = "time to first token"


@dataclass(frozen=True, slots=True)
class Serving:
    costs: StepCosts
    max_num_seqs: int
    max_num_batched_tokens: int
    """Of each data parallel rank."""
    cached_tokens: float
    """Tokens that the KV cache holds, in sequences of a typical length."""
    ranks: int = 1
    """Data parallel ranks, which share the requests equally."""

    def room(self, load: Load) -> float:
        return FULL * self.cached_tokens / max(load.resident, 1.0)

    def at(self, concurrency: float, load: Load) -> Served:
        engine = replace(self, costs=self.costs.accepting(load.accepted))
        if self.ranks == 1:
            return engine._of_rank(concurrency, load)  # noqa: SLF001 - of the same class
        each = max(1.0, concurrency / self.ranks)
        served = engine._of_rank(each, load)  # noqa: SLF001
        return replace(served, concurrency=concurrency, requests=served.requests * concurrency / each)

    def _of_rank(self, concurrency: float, load: Load) -> Served:
        if not self.costs.decodes:
            return self._pooling(concurrency, load)
        verified = self.costs.verified
        each = min(self.costs.tokens_of_step, max(1.0, load.answer))
        steps = load.answer / each
        work = load.new_prompt / steps
        most = self.max_num_batched_tokens / (verified + work)
        sequences = min(concurrency, most)
        needed, room = sequences * work, max(1.0, self.max_num_batched_tokens - sequences * verified)
        begun = -math.expm1(-sequences / steps)
        with_prompts = max(begun, needed / room)
        context, before = load.resident, load.prompt - load.new_prompt / 2
        seconds = partial(self.costs.seconds, sequences, context=context, before=before)
        plain, full, chunk = seconds(), seconds(prompt=room), min(room, max(load.new_prompt, needed))
        step = with_prompts * seconds(prompt=needed / with_prompts) + (1 - with_prompts) * plain
        own = max(1.0, load.new_prompt / chunk) * seconds(prompt=chunk)
        share = min(1 - max(plain / step, LEAST_PLAIN), needed / room * (full - plain) / step)
        slowdown = (step - self.costs.seconds(1, context=context)) / max(concurrency, 1.0)
        spread = 1 + load.prompt_spread - begun
        computed = begun * spread * (own - plain) ** 2 / steps / (1 - share) ** BUSY
        stretched = concurrency / sequences / each
        return Served(
            concurrency,
            requests=sequences / (steps * step),
            tpot=step * stretched,
            beside=concurrency * (slowdown * stretched) ** 2,
            between=computed * stretched**2,
            load=load,
            begin=step / 2,
            prompt=own,
            prompts_share=share if concurrency < most else 1.0,
        )

    def lone_ttft(self, prompt: float, load: Load) -> float:
        """Seconds to the first token of a prompt, alone, of which so many tokens are computed after the cached ones."""
        chunk = min(prompt, float(self.max_num_batched_tokens))
        return prompt / chunk * self.costs.seconds(0, prompt=chunk, before=load.prompt * load.cached + prompt / 2)

    def longest_prompt(self, load: Load, objective: Objective) -> float:
        """The longest prompt for which the objective is its `ttft`, in computed tokens: a longer one takes longer."""
        low, high = 0.0, 1000 * objective.ttft / objective.ttft_per_1000 if objective.ttft_per_1000 else LONGEST
        while high - low > max(1.0, LONGEST_ERROR * high):
            middle = (low + high) / 2
            low, high = (middle, high) if self.lone_ttft(middle, load) <= objective.ttft else (low, middle)
        return high

    def _pooling(self, concurrency: float, load: Load) -> Served:
        """The engine that has this many prompts at once in the mean, and reads them in steps of full batches.

        With a part u of its batches used, u / work prompts come in a second, and each stays for its own time and a wait
        of u / (1 - u) x work x (1 + spread) / 2. By Little's law that is a number of requests, which is solved for u.
        """
        own, full = self.lone_ttft(load.new_prompt, load), float(self.max_num_batched_tokens)
        work = load.new_prompt / full * self.costs.seconds(0, prompt=full, before=load.prompt - load.new_prompt / 2)
        alone, waiting = own / work, (1 + load.prompt_spread) / 2
        root = math.sqrt((alone - concurrency) ** 2 + 4 * waiting * concurrency)
        used = 2 * concurrency / (alone + concurrency + root)
        return Served(concurrency, used / work, prompt=own, prompts_share=used, load=load)

    def attainable(self, load: Load, objective: Objective) -> Objective:
        """The objective, but not below `LEAST_SLACK` times the latencies of a lone request, for the same percentile.

        So a slower engine never gets more requests at once: it loses at least as much as its objective gains. The
        spread of requests makes none slow for its objective.
        """
        alone = self.at(1.0, replace(load, prompt_spread=1.0, answer_spread=0.0))
        percentile = objective.percentile
        return replace(
            objective,
            ttft=max(objective.ttft, LEAST_SLACK * alone.own_ttft_of(percentile)),
            tpot=max(objective.tpot, LEAST_SLACK * alone.tpot_of(percentile)),
        )

    def keeps_alone(self, load: Load, objective: Objective) -> bool:
        alone, percentile = self.at(1.0, load), objective.percentile
        return alone.own_ttft_of(percentile) <= objective.ttft and alone.tpot_of(percentile) <= objective.tpot

    def best(self, load: Load, objective: Objective) -> tuple[Served, Limit, bool]:
        """The most requests at once that keep an objective, their limit, and whether any number keeps it.

        If none does, one request at a time is the engine's best.
        """
        most, limit = float(self.max_num_seqs), Limit.SEQUENCES
        if (room := self.room(load)) < most:
            most, limit = max(1.0, room), Limit.KV_CACHE
        if (full := self.at(most, load)).keeps(objective):
            return full, limit, True
        low, high = 1.0, most
        if not (alone := self.at(low, load)).keeps(objective):
            return alone, _missed(alone, objective), False
        while high - low > HALVED_UNTIL:
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle, load).keeps(objective) else (low, middle)
        return self.at(low, load), _missed(self.at(high, load), objective), True


TPOT_ERROR = 1e-6
"""The part by which the TPOT of a percentile may be wrong."""
LONGEST, LONGEST_ERROR = 1e7, 0.01
"""Tokens of a prompt that no context holds, and the part by which the longest prompt in time may be wrong."""
HALVED_UNTIL = 0.5
"""Requests: the search for the most of them ends here."""


def _missed(served: Served, objective: Objective) -> Limit:
    return Limit.TTFT if served.ttft_of(objective.percentile) > objective.ttft else Limit.TPOT


def serving(costs: StepCosts, budget: Budget, ranks: int = 1) -> Serving:
    tokens = cached_tokens(budget.typical_concurrency, budget.context)
    return Serving(costs, ranks * budget.max_num_seqs, budget.max_num_batched_tokens, ranks * tokens, ranks)


def gain_of_guesses(plan: Plan, objective: Objective, requested: float | None) -> tuple[float, float] | None:
    """How many times as fast a token is with the guesses of a plan, and with how many requests at once.

    They are the most that keep the objective without guesses, or what the user has set. None if nothing tells it.
    """
    engine = serving_of_plan(plan)
    if engine is None or engine.costs.verified == 1:
        return None
    without = replace(engine, costs=replace(engine.costs, guesses=None))
    best, *_ = without.best(TYPICAL_LOAD, without.attainable(TYPICAL_LOAD, objective))
    requests = requested or best.concurrency
    return without.at(requests, TYPICAL_LOAD).tpot / engine.at(requests, TYPICAL_LOAD).tpot, requests


def serving_of_plan(plan: Plan) -> Serving | None:
    known = plan.step, plan.per_gpu, plan.max_num_seqs, plan.max_num_batched_tokens, plan.max_model_len
    match known:
        case StepCosts() as costs, PerGpu() as per_gpu, int(sequences), int(batched), int(context) if costs.possible:
            tokens = cached_tokens(per_gpu.max_concurrency_at_2048_tokens, context)
            ranks = plan.parallel.data
            return Serving(costs, ranks * sequences, batched, ranks * tokens, ranks)
        case _:
            return None


def cached_tokens(typical_concurrency: float, context: int | None) -> float:
    """Tokens in a KV cache that holds so many sequences of `TYPICAL_TOKENS`, or of a context that is shorter.

    Args:
        context: None where the engine chooses it; it is then taken to be no shorter.
    """
    return typical_concurrency * min(TYPICAL_TOKENS, context or TYPICAL_TOKENS)
