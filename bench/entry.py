"""`python -m bench.entry`: what enters an engine, in a simulated vLLM whose KV cache is small.

The engine is that of `bench/fleet_simulation.py` with what it leaves out: where a sequence finds no room for its next
token, the youngest one is preempted. It loses what it has computed, and waits in front (vLLM 0.32,
`v1/core/sched/scheduler.py`). Lengths of prompts are exponentially distributed; those of answers have a gamma
distribution of a given spread, 0 where all are equal, and 1 where they are exponentially distributed.

*Before*, each of four processes lets `max_num_seqs` in. *Now*, all together let in what `autoscaling/target.py` says of
the measured lengths, and the rest waits in the routers. All connections are at one process, so it has all of the room.

- Throughput: requests that end in a second, while more wait than can run.
- A burst: eight times what the cache holds comes at once to one engine, and three more are up after 30 s. Preemptions,
  and the 99th percentile of the time to first token, the queue of the router included.
"""

import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.figures import Figure, at_least, at_most, parser_of, shown
from bench.fleet_simulation import EngineModel
from bench.serving_model import serving_of
from inference_operator.sizing.serving import Load

ENGINE = EngineModel(kv_tokens=120_000.0, max_num_seqs=256)
"""Holds about 59 typical requests: a quarter of `max_num_seqs`, like DeepSeek-R1 on eight H200 (302 of 1,024)."""
LOADS = {
    "conversations": Load(1155, 211, answer_spread=1.0),
    "long answers": Load(200, 800, answer_spread=1.0),
    "equal long answers": Load(200, 800, answer_spread=0.0),
    "long answers, most short": Load(200, 800, answer_spread=2.0),
}
"""The first have the means of Azure's public trace of 2023."""
SECONDS, PROCESSES, SEEDS, FLOOD = 300.0, 4, 3, 6_000
BURST, START, MORE = 8.0, 30.0, 3
"""Rooms that come at once to one engine, and seconds until others are up, which autoscaling starts for them."""
THROUGHPUT_AIM, BURST_AIM = at_least(0.98), at_most(0.5)
LEAST_SPREAD = 1e-9
"""Of a gamma distribution, for lengths that are equal."""
HAND_OVER = 0.05
"""Seconds from the end of a request until the next one of a router is in the engine."""


@dataclass(slots=True)
class Request:
    """A request, and where it is."""

    arrival: float
    prompt: float
    answer: float
    left: float = 0.0
    """Tokens that must be computed before the next one is decoded."""
    decoded: float = 0.0
    first: float = 0.0

    @property
    def held(self) -> float:
        return self.prompt + self.decoded


@dataclass(slots=True)
class Engine:
    """A simulated engine."""

    ready: float
    """When it is up."""
    now: float = 0.0
    waiting: deque[tuple[float, Request]] = field(default_factory=deque)
    """With the time from which each is here."""
    running: list[Request] = field(default_factory=list)
    preemptions: int = 0

    @property
    def inside(self) -> int:
        return len(self.running) + len(self.waiting)

    def step(self, done: list[Request]) -> None:
        """One step."""
        held = self._preempt() if self.running else 0.0
        while self.waiting and self.waiting[0][0] <= self.now and len(self.running) < ENGINE.max_num_seqs:
            one = self.waiting[0][1]
            if held + one.held + len(self.running) + 1 > ENGINE.kv_tokens and self.running:
                break
            held += one.held
            self.running.append(one)
            self.waiting.popleft()
        decoding = [one for one in self.running if one.left <= 0]
        room = budget = float(ENGINE.max_batched_tokens - len(decoding))
        for one in self.running:
            part = min(room, one.left)
            one.left -= part
            room -= part
        self.now += ENGINE.token_seconds + ENGINE.sequence_seconds * len(decoding)
        self.now += (budget - room) / ENGINE.prefill_tokens_per_second
        for one in self.running:
            if one.left <= 0:
                one.first = one.first or self.now
                one.decoded += 1
        done += [one for one in self.running if one.decoded >= one.answer]
        self.running = [one for one in self.running if one.decoded < one.answer]

    def _preempt(self) -> float:
        """Make room for a token of each sequence; returns what the cache holds."""
        held = sum(one.held for one in self.running)
        while held + len(self.running) > ENGINE.kv_tokens and len(self.running) > 1:
            victim = self.running.pop()
            held -= victim.held
            victim.left = victim.held
            self.waiting.appendleft((self.now, victim))
            self.preemptions += 1
        return held


