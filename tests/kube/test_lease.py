"""Leader election in virtual time: never two holders, whatever happens to their requests."""

import asyncio
import json
import random

import pytest

from inference_operator.controller.cluster import ClusterError, ConflictError, NotFoundError
from inference_operator.kube.lease import Lease
from inference_operator.manifest import Kind, Manifest
from inference_operator.settings import Settings
from tests.controller.virtual_time import run

SETTINGS = Settings()
DURATION, DEADLINE = SETTINGS.lease_duration_seconds, SETTINGS.lease_renew_deadline_seconds


def _copy(manifest: Manifest) -> Manifest:
    copied: Manifest = json.loads(json.dumps(manifest))  # a tenth of the time of `copy.deepcopy`
    return copied


class OneLease:
    """An API server with one Lease, and faults of requests to it."""

    def __init__(self) -> None:
        self.lease: Manifest | None = None
        self.away = False
        self.unanswered = False
        self.writes = 0
        self._version = 0

    async def request(self, method: str, path: str, kind: Kind, *, body: Manifest | None = None) -> Manifest:
        assert kind.name == "Lease"
        await asyncio.sleep(0.01)
        if self.away:
            await asyncio.sleep(SETTINGS.write_timeout_seconds)
            raise ClusterError("no answer", request=path)
        answer = self._answer(method, body)
        if self.unanswered:
            raise ClusterError("no answer", request=path)
        return _copy(answer)

    def edit(self, **spec: object) -> None:
        assert self.lease is not None
        self._store({**self.lease, "spec": {**self.lease["spec"], **spec}})

    def _answer(self, method: str, body: Manifest | None) -> Manifest:
        if method == "POST":
            if self.lease is not None:
                raise ConflictError("AlreadyExists")
        elif self.lease is None:
            raise NotFoundError("not found")
        elif method == "GET":
            return self.lease
        elif body is None or body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
            raise ConflictError("Conflict")
        assert body is not None
        self.writes += 1
        return self._store(body)

    def _store(self, body: Manifest) -> Manifest:
        self._version += 1
        self.lease = _copy({**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}})
        return self.lease


def process(api: OneLease, name: str) -> Lease:
    return Lease(api, SETTINGS, name, clock=asyncio.get_running_loop().time)


def now() -> float:
    return asyncio.get_running_loop().time()


async def led(lease: Lease) -> asyncio.Task[None]:
    """Acquire the Lease and renew it."""
    assert await lease.acquire(asyncio.Event())
    return asyncio.create_task(lease.keep())


def test_the_first_process_becomes_leader_at_once_and_renews_the_lease() -> None:
    async def script() -> None:
        api = OneLease()
        lease = process(api, "a")
        keeping = await led(lease)
        assert now() < 1
        await asyncio.sleep(100)
        assert lease.valid()
        assert api.writes == 1 + int(100 / (SETTINGS.lease_renew_seconds + 0.01))
        keeping.cancel()

    run(script())


def test_a_standby_leads_at_once_after_a_release_and_otherwise_after_the_lease_duration() -> None:
    async def script() -> None:
        api = OneLease()
        first, second, third = (process(api, name) for name in "abc")
        keeping = await led(first)
        waiting = asyncio.create_task(led(second))
        await asyncio.sleep(3)
        keeping.cancel()
        await first.release()
        released = now()
        assert not first.valid()
        keeping = await waiting
        assert now() - released < 1.1
        keeping.cancel()  # as a crash: nothing is released
        crashed = now()
        keeping = await led(third)
        assert DURATION <= now() - crashed < DURATION + 2
        assert api.lease is not None
        assert api.lease["spec"]["leaseTransitions"] == 2
        keeping.cancel()

    run(script())


@pytest.mark.parametrize("skew", [3600.0, -3600.0])
def test_machines_with_different_clocks_wait_the_same_lease_duration(skew: float) -> None:
    """Each process counts by its own clock; the time of day in the Lease, here an hour off, is only for people."""

    async def script() -> None:
        api = OneLease()
        first = process(api, "a")
        second = Lease(api, SETTINGS, "b", clock=lambda: asyncio.get_running_loop().time() + skew)
        keeping = await led(first)
        api.edit(renewTime="2001-01-01T00:00:00.000000Z")
        waiting = asyncio.create_task(led(second))
        await asyncio.sleep(3 * DURATION)
        assert first.valid()
        assert not second.valid()
        keeping.cancel()  # as a crash: nothing is released
        crashed = now()
        keeping = await waiting
        assert DURATION - SETTINGS.lease_renew_seconds - 1 < now() - crashed < DURATION + 2
        assert not first.valid()
        keeping.cancel()

    run(script())


