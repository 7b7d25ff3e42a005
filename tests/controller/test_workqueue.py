import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.controller.cluster import ClusterError
from inference_operator.controller.workqueue import (
    BUT_HIGH_AT_ONCE,
    FIRST_BACKOFF_SECONDS,
    JITTER,
    LATEST_BACKOFF_SECONDS,
    LOW_AT_ONCE,
    LOW_EVERY,
    MOST_BUT_HIGH,
    NORMAL_EVERY,
    SLOW_SECONDS,
    Priority,
    WorkQueue,
)
from inference_operator.manifest import Key
from inference_operator.status.report import Requeue
from tests.controller.virtual_time import run

MIDDLE = 0.5
"""The random number at which jitter does not change a backoff."""
A, B = Key("default", "a"), Key("default", "b")


def work(
    script: Callable[[WorkQueue], Awaitable[None]],
    handle: Callable[[Key], Awaitable[Requeue | None]],
    *,
    workers: int = 2,
    chance: float = MIDDLE,
) -> list[tuple[Key, Exception]]:
    """Run workers beside a script in virtual time; returns the reported failures."""
    told: list[tuple[Key, Exception]] = []

    async def everything() -> None:
        queue = WorkQueue(lambda: chance)
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
    """The start times of the reconciles, with their keys."""

    def __init__(self, *, takes: float = 0.0, after: float | None = None, backoff: bool = False) -> None:
        self.begun: list[tuple[float, Key]] = []
        self._takes, self._after = takes, None if after is None else Requeue(after, backoff=backoff)
        self._busy: set[Key] = set()
        self.most_at_once = 0

    async def handle(self, key: Key) -> Requeue | None:
        assert key not in self._busy, "two workers on one key"
        self._busy.add(key)
        self.most_at_once = max(self.most_at_once, len(self._busy))
        self.begun.append((asyncio.get_running_loop().time(), key))
        await asyncio.sleep(self._takes)
        self._busy.discard(key)
        return self._after


def test_a_key_that_is_added_several_times_is_queued_once() -> None:
    log = Log()

    async def script(queue: WorkQueue) -> None:
        for _ in range(5):
            queue.add(A)
        queue.add(B)
        assert len(queue) == 2
        await asyncio.sleep(1)
        assert len(queue) == 0

    work(script, log.handle)
    assert [key for _, key in log.begun] == [A, B]


def test_a_key_that_is_added_during_its_reconcile_is_reconciled_once_more() -> None:
    log = Log(takes=10)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(A)
        queue.add(A)
        await asyncio.sleep(60)

    work(script, log.handle)
    assert log.begun == [(0, A), (10, A)]


def test_different_keys_are_reconciled_concurrently() -> None:
    log = Log(takes=10)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(60)

    work(script, log.handle)
    assert log.begun == [(0, A), (0, B)]
    assert log.most_at_once == 2


def test_a_requested_requeue_happens_after_its_time() -> None:
    log = Log(after=30)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(70)

    work(script, log.handle)
    assert log.begun == [(0, A), (30, A), (60, A)]


def test_a_reconcile_in_between_replaces_the_requested_requeue() -> None:
    log = Log(after=30)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(20)
        queue.add(A)
        await asyncio.sleep(40)

    work(script, log.handle)
    assert log.begun == [(0, A), (20, A), (50, A)]


def test_of_several_requested_requeues_the_earliest_happens() -> None:
    log = Log()

    async def script(queue: WorkQueue) -> None:
        queue.add_after(A, 30)
        queue.add_after(A, 10)
        queue.add_after(A, 20)
        await asyncio.sleep(60)

    work(script, log.handle)
    assert log.begun == [(10, A)]


def test_a_failing_key_is_reported_and_retried_with_growing_waits() -> None:
    tries: list[float] = []

    async def fail(_: Key) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise ValueError("broken")

    async def script(queue: WorkQueue) -> None:
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
def test_retry_waits_are_spread_by_jitter(chance: float, share: float) -> None:
    tries: list[float] = []

    async def fail(_: Key) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise ValueError("broken")

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(10)

    work(script, fail, chance=chance)
    waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert waits == pytest.approx([FIRST_BACKOFF_SECONDS * 2**n * share for n in range(len(waits))])


