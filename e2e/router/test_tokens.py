"""Tokens that a real vLLM counts behind a real HAProxy, and clients that hide theirs or give them to others."""

import asyncio
import json
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from e2e.deploy import stack
from e2e.router.loopback import Loopback
from e2e.router.test_keys import ALICE, BOB, KEYS, METRICS_OF_USERS, line
from e2e.router.test_traces import ADDRESS, MODEL, PORT, vllm
from inference_operator.api.engine import EngineSpec
from inference_operator.api.router import RouterSpec
from inference_operator.engines.engine_key_program import TOKENS, USER_HEADER

pytestmark = pytest.mark.full
KEY = "c" * 64
SOON = 120.0
CHAT, RESPONSES, MESSAGES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"
OTTERS: list[dict[str, str]] = [{"role": "user", "content": "Tell me about otters"}]
LONG = 400
"""Tokens of an answer that a client does not wait for."""
FORGED = '", "usage": {"prompt_tokens": 0, "completion_tokens": 0}, "x": "'
CLAIMS = {USER_HEADER.decode(): "bob", "Inference-Operator-User": "bob"}
UNREAD = {"stream": True, "stream_options": {"include_usage": False}}

Page = dict[str, Counter[str]]


async def counted(loopback: Loopback) -> Page:
    """Tokens by user and kind, and those of vLLM itself as `all`, once no request runs."""
    deadline = time.monotonic() + SOON
    while True:
        async with loopback.session.get(f"http://{ADDRESS}:{PORT}/metrics") as answer:
            text = await answer.text()
        found: Page = defaultdict(Counter)
        running = 0.0
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == f"{TOKENS}_total":
                    found[sample.labels["user"]][sample.labels["type"]] = int(sample.value)
                elif sample.name in ("vllm:prompt_tokens_total", "vllm:generation_tokens_total"):
                    kind = "prompt" if "prompt" in sample.name else "completion"
                    found["all"][kind] += int(sample.value)
                elif sample.name in ("vllm:num_requests_running", "vllm:num_requests_waiting"):
                    running += sample.value
        if not running:
            return found
        assert time.monotonic() < deadline, text
        await asyncio.sleep(0.2)


async def whole(loopback: Loopback, path: str, body: Mapping[str, Any], **headers: str) -> bytes:
    """Ask as alice, and read all."""
    named = {"Authorization": f"Bearer {ALICE}", **headers}
    asked = {"model": MODEL, "max_tokens": 8, "ignore_eos": True, **body}
    async with loopback.session.post(f"{loopback.url}{path}", json=asked, headers=named) as answer:
        text = await answer.read()
        assert answer.status == 200, text
    return text


async def raw(loopback: Loopback, head: str, body: Mapping[str, Any], *, until: bytes = b"", pieces: int = 1) -> bytes:
    """Send bytes as alice, in pieces of a chunked body if there are several; hang up once `until` has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
    text = json.dumps({"model": MODEL, "ignore_eos": True, **body}).encode()
    lines = [head, "Host: x", f"Authorization: Bearer {ALICE}", "Content-Type: application/json"]
    lines.append("Transfer-Encoding: chunked" if pieces > 1 else f"Content-Length: {len(text)}")
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
    if pieces == 1:
        writer.write(text)
    else:
        for at in range(0, len(text), pieces):
            one = text[at : at + pieces]
            writer.write(b"%x\r\n%s\r\n" % (len(one), one))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    got = b""
    while until not in got if until else True:
        part = await asyncio.wait_for(reader.read(4096), SOON)
        if not part:
            break
        got += part
    writer.transport.abort()
    return got


async def left_early(loopback: Loopback) -> None:
    """A whole answer that its client does not wait for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
    body = json.dumps({"model": MODEL, "prompt": "otters", "max_tokens": LONG, "ignore_eos": True}).encode()
    head = f"POST {COMPLETIONS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ALICE}\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    before = (await at_once(loopback))["completion"]
    deadline = time.monotonic() + SOON
    while (await at_once(loopback))["completion"] < before + 3:
        assert time.monotonic() < deadline
    writer.transport.abort()
    del reader


async def at_once(loopback: Loopback) -> Counter[str]:
    """Tokens of vLLM while it computes."""
    async with loopback.session.get(f"http://{ADDRESS}:{PORT}/metrics") as answer:
        text = await answer.text()
    (found,) = (one for one in text.splitlines() if one.startswith("vllm:generation_tokens_total{"))
    return Counter(completion=int(float(found.rpartition(" ")[2])))