def answer_lengths(load: Load, chance: np.random.Generator, number: int) -> NDArray[np.float64]:
    """Tokens of answers with the mean and the spread of a load."""
    spread = max(load.answer_spread, LEAST_SPREAD)
    return np.maximum(1, chance.gamma(1 / spread, load.answer * spread, number).round())


def requests(load: Load, arrivals: Sequence[float], seed: int) -> list[Request]:
    """Requests with random lengths."""
    chance = np.random.default_rng(seed)
    prompts = np.maximum(1, chance.exponential(load.prompt, len(arrivals)).round())
    answers = answer_lengths(load, chance, len(arrivals))
    return [Request(at, p, a, left=p) for at, p, a in zip(arrivals, prompts, answers, strict=True)]


def run(limit: int, work: Sequence[Request], engines: Sequence[Engine], until: float) -> list[Request]:
    """What a router and these engines have answered until a time."""
    queue, coming, done = deque[Request](), deque(work), list[Request]()
    while (engine := min(engines, key=lambda one: max(one.now, one.ready))) and (
        now := max(engine.now, engine.ready)
    ) < until:
        engine.now = now
        while coming and coming[0].arrival <= now:
            queue.append(coming.popleft())
        up = [one for one in engines if one.ready <= now]
        while queue and (least := min(up, key=lambda one: one.inside)).inside < limit:
            least.waiting.append((now + HAND_OVER, queue.popleft()))
        if engine.running or (engine.waiting and engine.waiting[0][0] <= now):
            engine.step(done)
        elif coming or queue or any(one.inside for one in engines):
            engine.now = now + HAND_OVER
        else:
            break
    return done


def room(load: Load) -> int:
    """As `autoscaling/target.py` computes it."""
    return min(ENGINE.max_num_seqs, int(serving_of(ENGINE).room(load)))


def figures(name: str) -> Iterator[Figure]:
    """The figures of one load."""
    load = LOADS[name]
    limits = {"before": PROCESSES * ENGINE.max_num_seqs, "now": room(load)}
    ended, preempted, late, crowded = (dict.fromkeys(limits, 0.0) for _ in range(4))
    for seed in range(SEEDS):
        for when, limit in limits.items():
            flood = [Engine(0.0)]
            ended[when] += len(run(limit, requests(load, [0.0] * FLOOD, seed), flood, SECONDS))
            crowded[when] += sum(one.preemptions for one in flood)
            fleet = [Engine(0.0), *(Engine(START) for _ in range(MORE))]
            done = run(limit, requests(load, [0.0] * int(BURST * limits["now"]), seed), fleet, 100 * SECONDS)
            preempted[when] += sum(one.preemptions for one in fleet)
            late[when] += float(np.quantile([one.first - one.arrival for one in done], 0.99)) / SEEDS
    yield Figure(f"{name}: room", limits["now"], "requests")
    yield Figure(f"{name}: throughput before", ended["before"] / SECONDS / SEEDS, "/s")
    yield Figure(f"{name}: throughput now, as a part", ended["now"] / ended["before"], "", THROUGHPUT_AIM)
    yield Figure(f"{name}: preemptions under it, as a part", crowded["now"] / max(crowded["before"], 1), "", BURST_AIM)
    yield Figure(f"{name}: preemptions of a burst before", preempted["before"] / SEEDS, "")
    yield Figure(
        f"{name}: preemptions of a burst now, as a part", preempted["now"] / max(preempted["before"], 1), "", BURST_AIM
    )
    yield Figure(f"{name}: p99 TTFT of a burst before", late["before"], "s")
    yield Figure(f"{name}: p99 TTFT of a burst now, as a part", late["now"] / late["before"], "", BURST_AIM)


def main(arguments: Sequence[str]) -> int:
    args = parser_of("python -m bench.entry", "What enters an engine.").parse_args(arguments)
    print(shown([figure for name in LOADS for figure in figures(name)], args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
