"""The time to the first byte of answers, and answers that end before it."""

import asyncio
import io
import json
from collections.abc import Mapping
from http import HTTPStatus

from e2e.router.loopback import Engine, Loopback
from e2e.router.test_upstreams import ADDRESS, helpers
from inference_operator.router.first_byte import BOUNDS_SECONDS
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH

CHAT = "/v1/chat/completions"
EVENTS = "text/event-stream; charset=utf-8"
NAME = f"{METRIC_PREFIX}time_to_first_byte_seconds"
PREFILL_SECONDS = 0.6
LARGE_BODY = 2 << 20
"""More bytes than a router keeps to send a request again."""
BEYOND = 0.5
"""The largest bucket that an answer after the prefill cannot be in."""


async def _served(loopback: Loopback) -> Engine:
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    return engine


async def _histogram(loopback: Loopback, role: str = "engine") -> dict[str, float]:
    """The buckets of a role by their bound, and its sum and count."""
    found: dict[str, float] = {}
    for line in (await loopback.metrics(ROUTER_METRICS_PATH)).splitlines():
        series, _, value = line.rpartition(" ")
        if series.startswith(NAME) and f'role="{role}"' in series:
            part = series.removeprefix(f"{NAME}_").partition("{")[0]
            found[series.split(',le="')[1].rstrip('"}') if part == "bucket" else part] = float(value)
    return found


async def _stream(loopback: Loopback, **more: object) -> tuple[int, bytes, str]:
    body = {"type": EVENTS, "pieces": ["data: 1\n\n", "data: 2\n\n"], **more}
    async with loopback.session.post(loopback.url + CHAT, json=body) as answer:
        return answer.status, await answer.read(), answer.headers["X-Request-ID"]


async def test_the_first_byte_of_a_stream_counts_and_not_its_headers(loopback: Loopback) -> None:
    await _served(loopback)
    before = await _histogram(loopback)
    assert list(before) == [*map(str, BOUNDS_SECONDS), "+Inf", "sum", "count"]
    assert set(before.values()) == {0}
    for prefill in (0.0, PREFILL_SECONDS):
        assert (await _stream(loopback, prefill=prefill))[:2] == (200, b"data: 1\n\ndata: 2\n\n")
    found = await _histogram(loopback)
    assert (found[str(BEYOND)], found["+Inf"], found["count"], found["160.0"]) == (1, 2, 2, 2)
    assert found["sum"] >= PREFILL_SECONDS


async def test_other_answers_than_streams_of_inference_do_not_count(loopback: Loopback) -> None:
    await _served(loopback)
    assert (await loopback.ask()).status == 200
    async with loopback.session.get(f"{loopback.url}/v1/models") as answer:
        await answer.read()
    assert (await _stream(loopback, status=400))[0] == 400
    assert (await _histogram(loopback))["count"] == 0


async def test_the_wait_of_a_held_request_counts(loopback: Loopback) -> None:
    await loopback.start_router()
    held = asyncio.create_task(_stream(loopback))
    await asyncio.sleep(PREFILL_SECONDS)
    await loopback.start_engine()
    assert (await held)[0] == 200
    found = await _histogram(loopback)
    assert (found[str(BEYOND)], found["count"]) == (0, 1)


async def test_an_engine_that_dies_before_the_first_byte_is_an_error_with_an_id_and_no_broken_stream(
    loopback: Loopback,
) -> None:
    await _served(loopback)
    status, body, request_id = await _stream(loopback, prefill=0.1, dies=True)
    assert status == 502
    assert json.loads(body)["error"]["type"] == "server_error"
    assert request_id
    assert (await _histogram(loopback))["count"] == 0


async def test_an_engine_that_dies_between_the_headers_and_the_body_of_an_answer_is_an_error(
    loopback: Loopback,
) -> None:
    await _served(loopback)
    plain = {"type": "application/json", "headers": {"Content-Length": "2"}, "pieces": ["{}"], "prefill": 0.1}
    assert (await _stream(loopback, **plain))[:2] == (200, b"{}")
    assert (await _stream(loopback, **plain, dies=True))[0] == 502
    empty = {"type": "application/json", "headers": {"Content-Length": "0"}, "pieces": []}
    assert (await _stream(loopback, **empty))[:2] == (200, b"")


async def test_an_engine_hears_that_a_client_left_before_the_first_byte(loopback: Loopback) -> None:
    engine = await _served(loopback)
    asked = asyncio.create_task(loopback.ask(chunks=1, gap=0, prefill=3600))
    await loopback.until_counted(engine, started=1)
    asked.cancel()
    await loopback.until_counted(engine, left=1)


async def test_each_role_has_its_own_histogram(loopback: Loopback) -> None:
    other = helpers(loopback)
    loopback.other_upstreams = (other,)
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    await loopback.start_engine()
    await loopback.start_engine_of(other, ADDRESS)
    await loopback.until_served(2)
    answers = await asyncio.gather(*(loopback.ask(chunks=1, gap=0, prefill=PREFILL_SECONDS) for _ in range(4)))
    assert {answer.status for answer in answers} == {200}
    assert [(await _histogram(loopback, role))["count"] for role in ("engine", "helper")] == [2, 2]


async def test_an_answer_that_was_held_belongs_to_the_role_that_gave_it(loopback: Loopback) -> None:
    """A large body is not kept: its request waits at the hold server, which has no role."""
    other = helpers(loopback)
    loopback.other_upstreams = (other,)
    await loopback.start_router()
    wanted = {"model": "tiny", "chunks": 1, "gap": 0, "padding": "x" * LARGE_BODY}
    held = asyncio.create_task(_streamed(loopback, wanted))
    await loopback.until_held(1)
    await loopback.start_engine_of(other, ADDRESS)
    response_headers = await held
    assert "inference-operator-role" not in response_headers
    assert [(await _histogram(loopback, role))["count"] for role in ("engine", "helper")] == [0, 1]


async def _streamed(loopback: Loopback, wanted: Mapping[str, object]) -> Mapping[str, str]:
    """The headers of a stream that has ended."""
    body, headers = io.BytesIO(json.dumps(wanted).encode()), {"Content-Type": "application/json"}
    async with loopback.session.post(f"{loopback.url}/v1/completions", data=body, headers=headers) as response:
        assert response.status == HTTPStatus.OK, await response.text()
        await response.read()
        return response.headers
