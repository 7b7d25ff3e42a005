"""What a user of a served model gets through the router's Service."""

import asyncio
import json
from collections.abc import Mapping
from itertools import pairwise

import aiohttp
import pytest

from e2e.helpers.served_deployment import PROMPT, Served
from e2e.localkube.waiting import eventually
from inference_operator.cli.drill.completion import DATA, DONE, Question

STREAM_TOKENS = 200
STREAMS = 5
ROLLOUT_SECONDS = 240
ANSWERS_IN_A_ROW = 12
"""More than two routers with two processes each send to one of two engines by chance."""
SEPARATE_SECONDS = 0.0005
"""Chunks closer together than this arrived together; the engine takes 2 ms or more for a token."""


def test_a_completion_has_the_same_text_plain_and_streamed(tiny: Served) -> None:
    text = tiny.complete(max_tokens=16)
    assert len(text.split()) == 16
    status, body = tiny.post(
        "/v1/completions", {"model": "tiny", "prompt": PROMPT, "max_tokens": 16, "temperature": 0, "stream": True}
    )
    assert status == 200
    events = [line.removeprefix("data: ") for line in body.splitlines() if line]
    assert events[-1] == "[DONE]"
    assert "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1]) == text


def test_the_chunks_of_a_stream_arrive_one_by_one(tiny: Served) -> None:
    """A router that collects data before it sends (Nagle's algorithm) causes bursts tens of milliseconds apart.

    With `option http-no-delay` 79 to 96 % of the chunks arrived separately here, without it 17 %. A busy machine
    causes bursts too, but not in every stream.
    """
    streams = [asyncio.run(_chunk_times(tiny)) for _ in range(STREAMS)]
    assert max(_separate(times) for times in streams) > 1 / 2, f"chunks arrived in bursts: {streams}"


def _separate(times: list[float]) -> float:
    """Share of the chunks that arrived separately; 0 where the engine joined tokens or most chunks came at the end."""
    if len(times) <= STREAM_TOKENS / 2 or times[-1] - times[0] <= times[-1] / 2:
        return 0.0
    gaps = [later - earlier for earlier, later in pairwise(times)]
    return sum(gap > SEPARATE_SECONDS for gap in gaps) / len(gaps)


async def _chunk_times(tiny: Served) -> list[float]:
    """Arrival of each chunk of a stream in seconds after the request, without the end marker."""
    url = f"http://{tiny.address}/v1/completions"
    question = Question(url, "tiny", PROMPT, streamed=True, tokens=STREAM_TOKENS)
    loop, times = asyncio.get_running_loop(), list[float]()
    started = loop.time()
    async with (
        aiohttp.ClientSession() as session,
        session.post(question.url, json=question.body, raise_for_status=True) as response,
    ):
        async for line in response.content:
            if line.startswith(DATA) and line.removeprefix(DATA).strip() != DONE:
                times.append(loop.time() - started)
    return times


@pytest.mark.full
def test_generation_of_the_spec_applies_to_requests_that_name_nothing_and_limits_the_others(tiny: Served) -> None:
    generation = {"temperature": 0, "maxTokens": 6, "maxN": 2}
    tiny.patch({"engine": {"generation": generation}})
    asked = {"model": "tiny", "prompt": PROMPT, "max_tokens": 50}
    _await_words(tiny, asked, 6)
    assert len({_text(tiny, asked) for _ in range(4)}) == 1, "temperature 0"
    assert tiny.post("/v1/completions", {**asked, "n": 3})[0] == 400
    tiny.patch({"engine": {"generation": None}})
    _await_words(tiny, asked, 50)


def _await_words(tiny: Served, asked: Mapping[str, object], words: int) -> None:
    """Wait until the engine of the new template answers alone: during the rollout the former one does too."""
    eventually(
        lambda: all(len(_text(tiny, asked).split()) == words for _ in range(ANSWERS_IN_A_ROW)),
        seconds=ROLLOUT_SECONDS,
        what=f"answers of {words} words",
    )


def _text(tiny: Served, asked: Mapping[str, object]) -> str:
    status, body = tiny.post("/v1/completions", asked)
    assert status == 200, body
    text: str = json.loads(body)["choices"][0]["text"]
    return text


def test_the_health_endpoint_of_the_router_answers(tiny: Served) -> None:
    assert tiny.get("/-/healthz") == (200, "ok")
