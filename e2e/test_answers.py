"""What a user of a served model gets through the router's Service."""

import asyncio
import json
from itertools import pairwise

import aiohttp

from e2e.load.completion import Question, chunk_times
from e2e.served import PROMPT, Served

STREAM_TOKENS = 200
SEPARATE_SECONDS = 0.0005
"""Chunks that come less than this apart came together; the engine makes a token in 2 ms or more."""


def test_a_completion_is_answered_the_same_plain_and_streamed(tiny: Served) -> None:
    text = tiny.complete(max_tokens=16)
    assert len(text.split()) == 16
    status, body = tiny.post(
        "/v1/completions", {"model": "tiny", "prompt": PROMPT, "max_tokens": 16, "temperature": 0, "stream": True}
    )
    assert status == 200
    events = [line.removeprefix("data: ") for line in body.splitlines() if line]
    assert events[-1] == "[DONE]"
    assert "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1]) == text


def test_a_chat_is_answered(tiny: Served) -> None:
    status, body = tiny.post(
        "/v1/chat/completions",
        {"model": "tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 4, "temperature": 0},
    )
    assert status == 200
    assert len(json.loads(body)["choices"][0]["message"]["content"].split()) == 4


def test_the_chunks_of_a_stream_come_one_by_one(tiny: Served) -> None:
    """A router that waits for more before it sends (Nagle's algorithm) makes bursts, tens of milliseconds apart.

    With `option http-no-delay` 79 to 96 % of the chunks came separately here, without it 17 %.
    """
    times = asyncio.run(_chunk_times(tiny))
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert len(times) > STREAM_TOKENS / 2, "the engine itself put tokens together"
    assert times[-1] - times[0] > times[-1] / 2, "all chunks came at the end"
    assert sum(gap > SEPARATE_SECONDS for gap in gaps) > len(gaps) / 2, f"chunks came in bursts: {times}"


async def _chunk_times(tiny: Served) -> list[float]:
    url = f"http://{tiny.address}/v1/completions"
    async with aiohttp.ClientSession() as session:
        return await chunk_times(session, Question(url, "tiny", PROMPT, streamed=True, tokens=STREAM_TOKENS))


def test_the_model_is_listed_under_its_name(tiny: Served) -> None:
    status, body = tiny.get("/v1/models")
    assert status == 200
    assert [model["id"] for model in json.loads(body)["data"]] == ["tiny"]


def test_an_unknown_model_is_the_engines_own_404(tiny: Served) -> None:
    status, body = tiny.post("/v1/completions", {"model": "nobody", "prompt": PROMPT})
    assert status == 404
    assert "nobody" in json.loads(body)["error"]["message"]


def test_the_router_says_that_it_lives(tiny: Served) -> None:
    assert tiny.get("/-/healthz") == (200, "ok")
