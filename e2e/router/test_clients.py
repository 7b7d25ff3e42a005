"""Clients that this project did not write, against a router and simulated engines: the `openai` package and curl."""

import asyncio
import base64
import json
import os
import signal
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from openai import APIConnectionError, AsyncOpenAI, OpenAI, RateLimitError

from e2e.router.loopback import Engine, Loopback
from e2e.router.simulated import MODEL, started
from inference_operator.api.router import RouterSpec

QUESTION: list[Any] = [{"role": "user", "content": "Tell me about otters"}]
WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
IMAGE_BYTES = 2_000_000
CONCURRENT = 30
SLOW = {"SIMULATOR_DECODE_STEP_SECONDS": "0.05", "SIMULATOR_ANSWER_TOKENS": "100000"}
ROOMY = {"SIMULATOR_MAX_MODEL_LEN": "1000000", "SIMULATOR_PREFILL_TOKENS_PER_SECOND": "10000000"}
_NONE: Mapping[str, str] = {}
LONG = 20_000
"""Tokens of an answer that no test waits for."""


@asynccontextmanager
async def _served(
    loopback: Loopback, environment: Mapping[str, str] = _NONE, *, engines: int = 1
) -> AsyncIterator[list[Engine]]:
    await loopback.start_router()
    running = [await started(loopback, f"127.0.54.{number}", **environment) for number in range(1, engines + 1)]
    loopback.names.addresses[:] = [engine.address for engine in running]
    await loopback.until_served(engines)
    yield running


def _client(loopback: Loopback, retries: int = 0) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{loopback.url}/v1", api_key="none", max_retries=retries)


async def test_the_openai_package_gets_completions_chats_streams_and_models(loopback: Loopback) -> None:
    async with _served(loopback), _client(loopback) as client:
        assert [model.id async for model in client.models.list()] == [MODEL]
        whole = await client.completions.create(model=MODEL, prompt="Tell me", max_tokens=8)
        stream = await client.completions.create(model=MODEL, prompt="Tell me", max_tokens=8, stream=True)
        chunks = [chunk.choices[0].text async for chunk in stream]
        assert len(chunks) == 8
        assert "".join(chunks) == whole.choices[0].text
        chat = await client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8)
        parts = await client.chat.completions.create(
            model=MODEL, messages=QUESTION, max_tokens=8, stream=True, stream_options={"include_usage": True}
        )
        received = [chunk async for chunk in parts]
        said = "".join(chunk.choices[0].delta.content or "" for chunk in received if chunk.choices)
        assert said == chat.choices[0].message.content
        assert received[-1].usage is not None
        assert received[-1].usage.completion_tokens == 8


async def test_the_synchronous_openai_client_keeps_one_connection_for_all_its_requests(loopback: Loopback) -> None:
    def ask() -> set[str]:
        with OpenAI(base_url=f"{loopback.url}/v1", api_key="none", max_retries=0) as client:
            answers = (client.completions.create(model=MODEL, prompt="Hi", max_tokens=4) for _ in range(20))
            return {answer.choices[0].text for answer in answers}

    async with _served(loopback):
        before = await loopback.metric('haproxy_frontend_connections_total{proxy="api"}')
        assert len(await asyncio.to_thread(ask)) == 1
        assert await loopback.metric('haproxy_frontend_connections_total{proxy="api"}') - before == 1
        assert await loopback.metric('haproxy_frontend_http_requests_total{proxy="api"}') == 20


async def test_concurrent_streams_of_the_openai_package_arrive_complete(loopback: Loopback) -> None:
    async with _served(loopback, engines=2), _client(loopback) as client:

        async def streamed(number: int) -> int:
            messages: list[Any] = [{"role": "user", "content": f"Question {number}"}]
            stream = await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=50, stream=True)
            return len([chunk async for chunk in stream if chunk.choices[0].delta.content])

        assert await asyncio.gather(*map(streamed, range(CONCURRENT))) == [50] * CONCURRENT


async def test_the_openai_package_gets_tool_calls_whole_and_streamed(loopback: Loopback) -> None:
    async with _served(loopback), _client(loopback) as client:
        asked: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "tools": [WEATHER], "tool_choice": "required"}
        whole = await client.chat.completions.create(**asked, max_tokens=4)
        (call,) = whole.choices[0].message.tool_calls or []
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", {})
        stream = await client.chat.completions.create(**asked, max_tokens=4, stream=True)
        chunks = [chunk.choices[0] async for chunk in stream]
        calls = [delta.function.name for choice in chunks for delta in choice.delta.tool_calls or [] if delta.function]
        assert calls == ["weather"]
        assert chunks[-1].finish_reason == "tool_calls"


