"""A load phase keeps its requests in flight, counts all of them, and ends within its limits."""

import asyncio
from itertools import count

import pytest
from aiohttp import web

from e2e.load import Load, LoadError, Loss
from tests.load.conftest import Serve, abort, echo


def test_a_load_phase_without_faults_gets_equal_responses(serve: Serve) -> None:
    at_once, most, thinking = 0, 0, 0.0

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(thinking)
        at_once -= 1
        return await echo(request)

    load = Load(serve(counted), "m")
    load.learn()
    assert most == 1
    thinking = 0.2  # long enough for all 64 to be asking at once, however busy the machine
    with load.phase("no fault", at_least=300, seconds=20) as phase:
        pass
    result = phase.result
    assert most == 64
    assert result.sent == result.ok >= 300
    assert "no fault: " in str(result)
    assert ", 0 lost, 64 in flight" in str(result)
    kinds = [(answer.streamed, answer.kept) for answer in result.answers]
    assert all(kinds.count(kind) > result.sent / 8 for kind in [(a, b) for a in (False, True) for b in (False, True)])


def test_keep_alive_connections_are_reused_and_other_connections_are_not(serve: Serve) -> None:
    used: dict[object, int] = {}

    async def counted(request: web.Request) -> web.StreamResponse:
        used[request.transport] = used.get(request.transport, 0) + 1
        return await echo(request)

    load = Load(serve(counted), "m", workers=4)
    load.learn()
    used.clear()
    with load.phase("connections", at_least=100, seconds=20) as phase:
        pass
    assert sum(number > 1 for number in used.values()) == 2
    assert sum(number == 1 for number in used.values()) == sum(not answer.kept for answer in phase.result.answers)


def test_a_worker_pauses_between_requests_if_the_load_phase_sets_a_pause(serve: Serve) -> None:
    load = Load(serve(echo), "m", workers=4)
    load.learn()
    with load.phase("gentle", at_least=4, seconds=20, pause=1.5) as phase:
        pass
    assert phase.result.sent == 4


def test_lost_requests_are_counted_by_kind_and_by_their_time_relative_to_the_fault(serve: Serve) -> None:
    broken = False

    async def fails_for_a_while(request: web.Request) -> web.StreamResponse:
        if broken:
            abort(request)
            return web.Response()
        return await echo(request)

    load = Load(serve(fails_for_a_while), "m", workers=8)
    load.learn()
    with load.phase("a fault", at_least=50, seconds=20) as phase:
        phase.await_answers(50)
        broken = True
        phase.await_answers(10)
        phase.mark()
        phase.await_answers(20)
        broken = False
    result = phase.result
    assert {answer.loss for answer in result.lost} == {Loss.RESET}
    assert 10 <= len(result.lost_later) < len(result.lost)
    assert result.ok + len(result.lost) == result.sent
    assert f"{len(result.lost)} lost ({len(result.lost)} reset; " in str(result)
    assert len(result.losses()) == len(result.lost)


def test_the_gap_of_a_load_phase_is_the_longest_time_without_a_successful_response(serve: Serve) -> None:
    waiting = 0.0

    async def waits_for_a_while(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(waiting)
        return await echo(request)

    load = Load(serve(waits_for_a_while), "m", workers=8, request_seconds=10)
    load.learn()
    with load.phase("a gap", at_least=50, seconds=20) as phase:
        phase.await_answers(50)
        waiting = 0.9
        phase.await_answers(9)  # eight may have been on their way before
        waiting = 0.0
        phase.await_answers(50)
    assert phase.result.lost == ()
    assert 0.3 < phase.result.gap <= phase.result.slowest


def test_a_request_that_exceeds_the_client_timeout_counts_as_lost(serve: Serve) -> None:
    waiting = 0.0

    async def waits_for_ever(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(waiting)
        return await echo(request)

    address = serve(waits_for_ever)
    patient, load = Load(address, "m"), Load(address, "m", workers=2, request_seconds=0.3)
    patient.learn()
    load.expect(patient)
    waiting = 30.0
    with load.phase("an impatient client", at_least=2, seconds=20) as phase:
        pass
    assert {answer.loss for answer in phase.result.lost} == {Loss.LATE}


def test_rejected_requests_are_counted_separately_from_lost_requests(serve: Serve) -> None:
    numbers = count()

    async def full_at_times(request: web.Request) -> web.StreamResponse:
        return web.Response(status=429) if next(numbers) > 40 and next(numbers) % 3 == 0 else await echo(request)

    load = Load(serve(full_at_times), "m", workers=8)
    load.learn()
    with load.phase("full", at_least=60, seconds=20) as phase:
        pass
    assert phase.result.rejected > 0
    assert phase.result.lost == ()
    assert phase.result.ok + phase.result.rejected == phase.result.sent


@pytest.mark.parametrize(("at_most", "seconds"), [(20, 20.0), (100_000, 0.3)])
def test_a_load_phase_that_exceeds_its_time_or_request_limit_raises_load_error(
    serve: Serve, at_most: int, seconds: float
) -> None:
    load = Load(serve(echo), "m", workers=4)
    load.learn()
    with (
        pytest.raises(LoadError, match=r"'bounded'"),
        load.phase("bounded", at_least=50_000, seconds=seconds, at_most=at_most),
    ):
        pass


def test_a_server_with_equal_responses_to_different_prompts_is_refused_for_load(serve: Serve) -> None:
    async def same(_: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": [{"text": "the same"}]})

    with pytest.raises(LoadError, match="mixed-up"):
        Load(serve(same), "m").learn()


@pytest.mark.parametrize("address", ["192.0.2.1:80", "example.com:80", "10.0.0.1:80", "127.0.0.1", ""])
def test_load_tests_refuse_addresses_of_other_machines(address: str) -> None:
    with pytest.raises(LoadError, match="no address of this machine's clusters"):
        Load(address, "m")
