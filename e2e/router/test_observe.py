"""What a router tells of its requests: access log, IDs, tokens, and the metrics that the exporter does not have."""

import asyncio
import json
import random
import re
import string
import time
from collections import Counter
from collections.abc import Mapping

import aiohttp
import pytest

from e2e.router.loopback import POLL_SECONDS, Loopback
from inference_operator.api.router import RouterAccessLog, RouterSpec
from inference_operator.router.observe import (
    LOG_FIELDS,
    MAX_COMMON_SERIES,
    MAX_ROLE_SERIES,
    MAX_USER_SERIES,
    METRIC_PREFIX,
    METRICS,
    ROUTER_METRICS_PATH,
)

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SOON = 60.0
REFUSED = ("queue", "rate", "concurrency", "engine")
"""Reasons of `refused_requests_total`; one has a sample in a test of this file."""
JSON, EVENTS = "application/json", "text/event-stream; charset=utf-8"
ASKED: dict[str, object] = {"stream_options": {"include_usage": True}}

Samples = Mapping[str, float]


async def _started(loopback: Loopback, **fields: object) -> None:
    loopback.spec = RouterSpec.model_validate(fields)
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)


async def _logged(loopback: Loopback, lines: int) -> list[dict[str, object]]:
    """The access log once it has so many lines; every line that begins like JSON is JSON."""
    deadline = time.monotonic() + SOON
    while len(found := [line for line in loopback.log.read_bytes().splitlines() if line[:1] == b"{"]) < lines:
        assert time.monotonic() < deadline, found
        await asyncio.sleep(POLL_SECONDS)
    return [json.loads(line.decode()) for line in found]


async def _samples(loopback: Loopback) -> Samples:
    """The samples of the router's own page, without the prefix of their names."""
    lines = (await loopback.metrics(ROUTER_METRICS_PATH)).splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {key.removeprefix(METRIC_PREFIX): float(value) for key, _, value in pairs}


async def _until_sample(loopback: Loopback, series: str, value: int) -> None:
    deadline = time.monotonic() + SOON
    while (samples := await _samples(loopback)).get(series) != value:
        assert time.monotonic() < deadline, samples
        await asyncio.sleep(POLL_SECONDS)


async def _posted(loopback: Loopback, path: str, body: Mapping[str, object], **headers: str) -> tuple[bytes, str]:
    """The body of the answer and its request ID."""
    async with loopback.session.post(loopback.url + path, json=body, headers=headers) as answer:
        return await answer.read(), answer.headers["X-Request-ID"]


def _event(**content: object) -> str:
    return f"data: {json.dumps(content)}\n\n"


@pytest.mark.parametrize("access_log", list(RouterAccessLog))
async def test_haproxy_accepts_every_configuration_without_a_warning(
    loopback: Loopback, access_log: RouterAccessLog
) -> None:
    loopback.spec = RouterSpec.model_validate({"usage": "Enabled", "accessLog": access_log.value})
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")


async def test_a_line_of_the_log_tells_engine_times_and_ids_and_nothing_of_prompt_or_query(loopback: Loopback) -> None:
    await _started(loopback)
    headers = {
        "X-Request-ID": "client-7",
        "traceparent": f"00-{TRACE}-b7ad6b7169203331-01",
        "Authorization": "Bearer K",
    }
    body = {"type": JSON, "pieces": ["{}"], "messages": "a secret prompt"}
    _, returned = await _posted(loopback, f"{CHAT}?api_key=secret", body, **headers)
    (line,) = await _logged(loopback, 1)
    assert list(line) == list(LOG_FIELDS)
    expected = {"method": "POST", "path": CHAT, "status": 200, "engine": "127.0.54.1", "user": "", "ended": "--"}
    assert expected.items() <= line.items()
    assert (line["request_id"], line["trace_id"], returned) == ("client-7", TRACE, "client-7")
    assert all(isinstance(line[name], int) for name in ("queue_ms", "connect_ms", "headers_ms", "total_ms", "retries"))
    assert not [word for word in ("secret", "Bearer", "api_key") if word in loopback.log.read_text()]