async def test_an_image_of_two_megabytes_passes(loopback: Loopback) -> None:
    url = f"data:image/png;base64,{base64.b64encode(os.urandom(IMAGE_BYTES)).decode()}"
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    messages: list[Any] = [{"role": "user", "content": parts}]
    async with _served(loopback), _client(loopback) as client:
        answers = [await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4) for _ in range(3)]
    assert {answer.choices[0].finish_reason for answer in answers} == {"length"}
    assert len({answer.choices[0].message.content for answer in answers}) == 1


async def test_the_openai_package_sees_429_with_retry_after_and_its_own_retry_succeeds(
    loopback: Loopback,
) -> None:
    loopback.spec = RouterSpec.model_validate({"queue": {"maxSize": 2}})  # one for each process
    loopback.engine_max_concurrency = 1
    async with _served(loopback, SLOW), _client(loopback) as client:
        asked = [asyncio.create_task(_long(client)) for _ in range(2)]
        await loopback.until_queued(1)
        with pytest.raises(RateLimitError) as refused:
            await client.completions.create(model=MODEL, prompt="Hi", max_tokens=1)
        assert int(refused.value.response.headers["retry-after"]) > 0
        assert refused.value.body is not None
        patient = client.with_options(max_retries=5).completions.create(model=MODEL, prompt="Hi", max_tokens=1)
        retried = asyncio.create_task(patient)
        while await loopback.metric('haproxy_frontend_http_responses_total{proxy="api",code="4xx"}') < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for task in asked:
            task.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        assert (await retried).choices[0].finish_reason == "length"


async def test_the_openai_package_raises_an_error_for_a_stream_that_an_engines_death_cuts(loopback: Loopback) -> None:
    async with _served(loopback, SLOW) as engines, _client(loopback) as client:
        stream = await client.completions.create(model=MODEL, prompt="Hi", max_tokens=LONG, stream=True)
        received = [await anext(stream) for _ in range(3)]
        engines[0].process.send_signal(signal.SIGKILL)
        with pytest.raises(APIConnectionError):
            received.extend([chunk async for chunk in stream])
        assert {chunk.choices[0].finish_reason for chunk in received} == {None}, "an end that is none is not invented"


async def test_the_openai_package_gets_an_answer_of_another_engine_when_its_own_dies_before_it_answers(
    loopback: Loopback,
) -> None:
    async with _served(loopback, SLOW) as (dying,), _client(loopback) as client:
        asked = asyncio.create_task(_short(client))
        await _until_running(loopback, dying, 1)
        other = await started(loopback, "127.0.54.2")
        loopback.names.addresses.append(other.address)
        await loopback.until_served(2)
        dying.process.send_signal(signal.SIGKILL)
        assert await asked == "stop"


async def test_curl_gets_whole_answers_and_streams_on_one_connection(loopback: Loopback) -> None:
    async with _served(loopback):
        url = f"{loopback.url}/v1/completions"
        body = json.dumps({"model": MODEL, "prompt": "Hi", "max_tokens": 4})
        printed = await _curl("--data", body, "--write-out", "%{num_connects}\n", url, url)
        assert [line[-1] for line in printed.splitlines()] == ["1", "0"], "the second one uses the first's connection"
        streamed = await _curl("--no-buffer", "--data", json.dumps({**json.loads(body), "stream": True}), url)
        events = [line for line in streamed.splitlines() if line]
        assert len(events) == 5
        assert events[-1] == "data: [DONE]"


async def test_curl_sends_two_megabytes_after_100_continue(loopback: Loopback) -> None:
    path = loopback.log.parent / "body.json"
    path.write_text(json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x" * IMAGE_BYTES}]}))
    async with _served(loopback, ROOMY):
        given = ("--data-binary", f"@{path}", "--header", "Expect: 100-continue", "--write-out", "\n%{http_code}")
        printed = await _curl(*given, f"{loopback.url}/v1/chat/completions")
    assert printed.splitlines()[-1] == "200"


async def _curl(*arguments: str) -> str:
    """What curl prints; a status of an error, or an incomplete answer, fails."""
    command = ("curl", "--silent", "--show-error", "--fail", "--header", "Content-Type: application/json", *arguments)
    process = await create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    printed, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return printed.decode()


async def _long(client: AsyncOpenAI) -> None:
    await client.completions.create(model=MODEL, prompt="Long", max_tokens=LONG)


async def _short(client: AsyncOpenAI) -> str | None:
    """An answer that takes longer than the engine at which it begins lives; the second engine is fast."""
    answer = await client.completions.create(model=MODEL, prompt="Short", max_tokens=1000)
    return answer.choices[0].finish_reason


async def _until_running(loopback: Loopback, engine: Engine, requests: int) -> None:
    async with asyncio.timeout(60):
        while True:
            async with loopback.session.get(f"{engine.url}/metrics") as answer:
                if f'vllm:num_requests_running{{engine="0",model_name="{MODEL}"}} {requests}.0' in await answer.text():
                    return
            await asyncio.sleep(0.05)
