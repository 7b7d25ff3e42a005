"""A discrete-event simulation of engines behind a router, for `bench/autoscaling.py`: continuous batching.

An engine works in steps, one after the other, each with a duration of its own. What it does in a step:

1. It takes waiting requests, oldest first, while it has a free sequence (`max_num_seqs`) and room in its KV cache.
2. Each sequence that decodes has one token in the step. Prompts fill the step up to `max_batched_tokens`, oldest first
   (chunked prefill).
3. The step takes `token_seconds + sequence_seconds x decoding sequences + prompt tokens / prefill_tokens_per_second`,
   and the time to read the experts that its tokens touch.
   At its end each decoding sequence has one more token, and each prompt that is complete has its first one.

`bench/engine_model.py` compares this with real vLLM. The router looks each 0.1 s (`tick_seconds`).
The router sends a request to the ready engine with the fewest requests, at most `max_num_seqs` to each; the rest waits
in the router, first in, first out. It refuses requests while `queue_size` wait, and answers 503 after `queue_seconds`.
A removed engine that was not ready is gone at once. One that was ready finishes its requests.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bench.engine_steps import (
    ABSENT,
    ALL,
    DONE,
    DRAINING,
    READY,
    RUNNING,
    STARTING,
    Arrays,
    Constants,
    Floats,
    advance,
)

FAILED_STARTS = 0.05
"""Part of the starts that fail and begin anew."""
TAIL_SECONDS = 600.0
"""Time after a workload in which what is left may finish; it costs no GPU-hours."""
WARM_SECONDS = 300.0
"""Time in which no scaler takes the initial engines away: none has seen enough yet."""
START_CV = 0.5
"""Coefficient of variation of start times, which are drawn from a lognormal distribution."""


@dataclass(frozen=True, slots=True)
class EngineModel:
    """Constants of one engine."""

    token_seconds: float = 0.012
    """Time of one decode step without its sequences: reading the weights."""
    sequence_seconds: float = 0.00015
    """Time that each sequence adds to a decode step."""
    prefill_tokens_per_second: float = 16_000.0
    kv_tokens: float = 400_000.0
    max_num_seqs: int = 256
    max_batched_tokens: int = 2048
    """Tokens of a step; vLLM 0.32 has this default on GPUs with less than 70 GiB (EngineArgs.get_batch_defaults)."""
    experts_seconds: float = 0.0
    """Time to read all routed experts."""
    expert_share: float = 0.0
    """Part of the experts that one token uses."""
    decodes: bool = True
    """False: a pooling model, whose answers are one vector."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in the order of their arrival."""

    name: str
    arrivals: Floats
    """Seconds since the start."""
    prompts: Floats
    """Tokens."""
    outputs: Floats
    """Tokens, at least one."""
    seconds: float
    cached: Floats | float = 0.0
    """Tokens of the prompts that the prefix cache has."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What a scaler can see at one time."""

    at: float
    ready: int
    starting: int
    running: float
    """Sequences in engines."""
    waiting: float
    """Requests in engines that have no sequence yet."""
    queued: float
    """Requests in the router."""
    arrivals: float
    completions: float
    kv_usage: float
    """Mean part of the KV caches that is used."""
    first_token: Floats
    """Seconds from the engine's receipt to the first token, of the requests that finished since the last look."""
    token: Floats
    """Times of their further tokens in seconds."""
    prompts: Floats
    """Tokens of their prompts."""
    cached: Floats
    """Those of them that the prefix cache had."""
    answers: Floats
    """Tokens of their answers."""

    @property
    def outstanding(self) -> float:
        """All unfinished requests."""
        return self.running + self.waiting + self.queued


@dataclass(frozen=True, slots=True)
class Fleet:
    """The surroundings of a replay."""

    engine: EngineModel = field(default_factory=EngineModel)
    start_seconds: float = 120.0
    """Median time from a new replica to its readiness."""
    max_replicas: int = 64
    available: int = 64
    """Engines that GPUs exist for."""
    queue_size: int = 1024
    queue_seconds: float = 300.0
    decide_seconds: float = 5.0
    tick_seconds: float = 0.1
    """Time between two looks of the router at its queue and its engines."""
    router_limit: int = 256
    """Requests that the router sends to one engine at a time."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of one replay."""

    time_to_first_token: Floats
    """Seconds; infinite for a request without an answer."""
    time_per_token: Floats
    """Seconds for each token after the first; infinite for a request without an answer."""
    gpu_hours: float
    changes: int
    """Changes of the desired replicas."""
    peak: int
    seconds: tuple[float, ...] = ()
    """Engine-seconds of each interval between decisions."""
    interval: float = 0.0

    def hours_after(self, seconds: float) -> float:
        """GPU-hours from this time on."""
        return sum(self.seconds[round(seconds / self.interval) :]) / 3600

    def attained(self, first_token: float = 2.0, per_token: float = 0.05) -> float:
        """Part of the requests that meet both objectives, in percent."""
        met = (self.time_to_first_token <= first_token) & (self.time_per_token <= per_token)
        return 100.0 * float(met.mean())

    def first_token_p99(self) -> float:
        """99th percentile of the time to first token in seconds."""
        return float(np.quantile(self.time_to_first_token, 0.99, method="lower"))


Scaler = Callable[[Observed, int], int]
"""From what is seen and the present desired replicas to the new desired replicas."""


