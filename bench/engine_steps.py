"""Steps of `STEP_SECONDS` of all engines and of the router, compiled; `bench/fleet_simulation.py` has the rules."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

STEP_SECONDS = 0.1
PREFILL_SHARE = 0.6
"""Part of a step that prompts may take while other sequences decode."""

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
    router_limit: int
    queue_size: int
    queue_seconds: float


class Arrays(NamedTuple):
    """The changing state of a replay; the first axis is the request or the engine."""

    arrivals: Floats
    prompts: Floats
    outputs: Floats
    left_prompt: Floats
    """Tokens of a prompt that are not computed yet."""
    decoded: Floats
    first: Floats
    """Time of the first token."""
    finished: Floats
    status: Ints
    queue: Ints
    """Requests in the order in which the router queued them."""
    state: Ints
    ready_at: Floats
    sequences: Ints
    """The requests of each engine, in their order; the first `counts[engine, RUNNING]` have a sequence."""
    counts: Ints
    """Requests of each engine with a sequence, and all of them."""
    pointers: Ints
    """Arrived requests, head and tail of the router's queue, completed requests, used KV cache in millionths."""


@njit(cache=True)
def advance(now: float, steps: int, constants: Constants, arrays: Arrays) -> float:
    """Advance by some steps; returns the seconds of all engines that exist, summed."""
    seconds = 0.0
    for _ in range(steps):
        ready = 0
        for engine in range(len(arrays.state)):
            if arrays.state[engine] == STARTING and arrays.ready_at[engine] <= now:
                arrays.state[engine] = READY
            if arrays.state[engine] != ABSENT:
                seconds += STEP_SECONDS
            ready += arrays.state[engine] == READY
        _arrive(now, constants, arrays)
        _route(now, constants, arrays)
        used = 0.0
        for engine in range(len(arrays.state)):
            if arrays.state[engine] >= READY:
                used += _step(engine, now, constants, arrays)
        arrays.pointers[KV_MILLIONTHS] = int(1e6 * used / max(ready, 1))
        now += STEP_SECONDS
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
        arrays.status[request] = SENT
        pointers[HEAD] += 1


@njit(cache=True)
def _step(engine: int, now: float, constants: Constants, arrays: Arrays) -> float:
    """One step of an engine; returns the used part of its KV cache."""
    used, decoding = _admit(engine, constants, arrays)
    spent = _prefill(engine, now, decoding > 0, constants, arrays)
    pace = constants.token_seconds + constants.sequence_seconds * max(decoding, 1)
    _decode(engine, now, spent, pace, arrays)
    if arrays.state[engine] == DRAINING and arrays.counts[engine, ALL] == 0:
        arrays.state[engine] = ABSENT
    return used


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
def _prefill(engine: int, now: float, shared: bool, constants: Constants, arrays: Arrays) -> float:  # noqa: FBT001
    """Prompts are computed in their order; returns the seconds that it takes."""
    share = STEP_SECONDS * (PREFILL_SHARE if shared else 1.0)
    spent = 0.0
    for place in range(arrays.counts[engine, RUNNING]):
        request = arrays.sequences[engine, place]
        if arrays.left_prompt[request] <= 0:
            continue
        possible = (share - spent) * constants.prefill_tokens_per_second
        if possible <= 0:
            break
        part = min(possible, arrays.left_prompt[request])
        arrays.left_prompt[request] -= part
        spent += part / constants.prefill_tokens_per_second
        if arrays.left_prompt[request] <= 0:
            arrays.first[request] = now + spent
            arrays.decoded[request] = 1.0
    return spent


@njit(cache=True)
def _decode(engine: int, now: float, spent: float, pace: float, arrays: Arrays) -> None:
    """The rest of the step decodes; `pace` is the seconds of one token of each sequence."""
    counts, end = arrays.counts, now + STEP_SECONDS
    kept, gone = 0, 0
    for place in range(counts[engine, ALL]):
        request = arrays.sequences[engine, place]
        done = False
        if place < counts[engine, RUNNING] and arrays.left_prompt[request] <= 0:
            begun = max(now, arrays.first[request])
            tokens = (STEP_SECONDS - spent if arrays.first[request] <= now else max(0.0, end - begun)) / pace
            missing = max(0.0, arrays.outputs[request] - arrays.decoded[request])
            if missing <= tokens:
                done = True
                arrays.finished[request] = begun + (missing / tokens if tokens > 0 else 0.0) * (end - begun)
            arrays.decoded[request] += tokens
        if done:
            arrays.status[request] = DONE
            arrays.pointers[COMPLETED] += 1
            gone += 1
        else:
            arrays.sequences[engine, kept] = request
            kept += 1
    counts[engine, RUNNING] -= gone
    counts[engine, ALL] = kept