def test_a_requeue_with_backoff_waits_as_long_as_a_retry_after_an_exception() -> None:
    log = Log(after=0, backoff=True)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(4)

    work(script, log.handle)
    assert log.begun == [(0, A), (0.5, A), (1.5, A), (3.5, A)]


def test_an_event_during_a_backoff_starts_the_retry_at_once() -> None:
    log = Log(after=0, backoff=True)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(2)
        queue.add(A)
        await asyncio.sleep(1)

    work(script, log.handle)
    assert log.begun == [(0, A), (0.5, A), (1.5, A), (2, A)]


def test_an_event_does_not_start_a_retry_before_retry_after() -> None:
    log = Log(after=30, backoff=True)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(2)
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(29)

    work(script, log.handle)
    assert log.begun == [(0, A), (2, B), (30, A)]


def test_an_exception_with_retry_after_delays_the_retry() -> None:
    tries: list[float] = []

    async def fail(_: Key) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise ClusterError("HTTP 429: too many", retry_after=30)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(1)
        queue.add(A)
        await asyncio.sleep(69)

    work(script, fail)
    assert tries == [0, 30, 60]


def test_a_success_resets_the_backoff() -> None:
    tries: list[float] = []

    async def fail_but_for_the_fourth(_: Key) -> Requeue | None:
        tries.append(asyncio.get_running_loop().time())
        if len(tries) != 4:
            raise ValueError("broken")
        return Requeue(1.0)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(8)

    work(script, fail_but_for_the_fourth)
    assert tries[5] - tries[4] == pytest.approx(FIRST_BACKOFF_SECONDS)


def test_a_failing_key_does_not_block_other_keys() -> None:
    seen: list[Key] = []

    async def fail_for_a(key: Key) -> None:
        if key == A:
            raise ValueError("broken")
        seen.append(key)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        queue.add(B)
        await asyncio.sleep(1)

    work(script, fail_for_a, workers=1)
    assert seen == [B]


def test_everything_else_has_its_turn_between_two_keys_that_wait_for_nothing() -> None:
    handled, seen = list[Key](), list[int]()

    async def at_once(key: Key) -> None:
        handled.append(key)

    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key)
        while len(handled) < len(FLEET):
            seen.append(len(handled))
            await asyncio.sleep(0)

    work(script, at_once, workers=1)
    assert len(seen) >= len(FLEET)


FLEET = [Key("fleet", f"resource-{number}") for number in range(100)]


def order(script: Callable[[WorkQueue], Awaitable[None]]) -> list[Key]:
    """The keys in the order in which one worker takes them, one a second."""
    log = Log(takes=1)
    work(script, log.handle, workers=1)
    return [key for _, key in log.begun]


def test_an_edit_does_not_wait_for_a_listing_of_the_fleet() -> None:
    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.LOW)
        await asyncio.sleep(2.5)
        queue.add(A)
        assert len(queue) == len(FLEET) - 3 + 1
        await asyncio.sleep(200)

    assert order(script) == [*FLEET[:3], A, *FLEET[3:]]


def test_a_pass_over_all_leaves_workers_free_for_an_edit() -> None:
    log = Log(takes=4)

    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.LOW)
        await asyncio.sleep(2)
        queue.add(A)
        queue.add(FLEET[50])
        await asyncio.sleep(1000)

    work(script, log.handle, workers=LOW_AT_ONCE + 2)
    assert log.begun[LOW_AT_ONCE : LOW_AT_ONCE + 2] == [(2, A), (2, FLEET[50])]
    assert sorted(key for _, key in log.begun) == sorted([A, *FLEET]), "each is reconciled once"
    others = (len(FLEET) - 1 - LOW_AT_ONCE) // LOW_AT_ONCE
    assert {at for at, _ in log.begun[LOW_AT_ONCE + 2 :]} == set(range(4, 4 * (others + 1), 4))


def test_an_edit_does_not_wait_for_what_the_cluster_does_about_the_writes_of_a_listing() -> None:
    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.NORMAL)
        queue.add(A)
        await asyncio.sleep(200)

    assert order(script).index(A) < NORMAL_EVERY


