"""A router that terminates TLS itself: HTTP/2 and HTTP/1.1, and certificates that are renewed under load."""

import asyncio
import json
import ssl
import time
from asyncio.subprocess import PIPE, create_subprocess_exec

import aiohttp
import pytest
from cryptography import x509

from e2e.router.loopback import POLL_SECONDS, START_SECONDS, Loopback
from inference_operator.api.router import RouterSpec
from inference_operator.router import tls
from inference_operator.router.observe import METRIC_PREFIX, ROUTER_METRICS_PATH

RENEWALS = 20
STREAMS = 8


@pytest.fixture(autouse=True)
def _tls(monkeypatch: pytest.MonkeyPatch, loopback: Loopback) -> None:
    """Terminate TLS, and look for a renewed certificate often."""
    monkeypatch.setattr(tls, "TLS_CHECK_SECONDS", 0.05)
    loopback.spec = RouterSpec.model_validate({"tls": {"secretRef": {"name": "router-tls"}}})


async def served(loopback: Loopback) -> bytes:
    """Start a router and an engine; returns the certificate."""
    certificate = loopback.renew_certificate()
    await loopback.start_router()
    await loopback.start_engine()
    await loopback.until_served(1)
    return certificate


async def presented(loopback: Loopback) -> bytes:
    """The certificate of a new handshake, as DER."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", loopback.tls_port, ssl=context)
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(found, bytes)
    return found


async def until_presented(loopback: Loopback, certificate: bytes) -> None:
    deadline = time.monotonic() + START_SECONDS
    while await presented(loopback) != certificate:
        assert time.monotonic() < deadline, loopback.log.read_text()
        await asyncio.sleep(POLL_SECONDS)


async def curl(loopback: Loopback, *arguments: str, wanted: object = None) -> str:
    """What curl prints about a completion that it asks for over TLS."""
    command = ["curl", "--silent", "--show-error", "--no-buffer", "--cacert", str(loopback.authority), *arguments]
    command += ["--header", "Content-Type: application/json", "--data", json.dumps(wanted or {})]
    command.append(f"https://localhost:{loopback.tls_port}/v1/completions")
    process = await create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
    printed, problem = await process.communicate()
    assert process.returncode == 0, problem
    return printed.decode()


async def test_haproxy_accepts_the_configuration_with_tls_without_a_warning(loopback: Loopback) -> None:
    loopback.renew_certificate()
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")


@pytest.mark.parametrize(("option", "version"), [("--http2", "2"), ("--http1.1", "1.1")])
async def test_clients_get_http_2_or_http_1_1_over_tls_as_they_ask(
    loopback: Loopback, option: str, version: str
) -> None:
    await served(loopback)
    printed = await curl(loopback, option, "--write-out", " %{http_version} %{response_code}")
    assert printed == f'{{"answer": "whole"}} {version} 200'


async def test_http_stays_beside_tls(loopback: Loopback) -> None:
    await served(loopback)
    assert (await loopback.ask()).status == 200


async def test_no_stream_ends_while_the_certificate_is_renewed_again_and_again(loopback: Loopback) -> None:
    await served(loopback)
    (engine,) = loopback.engines
    context = ssl.create_default_context(cafile=str(loopback.authority))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as session:
        url = f"https://localhost:{loopback.tls_port}/v1/completions"
        responses = [await session.post(url, json={"chunks": 3, "gap": 0, "held": 1}) for _ in range(STREAMS)]
        over_h2 = [
            asyncio.ensure_future(curl(loopback, "--http2", wanted={"chunks": 3, "gap": 0, "held": 1}))
            for _ in range(STREAMS)
        ]
        await loopback.until_counted(engine, started=2 * STREAMS)
        for _ in range(RENEWALS):
            await until_presented(loopback, loopback.renew_certificate())
        assert loopback.router is not None
        assert loopback.router.returncode is None
        await loopback.release(engine)
        bodies = [await response.text() for response in responses] + await asyncio.gather(*over_h2)
    assert [body.count("data: ") for body in bodies] == [4] * (2 * STREAMS)
    assert (await loopback.counts(engine))["left"] == 0
    assert loopback.log.read_text().count("the renewed TLS certificate is in use") == RENEWALS


@pytest.mark.parametrize("defect", ["truncated", "other_key"])
async def test_an_invalid_certificate_is_logged_once_and_the_former_one_stays(loopback: Loopback, defect: str) -> None:
    former = await served(loopback)
    loopback.renew_certificate(**{defect: True})
    deadline = time.monotonic() + START_SECONDS
    while "the renewed TLS certificate is not valid, the former one stays" not in loopback.log.read_text():
        assert time.monotonic() < deadline, loopback.log.read_text()
        await asyncio.sleep(POLL_SECONDS)
    assert await presented(loopback) == former
    await until_presented(loopback, loopback.renew_certificate())
    assert loopback.log.read_text().count("is not valid") == 1


async def told_end(loopback: Loopback) -> int:
    """The end of the certificate on the page of the metrics."""
    lines = (await loopback.metrics(ROUTER_METRICS_PATH)).splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(METRIC_PREFIX + "certificate_expiry")]
    return int(value)


async def test_the_metrics_tell_the_end_of_the_certificate_in_use(loopback: Loopback) -> None:
    former = await served(loopback)
    end = int(x509.load_der_x509_certificate(former).not_valid_after_utc.timestamp())
    assert await told_end(loopback) == end
    await asyncio.sleep(1)  # certificates tell whole seconds
    renewed = loopback.renew_certificate()
    await until_presented(loopback, renewed)
    later = int(x509.load_der_x509_certificate(renewed).not_valid_after_utc.timestamp())
    assert later > end
    deadline = time.monotonic() + START_SECONDS
    while await told_end(loopback) != later:
        assert time.monotonic() < deadline, loopback.log.read_text()
        await asyncio.sleep(POLL_SECONDS)


@pytest.mark.parametrize(("option", "connects"), [("--http1.1", 1), ("--http2", 0)])
async def test_a_router_that_will_stop_ends_connections_of_http_1_after_their_next_answer(
    loopback: Loopback, option: str, connects: int
) -> None:
    """HTTP/2 needs no such warning: HAProxy's GOAWAY tells a client which requests it may send again."""
    await served(loopback)
    twice = (option, "--output", "/dev/null", f"https://localhost:{loopback.tls_port}/v1/completions")
    connections = (*twice, "--output", "/dev/null", "--write-out", "%{response_code}: %{num_connects} new; ")
    assert await curl(loopback, *connections) == "200: 1 new; 200: 0 new; "
    assert await loopback.stop_hook(drain_seconds=1) == 0
    assert await curl(loopback, *connections) == f"200: 1 new; 200: {connects} new; "