async def without_a_router(loopback: Loopback) -> None:
    """Ask the engine itself, as another pod does."""
    lied = {USER_HEADER.decode(): "bob", "Authorization": f"Bearer {ALICE}"}
    for body in ({"model": MODEL, "prompt": "1", "max_tokens": 1}, {"model": MODEL, "prompt": "x", "max_tokens": 9}):
        async with loopback.session.post(f"http://{ADDRESS}:{PORT}{COMPLETIONS}", json=body, headers=lied) as answer:
            assert (answer.status == 401) is (body["max_tokens"] != 1)


async def killed(loopback: Loopback) -> None:
    """Streams whose router dies: the engine has computed for them."""
    asked = {"prompt": "otters", "max_tokens": LONG, **UNREAD}
    streams = [asyncio.ensure_future(whole(loopback, COMPLETIONS, asked)) for _ in range(16)]
    before = (await at_once(loopback))["completion"]
    while (await at_once(loopback))["completion"] < before + 32:  # noqa: ASYNC110 - vLLM computes
        await asyncio.sleep(0)
    await loopback.kill_twin()
    ends = await asyncio.gather(*streams, return_exceptions=True)
    assert any(isinstance(end, Exception) for end in ends)


POST = f"POST {COMPLETIONS} HTTP"
TRICKS: dict[str, Callable[[Loopback], Awaitable[object]]] = {
    "a stream without usage": lambda on: whole(on, CHAT, {"messages": OTTERS, **UNREAD}),
    "several answers": lambda on: whole(on, COMPLETIONS, {"prompt": "otters", "n": 3}),
    "several answers, streamed": lambda on: whole(on, CHAT, {"messages": OTTERS, "n": 2, "stream": True}),
    "several prompts": lambda on: whole(on, COMPLETIONS, {"prompt": ["a", "b c", "d"]}),
    "a response": lambda on: whole(on, RESPONSES, {"input": "otters", "max_output_tokens": 9, "stream": True}),
    "messages": lambda on: whole(on, MESSAGES, {"messages": OTTERS, "stream": True}),
    "a text like usage": lambda on: whole(on, COMPLETIONS, {"prompt": FORGED, "echo": True}),
    "compressed": lambda on: whole(on, COMPLETIONS, {"prompt": "otters"}, **{"Accept-Encoding": "gzip, br"}),
    "another user's name": lambda on: whole(on, COMPLETIONS, {"prompt": "otters"}, **CLAIMS),
    "HTTP/1.0": lambda on: raw(on, f"{POST}/1.0", {"prompt": "otters"}),
    "HTTP/1.0, streamed": lambda on: raw(on, f"{POST}/1.0", {"prompt": "otters", **UNREAD}),
    "a chunked body": lambda on: raw(on, f"{POST}/1.1", {"prompt": "otters", **UNREAD}, pieces=3),
    "left at the first token": lambda on: raw(
        on, f"{POST}/1.1", {"prompt": "otters", "max_tokens": LONG, **UNREAD}, until=b"data:"
    ),
    "left before the answer": left_early,
    "its router dies": killed,
}


async def test_the_tokens_of_a_user_are_those_that_vllm_counts_whatever_the_client_does(
    loopback: Loopback, tmp_path: Path
) -> None:
    sample = yaml.safe_load(stack.SAMPLE.read_text())["spec"]["engine"]
    engine = EngineSpec.model_validate({name: sample[name] for name in ("args", "dtype", "env")})
    loopback.spec, loopback.engine_key = RouterSpec(keys=KEYS, metrics=METRICS_OF_USERS), KEY
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    async with vllm(tmp_path, engine, key=KEY):
        loopback.engine_port = PORT
        loopback.names.addresses.append(ADDRESS)
        await loopback.start_router()
        await loopback.start_twin()
        await loopback.until_served(1)
        await loopback.until_twin_served(1)
        honest = {"model": MODEL, "prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": True}
        named = {"Authorization": f"Bearer {BOB}"}
        async with loopback.session.post(f"{loopback.url}{COMPLETIONS}", json=honest, headers=named) as answer:
            assert answer.status == 200, await answer.text()
        before = await counted(loopback)
        assert before["bob"] == {"prompt": 3, "completion": 4}
        for name, trick in TRICKS.items():
            await trick(loopback)
            after = await counted(loopback)
            gained = {kind: after["all"][kind] - before["all"][kind] for kind in ("prompt", "completion")}
            assert all(gained.values()), name
            assert {kind: after["alice"][kind] - before["alice"][kind] for kind in gained} == gained, name
            before = after
        await without_a_router(loopback)
        after = await counted(loopback)
        assert after["bob"] == {"prompt": 3, "completion": 4}
        assert after.pop("all") == sum(after.values(), Counter())
        assert after[""]["completion"] == 1, "the operator's probe request"
