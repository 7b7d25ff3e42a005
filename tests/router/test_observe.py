"""The Lua scripts of the router's metrics and of the tokens of answers."""

import json
import random
import re

import lupa.lua54
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.router.observe import HELD_SECONDS, LOG_FIELDS, METRICS, log_format
from inference_operator.router.resources import MOST_BUFFER_BYTES
from tests.testing.lua_scripts import counted_script, script, source

Tokens = tuple[int | None, int | None, int | None]
KEEP = 4096

USAGE = script("usage.lua")
METRICS_SCRIPT = script("metrics.lua", b"1", str(HELD_SECONDS).encode())


def test_a_thread_has_a_bounded_number_of_series_and_users_beyond_it_are_counted_together() -> None:
    runtime = lupa.lua54.LuaRuntime(encoding=None)
    loaded = runtime.execute(source("metrics.lua"))
    variables: dict[bytes, bytes] = {}
    holder = runtime.table_from({b"set_var": lambda _, name, value: variables.update({name: value})})
    runtime.execute(b"core = {thread = 1}")
    for user in range(5000):
        loaded[b"count"](holder, f'requests_total{{user="{user}",code="2xx"}}'.encode(), 1)
    loaded[b"count"](holder, b"lost_requests_total", 1)
    series = dict(one.rsplit(b" ", 1) for one in variables.values())
    assert len(series) == 3584 + 2
    assert series[b'requests_total{user="other",code="2xx"}'] == b"1416"
    assert series[b"lost_requests_total"] == b"1"