def replay(workload: Workload, scaler: Scaler, fleet: Fleet, *, initial: int, seed: int = 0) -> Replay:
    """Replay a workload with a scaler, from `initial` ready engines."""
    random = np.random.default_rng([seed, 7])
    simulated = _Simulation(workload, fleet, initial)
    desired, changes, peak, now = initial, 0, initial, 0.0
    engine_seconds: list[float] = []
    while now < workload.seconds:
        wanted = min(max(scaler(simulated.observed(now), desired), 0), fleet.max_replicas)
        if now < WARM_SECONDS:
            wanted = max(wanted, initial)
        changes += wanted != desired
        desired = wanted
        simulated.scale(min(desired, fleet.available), now, fleet, random)
        peak = max(peak, simulated.size())
        ticks = round(fleet.decide_seconds / fleet.tick_seconds)
        engine_seconds.append(simulated.advance(now, ticks))
        now += ticks * fleet.tick_seconds
    tail = 0
    while simulated.unfinished() and tail < round(TAIL_SECONDS / fleet.decide_seconds):
        simulated.advance(now, ticks)
        now, tail = now + ticks * fleet.tick_seconds, tail + 1
    first, per_token = simulated.latencies()
    spent = sum(engine_seconds) / 3600
    return Replay(first, per_token, spent, changes, peak, tuple(engine_seconds), fleet.decide_seconds)


class _Simulation:
    """The mutable state of a replay."""

    def __init__(self, workload: Workload, fleet: Fleet, initial: int) -> None:
        requests, engines = len(workload.arrivals), 2 * fleet.max_replicas
        slots = max(fleet.router_limit, fleet.engine.max_num_seqs)
        self._arrays = Arrays(
            arrivals=workload.arrivals,
            prompts=workload.prompts,
            outputs=workload.outputs,
            left_prompt=workload.prompts - workload.cached,
            decoded=np.zeros(requests),
            sent=np.zeros(requests),
            first=np.full(requests, np.inf),
            finished=np.full(requests, np.inf),
            status=np.zeros(requests, np.int64),
            done=np.zeros(requests, np.int64),
            queue=np.zeros(requests, np.int64),
            state=np.zeros(engines, np.int64),
            ready_at=np.zeros(engines),
            clock=np.zeros(engines),
            used=np.zeros(engines),
            sequences=np.zeros((engines, slots), np.int64),
            counts=np.zeros((engines, 2), np.int64),
            pointers=np.zeros(5, np.int64),
        )
        self._arrays.state[:initial] = READY
        self._seen = 0
        self._cached = workload.cached + np.zeros(requests)
        engine = fleet.engine
        self._constants = Constants(
            engine.token_seconds,
            engine.sequence_seconds,
            engine.prefill_tokens_per_second,
            engine.kv_tokens,
            engine.max_num_seqs,
            engine.max_batched_tokens,
            fleet.tick_seconds,
            fleet.router_limit,
            fleet.queue_size,
            fleet.queue_seconds,
            engine.experts_seconds,
            engine.expert_share,
        )

    def observed(self, now: float) -> Observed:
        state, counts = self._arrays.state, self._arrays.counts
        serving = state >= READY
        running, total = counts[serving, RUNNING].sum(), counts[serving, ALL].sum()
        arrived, head, tail, completed, used = self._arrays.pointers
        finished, self._seen = self._arrays.done[self._seen : completed], int(completed)
        first, tokens = self._arrays.first[finished], np.maximum(self._arrays.outputs[finished] - 1, 1)
        return Observed(
            at=now,
            ready=int((state == READY).sum()),
            starting=int((state == STARTING).sum()),
            running=float(running),
            waiting=float(total - running),
            queued=float(tail - head),
            arrivals=float(arrived),
            completions=float(completed),
            kv_usage=float(used) / 1e6,
            first_token=first - self._arrays.sent[finished],
            token=(self._arrays.finished[finished] - first) / tokens,
            prompts=self._arrays.prompts[finished],
            cached=self._cached[finished],
            answers=self._arrays.outputs[finished],
        )

    def size(self) -> int:
        return int((self._arrays.state != ABSENT).sum())

    def unfinished(self) -> bool:
        return bool((self._arrays.status < DONE).any())

    def scale(self, desired: int, now: float, fleet: Fleet, random: np.random.Generator) -> None:
        """Start engines, or remove them: those that start first, then those with the fewest requests."""
        state, ready_at, counts = self._arrays.state, self._arrays.ready_at, self._arrays.counts
        alive = [int(i) for i in np.nonzero((state == STARTING) | (state == READY))[0]]
        for index in np.nonzero(state == ABSENT)[0][: max(0, desired - len(alive))]:
            state[index], ready_at[index] = STARTING, now + _start_time(fleet.start_seconds, random)
        order = sorted(alive, key=lambda i: (state[i] == READY, counts[i, ALL], -ready_at[i]))
        for index in order[: max(0, len(alive) - desired)]:
            state[index] = DRAINING if state[index] == READY else ABSENT

    def advance(self, now: float, ticks: int) -> float:
        return float(advance(now, ticks, self._constants, self._arrays))

    def latencies(self) -> tuple[Floats, Floats]:
        arrays = self._arrays
        first, per_token = (np.full(len(arrays.arrivals), np.inf) for _ in range(2))
        done = arrays.status == DONE
        first[done] = (arrays.first - arrays.arrivals)[done]
        per_token[done] = (arrays.finished[done] - arrays.first[done]) / np.maximum(arrays.outputs[done] - 1, 1)
        return first, per_token


def _start_time(median: float, random: np.random.Generator) -> float:
    """Time to readiness; a start that fails is noticed when it should have ended, and begins anew."""
    sigma = float(np.sqrt(np.log(1 + START_CV**2)))
    total = float(random.lognormal(np.log(median), sigma))
    while random.random() < FAILED_STARTS:
        total += float(random.lognormal(np.log(median), sigma))
    return total