def test_a_leader_that_cannot_renew_stops_before_a_standby_may_start() -> None:
    async def script() -> None:
        api = OneLease()
        lease = process(api, "a")
        keeping = await led(lease)
        api.away = True
        await keeping
        assert not lease.valid()
        assert now() <= DEADLINE + SETTINGS.lease_renew_seconds + 1

    run(script())


def test_a_lost_response_does_not_lose_the_lease() -> None:
    async def script() -> None:
        api = OneLease()
        api.unanswered = True
        lease = process(api, "a")
        leading = asyncio.create_task(led(lease))
        await asyncio.sleep(0.5)
        api.unanswered = False
        keeping = await leading
        assert now() < 3
        await asyncio.sleep(SETTINGS.lease_renew_seconds)
        api.unanswered = True
        await asyncio.sleep(1)
        api.unanswered = False
        await asyncio.sleep(3 * DURATION)
        assert lease.valid()
        keeping.cancel()

    run(script())


@pytest.mark.parametrize("deed", ["delete", "take", "empty"])
def test_a_leader_whose_lease_is_deleted_or_taken_stops(deed: str) -> None:
    async def script() -> None:
        api = OneLease()
        lease = process(api, "a")
        keeping = await led(lease)
        if deed == "delete":
            api.lease = None
        else:
            api.edit(holderIdentity="b" if deed == "take" else "")
        await keeping
        assert not lease.valid()
        assert now() < SETTINGS.lease_renew_seconds + 1
        await lease.release()
        assert deed == "delete" or (api.lease or {})["spec"]["holderIdentity"] in ("b", "")

    run(script())


def test_a_standby_waits_the_lease_duration_after_the_lease_was_deleted() -> None:
    async def script() -> None:
        api = OneLease()
        keeping = await led(process(api, "a"))
        standby = asyncio.create_task(led(process(api, "b")))
        await asyncio.sleep(2)
        keeping.cancel()
        api.lease, gone = None, now()
        (await standby).cancel()
        assert DURATION <= now() - gone < DURATION + 2

    run(script())


def test_a_lease_without_a_holder_or_with_invalid_fields_is_taken() -> None:
    async def script() -> None:
        api = OneLease()
        api._store({"metadata": {"name": "x"}})  # noqa: SLF001 - as `kubectl create` leaves it
        (await led(process(api, "a"))).cancel()
        assert now() < 1

    run(script())


@pytest.mark.parametrize("seed", range(40))
def test_two_processes_never_hold_the_lease_at_the_same_time(seed: int) -> None:
    """Three processes for an hour, with an unreachable API server, lost responses and crashes."""
    chance = random.Random(seed)  # noqa: S311 - repeatable, guards nothing

    async def live(api: OneLease, name: str, holders: dict[str, Lease]) -> None:
        for life in range(1000):
            lease = holders[name] = process(api, f"{name}{life}")
            await lease.acquire(asyncio.Event())
            try:
                async with asyncio.timeout(chance.expovariate(1 / 300)):
                    await lease.keep()
            except TimeoutError:
                if chance.random() < 0.5:
                    await lease.release()
            # A crashed process acts no more, but what it has begun may go on until its time is out.
            await asyncio.sleep(chance.uniform(0, 5))

    async def script() -> None:
        api, holders = OneLease(), dict[str, Lease]()
        tasks = [asyncio.create_task(live(api, name, holders)) for name in "abc"]
        ever = set()
        while now() < 3600:
            await asyncio.sleep(chance.uniform(0.1, 2))
            api.away = chance.random() < (0.95 if api.away else 0.05)
            api.unanswered = chance.random() < 0.1
            valid = [name for name, lease in holders.items() if lease.valid()]
            assert len(valid) <= 1, f"{valid} at {now()}"
            ever.update(valid)
        assert ever == {"a", "b", "c"}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(script())