async def test_the_engine_gets_the_ids_of_the_client_or_a_new_request_id_and_no_new_trace(loopback: Loopback) -> None:
    await _started(loopback)

    async def seen(**headers: str) -> tuple[str | None, str | None, str]:
        async with loopback.session.get(f"{loopback.url}/v1/models", headers=headers) as answer:
            at_the_engine = {name.lower(): value for name, value in (await answer.json()).items()}
            found = at_the_engine.get("x-request-id"), at_the_engine.get("traceparent")
            return *found, answer.headers["X-Request-ID"]

    trace = f"00-{TRACE}-b7ad6b7169203331-01"
    assert await seen(**{"X-Request-ID": "a-1", "traceparent": trace}) == ("a-1", trace, "a-1")
    made, passed, returned = await seen(traceparent="not a trace")
    assert (made, passed) == (returned, "not a trace")
    assert [line["request_id"] for line in await _logged(loopback, 2)] == ["a-1", made]
    for bad in ("", "a b", 'a"b', "x" * 129, "é"):
        at_the_engine, none, returned = await seen(**{"X-Request-ID": bad})
        assert none is None
        assert at_the_engine == returned != bad
        assert len(returned) == 36
    assert {line["trace_id"] for line in (await _logged(loopback, 7))[1:]} == {""}


async def test_the_log_has_errors_only_or_nothing_where_asked(loopback: Loopback) -> None:
    await _started(loopback, accessLog="Errors")
    good, bad = {"type": JSON, "pieces": ["{}"]}, {"type": JSON, "pieces": ["{}"], "status": 500}
    for body in (good, bad, good):
        await _posted(loopback, CHAT, body)
    await _posted(loopback, CHAT, bad)
    assert [line["status"] for line in await _logged(loopback, 2)] == [500, 500]


async def test_no_request_is_logged_where_the_log_is_disabled(loopback: Loopback) -> None:
    await _started(loopback, accessLog="Disabled")
    await _posted(loopback, CHAT, {"type": JSON, "pieces": ["{}"], "status": 500})
    assert await _logged(loopback, 0) == []
    assert b"is UP/READY" in loopback.log.read_bytes(), "changes of engines are still logged"


USAGE = {"prompt_tokens": 7, "total_tokens": 57, "completion_tokens": 50, "prompt_tokens_details": {"cached_tokens": 3}}
TOLD = _event(model="chat", choices=[], usage=USAGE)
RESPONSE = {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 50, "total_tokens": 57}
MESSAGE = {"input_tokens": 4, "cache_read_input_tokens": 3, "output_tokens": 50}
WHOLE = json.dumps({"model": "chat", "choices": ["x" * 100_000], "usage": USAGE})
FORMS: dict[str, tuple[str, str, list[str], dict[str, object]]] = {
    "JSON": (CHAT, JSON, [WHOLE], {}),
    "JSON in two packets": (CHAT, JSON, [WHOLE[:-40], WHOLE[-40:]], {}),
    "stream": (CHAT, EVENTS, [_event(model="chat"), TOLD, "data: [DONE]\n\n"], ASKED),
    "cut stream": (CHAT, EVENTS, [_event(model="chat"), TOLD[:-90], TOLD[-90:]], ASKED),
    "forced by the engine": (CHAT, EVENTS, [_event(model="chat", usage={"prompt_tokens": 7}), TOLD], {}),
    "asked for at the end": (CHAT, EVENTS, [_event(model="chat"), TOLD], {"pad": "x" * 400_000, **ASKED}),
    "responses": (
        RESPONSES,
        EVENTS,
        [_event(response={"model": "chat"}), _event(response={"usage": RESPONSE, "user": None})],
        {},
    ),
    "messages": (
        MESSAGES,
        EVENTS,
        [_event(message={"model": "chat", "usage": {"input_tokens": 7}}), _event(usage=MESSAGE), _event(type="stop")],
        {},
    ),
}


