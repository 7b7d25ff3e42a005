"""The checker, which knows no fault, before servers that break answers, and the judgement of its reports."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from itertools import count

import pytest
from aiohttp import ClientError, web

from inference_operator.cli.drill.completion import REQUEST_ID, EngineTraits
from inference_operator.cli.drill.load import LoadPhase as Phase
from inference_operator.cli.drill.load import NumberedLoad as Load
from inference_operator.cli.drill.promises import PROMISES, Fault, Limits, Loss, beyond, promises_table
from inference_operator.cli.drill.promises import CheckedAnswer as Answer
from inference_operator.cli.drill.report import DrillReport as Report
from inference_operator.cli.drill.report import FaultRecord, is_proven, page, report_of, verdict
from inference_operator.cli.output import dumped
from inference_operator.cli.parser import UsageError
from tests.load.conftest import Handler, abort, serving
from tests.testing.for_each import for_each

TOKENS = 4
REQUESTS = 12
LIMITS = Limits(drain=300.0, hold=300.0)


def event(request: str, text: str, end: str | None = None, **more: object) -> bytes:
    choice = {"text": text, "finish_reason": end}
    return f"data: {json.dumps({'id': request, 'choices': [choice], **more})}\n\n".encode()


def usage(request: str, tokens: int) -> bytes:
    return f"data: {json.dumps({'id': request, 'choices': [], 'usage': {'completion_tokens': tokens}})}\n\n".encode()


DONE = b"data: [DONE]\n\n"
Break = Callable[[int, list[bytes]], list[bytes]]
"""Breaks the events of the n-th answer."""


def engine(broken: Break = lambda _, events: events, *, echoes: bool = True) -> Handler:
    """An engine as vLLM is, whose streams are broken."""
    numbers = count()

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        number, prompt = next(numbers), asked["prompt"] if echoes and asked.get("echo") else ""
        headers = {REQUEST_ID: request.headers[REQUEST_ID]}
        words, name = [f" {word}" for word in ("a", "b", "c", "d")], f"cmpl-{number}"
        if not asked["stream"]:
            choice = {"text": prompt + "".join(words), "finish_reason": "length"}
            body = {"id": name, "choices": [choice], "usage": {"completion_tokens": TOKENS}}
            return web.json_response(body, headers=headers)
        ends = [None, None, None, "length"]
        events = [event(name, word, end) for word, end in zip([prompt + words[0], *words[1:]], ends, strict=True)]
        events = broken(number, [*events, usage(name, TOKENS), DONE])
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
        await response.prepare(request)
        for one in events:
            await response.write(one)
        return response

    return answer


async def answers_of(handler: Handler, *, requests: int = REQUESTS) -> Report:
    async with serving(handler) as address:
        return await report_from(address, requests=requests)


async def report_from(address: str, *, requests: int = REQUESTS, traits: EngineTraits | None = None) -> Report:
    load = Load(f"http://{address}", "m", workers=2, run="r", tokens=TOKENS, request_seconds=5)
    if traits is None:
        await load.learn_traits()
    else:
        load.traits = traits
    phase = Phase(at_most=requests)
    await asyncio.wait_for(load.send(phase), 20)
    return Report("default", "qwen", 1, "2026-01-02T03:04:05Z", 1.0, LIMITS, phase.sent, tuple(phase.answers))


def losses(report: Report) -> set[Loss]:
    return {one.loss for one in report.answers if one.loss}


async def test_whole_answers_in_order_are_right_and_each_number_is_answered_once() -> None:
    report = await answers_of(engine())
    judged = verdict(report)
    assert (judged.findings, judged.requests, losses(report)) == ((), report.sent, set())
    assert sorted(one.number for one in report.answers) == list(range(report.sent))
    assert {one.request_id for one in report.answers} == {f"r-{number}" for number in range(report.sent)}


@pytest.mark.parametrize(
    ("broken", "loss"),
    [
        pytest.param(lambda _, events: events[:-1], Loss.BROKEN, id="no end marker"),
        pytest.param(lambda n, events: events[:2] + events[-2:] if n else events, Loss.BROKEN, id="ends early"),
        pytest.param(
            lambda n, events: (
                [events[0], event(f"cmpl-{n}", " b", "stop"), usage(f"cmpl-{n}", 2), DONE] if n else events
            ),
            Loss.BROKEN,
            id="ends early, and says that it is whole",
        ),
        pytest.param(lambda _, events: [*events, *events], Loss.BROKEN, id="twice"),
        pytest.param(lambda n, events: [*events[:2], *events[1:]] if n else events, Loss.BROKEN, id="a part twice"),
        pytest.param(
            lambda n, events: [*events[:3], event("cmpl-other", " d", "length"), *events[4:]] if n else events,
            Loss.BROKEN,
            id="a part of another answer",
        ),
        pytest.param(
            lambda n, events: [event(f"cmpl-{n}", "Tell me about otters. a"), *events[1:]] if n else events,
            Loss.MIXED_UP,
            id="another number",
        ),
    ],
)
async def test_a_stream_that_is_not_that_of_one_whole_answer_is_lost(broken: Break, loss: Loss) -> None:
    report = await answers_of(engine(lambda n, events: events if n == 0 else broken(n, events), echoes=True))
    assert losses(report) == {loss}
    assert len(verdict(report).beyond) == sum(one.streamed for one in report.answers)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"data: " + b"x" * 2**20, id="without an end"),
        pytest.param(b'data: {"id": [], "choices": [{"text": "a"}]}\n\n', id="an ID that is none"),
        pytest.param(b"data: " + b"[" * 50_000 + b"\n\n", id="deep"),
        pytest.param(b"data: \xff\n\n", id="no UTF-8"),
    ],
)
async def test_whatever_an_answer_contains_is_an_outcome_of_its_request_alone(line: bytes) -> None:
    report = await answers_of(engine(lambda n, events: [line, *events] if n else events))
    assert losses(report) == {Loss.BROKEN}
    assert {one.streamed for one in report.answers if one.ok} == {False}
    assert sorted(one.number for one in report.answers) == list(range(report.sent))


async def test_an_error_that_is_no_text_and_an_engine_that_answers_with_none_are_told() -> None:
    async def fails(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500, body=b"\xff\xfe", content_type="text/plain", charset="utf-8")

    async with serving(fails) as address:
        found = await report_from(address, requests=2, traits=EngineTraits())
    assert losses(found) == {Loss.STATUS}

    async def no_json(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        return web.Response(status=422 if "echo" in asked or "ignore_eos" in asked else 200, text="data: x\n\n")

    async with serving(no_json) as address:
        with pytest.raises(ClientError, match="no completion"):
            await Load(f"http://{address}", "m", tokens=TOKENS).learn_traits()


@asynccontextmanager
async def router_that_duplicates(seconds: float) -> AsyncIterator[str]:
    """Answers each request with its own ID and prompt, and once more a while later, on the same connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stack.callback(writer.close)
        while head := (await reader.readuntil(b"\r\n\r\n")).decode():
            fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
            asked = json.loads(await reader.readexactly(int(fields["content-length"])))
            choice = {"text": asked["prompt"] + " a", "finish_reason": "length"}
            body = json.dumps({"choices": [choice], "usage": {"completion_tokens": TOKENS}})
            if asked["stream"]:
                body = f"data: {body}\n\n{DONE.decode()}"
            text = (
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{REQUEST_ID}: {fields['x-request-id']}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}"
            ).encode()
            writer.write(text)
            await writer.drain()
            await asyncio.sleep(seconds)
            writer.write(text)

    tasks, stack = set[asyncio.Task[None]](), ExitStack()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.create_task(serve(reader, writer)))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield "{}:{}".format(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        stack.close()


async def test_a_router_that_answers_a_request_twice_is_found_by_the_next_request_of_its_connection() -> None:
    async with router_that_duplicates(0.05) as address:
        load = Load(f"http://{address}", "m", workers=1, run="r", tokens=TOKENS, request_seconds=5)
        load.traits = EngineTraits(echoes=True, counts=True)
        phase = Phase(at_most=6)
        phase.pause = 0.01  # less than until the second answer, which finds the next request on its way
        await asyncio.wait_for(load.send(phase), 20)
    assert {one.loss for one in phase.answers if one.loss} <= {Loss.MIXED_UP, Loss.BROKEN, Loss.RESET}
    assert any(one.loss is Loss.MIXED_UP for one in phase.answers)


async def test_a_router_without_retries_loses_what_its_ended_engine_did_not_answer() -> None:
    numbers, whole = count(), engine()

    async def every_third_is_reset(request: web.Request) -> web.StreamResponse:
        if next(numbers) % 3 == 2:
            abort(request)
            return web.Response()
        return await whole(request)

    report = await answers_of(every_third_is_reset)
    assert losses(report) == {Loss.RESET}
    deleted = replace(report, faults=[FaultRecord(Fault.DELETE_ENGINE, 0.0, 1e9, "deleted a")])
    assert len(verdict(deleted).beyond) == len(verdict(deleted).findings) > 0
    assert not is_proven(deleted, verdict(deleted))


async def test_an_engine_that_shows_less_is_asked_for_less() -> None:
    async def refuses(request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        if "ignore_eos" in asked or "echo" in asked:
            return web.json_response({"error": {"message": "unknown field"}}, status=422)
        return await engine()(request)

    async with serving(refuses) as address:
        load = Load(f"http://{address}", "m", run="r", tokens=TOKENS)
        await load.learn_traits()
        assert load.traits == EngineTraits()
    async with serving(engine(echoes=False)) as address:
        load = Load(f"http://{address}", "m", run="r", tokens=TOKENS)
        await load.learn_traits()
        assert load.traits == EngineTraits(echoes=False, counts=True)


def answered(number: int, started: float, ended: float, loss: Loss | None = None, status: int = 200) -> Answer:
    return Answer(started, ended, True, True, loss, status, "", number, f"r-{number}")  # noqa: FBT003 - a row


ROLL = FaultRecord(Fault.ROLL_ENGINES, 10.0, 20.0, "2 engines were replaced")
KILL = FaultRecord(Fault.KILL_ENGINE, 10.0, 20.0, "killed a")


def report(
    *answers: Answer, fault: FaultRecord = ROLL, sent: int | None = None, unlogged: Sequence[str] = ()
) -> Report:
    number = len(answers) if sent is None else sent
    return Report(
        "default", "qwen", 7, "2026-01-02T03:04:05Z", 2.0, LIMITS, number, answers, faults=[fault], unlogged=unlogged
    )


BROKEN = answered(0, 11.0, 12.0, Loss.BROKEN)
CASES = {
    "all is well": (report(answered(0, 11.0, 12.0)), 0, 0),
    "a broken stream during a rollout": (report(BROKEN), 1, 1),
    "an answer longer than drainTimeout": (report(replace(BROKEN, ended=312.0)), 1, 0),
    "a wait longer than routers hold": (report(answered(0, 11.0, 311.5, Loss.STATUS, 503)), 1, 0),
    "the same in no log": (report(answered(0, 11.0, 311.5, Loss.STATUS, 503), unlogged=["r-0"]), 1, 1),
    "a 503 at once": (report(answered(0, 11.0, 11.1, Loss.STATUS, 503)), 1, 1),
    "a documented 429": (report(answered(0, 11.0, 11.1, None, 429)), 0, 0),
    "a 429 in no log": (report(answered(0, 11.0, 11.1, None, 429), unlogged=["r-0"]), 1, 1),
    "in progress at a kill": (report(replace(BROKEN, started=9.0), fault=KILL), 1, 0),
    "sent after a kill": (report(BROKEN, fault=KILL), 1, 1),
    "lost without a fault": (report(answered(0, 1.0, 2.0, Loss.RESET)), 1, 1),
    "no answer": (report(answered(0, 11.0, 12.0), sent=2), 1, 1),
    "two answers": (report(answered(0, 11.0, 12.0), answered(0, 11.0, 13.0), sent=1), 1, 1),
}


@for_each(CASES)
def test_the_drill_is_judged_by_the_table(case: str) -> None:
    found, lost, more = CASES[case]
    judged = verdict(found)
    assert (len(judged.findings), len(judged.beyond)) == (lost, more)
    assert verdict(report_of(dumped(found, "json"))) == judged
    assert is_proven(found, judged) == (more == 0 and case != "a documented 429")


def test_a_fault_during_which_no_request_was_answered_proves_nothing() -> None:
    for found in (report(), report(answered(0, 1.0, 2.0)), report(answered(0, 11.0, 11.1, None, 429))):
        judged = verdict(found)
        assert (judged.beyond, is_proven(found, judged)) == ([], False)
        assert list(page(found, judged, 200))[-1] == "Not proven: no request was answered during roll-engines."


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"form": 3}', '{"form": 2, "limits": {}}', '{"form": 2, "limits": ""}', "[" * 100_000]
)
def test_a_text_that_is_no_report_is_an_error(text: str) -> None:
    with pytest.raises(UsageError, match="--judge"):
        report_of(text)


@pytest.mark.parametrize("columns", [80, 120])
def test_the_page_fits_its_terminal_and_shows_nothing_that_a_terminal_would_carry_out(columns: int) -> None:
    hostile = replace(BROKEN, detail="\x1b]0;title\x07" + "x" * 300)
    found = report(answered(1, 1.0, 2.0), hostile, answered(2, 21.0, 22.0), sent=3)
    lines = list(page(found, verdict(found), columns))
    assert max(map(len, lines)) <= columns
    assert "\x1b" not in "".join(lines)
    assert [line.split()[0] for line in lines[4:8]] == ["SPAN", "before", "roll-engines", "after"]
    assert lines[-1] == "Not as promised."


def test_without_a_fault_nothing_may_be_lost_and_the_table_has_each_fault() -> None:
    assert set(PROMISES) == set(Fault)
    assert beyond(None, [BROKEN], None, LIMITS) == (BROKEN,)
    assert len(list(promises_table())) == len(Fault) + 2
