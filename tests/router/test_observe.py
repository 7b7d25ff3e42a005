"""The Lua scripts of the router's metrics and of the tokens of answers."""

import json
import random
import re
from collections.abc import Callable
from importlib.resources import files

import lupa.lua54
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.router.observe import LOG_FIELDS, METRICS, log_format

Tokens = tuple[int | None, int | None, int | None]
KEEP = 4096


def _script(name: str) -> dict[bytes, Callable[..., object]]:
    source = files("inference_operator.router").joinpath(name).read_bytes()
    script: dict[bytes, Callable[..., object]] = lupa.lua54.LuaRuntime(encoding=None).execute(source)
    return script


USAGE, METRICS_SCRIPT = _script("usage.lua"), _script("metrics.lua")


def tokens(body: object) -> Tokens:
    """Tokens of the prompt, of the completion, and cached ones, as the script finds them in a body's last bytes."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    tail = USAGE[b"tail"](b"", raw)
    found: Tokens = USAGE[b"usage"](tail)  # type: ignore[assignment]
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


@given(st.lists(st.integers(1, 40), max_size=12), st.sampled_from(["include_usage", "include_used"]))
@settings(deadline=None)
def test_a_request_for_usage_is_seen_however_its_body_is_cut(sizes: list[int], option: str) -> None:
    body = json.dumps({"stream": True, "stream_options": {option: True}}).encode()
    asked: object = False
    before: object = b""
    for size in [*sizes, len(body)]:
        chunk, body = body[:size], body[size:]
        if not asked:
            asked, before = USAGE[b"asks"](before, chunk)  # type: ignore[misc]
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
    assert list(lines.values()) == [  # type: ignore[attr-defined]
        b"lost_requests_total 0",
        b'refused_requests_total{reason="engine"} 0',
        b'refused_requests_total{reason="queue"} 1',
        b'requests_total{user="a",code="2xx"} 7',
    ]


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