async def test_tokens_that_answers_tell_are_logged_and_counted_and_their_bytes_pass_unchanged(
    loopback: Loopback,
) -> None:
    await _started(loopback, usage="Enabled")
    for number, (form, (path, kind, pieces, asked)) in enumerate(FORMS.items(), start=1):
        body, _ = await _posted(loopback, path, {"type": kind, "pieces": pieces, "gap": 0.02, **asked})
        assert body == "".join(pieces).encode(), form
        line = (await _logged(loopback, number))[-1]
        told = (line["model"], line["prompt_tokens"], line["completion_tokens"], line["cached_tokens"])
        assert told == ("chat", 7, 50, 3), form
    tokens = {key: value for key, value in (await _samples(loopback)).items() if key.startswith("tokens_total")}
    each = {"cached": 3, "completion": 50, "prompt": 7}
    assert tokens == {f'tokens_total{{user="",type="{kind}"}}': len(FORMS) * one for kind, one in each.items()}


async def test_answers_without_usage_are_counted_and_have_no_tokens_in_the_log(loopback: Loopback) -> None:
    await _started(loopback, usage="Enabled")
    answers: list[Mapping[str, object]] = [
        {"type": EVENTS, "pieces": [_event(model="chat")] * 9},
        {"type": JSON, "pieces": ["{}"]},
        {"type": EVENTS, "pieces": [_event(model="chat"), "data: [DONE]\n\n"], **ASKED},
        {"type": JSON, "pieces": [WHOLE], "status": 400},
        {"type": "audio/wav", "pieces": [WHOLE]},
    ]
    for answer in answers:
        await _posted(loopback, CHAT, answer)
    await _posted(loopback, "/tokenize", {"type": JSON, "pieces": ["{}"]})
    assert {line["prompt_tokens"] for line in await _logged(loopback, 6)} == {""}
    assert (await _samples(loopback))['answers_without_usage_total{user=""}'] == 3


async def test_chunks_pass_at_once_where_tokens_are_read(loopback: Loopback) -> None:
    await _started(loopback, usage="Enabled")
    pieces = [_event(number=number) for number in range(5)]
    body = {"type": EVENTS, "pieces": [*pieces, TOLD], "gap": 0.2, **ASKED}
    async with loopback.session.post(loopback.url + CHAT, json=body) as answer:
        read = [chunk.decode() async for chunk, _ in answer.content.iter_chunks() if chunk]
    assert read == body["pieces"], "each chunk on its own"


