"""The steps of all engines, and the router between them, compiled; `bench/fleet_simulation.py` has the rules."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

ABSENT, STARTING, READY, DRAINING = 0, 1, 2, 3
"""States of an engine."""
WAITING, SENT, DONE, REFUSED, TIMED_OUT = 0, 1, 2, 3, 4
"""States of a request."""
RUNNING, ALL = 0, 1
"""Columns of `Arrays.counts`."""
ARRIVED, HEAD, TAIL, COMPLETED, KV_MILLIONTHS = 0, 1, 2, 3, 4
"""Places in `Arrays.pointers`."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Constants(NamedTuple):
    """What does not change during a replay."""

    token_seconds: float
    sequence_seconds: float
    prefill_tokens_per_second: float
    kv_tokens: float
    max_num_seqs: int
    max_batched_tokens: int
    tick_seconds: float
    router_limit: int
    queue_size: int
    queue_seconds: float
    experts_seconds: float
    expert_share: float


class Arrays(NamedTuple):
    """The changing state of a replay; the first axis is the request or the engine."""

    arrivals: Floats
    prompts: Floats
    outputs: Floats
    left_prompt: Floats
    """Tokens of a prompt that are not computed yet."""
    decoded: Floats
    sent: Floats
    """Time when the router sent the request to an engine."""
    first: Floats
    """Time of the first token."""
    finished: Floats
    status: Ints
    done: Ints
    """Requests in the order in which engines finished them."""
    queue: Ints
    """Requests in the order in which the router queued them."""
    state: Ints
    ready_at: Floats
    clock: Floats
    """The end of each engine's last step."""
    used: Floats
    """Used part of each engine's KV cache."""
    sequences: Ints
    """The requests of each engine, in their order; the first `counts[engine, RUNNING]` have a sequence."""
    counts: Ints
    """Requests of each engine with a sequence, and all of them."""
    pointers: Ints
    """Arrived requests, head and tail of the router's queue, completed requests, used KV cache in millionths."""


@njit(cache=True)
def advance(now: float, ticks: int, constants: Constants, arrays: Arrays) -> float:
    """Advance by some ticks; returns the seconds of all engines that exist, summed."""
    seconds = 0.0
    for _ in range(ticks):
        ready = 0
        for engine in range(len(arrays.state)):
            if arrays.state[engine] == STARTING and arrays.ready_at[engine] <= now:
                arrays.state[engine] = READY
            if arrays.state[engine] != ABSENT:
                seconds += constants.tick_seconds
            ready += arrays.state[engine] == READY
        _arrive(now, constants, arrays)
        _route(now, constants, arrays)
        used = 0.0
        for engine in range(len(arrays.state)):
            if arrays.state[engine] >= READY:
                arrays.clock[engine] = max(arrays.clock[engine], now)
                _run(engine, now + constants.tick_seconds, constants, arrays)
                used += arrays.used[engine]
        arrays.pointers[KV_MILLIONTHS] = int(1e6 * used / max(ready, 1))
        now += constants.tick_seconds
    return seconds


@njit(cache=True)
def _arrive(now: float, constants: Constants, arrays: Arrays) -> None:
    """The router queues what has arrived, or refuses it."""
    pointers = arrays.pointers
    while pointers[ARRIVED] < len(arrays.arrivals) and arrays.arrivals[pointers[ARRIVED]] <= now:
        if pointers[TAIL] - pointers[HEAD] >= constants.queue_size:
            arrays.status[pointers[ARRIVED]] = REFUSED
        else:
            arrays.queue[pointers[TAIL]] = pointers[ARRIVED]
            pointers[TAIL] += 1
        pointers[ARRIVED] += 1


@njit(cache=True)
def _route(now: float, constants: Constants, arrays: Arrays) -> None:
    """The router sends queued requests to the ready engine with the fewest, while one has room."""
    pointers, counts = arrays.pointers, arrays.counts
    while pointers[HEAD] < pointers[TAIL]:
        request = arrays.queue[pointers[HEAD]]
        if now - arrays.arrivals[request] > constants.queue_seconds:
            arrays.status[request] = TIMED_OUT
            pointers[HEAD] += 1
            continue
        best = -1
        for engine in range(len(arrays.state)):
            free = arrays.state[engine] == READY and counts[engine, ALL] < constants.router_limit
            if free and (best < 0 or counts[engine, ALL] < counts[best, ALL]):
                best = engine
        if best < 0:
            return
        arrays.sequences[best, counts[best, ALL]] = request
        counts[best, ALL] += 1
        arrays.status[request], arrays.sent[request] = SENT, now
        pointers[HEAD] += 1


