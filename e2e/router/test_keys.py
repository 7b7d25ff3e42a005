"""API keys at a real HAProxy: who is let in, what engines and the log see of it, rotation, and the size of bodies."""

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator

import pytest

from e2e.router.loopback import START_SECONDS, Loopback
from inference_operator.api.router import (
    KeysSecretRef,
    RouterKeysSpec,
    RouterMetricsSpec,
    RouterSpec,
    RouterStrategy,
    RouterUsage,
)
from inference_operator.objects.names import ROUTER, headless_service_name, service_host
from inference_operator.router.observe import ROUTER_METRICS_PATH

KEYS = RouterKeysSpec(secretRef=KeysSecretRef(name="keys"))
METRICS_OF_USERS = RouterMetricsSpec(users=True)
ALICE, BOB = "sk-alice-0123456789", "sk-bob-0123456789"
STREAMS, ROTATIONS = 500, 100
ROTATION_SECONDS = 0.1
MOST_KEYS = 12_000
"""About as many as a Secret has room for."""


def line(user: str, key: str) -> str:
    return f"{user}: {hashlib.sha256(key.encode()).hexdigest()}\n"


@pytest.fixture
async def keyed(loopback: Loopback) -> AsyncIterator[Loopback]:
    """A router with keys of two users, and one engine."""
    loopback.spec = RouterSpec(keys=KEYS, metrics=METRICS_OF_USERS)
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    loopback.engine_max_concurrency = 2 * STREAMS
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    yield loopback
    log = loopback.log.read_text()
    assert ALICE not in log
    assert BOB not in log


async def status(router: Loopback, headers: dict[str, str], path: str = "/v1/completions") -> int:
    async with router.session.post(f"{router.url}{path}", json={}, headers=headers) as answer:
        return answer.status


async def until(router: Loopback, key: str, wanted: int) -> None:
    """Wait until a request with this key gets this status."""
    deadline = time.monotonic() + START_SECONDS
    while await status(router, bearer(key)) != wanted:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.2)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def test_haproxy_accepts_the_configuration_without_a_warning(loopback: Loopback) -> None:
    for strategy in (RouterStrategy.LEAST_OUTSTANDING, RouterStrategy.PREFIX_AFFINITY):
        loopback.spec = RouterSpec(keys=KEYS, maxBodySize="1Mi", strategy=strategy)
        loopback.write_keys(line("alice", ALICE))
        await loopback.start_router()
        assert await loopback.checked_configuration() == ("", "")
        assert loopback.router is not None
        loopback.router.terminate()
        await loopback.router.wait()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        bearer("wrong"),
        bearer(""),
        bearer(hashlib.sha256(ALICE.encode()).hexdigest()),
        {"Authorization": f"Basic {ALICE}"},
        {"Authorization": ALICE},
        {"x-api-key": f"{BOB}, {ALICE}"},
        {"x-forwarded-user": "alice"},
    ],
)
async def test_a_request_without_a_valid_key_gets_401_in_the_form_of_the_api(
    keyed: Loopback, headers: dict[str, str]
) -> None:
    async with keyed.session.post(f"{keyed.url}/v1/completions", json={}, headers=headers) as answer:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert (await answer.json())["error"]["type"] == "authentication_error"
    async with keyed.session.get(f"{keyed.url}/v1/models", headers=headers) as answer:
        assert answer.status == 401
    assert (await keyed.counts(keyed.engines[0]))["started"] == 0


async def test_a_valid_key_is_accepted_in_both_headers_and_counted_by_user(keyed: Loopback) -> None:
    assert await status(keyed, bearer(ALICE)) == 200
    assert await status(keyed, {"Authorization": f"bearer {ALICE}"}) == 200
    assert await status(keyed, {"x-api-key": BOB}) == 200
    assert await status(keyed, bearer("wrong")) == 401
    page = await keyed.metrics(ROUTER_METRICS_PATH)
    assert 'inference_operator_router_requests_total{user="alice",code="2xx"} 2\n' in page
    assert 'inference_operator_router_requests_total{user="bob",code="2xx"} 1\n' in page
    assert "inference_operator_router_key_users 2\n" in page


async def test_a_metrics_port_shows_no_name_of_a_user(loopback: Loopback) -> None:
    limited = RouterKeysSpec(secretRef=KeysSecretRef(name="keys"), requestsPerMinute=6000, maxConcurrent=100)
    loopback.spec = RouterSpec(keys=limited, usage=RouterUsage.ENABLED)
    loopback.write_keys(line("alice", ALICE) + line("bob", BOB))
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    assert await status(loopback, bearer(BOB)) == 200
    peers = service_host(headless_service_name("loopback", ROUTER), "default", cluster_domain="cluster.local")
    pages = [await loopback.metrics(path) for path in (ROUTER_METRICS_PATH, f"/limits/{peers}", "/metrics")]
    secret = hashlib.sha256(ALICE.encode()).hexdigest()
    mark = hashlib.sha256(f"{secret}:bob".encode()).hexdigest()[:16]
    assert f'inference_operator_router_requests_total{{user="{mark}",code="2xx"}} 1\n' in pages[0]
    assert mark in pages[1]
    assert not [page for page in pages if "bob" in page or "alice" in page]
    assert '"user": "bob"' in loopback.log.read_text()