def test_events_of_the_fleet_leave_workers_free_for_an_edit() -> None:
    log = Log(takes=4)

    async def script(queue: WorkQueue) -> None:
        for number, key in enumerate(FLEET):
            queue.add(key, Priority.LOW if number % 2 else Priority.NORMAL)
        await asyncio.sleep(2)
        queue.add(A)
        await asyncio.sleep(1000)

    work(script, log.handle, workers=BUT_HIGH_AT_ONCE + 1)
    assert log.begun[BUT_HIGH_AT_ONCE] == (2, A)
    assert sorted(key for _, key in log.begun) == sorted([A, *FLEET]), "each is reconciled once"


@pytest.mark.parametrize(
    ("priority", "hang"), [(Priority.LOW, MOST_BUT_HIGH - 2), (Priority.NORMAL, MOST_BUT_HIGH - 1)]
)
def test_keys_that_wait_long_for_the_api_server_hold_up_no_other_and_leave_workers_for_an_edit(
    priority: Priority, hang: int
) -> None:
    stuck, begun = FLEET[:hang], dict[Key, float]()

    async def handle(key: Key) -> None:
        begun[key] = asyncio.get_running_loop().time()
        await asyncio.sleep(1000 if key in stuck else 0)

    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, priority)
        await asyncio.sleep(100)
        queue.add(A)
        await asyncio.sleep(0)

    work(script, handle, workers=MOST_BUT_HIGH + 1)
    assert begun.keys() == {A, *FLEET}
    assert begun[A] == 100
    assert max(begun[key] for key in FLEET) <= SLOW_SECONDS * MOST_BUT_HIGH


def test_a_pass_over_all_that_hangs_leaves_a_worker_for_what_the_cluster_does() -> None:
    log = Log(takes=1000)

    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.LOW)
        await asyncio.sleep(500)
        queue.add(A, Priority.NORMAL)
        await asyncio.sleep(1)

    work(script, log.handle, workers=MOST_BUT_HIGH + 2)
    assert [key for _, key in log.begun] == [*FLEET[: MOST_BUT_HIGH - 1], A]


def test_more_keys_than_all_workers_but_those_for_edits_wait_for_one_that_hangs() -> None:
    log = Log(takes=1000)

    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.NORMAL)
        await asyncio.sleep(500)
        queue.add(A)
        await asyncio.sleep(1)

    work(script, log.handle, workers=MOST_BUT_HIGH + 2)
    assert [key for _, key in log.begun] == [*FLEET[:MOST_BUT_HIGH], A]


def test_a_time_at_which_a_key_is_due_stays_while_it_waits_with_a_lower_priority() -> None:
    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.NORMAL)
        queue.add_after(FLEET[-1], 3.5)
        queue.add(FLEET[-1], Priority.NORMAL)
        await asyncio.sleep(200)

    taken = order(script)
    assert taken.index(FLEET[-1]) < 3.5 + NORMAL_EVERY
    assert sorted(taken) == sorted(FLEET), "each is reconciled once"


@pytest.mark.parametrize(("priority", "every"), [(Priority.LOW, LOW_EVERY), (Priority.NORMAL, NORMAL_EVERY)])
def test_a_stream_of_edits_stops_nothing_for_ever(priority: Priority, every: int) -> None:
    async def script(queue: WorkQueue) -> None:
        queue.add(B, priority)
        for key in FLEET:
            queue.add(key)
        await asyncio.sleep(200)

    assert order(script).index(B) < every


ADDED = st.tuples(st.sampled_from(FLEET[:9]), st.sampled_from(Priority), st.sampled_from([0.0, 0.5, 3.0]))


