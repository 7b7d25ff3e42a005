import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from inference_operator.manifest import Key
from inference_operator.reconcile.cluster import ClusterError
from inference_operator.reconcile.keys import FIRST_BACKOFF_SECONDS, JITTER, LATEST_BACKOFF_SECONDS, KeyQueue
from inference_operator.status.report import After
from tests.reconcile.virtual_time import run

MIDDLE = 0.5
"""The chance with which a backoff is neither shortened nor lengthened."""
A, B = Key("default", "a"), Key("default", "b")


def work(
    script: Callable[[KeyQueue], Awaitable[None]],
    handle: Callable[[Key], Awaitable[After | None]],
    *,
    workers: int = 2,
    chance: float = MIDDLE,
) -> list[tuple[Key, Exception]]:
    """Let workers work while a script runs, in virtual time; returns the failures that were told."""
    told: list[tuple[Key, Exception]] = []

    async def everything() -> None:
        queue = KeyQueue(lambda: chance)
        tasks = [
            asyncio.create_task(queue.work(handle, lambda key, error: told.append((key, error))))
            for _ in range(workers)
        ]
        await script(queue)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(everything())
    return told


class Log:
    """When which key was begun."""

    def __init__(self, *, takes: float = 0.0, after: float | None = None, backoff: bool = False) -> None:
        self.begun: list[tuple[float, Key]] = []
        self._takes, self._after = takes, None if after is None else After(after, backoff=backoff)
        self._busy: set[Key] = set()
        self.most_at_once = 0

    async def handle(self, key: Key) -> After | None:
        assert key not in self._busy, "two workers on one key"
        self._busy.add(key)
        self.most_at_once = max(self.most_at_once, len(self._busy))
        self.begun.append((asyncio.get_running_loop().time(), key))
        await asyncio.sleep(self._takes)
        self._busy.discard(key)
        return self._after


def test_a_key_waits_once_however_often_it_is_added() -> None:
    log = Log()

    async def script(queue: KeyQueue) -> None:
        for _ in range(5):
            queue.add(A)
        queue.add(B)
        assert len(queue) == 2
        await asyncio.sleep(1)
        assert len(queue) == 0

    work(script, log.handle)
    assert [key for _, key in log.begun] == [A, B]


def test_a_key_that_is_added_during_work_is_worked_on_once_more_afterwards() -> None:
    log = Log(takes=10)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(A)
        queue.add(A)
        await asyncio.sleep(60)

    work(script, log.handle)
    assert log.begun == [(0, A), (10, A)]


def test_different_keys_are_worked_on_at_a_time() -> None:
    log = Log(takes=10)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(60)

    work(script, log.handle)
    assert log.begun == [(0, A), (0, B)]
    assert log.most_at_once == 2


def test_a_wish_to_look_again_is_granted() -> None:
    log = Log(after=30)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(70)

    work(script, log.handle)
    assert log.begun == [(0, A), (30, A), (60, A)]


def test_a_look_in_between_replaces_the_wish() -> None:
    log = Log(after=30)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(20)
        queue.add(A)
        await asyncio.sleep(40)

    work(script, log.handle)
    assert log.begun == [(0, A), (20, A), (50, A)]


def test_the_earliest_wish_counts() -> None:
    log = Log()

    async def script(queue: KeyQueue) -> None:
        queue.add_after(A, 30)
        queue.add_after(A, 10)
        queue.add_after(A, 20)
        await asyncio.sleep(60)

    work(script, log.handle)
    assert log.begun == [(10, A)]


def test_what_fails_is_told_and_tried_again_later_and_later() -> None:
    tries: list[float] = []

    async def fail(_: Key) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise ValueError("broken")

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(1000)

    told = work(script, fail)
    assert len(told) == len(tries)
    assert {(key, str(error)) for key, error in told} == {(A, "broken")}
    waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
    expected = [min(FIRST_BACKOFF_SECONDS * 2**n, LATEST_BACKOFF_SECONDS) for n in range(len(waits))]
    assert waits == pytest.approx(expected)
    assert len(waits) > 12


@pytest.mark.parametrize(("chance", "share"), [(0.0, 1 - JITTER), (1.0, 1 + JITTER)])
def test_chance_spreads_the_waits(chance: float, share: float) -> None:
    tries: list[float] = []

    async def fail(_: Key) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise ValueError("broken")

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(10)

    work(script, fail, chance=chance)
    waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert waits == pytest.approx([FIRST_BACKOFF_SECONDS * 2**n * share for n in range(len(waits))])


def test_a_round_with_a_failure_in_it_is_repeated_with_the_same_backoff() -> None:
    log = Log(after=0, backoff=True)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(4)

    work(script, log.handle)
    assert log.begun == [(0, A), (0.5, A), (1.5, A), (3.5, A)]


def test_what_happens_meanwhile_brings_a_retry_forward() -> None:
    log = Log(after=0, backoff=True)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(2)
        queue.add(A)
        await asyncio.sleep(1)

    work(script, log.handle)
    assert log.begun == [(0, A), (0.5, A), (1.5, A), (2, A)]


def test_nothing_brings_a_retry_before_the_moment_that_the_api_server_named() -> None:
    log = Log(after=30, backoff=True)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(2)
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(29)

    work(script, log.handle)
    assert log.begun == [(0, A), (2, B), (30, A)]


def test_an_error_that_names_a_moment_is_waited_for_too() -> None:
    tries: list[float] = []

    async def fail(_: Key) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise ClusterError("HTTP 429: too many", retry_after=30)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(A)
        await asyncio.sleep(69)

    work(script, fail)
    assert tries == [0, 30, 60]


def test_success_forgets_the_failures() -> None:
    tries: list[float] = []

    async def fail_but_for_the_fourth(_: Key) -> After | None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) != 4:
            raise ValueError("broken")
        return After(1.0)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        await asyncio.sleep(8)

    work(script, fail_but_for_the_fourth)
    assert tries[5] - tries[4] == pytest.approx(FIRST_BACKOFF_SECONDS)


def test_one_key_that_fails_does_not_stop_the_others() -> None:
    seen: list[Key] = []

    async def fail_for_a(key: Key) -> None:
        if key == A:
            raise ValueError("broken")
        seen.append(key)

    async def script(queue: KeyQueue) -> None:
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(1)

    work(script, fail_for_a, workers=1)
    assert seen == [B]