def tokens(body: object) -> Tokens:
    """Tokens of the prompt, of the completion, and cached ones, as the script finds them in a body's last bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    tail = USAGE[b"tail"](b"", raw)
    found: Tokens = USAGE[b"usage"](tail)
    return found


CHAT = {"prompt_tokens": 7, "total_tokens": 57, "completion_tokens": 50}
CACHED = {**CHAT, "prompt_tokens_details": {"cached_tokens": 3}}
RESPONSE = {
    "input_tokens": 20,
    "input_tokens_details": {"cached_tokens": 16, "input_tokens_per_turn": [], "cached_tokens_per_turn": []},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 25,
}
MESSAGE = {"input_tokens": 4, "output_tokens": 5, "cache_read_input_tokens": 16, "cache_creation_input_tokens": 2}
FORGED = '"usage": {"prompt_tokens": 1, "completion_tokens": 1}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"choices": [], "usage": CHAT, "x": None}, (7, 50, None), id="chat"),
        pytest.param({"choices": [], "usage": CACHED}, (7, 50, 3), id="cached"),
        pytest.param(
            {"data": [0.5] * 9000, "usage": {"prompt_tokens": 9, "total_tokens": 9}}, (9, None, None), id="long"
        ),
        pytest.param({"output": [], "usage": RESPONSE, "user": "u"}, (20, 5, 16), id="response"),
        pytest.param({"content": [], "usage": MESSAGE}, (22, 5, 16), id="message"),
        pytest.param({"choices": [{"text": FORGED}], "usage": CHAT}, (7, 50, None), id="a text like usage"),
        pytest.param({"choices": [{"text": FORGED}]}, (None, None, None), id="only a text like usage"),
        pytest.param({"choices": [], "usage": None}, (None, None, None), id="null"),
        pytest.param({"usage": {"prompt_tokens": 10**30}}, (None, None, None), id="too many digits"),
        pytest.param(b'"usage": {"prompt_tokens": 7', (None, None, None), id="cut"),
        pytest.param(
            b'data: {"usage":{"prompt_tokens":7}}\n\ndata: {"usage":{"prompt_tokens":7,"completion_tokens":2}}\n\n'
            b"data: [DONE]\n\n",
            (7, 2, None),
            id="the last of a stream",
        ),
    ],
)
def test_the_usage_of_an_answer_is_found(body: object, expected: Tokens) -> None:
    assert tokens(body) == expected


@given(st.lists(st.binary(max_size=5000), max_size=5))
@settings(deadline=None)
def test_the_tail_is_the_last_bytes_of_all_chunks(chunks: list[bytes]) -> None:
    tail: object = b""
    for chunk in chunks:
        tail = USAGE[b"tail"](tail, chunk)
    assert tail == b"".join(chunks)[-KEEP:]


def _event(**content: object) -> bytes:
    return b"data: " + json.dumps(content).encode() + b"\n\n"


def streamed(chunks: list[bytes]) -> Tokens:
    """Tokens of a stream that arrives in these chunks."""
    kept: object = b""
    opened: object = None
    for chunk in chunks:
        kept, opened = USAGE[b"kept"](kept, opened, chunk)
    found: Tokens = USAGE[b"usage"](kept)
    return found


ENDS = {
    "chat": [_event(choices=[], usage=CHAT), b"data: [DONE]\n\n"],
    "in every chunk": [_event(choices=["x"], usage={**CHAT, "completion_tokens": 49}), _event(usage=CHAT)],
    "a long event": [_event(text="x" * 9_000, usage=CHAT), b"data: [DONE]\n\n"],
    "a text like usage": [_event(choices=[], usage=CHAT), _event(text=FORGED)],
    "null behind it": [_event(usage=CHAT), _event(usage=None)],
}


@pytest.mark.parametrize("end", ENDS)
def test_the_usage_of_a_stream_is_found_in_whole_events(end: str) -> None:
    assert streamed([_event(choices=[{"text": " token"}]), *ENDS[end]]) == (7, 50, None)


@given(st.sampled_from(sorted(ENDS)), st.lists(st.integers(1, 300), max_size=40), st.integers(0, 4))
@settings(deadline=None)
def test_the_usage_of_a_stream_is_found_however_it_is_cut(end: str, sizes: list[int], tokens_before: int) -> None:
    body = b"".join([_event(choices=[{"text": " token"}], usage=None)] * tokens_before + ENDS[end])
    chunks, at = [], 0
    for size in [*sizes, len(body)]:
        chunks.append(body[at : at + size])
        at += size
    assert streamed([chunk for chunk in chunks if chunk]) == (7, 50, None)


def test_a_chunk_of_whole_events_without_usage_is_neither_kept_nor_matched_with_a_pattern() -> None:
    usage, count = counted_script("usage.lua")
    token = _event(choices=[{"text": " token"}])
    assert USAGE[b"kept"](b"kept", None, token) == (b"kept", None)
    assert count(usage[b"kept"], b"kept", None, token)[1] == 0


ODD = [
    b'"usage"',
    b'"usage":',
    b'"usage":{',
    b'"usage":{"prompt_tokens":',
    b"{",
    b"}",
    b'"',
    b'"model"',
    b'"model":"',
    b" ",
]
MAX_INSTRUCTIONS, MAX_BYTES = 100_000, 400 * KEEP
"""What the search in an answer may take: less than 3 ms of CPU."""


@pytest.mark.parametrize("piece", ODD)
@pytest.mark.parametrize("start", [b"", b'"usage":{', b'"usage":', b'"model":'])
def test_the_search_in_any_answer_takes_a_bounded_number_of_steps(start: bytes, piece: bytes) -> None:
    usage, count = counted_script("usage.lua")
    answer = (start + piece * MOST_BUFFER_BYTES)[:MOST_BUFFER_BYTES]
    for function, arguments in (
        ("kept", (b"", None, answer)),
        ("kept", (b"", answer, answer)),
        ("tail", (b"", answer)),
        ("model", (answer,)),
        ("usage", (answer[-KEEP:],)),
        ("usage", (answer[:KEEP],)),
    ):
        instructions, read = count(usage[function.encode()], *arguments)
        assert instructions <= MAX_INSTRUCTIONS
        assert read <= MAX_BYTES


@given(st.lists(st.integers(1, 40), max_size=12), st.sampled_from(["include_usage", "include_used"]))
@settings(deadline=None)
def test_a_request_for_usage_is_seen_however_its_body_is_cut(sizes: list[int], option: str) -> None:
    body = json.dumps({"stream": True, "stream_options": {option: True}}).encode()
    asked: object = False
    before: object = b""
    for size in [*sizes, len(body)]:
        chunk, body = body[:size], body[size:]
        if not asked:
            asked, before = USAGE[b"asks"](before, chunk)
    assert asked is (option == "include_usage")


@given(st.binary(max_size=400) | st.text(alphabet='{}[]",:\\ usage12', max_size=200).map(str.encode))
@settings(deadline=None)
def test_any_bytes_of_an_answer_end_without_an_error(body: bytes) -> None:
    assert all(one is None or one >= 0 for one in tokens(body))


@pytest.mark.full
def test_a_hundred_thousand_damaged_answers_end_without_an_error() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    seeds = [json.dumps({"choices": [{"text": FORGED}], "usage": one}).encode() for one in (CHAT, CACHED, MESSAGE)]
    for number in range(100_000):
        body = bytearray(seeds[number % len(seeds)])
        for _ in range(chance.randrange(1, 6)):
            at, kind = chance.randrange(len(body) + 1), chance.randrange(3)
            piece = bytes(chance.choice(b'{}[]",:\\ \x00\xff1a') for _ in range(chance.randrange(4)))
            body[at : at + (kind and chance.randrange(20))] = piece
        assert all(one is None or 0 <= one < 10**12 for one in tokens(bytes(body)))


def test_the_counters_of_all_threads_are_added_up_and_losses_and_refusals_begin_at_0() -> None:
    variables = {
        b"proc.series_1_1": b'requests_total{user="a",code="2xx"} 3',
        b"proc.series_1_2": b'refused_requests_total{reason="queue"} 1',
        b"proc.series_2_1": b'requests_total{user="a",code="2xx"} 4',
        b"proc.series_3_1": b'requests_total{user="of another thread",code="2xx"} 4',
    }
    lines = METRICS_SCRIPT[b"counters"](variables.get, 2)
    assert list(lines.values()) == [
        b"lost_requests_total 0",
        b'refused_requests_total{reason="engine"} 0',
        b'refused_requests_total{reason="queue"} 1',
        b'requests_total{user="a",code="2xx"} 7',
        b"unauthorized_requests_total 0",
    ]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (None, 0),
        (b"", 0),
        (b"held=7", 7),
        (b"held=%d" % HELD_SECONDS, HELD_SECONDS),
        (b"held=86400", HELD_SECONDS),
        (b"held=" + b"9" * 400, HELD_SECONDS),
        (b"held=-1", 0),
        (b"held=1e9", 0),
    ],
)
def test_a_page_waits_for_no_request_longer_than_the_operator_asks_it_to(query: bytes | None, seconds: int) -> None:
    assert METRICS_SCRIPT[b"held_seconds"](query) == seconds


@given(st.binary(max_size=50))
def test_a_label_has_no_character_that_ends_it(value: bytes) -> None:
    label = METRICS_SCRIPT[b"label"](value)
    assert isinstance(label, bytes)
    assert re.fullmatch(rb"[A-Za-z0-9._:/@+_-]*", label)
    assert len(label) == len(value)


def test_the_fields_of_the_access_log_are_one_json_object() -> None:
    assert log_format().startswith("%{+json}o %(time)[")
    assert len(LOG_FIELDS) == log_format().count("%(")


def test_the_names_of_metrics_tell_their_type() -> None:
    assert {metric.kind for metric in METRICS if metric.name.endswith("_requests")} == {"gauge"}
    assert len({metric.name for metric in METRICS}) == len(METRICS)