async def test_engines_get_neither_the_key_nor_a_header_that_claims_a_user(keyed: Loopback) -> None:
    claims = {"X-Forwarded-User": "root", "X-Auth-Request-Email": "a@b", "x-user-id": "1", "Remote-User": "root"}
    url = f"{keyed.url}/v1/models"
    async with keyed.session.get(url, headers={**bearer(ALICE), "x-api-key": BOB, **claims}) as answer:
        seen = {name.lower(): text for name, text in (await answer.json()).items()}
    assert not {"authorization", "x-api-key", *(name.lower() for name in claims)} & set(seen)


async def test_a_new_key_is_accepted_and_a_revoked_one_refused_without_a_restart(keyed: Loopback) -> None:
    keyed.write_keys(line("alice", "sk-new") + line("bob", BOB))
    await until(keyed, "sk-new", 200)
    assert await status(keyed, bearer(ALICE)) == 401
    assert await status(keyed, bearer(BOB)) == 200


async def test_wrong_lines_are_named_by_number_and_the_others_hold(keyed: Loopback) -> None:
    keyed.write_keys(f"# users\nbroken {ALICE}\n{line('bob', BOB)}carol: 1234\n{line('dave', BOB)}")
    await until(keyed, ALICE, 401)
    assert await status(keyed, bearer(BOB)) == 200
    assert "are not `USER: SHA256`: 2, 4, 5" in keyed.log.read_text()
    assert "inference_operator_router_key_lines_skipped 3\n" in await keyed.metrics(ROUTER_METRICS_PATH)


async def test_without_a_keys_file_nobody_is_let_in_until_it_is_there(loopback: Loopback) -> None:
    loopback.spec = RouterSpec(keys=KEYS)
    loopback.write_keys("")
    (loopback.root / "etc/haproxy-keys/keys").unlink()
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    assert await status(loopback, bearer("")) == 401
    assert await status(loopback, bearer(ALICE)) == 401
    loopback.write_keys(line("alice", ALICE))
    await until(loopback, ALICE, 200)


async def test_rotations_break_no_running_stream(keyed: Loopback) -> None:
    streams = [asyncio.ensure_future(streamed(keyed, BOB)) for _ in range(STREAMS)]
    await keyed.until_held(STREAMS)
    for number in range(ROTATIONS):
        keyed.write_keys(line("alice", f"sk-{number}") + (line("bob", BOB) if number % 2 else ""))
        await asyncio.sleep(ROTATION_SECONDS)
    await until(keyed, f"sk-{ROTATIONS - 1}", 200)
    await keyed.release(keyed.engines[0])
    assert await asyncio.gather(*streams) == [True] * STREAMS


async def test_as_many_keys_as_a_secret_has_room_for_come_and_go(loopback: Loopback) -> None:
    loopback.spec = RouterSpec(keys=KEYS)
    loopback.write_keys("".join(line(f"user-{number}", f"sk-{number}") for number in range(MOST_KEYS)))
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    assert await status(loopback, bearer(f"sk-{MOST_KEYS - 1}")) == 200
    loopback.write_keys("".join(line(f"user-{number}", f"sk-{number}") for number in range(1, 2 * MOST_KEYS, 2)))
    await until(loopback, f"sk-{2 * MOST_KEYS - 1}", 200)
    assert await status(loopback, bearer("sk-1")) == 200
    assert await status(loopback, bearer("sk-0")) == 401
    page = await loopback.metrics(ROUTER_METRICS_PATH)
    assert f"inference_operator_router_key_users {MOST_KEYS}\n" in page


async def streamed(router: Loopback, key: str) -> bool:
    """Whether a stream that the engine holds after its first chunk is whole."""
    wanted = {"chunks": 2, "gap": 0, "held": 1}
    async with router.session.post(f"{router.url}/v1/completions", json=wanted, headers=bearer(key)) as answer:
        return (await answer.read()).endswith(b"data: [DONE]\n\n")


async def test_the_limit_of_bodies_is_exact_and_bodies_of_unknown_length_are_refused(loopback: Loopback) -> None:
    loopback.spec = RouterSpec(maxBodySize="1Ki")
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    url = f"{loopback.url}/v1/embeddings"
    for size, wanted in ((0, 200), (1024, 200), (1025, 413), (1 << 20, 413)):
        async with loopback.session.post(url, data=b"x" * size) as answer:
            assert answer.status == wanted
            assert wanted == 200 or "at most 1024 bytes" in (await answer.json())["error"]["message"]

    async def chunks() -> AsyncIterator[bytes]:
        yield b"x"

    for method in ("POST", "GET"):
        async with loopback.session.request(method, url, data=chunks()) as answer:
            assert answer.status == 411
    for length in (1 << 31, (1 << 32) + 1):
        assert await _declared(loopback, length) == b"413"


async def _declared(loopback: Loopback, length: int) -> bytes:
    """The status of a request that declares a body of this length, and sends none of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", loopback.port)
    writer.write(b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % length)
    status = (await reader.readline()).split()[1]
    writer.close()
    return status