async def test_the_page_counts_running_queued_held_and_refused_requests(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 2
    loopback.spec = RouterSpec.model_validate({"queue": {"maxSize": 6}})  # half of it for each process
    await loopback.start_router()
    held = [asyncio.ensure_future(loopback.ask(held=1)) for _ in range(3)]
    await _until_sample(loopback, "held_requests", 3)
    assert (await loopback.ask()).status == 429
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    await _until_sample(loopback, "queued_requests", 1)
    await loopback.until_counted(engine, started=2)
    samples = await _samples(loopback)
    assert samples[f'running_requests{{engine="{engine.address}:{engine.port}"}}'] == 2
    assert (samples["held_requests"], samples['refused_requests_total{reason="queue"}']) == (0, 1)
    await loopback.release(engine)
    assert Counter(answer.status for answer in await asyncio.gather(*held)) == {200: 3}
    async with loopback.session.post(loopback.url + CHAT, json={"type": JSON, "pieces": ["{}"], "status": 429}):
        pass
    assert (await _samples(loopback))['refused_requests_total{reason="engine"}'] == 1


def _with_users(text: str) -> str:
    """The configuration with a user of each request, as an API key sets it, and two threads."""
    user = "    http-request set-var(txn.user) req.fhdr(x-user)\n"
    user += "    http-request set-var(txn.shown_user) req.fhdr(x-user)\n"
    user += "    http-request set-var(txn.refused) str(rate) if { path_end /tokenize }\n"
    user += "    http-request deny status 429 if { path_end /tokenize }\n"
    text = text.replace("    acl api_path path ", f"{user}    acl api_path path ", 1)
    return text.replace("nbthread 1", "nbthread 2").replace("metrics.lua 1 ", "metrics.lua 2 ")


async def test_requests_tokens_and_refusals_are_counted_for_each_user_over_all_threads(loopback: Loopback) -> None:
    loopback.change = _with_users
    await _started(loopback, usage="Enabled")
    body = {"type": JSON, "pieces": [WHOLE]}
    each = 20
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        for user in ["alice", "bob"] * each:
            async with session.post(loopback.url + CHAT, json=body, headers={"x-user": user}) as answer:
                assert await answer.text() == WHOLE
        async with session.post(f"{loopback.url}/tokenize", json=body, headers={"x-user": 'e"\\ve'}) as answer:
            assert answer.status == 429
    samples = await _samples(loopback)
    for user in ("alice", "bob"):
        assert samples[f'requests_total{{user="{user}",code="2xx"}}'] == each
        assert samples[f'tokens_total{{user="{user}",type="completion"}}'] == 50 * each
    assert samples['requests_total{user="e__ve",code="4xx"}'] == 1
    assert samples['refused_requests_total{reason="rate"}'] == 1
    of_users = Counter(user for series in samples for user in re.findall('user="(.+?)"', series))
    assert max(of_users.values()) <= MAX_USER_SERIES
    common = [series for series in samples if not re.search('(user|engine|role)="', series)]
    assert len(common) + len(REFUSED) - 1 <= MAX_COMMON_SERIES
    assert Counter(line["user"] for line in await _logged(loopback, 2 * each + 1)) == {
        "alice": 20,
        "bob": 20,
        'e"\\ve': 1,
    }
    known = {metric.name.removeprefix(METRIC_PREFIX) for metric in METRICS}
    assert {re.sub("_(bucket|sum|count)$", "", key.partition("{")[0]) for key in samples} <= known
    of_role = [series for series in samples if 'role="engine"' in series]
    assert len(of_role) == MAX_ROLE_SERIES


async def _lines_of_random_requests(loopback: Loopback, requests: int) -> None:
    """Send bytes of any kind where HAProxy logs something of the client; every line of the log is JSON."""
    await _started(loopback, usage="Enabled", strategy="PrefixAffinity")
    chance = random.Random(11)  # noqa: S311 - no secret
    odd = bytes(range(1, 256)).replace(b"\n", b"").replace(b"\r", b"")

    def some(most: int, plain: float = 0.7) -> bytes:
        letters = string.printable.encode()[:94]
        source = letters if chance.random() < plain else odd
        return bytes(chance.choice(source) for _ in range(chance.randrange(most)))

    async def send(_: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
        method = chance.choice([b"POST", b"GET", some(8)])
        path = chance.choice([b"/v1/chat/completions", b"/a", b"/v1/models/"]) + some(chance.choice([4, 40, 3000]))
        body = json.dumps({"type": JSON, "pieces": [some(30).decode("latin-1")], "model": some(9).decode("latin-1")})
        lines = [method + b" " + path + b" HTTP/1.1", b"Host: x", b"Connection: close"]
        lines += [b"X-Request-ID: " + some(40), b"traceparent: " + some(60), b"Content-Type: " + some(20)]
        lines.append(b"Content-Length: %d" % len(body.encode()))
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body.encode())
        try:
            await asyncio.wait_for(reader.read(), SOON)
        except ConnectionError:
            pass
        finally:
            writer.close()

    for start in range(0, requests, 50):
        await asyncio.gather(*map(send, range(start, start + 50)))
    lines = await _logged(loopback, requests)
    assert all(list(line) == list(LOG_FIELDS) for line in lines)
    assert len({line["status"] for line in lines}) >= 3


async def test_every_line_of_the_log_is_json_whatever_clients_send(loopback: Loopback) -> None:
    await _lines_of_random_requests(loopback, 500)


@pytest.mark.full
async def test_every_line_of_a_hundred_thousand_random_requests_is_json(loopback: Loopback) -> None:
    await _lines_of_random_requests(loopback, 100_000)
