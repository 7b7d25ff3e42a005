"""The second hop at a real HAProxy: who counts as a ModelGateway, what is taken from it, and what strangers get."""

import asyncio
import re
import subprocess
import time
from collections.abc import Mapping

import openai
import pytest

from e2e.router.loopback import POLL_SECONDS, START_SECONDS, Loopback
from e2e.router.test_headers import raw
from e2e.router.test_keys import ALICE, BOB, KEYS, bearer, line
from inference_operator.api.router import (
    KeysOfGateways,
    KeysSecretRef,
    RouterAccess,
    RouterKeysSpec,
    RouterMetricsSpec,
    RouterSpec,
)
from inference_operator.objects.gateway_key import (
    GATEWAY_ATTEMPTS_HEADER,
    GATEWAY_HEADERS,
    GATEWAY_KEY_HEADER,
    GATEWAY_PRIORITY_HEADER,
    GATEWAY_USER_HEADER,
)
from inference_operator.router.observe import ROUTER_METRICS_PATH
from inference_operator.router.process import HEALTH_PATH
from inference_operator.settings import Settings

KEY, OTHER = "k" * 64, "o" * 64
GATEWAY = {GATEWAY_KEY_HEADER: KEY, GATEWAY_USER_HEADER: "carol", GATEWAY_PRIORITY_HEADER: "0"}
CLAIMS = {GATEWAY_USER_HEADER: "root", GATEWAY_PRIORITY_HEADER: "-2047", GATEWAY_ATTEMPTS_HEADER: "9"}
"""What a stranger would like to say."""
TRUSTING = RouterKeysSpec(secretRef=KeysSecretRef(name="keys"), gateways=KeysOfGateways.TRUST)
SHOWN = RouterMetricsSpec(users=True)


async def start(loopback: Loopback, spec: RouterSpec, key: str | None = KEY + "\n") -> None:
    """Start a router and an engine; the key is in the file, unless None."""
    loopback.spec = spec
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    loopback.write_gateway_key(key or "")
    if key is None:
        loopback.gateway_key.unlink()
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    await loopback.start_engine()
    await loopback.until_served(1)


async def status(loopback: Loopback, headers: Mapping[str, str]) -> int:
    async with loopback.session.post(f"{loopback.url}/v1/completions", json={}, headers=headers) as answer:
        return answer.status


