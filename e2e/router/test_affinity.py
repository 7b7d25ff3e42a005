"""`PrefixAffinity`: which engine gets a request."""

import asyncio
import io
import json
from collections import Counter

import pytest

from e2e.router.loopback import Engine, Loopback
from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.router.long_bodies import SEARCHED_BYTES
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH
from inference_operator.router.resources import buffered_body_bytes
from inference_operator.router.waiting import queue_size

CONVERSATIONS = 40


@pytest.fixture(autouse=True)
def _prefix_affinity(loopback: Loopback) -> None:
    loopback.spec = RouterSpec(strategy=RouterStrategy.PREFIX_AFFINITY)


async def _started(loopback: Loopback, engines: int) -> list[Engine]:
    await loopback.start_router()
    started = [await loopback.start_engine() for _ in range(engines)]
    await loopback.until_served(engines)
    return started


async def _engine(loopback: Loopback, body: object, **headers: str) -> str:
    """The address of the engine that gets a request with this body."""
    url = f"http://127.0.0.1:{loopback.port}/v1/completions"
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with loopback.session.post(url, data=io.BytesIO(raw), headers={"Connection": "close", **headers}) as answer:
        assert answer.status == 200, await answer.text()
        engine: str = answer.headers["x-engine"]
        return engine


def _chat(system: str, *turns: str) -> dict[str, object]:
    messages = [{"role": "system", "content": system}]
    for number, text in enumerate(turns):
        messages.append({"role": "assistant" if number % 2 else "user", "content": text})
    return {"model": "chat", "messages": messages}


def _held(text: str) -> dict[str, object]:
    return {**_chat("Be brief.", text), "held": 1}


async def test_haproxy_accepts_the_configuration_without_a_warning(loopback: Loopback) -> None:
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")


async def test_all_turns_of_a_conversation_go_to_one_engine_through_any_router_process(loopback: Loopback) -> None:
    await _started(loopback, 3)
    await loopback.start_twin()
    await loopback.until_twin_served(3)
    used = Counter[str]()
    for number in range(CONVERSATIONS):
        turns = [f"Question {number}", "Answer", "And then?", "More", "Why?"]
        engines = {await _engine(loopback, _chat("Be brief.", *turns[:length])) for length in (1, 3, 5) * 2}
        assert len(engines) == 1, "each request is a connection of its own, so both processes are used"
        used.update(engines)
    assert len(used) == 3
    assert max(used.values()) < CONVERSATIONS * 2 / 3, "conversations are spread"


async def test_a_new_engine_takes_conversations_and_the_others_keep_theirs(loopback: Loopback) -> None:
    await _started(loopback, 3)
    bodies = [_chat("Be brief.", f"Question {number}") for number in range(CONVERSATIONS)]
    before = [await _engine(loopback, body) for body in bodies]
    added = await loopback.start_engine()
    await loopback.until_served(4)
    after = [await _engine(loopback, body) for body in bodies]
    moved = {new for old, new in zip(before, after, strict=True) if old != new}
    assert moved == {added.address}


async def test_conversations_of_a_killed_engine_go_to_the_others_and_none_is_lost(loopback: Loopback) -> None:
    engines = await _started(loopback, 3)
    bodies = [_chat("Be brief.", f"Question {number}") for number in range(CONVERSATIONS)]
    before = [await _engine(loopback, body) for body in bodies]
    engines[0].process.kill()
    await engines[0].process.wait()
    after = [await _engine(loopback, body) for body in bodies]
    assert engines[0].address not in after
    assert all(new == old for old, new in zip(before, after, strict=True) if old != engines[0].address)


async def test_requests_with_a_rare_system_prompt_go_to_one_engine(loopback: Loopback) -> None:
    await _started(loopback, 3)
    tenants = [f"You work for tenant {number}. " * 20 for number in range(30)]
    for number, tenant in enumerate(tenants):  # none of them is rare while there were only few requests
        await _engine(loopback, _chat(tenant, f"Warm-up {number}"))
    used = [{await _engine(loopback, _chat(tenant, f"Question {turn}")) for turn in range(4)} for tenant in tenants]
    assert all(len(engines) == 1 for engines in used)
    assert len(set.union(*used)) == 3


async def test_a_session_goes_to_one_engine_whatever_it_sends(loopback: Loopback) -> None:
    await _started(loopback, 3)
    bodies = [_chat("Be brief.", f"Question {number}") for number in range(CONVERSATIONS)]
    assert len({await _engine(loopback, body, **{"x-session-id": "s1"}) for body in bodies}) == 1


