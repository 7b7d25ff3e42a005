"""The order of the queue at a real HAProxy: users, and addresses, with few requests in flight come first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from hashlib import sha256

import aiohttp
import pytest

from e2e.router.loopback import Loopback
from e2e.router.places import Places
from inference_operator.api.router import KeysSecretRef, RouterKeysSpec, RouterSpec
from inference_operator.router.fairness import LONGEST_TURN_MS

PLACES, HELD, USERS = 4, 500, 10
TURNS = 2
"""Places that become free until a user with one request has one."""
LEAVE_SECONDS = 0.2
"""After which a request leaves the queue."""
LOOK_SECONDS = 1
"""Between two computations of the turn."""
LONG = 400 * 1024
"""Bytes of a body that no router keeps."""


class Clients:
    """Clients with a key, or an address, each. Each request says whose it is."""

    def __init__(self, loopback: Loopback, stack: AsyncExitStack, *, keys: bool) -> None:
        self._loopback, self._stack, self._keys = loopback, stack, keys
        self._sessions: dict[str, aiohttp.ClientSession] = {}
        self.asked: list[asyncio.Task[int]] = []
        stack.push_async_callback(self._end)

    async def _end(self) -> None:
        for task in self.asked:
            task.cancel()
        await asyncio.gather(*self.asked, return_exceptions=True)

    async def ask(self, who: str, number: int = 1, size: int = 0) -> None:
        """Send requests, each on a connection of its own."""
        if who not in self._sessions:
            address = None if self._keys else (f"127.0.0.{2 + len(self._sessions)}", 0)
            connector = aiohttp.TCPConnector(limit=0, force_close=True, local_addr=address)
            self._sessions[who] = await self._stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        for _ in range(number):
            self.asked.append(asyncio.create_task(self._one(who, size)))

    async def _one(self, who: str, size: int) -> int:
        headers = {"Authorization": f"Bearer {who}"} if self._keys else {}
        data = f"{who} {'a' * size}"
        async with self._sessions[who].post(
            f"{self._loopback.url}/v1/completions", data=data, headers=headers
        ) as answer:
            return answer.status


def _line(who: str, priority: str = "") -> str:
    return f"{who}: {sha256(who.encode()).hexdigest()} {priority}\n"


@pytest.fixture
async def places(loopback: Loopback) -> AsyncIterator[Places]:
    """An engine with few places; the test starts it."""
    loopback.engine_max_concurrency = PLACES
    loopback.write_keys(
        "".join(_line(f"u{n}") for n in range(USERS))
        + _line("heavy")
        + _line("h", "priority=High")
        + _line("l", "priority=Low")
    )
    places = Places()
    yield places
    await places.close()


async def _start(loopback: Loopback, *, keys: bool) -> None:
    spec = {"keys": RouterKeysSpec(secretRef=KeysSecretRef(name="keys"))} if keys else {}
    loopback.spec = RouterSpec.model_validate({**spec, "queue": {"maxSize": 1200}})
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")


@pytest.mark.parametrize("keys", [True, False], ids=["keys", "addresses"])
async def test_each_of_ten_users_has_one_of_the_next_two_places_while_one_user_holds_500(
    loopback: Loopback, places: Places, *, keys: bool
) -> None:
    await _start(loopback, keys=keys)
    await places.listen(loopback)
    await loopback.until_served(1)
    async with AsyncExitStack() as stack:
        clients = Clients(loopback, stack, keys=keys)
        await clients.ask("heavy", HELD)
        await loopback.until_queued(HELD - PLACES)
        waited = []
        for user in [f"u{n}" for n in range(USERS)] * 2:
            queued = len(clients.asked) - len(places.started)
            await clients.ask(user)
            await loopback.until_queued(queued + 1)
            waited.append(1)
            while waited[-1] < 3 * TURNS and (who := await places.next()) != user:
                waited[-1] += 1
                await clients.ask(who)
        assert sorted(waited)[-2] <= TURNS, waited
        for number in range(USERS):
            await clients.ask(f"u{number}")
        await loopback.until_queued(len(clients.asked) - len(places.started))
        assert {await places.next() for _ in range(USERS)} == {f"u{n}" for n in range(USERS)}


async def test_classes_come_before_the_order_of_users(loopback: Loopback, places: Places) -> None:
    await _start(loopback, keys=True)
    await places.listen(loopback)
    await loopback.until_served(1)
    async with AsyncExitStack() as stack:
        clients = Clients(loopback, stack, keys=True)
        await clients.ask("heavy", PLACES)
        await places.until_started(PLACES)
        for number, who in enumerate(["l", "u0", "h", "h", "h"], start=1):
            await clients.ask(who)
            await loopback.until_queued(number)
        assert [await places.next() for _ in range(5)] == ["h", "h", "h", "u0", "l"]


@pytest.mark.parametrize("size", [0, LONG], ids=["kept", "not kept"])
async def test_what_was_held_without_an_engine_keeps_its_order(loopback: Loopback, places: Places, size: int) -> None:
    await _start(loopback, keys=False)
    async with AsyncExitStack() as stack:
        clients = Clients(loopback, stack, keys=False)
        await clients.ask("heavy", 60, size)
        await loopback.until_held(60)
        for user in range(3):
            await clients.ask(f"u{user}", 1, size)
        await loopback.until_held(63)
        await places.listen(loopback)
        await places.until_started(PLACES)
        await loopback.until_queued(63 - PLACES)
        # One of the 60 may have been sent on before the others were in the queue.
        first = [*places.started, *[await places.next() for _ in range(4)]]
        assert {"u0", "u1", "u2"} < set(first), places.started


async def _turn(loopback: Loopback) -> int:
    """Milliseconds, as entry.lua has computed them."""
    reader, writer = await asyncio.open_unix_connection(str(loopback.root / "run/haproxy/admin.sock"))
    writer.write(b"show map /etc/haproxy/fairness.map\n")
    found = (await reader.read()).split()
    writer.close()
    return int(found[found.index(b"turn") + 1])


async def test_requests_that_leave_the_queue_make_no_turn_shorter(loopback: Loopback, places: Places) -> None:
    await _start(loopback, keys=False)
    await places.listen(loopback)
    await loopback.until_served(1)
    async with AsyncExitStack() as stack:
        clients = Clients(loopback, stack, keys=False)
        await clients.ask("heavy", PLACES)
        await places.until_started(PLACES)
        for _ in range(10):
            left = len(clients.asked)
            await clients.ask("leaves", 30)
            await asyncio.wait(clients.asked[left:], timeout=LEAVE_SECONDS)
            for task in clients.asked[left:]:
                task.cancel()
        await loopback.until_queued(0)
        await asyncio.sleep(2 * LOOK_SECONDS)
        assert await _turn(loopback) == LONGEST_TURN_MS