@given(st.lists(ADDED, max_size=40), st.integers(1, BUT_HIGH_AT_ONCE + 2))
def test_each_key_is_handled_after_it_was_added_whatever_its_priority(
    added: list[tuple[Key, Priority, float]], workers: int
) -> None:
    log, last = Log(takes=1), dict[Key, float]()

    async def script(queue: WorkQueue) -> None:
        for key, priority, pause in added:
            queue.add(key, priority)
            last[key] = asyncio.get_running_loop().time()
            await asyncio.sleep(pause)
        await asyncio.sleep(200)
        assert len(queue) == 0

    work(script, log.handle, workers=workers)
    begun = {key: at for at, key in log.begun}
    assert begun.keys() == last.keys()
    assert all(begun[key] >= at for key, at in last.items())


def test_a_key_that_waits_with_low_priority_moves_when_something_happens_to_it() -> None:
    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.LOW)
        queue.add(FLEET[50])
        queue.add(FLEET[50], Priority.LOW)
        await asyncio.sleep(200)

    taken = order(script)
    assert taken[0] == FLEET[50]
    assert sorted(taken) == sorted(FLEET), "each is reconciled once"


def test_a_key_that_was_added_during_its_reconcile_keeps_the_higher_priority() -> None:
    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(0.5)
        queue.add(A)
        queue.add(A, Priority.LOW)
        for key in FLEET:
            queue.add(key, Priority.LOW)
        await asyncio.sleep(200)

    assert order(script)[:2] == [A, A]


def of_an_overloaded_server(script: Callable[[WorkQueue], Awaitable[None]]) -> list[Key]:
    """The keys in the order in which they are reconciled, if the API server rejects those of the first second."""
    log = Log(takes=1)

    async def handle(key: Key) -> Requeue | None:
        if asyncio.get_running_loop().time() < 1:
            raise ClusterError("HTTP 429: too many", retry_after=30)
        return await log.handle(key)

    async def filled(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key, Priority.LOW)
        await asyncio.sleep(1)
        await script(queue)
        await asyncio.sleep(200)

    work(filled, handle, workers=1)
    return [key for _, key in log.begun]


@pytest.mark.parametrize("is_added_again", [False, True])
def test_the_fleet_that_waits_because_of_an_overloaded_server_keeps_its_low_priority(is_added_again: bool) -> None:  # noqa: FBT001
    async def script(queue: WorkQueue) -> None:
        for key in FLEET if is_added_again else ():
            queue.add(key, Priority.LOW)
        await asyncio.sleep(32)
        queue.add(A)

    assert of_an_overloaded_server(script).index(A) < LOW_EVERY


def test_an_event_of_one_that_waits_because_of_an_overloaded_server_goes_before_the_fleet() -> None:
    async def script(queue: WorkQueue) -> None:
        queue.add(FLEET[50])
        queue.add(FLEET[50], Priority.LOW)

    assert of_an_overloaded_server(script).index(FLEET[50]) < LOW_EVERY


@pytest.mark.parametrize("seconds", [0.5, 1.2], ids=["during its reconcile", "while it waits"])
def test_a_pass_over_all_takes_no_priority_from_one_that_failed(seconds: float) -> None:
    log, failed = Log(takes=1), list[Key]()

    async def handle(key: Key) -> Requeue | None:
        if key == A and not failed:
            failed.append(key)
            await asyncio.sleep(1)
            raise ValueError("broken")
        return await log.handle(key)

    async def script(queue: WorkQueue) -> None:
        queue.add(A)
        await asyncio.sleep(seconds)
        for key in [*FLEET, A]:
            queue.add(key, Priority.LOW)
        await asyncio.sleep(200)

    work(script, handle, workers=1)
    assert [key for _, key in log.begun].index(A) <= 1


@pytest.mark.parametrize(("with_all", "place"), [(True, 1), (False, len(FLEET))])
def test_a_time_at_which_all_are_due_has_low_priority(with_all: bool, place: int) -> None:  # noqa: FBT001
    log, first = Log(takes=1), set[Key]()

    async def handle(key: Key) -> Requeue | None:
        if key in first:
            return await log.handle(key)
        first.add(key)
        return Requeue(100.0, with_all=with_all)

    async def script(queue: WorkQueue) -> None:
        for key in FLEET:
            queue.add(key)
        first.add(A)
        await asyncio.sleep(100.5)
        queue.add(A)
        await asyncio.sleep(200)

    work(script, handle, workers=1)
    assert [key for _, key in log.begun].index(A) == place