async def test_a_request_waits_for_its_engine_only_while_all_are_full(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 2
    engines = await _started(loopback, 3)
    session = {"x-session-id": "s1"}
    own = await _engine(loopback, _chat("Be brief.", "Question"), **session)
    held = _held("Question")
    asked = [asyncio.create_task(_engine(loopback, held, **session)) for _ in range(2)]
    await loopback.until_counted(next(engine for engine in engines if engine.address == own), started=3)
    asked += [asyncio.create_task(_engine(loopback, held, **session)) for _ in range(4)]
    assert await loopback.until_started(7) == [3 if engine.address == own else 2 for engine in engines]
    asked.append(asyncio.create_task(_engine(loopback, held, **session)))
    await loopback.until_held(7)
    for engine in engines:
        await loopback.release(engine)
    assert set(await asyncio.gather(*asked)) == {engine.address for engine in engines}
    assert await _engine(loopback, _chat("Be brief.", "Question"), **session) == own


async def test_what_waits_for_full_engines_goes_to_the_next_place_that_becomes_free(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 2
    engines = await _started(loopback, 3)
    asked = [
        asyncio.create_task(_engine(loopback, _held(f"Question {n}"), **{"x-session-id": f"s{n}"})) for n in range(6)
    ]
    assert await loopback.until_started(6) == [2, 2, 2]
    asked += [
        asyncio.create_task(_engine(loopback, _held(f"Question {n}"), **{"x-session-id": f"s{n}"})) for n in range(8)
    ]
    await loopback.until_queued(8)
    added = await loopback.start_engine()
    await loopback.until_counted(added, started=2)
    await loopback.until_queued(6)
    await loopback.release(engines[0])
    await loopback.until_counted(engines[0], started=8)
    for engine in loopback.engines:
        await loopback.release(engine)
    assert len(set(await asyncio.gather(*asked))) == 4


async def test_an_adapter_has_engines_of_its_own(loopback: Loopback) -> None:
    await _started(loopback, 3)
    body = _chat("Be brief.", "Question")
    chosen = {name: await _engine(loopback, {**body, "model": name}) for name in ("chat", *map(str, range(20)))}
    assert len(set(chosen.values())) == 3


async def test_many_requests_at_once_with_one_text_are_spread(loopback: Loopback) -> None:
    engines = await _started(loopback, 2)
    body = _held("The same")
    held = [asyncio.ensure_future(_engine(loopback, body)) for _ in range(40)]
    counts = await loopback.until_started(len(held))
    assert min(counts) >= 10, counts
    for engine in engines:
        await loopback.release(engine)
    assert len(set(await asyncio.gather(*held))) == 2


async def test_a_text_is_found_in_256_kib_and_requests_beyond_them_are_spread_and_counted(loopback: Loopback) -> None:
    await _started(loopback, 3)
    searched = SEARCHED_BYTES if loopback.reads_long_bodies else buffered_body_bytes(loopback.spec)
    found = {await _engine(loopback, _chat("s" * (searched - 2_000), "Question")) for _ in range(6)}
    assert (len(found), await _without_key(loopback)) == (1, 0)
    spread = {await _engine(loopback, _chat("s" * 500_000, "Question")) for _ in range(6)}
    assert len(spread) > 1
    assert await _without_key(loopback) == 6


async def test_any_body_reaches_an_engine_unchanged(loopback: Loopback) -> None:
    await _started(loopback, 2)
    for body in (b"", b"not JSON", b'{"messages": [', bytes(range(256)) * 4096, b"[" * 1_500_000):
        url = f"http://127.0.0.1:{loopback.port}/v1/embeddings"
        async with loopback.session.post(url, data=io.BytesIO(body)) as answer:
            assert await answer.read() == body


async def test_a_request_that_is_held_without_engines_is_served_once_one_is_up(loopback: Loopback) -> None:
    await loopback.start_router()
    held = [asyncio.ensure_future(_engine(loopback, _chat("Be brief.", f"Question {n}"))) for n in range(8)]
    await loopback.until_held(8)
    engine = await loopback.start_engine()
    assert set(await asyncio.gather(*held)) == {engine.address}


async def test_a_full_queue_of_held_requests_leaves_buffers_for_probes(loopback: Loopback) -> None:
    await loopback.start_router()
    full = queue_size(loopback.spec)
    held: list[asyncio.Future[str]] = []
    for most in (full // 2, full):  # so many bodies may be on their way at a time
        held += [asyncio.ensure_future(_engine(loopback, _chat("s" * 500_000, f"{n}"))) for n in range(len(held), most)]
        await loopback.until_held(most)
    assert await _without_key(loopback) == full, "another frontend of the same process"
    engine = await loopback.start_engine()
    assert set(await asyncio.gather(*held)) == {engine.address}


async def _without_key(loopback: Loopback) -> int:
    text = await loopback.metrics(ROUTER_METRICS_PATH)
    (line,) = [line for line in text.splitlines() if line.startswith(f"{METRIC_PREFIX}requests_without_key_total ")]
    return int(line.rpartition(" ")[2])