@njit(cache=True)
def _run(engine: int, until: float, constants: Constants, arrays: Arrays) -> None:
    """The steps that an engine begins before this time."""
    while arrays.clock[engine] < until and arrays.counts[engine, ALL] > 0:
        arrays.used[engine], decoding = _admit(engine, constants, arrays)
        tokens = _prefill(engine, constants.max_batched_tokens - decoding, arrays)
        seconds = constants.token_seconds + constants.sequence_seconds * decoding
        seconds += constants.experts_seconds * (1 - (1 - constants.expert_share) ** (decoding + tokens))
        arrays.clock[engine] += seconds + tokens / constants.prefill_tokens_per_second
        if decoding == arrays.counts[engine, ALL]:
            _repeat(engine, seconds, until, constants, arrays)
        _finish(engine, arrays.clock[engine], arrays)
    if arrays.counts[engine, ALL] == 0:
        arrays.used[engine] = 0.0
        if arrays.state[engine] == DRAINING:
            arrays.state[engine] = ABSENT


@njit(cache=True)
def _repeat(engine: int, seconds: float, until: float, constants: Constants, arrays: Arrays) -> None:
    """The steps before the last one that begins before this time, or ends a sequence: all decode, and none comes."""
    running, least = arrays.counts[engine, RUNNING], np.inf
    for place in range(running):
        request = arrays.sequences[engine, place]
        least = min(least, arrays.outputs[request] - arrays.decoded[request])
    steps = 0
    while steps + 1 < least and arrays.clock[engine] < until:
        arrays.clock[engine] += seconds
        steps += 1
    for place in range(running if steps else 0):
        arrays.decoded[arrays.sequences[engine, place]] += steps
    arrays.used[engine] = min(1.0, arrays.used[engine] + steps * running / constants.kv_tokens)


@njit(cache=True)
def _admit(engine: int, constants: Constants, arrays: Arrays) -> tuple[float, int]:
    """Waiting requests get sequences; returns the used part of the KV cache, and how many sequences decode."""
    counts, held, decoding = arrays.counts, 0.0, 0
    for place in range(counts[engine, RUNNING]):
        request = arrays.sequences[engine, place]
        held += arrays.prompts[request] + arrays.decoded[request]
        decoding += arrays.left_prompt[request] <= 0
    while counts[engine, RUNNING] < min(counts[engine, ALL], constants.max_num_seqs):
        need = arrays.prompts[arrays.sequences[engine, counts[engine, RUNNING]]] + 1
        if held + need > constants.kv_tokens and counts[engine, RUNNING] > 0:
            break
        held += need
        counts[engine, RUNNING] += 1
    return min(1.0, held / constants.kv_tokens), decoding


@njit(cache=True)
def _prefill(engine: int, budget: float, arrays: Arrays) -> float:
    """Prompts are computed in their order, within the tokens that are left of a step; returns their tokens."""
    left = budget
    for place in range(arrays.counts[engine, RUNNING]):
        if left <= 0:
            break
        request = arrays.sequences[engine, place]
        if arrays.left_prompt[request] > 0:
            part = min(left, arrays.left_prompt[request])
            arrays.left_prompt[request] -= part
            left -= part
    return budget - left


@njit(cache=True)
def _finish(engine: int, end: float, arrays: Arrays) -> None:
    """Every sequence whose prompt is computed gets a token at the end of a step; finished ones leave."""
    counts, running, kept = arrays.counts, arrays.counts[engine, RUNNING], 0
    for place in range(running):
        request = arrays.sequences[engine, place]
        if arrays.left_prompt[request] <= 0:
            if arrays.decoded[request] == 0:
                arrays.first[request] = end
            arrays.decoded[request] += 1
            if arrays.decoded[request] >= arrays.outputs[request]:
                arrays.finished[request] = end
                arrays.status[request] = DONE
                arrays.done[arrays.pointers[COMPLETED]] = request
                arrays.pointers[COMPLETED] += 1
                continue
        arrays.sequences[engine, kept] = request
        kept += 1
    gone = running - kept
    if gone > 0:
        for place in range(running, counts[engine, ALL]):
            arrays.sequences[engine, place - gone] = arrays.sequences[engine, place]
        counts[engine, RUNNING] -= gone
        counts[engine, ALL] -= gone