async def until(loopback: Loopback, headers: Mapping[str, str], wanted: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while await status(loopback, headers) != wanted:
        assert time.monotonic() < deadline
        await asyncio.sleep(POLL_SECONDS)


async def users(loopback: Loopback, requests: int) -> list[str]:
    """The users in the log, once it has this many requests: it is written after their answers."""
    deadline = time.monotonic() + START_SECONDS
    while len(found := re.findall('"user": "?([^",]*)', loopback.log.read_text())) < requests:
        assert time.monotonic() < deadline
        await asyncio.sleep(POLL_SECONDS)
    return found


async def test_a_gateway_names_the_user_and_engines_get_none_of_its_headers(loopback: Loopback) -> None:
    loopback.settings = Settings(forwarded_headers=("X-Inference-*",))
    await start(loopback, RouterSpec(metrics=SHOWN))
    async with loopback.session.get(f"{loopback.url}/v1/models", headers={**GATEWAY, **bearer("sk")}) as answer:
        seen = {name.lower() for name in await answer.json()}
    assert not seen & {*GATEWAY_HEADERS}
    assert "authorization" in seen
    assert await users(loopback, 1) == ["carol"]
    page = await loopback.metrics(ROUTER_METRICS_PATH)
    assert 'inference_operator_router_requests_total{user="carol",code="2xx"} 1\n' in page
    assert KEY not in loopback.log.read_text() + page


async def test_metrics_show_a_mark_in_place_of_the_name(loopback: Loopback) -> None:
    await start(loopback, RouterSpec())
    assert await status(loopback, GATEWAY) == 200
    marks = re.findall(r'requests_total{user="([^"]*)"', await loopback.metrics(ROUTER_METRICS_PATH))
    assert [len(mark) for mark in marks] == [16]
    assert marks != ["carol"]


@pytest.mark.parametrize(
    "stolen",
    [
        [],
        [(GATEWAY_KEY_HEADER, "")],
        [(GATEWAY_KEY_HEADER, OTHER)],
        [(GATEWAY_KEY_HEADER, KEY[:-1])],
        [(GATEWAY_KEY_HEADER, KEY + "k")],
        [(GATEWAY_KEY_HEADER, f"{KEY}, {KEY}")],
        [(GATEWAY_KEY_HEADER, KEY), (GATEWAY_KEY_HEADER, KEY)],
        [(GATEWAY_KEY_HEADER, KEY), (GATEWAY_KEY_HEADER, OTHER)],
        [(GATEWAY_KEY_HEADER.replace("-", "_"), KEY)],
        [(GATEWAY_KEY_HEADER, "%[str(current)]")],
        [(GATEWAY_KEY_HEADER, "x" * 4096)],
    ],
)
async def test_whoever_has_not_the_one_key_says_nothing(loopback: Loopback, stolen: list[tuple[str, str]]) -> None:
    """Also not as the session header or one that the administrator forwards: they are gone before those are read."""
    spec = {"metrics": {"users": True}, "sessionHeader": GATEWAY_USER_HEADER, "strategy": "PrefixAffinity"}
    await start(loopback, RouterSpec.model_validate(spec))
    sent = "".join(f"{name}: {value}\r\n" for name, value in [*stolen, *CLAIMS.items()])
    answer = await raw(loopback, f"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{sent}\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"root" not in answer
    assert await users(loopback, 1) == [""]
    assert "user=" not in await loopback.metrics(ROUTER_METRICS_PATH)


@pytest.mark.parametrize("key", [None, "", "\n", "short", f"{KEY}\n{OTHER}\n", f"{KEY} {OTHER}"])
async def test_without_a_key_nobody_is_a_gateway(loopback: Loopback, key: str | None) -> None:
    await start(loopback, RouterSpec(access=RouterAccess.GATEWAYS_ONLY), key)
    for given in ("", KEY, OTHER, (key or "").strip().replace("\n", " ")):
        assert await status(loopback, {**GATEWAY, GATEWAY_KEY_HEADER: given}) == 403


async def test_gateways_only_refuses_everybody_else_but_not_health_and_metrics(loopback: Loopback) -> None:
    await start(loopback, RouterSpec(access=RouterAccess.GATEWAYS_ONLY))
    async with loopback.session.post(f"{loopback.url}/v1/completions", json={}) as answer:
        assert (answer.status, (await answer.json())["error"]["code"]) == (403, "gateways_only")
    for path in ("/", HEALTH_PATH):
        async with loopback.session.get(f"{loopback.url}{path}") as answer:
            assert answer.status == 200
    assert "inference_operator_router_held_requests 0\n" in await loopback.metrics(ROUTER_METRICS_PATH)
    assert await status(loopback, GATEWAY) == 200
    unfinished = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{"
    reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
    writer.write(unfinished)
    assert b" 403 " in await asyncio.wait_for(reader.readline(), START_SECONDS)  # it waits for no body of a stranger
    writer.close()
    await writer.wait_closed()


async def test_clients_of_others_get_the_refusal_and_pass_with_the_key(loopback: Loopback) -> None:
    await start(loopback, RouterSpec(access=RouterAccess.GATEWAYS_ONLY))
    async with openai.AsyncOpenAI(base_url=f"{loopback.url}/v1", api_key="any", max_retries=0) as client:
        with pytest.raises(openai.PermissionDeniedError, match=r"router\.access"):
            await client.models.list()
    curl = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--data", "{}"]
    command = [*curl, "--header", f"{GATEWAY_KEY_HEADER}: {KEY}", f"{loopback.url}/v1/completions"]
    assert (await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)).stdout == b"200"


async def test_a_model_with_keys_asks_gateways_for_one_unless_it_trusts_them(loopback: Loopback) -> None:
    await start(loopback, RouterSpec(keys=KEYS, metrics=SHOWN))
    assert [await status(loopback, headers) for headers in (GATEWAY, {**GATEWAY, **bearer(ALICE)})] == [401, 200]
    assert await users(loopback, 2) == ["carol", "alice"]


async def test_a_trusting_model_takes_the_users_of_gateways_and_one_for_all_others(loopback: Loopback) -> None:
    await start(loopback, RouterSpec(keys=TRUSTING.model_copy(update={"max_concurrent": 2}), metrics=SHOWN))
    nameless = {GATEWAY_KEY_HEADER: KEY}
    odd = {**nameless, GATEWAY_USER_HEADER: 'eve", "status": 1'}
    assert [await status(loopback, one) for one in (GATEWAY, nameless, odd, bearer(BOB))] == [200] * 4
    assert await users(loopback, 4) == ["carol", "-gateway", "-gateway", "bob"]
    assert [await status(loopback, one) for one in ({}, CLAIMS, {**GATEWAY, GATEWAY_KEY_HEADER: OTHER})] == [401] * 3
    held = [
        asyncio.ensure_future(loopback.session.post(f"{loopback.url}/v1/completions", json={"held": 1}, headers=one))
        for one in (nameless, nameless)
    ]
    await loopback.until_held(2)
    assert [await status(loopback, one) for one in (nameless, GATEWAY)] == [429, 200]
    await loopback.release(loopback.engines[0])
    assert {(await one).status for one in held} == {200}


async def test_a_key_comes_is_renewed_and_goes_while_the_router_serves(loopback: Loopback) -> None:
    await start(loopback, RouterSpec(access=RouterAccess.GATEWAYS_ONLY), None)
    assert await status(loopback, GATEWAY) == 403
    loopback.write_gateway_key(KEY)
    await until(loopback, GATEWAY, 200)
    loopback.write_gateway_key(OTHER)
    await until(loopback, {GATEWAY_KEY_HEADER: OTHER}, 200)
    assert await status(loopback, GATEWAY) == 200  # for 15 minutes
    loopback.gateway_key.unlink()
    assert await status(loopback, {GATEWAY_KEY_HEADER: OTHER}) == 200


async def test_the_priority_of_a_gateway_orders_the_queue_and_that_of_others_does_not(loopback: Loopback) -> None:
    loopback.engine_max_concurrency = 1
    await start(loopback, RouterSpec())
    done: list[str] = []

    async def ask(name: str, headers: Mapping[str, str]) -> None:
        url = f"{loopback.url}/v1/completions"
        async with loopback.session.post(url, json={"held": name == "first"}, headers=headers) as answer:
            assert answer.status == 200
        done.append(name)

    asked = [asyncio.ensure_future(ask("first", {}))]
    await loopback.until_started(1)
    claimed = {"stranger": CLAIMS, "low": {**GATEWAY, GATEWAY_PRIORITY_HEADER: "5"}, "usual": GATEWAY}
    for number, (name, headers) in enumerate([*claimed.items(), ("high", {**GATEWAY, GATEWAY_PRIORITY_HEADER: "-5"})]):
        asked.append(asyncio.ensure_future(ask(name, headers)))
        await loopback.until_queued(number + 1)
    await loopback.release(loopback.engines[0])
    await asyncio.gather(*asked)
    assert done == ["first", "high", "stranger", "usual", "low"]


@pytest.mark.parametrize("hostile", [b"x-inference-gateway-key: ", b"x-inference-user: ", b"x-inference-attempts: "])
async def test_a_client_that_is_slow_or_hangs_up_in_a_header_costs_others_nothing(
    loopback: Loopback, hostile: bytes
) -> None:
    await start(loopback, RouterSpec())
    for end in (b"", b"k" * 64, b"\x00\xff\r\n\r\n", b"a\r\n b\r\n\r\n"):
        _, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
        writer.write(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n" + hostile + end)
        await writer.drain()
        assert await status(loopback, GATEWAY) == 200
        writer.close()
        await writer.wait_closed()
    assert await status(loopback, GATEWAY) == 200
