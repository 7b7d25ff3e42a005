import asyncio
import subprocess
import sys
from http import HTTPStatus
from http.client import HTTPConnection

import aiohttp
import pytest

from e2e.helpers.free_ports import free_port
from e2e.localkube.waiting import eventually
from inference_operator.telemetry.http import MOST_CONNECTIONS, PAGES, SHARE, serve_health
from inference_operator.telemetry.metrics import QUEUE_DEPTH, RESOURCE_METRICS
from inference_operator.telemetry.resources import Resource
from tests.testing.hostile_readers import SECONDS, survives

THREADS = 8
"""Of the pool that writes pages."""
SERVER = """
import asyncio, sys
from inference_operator.telemetry.http import serve_health

async def main():
    async with serve_health(int(sys.argv[1]), alive=lambda: True, ready=lambda: True):
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_health_is_served_over_ipv4_and_ipv6(host: str) -> None:
    port = free_port()
    async with (
        serve_health(port, alive=lambda: True, ready=lambda: True),
        aiohttp.ClientSession(f"http://{host}:{port}") as client,
        client.get("/healthz") as response,
    ):
        assert response.status == HTTPStatus.OK


async def test_probes_return_the_health_of_the_process_and_metrics_are_prometheus_text() -> None:
    state = {"alive": True, "ready": False}
    port = free_port()
    async with (
        serve_health(port, alive=lambda: state["alive"], ready=lambda: state["ready"]),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):

        async def status(path: str) -> int:
            async with client.get(path) as response:
                return response.status

        assert (await status("/healthz"), await status("/readyz")) == (200, 503)
        state.update(alive=False, ready=True)
        assert (await status("/healthz"), await status("/readyz")) == (503, 200)
        assert await status("/") == 404
        QUEUE_DEPTH.set(3)
        async with client.get("/metrics") as response:
            assert response.headers["Content-Type"].startswith("text/plain")
            assert "infd_workqueue_depth 3.0" in await response.text()


async def test_a_page_of_some_names_has_no_others_and_does_not_collect_those_of_the_resources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    port, collected = free_port(), []

    def resources() -> list[Resource]:
        collected.append(1)
        return []

    monkeypatch.setattr(RESOURCE_METRICS, "resources", resources)
    names = {"name[]": "infd_workqueue_depth"}
    async with (
        serve_health(port, alive=lambda: True, ready=lambda: True),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
        client.get("/metrics", params=names) as response,
    ):
        lines = (await response.text()).splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("#")] == ["infd_workqueue_depth"]
    assert not collected


def test_readers_that_leave_or_stay_keep_no_probe_out_and_leave_nothing_behind() -> None:
    port = free_port()

    def answers() -> bool:
        connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().read() == b"ok"
        except OSError:
            return False
        finally:
            connection.close()

    process = subprocess.Popen([sys.executable, "-c", SERVER, str(port)])
    try:
        eventually(answers, seconds=SECONDS, what="it listens")
        pages = [f"GET {path} HTTP/1.1\r\nHost: operator\r\n\r\n".encode() for path in ("/healthz", "/metrics")]
        survives(process.pid, port, pages, answers, share=MOST_CONNECTIONS // SHARE, spare=THREADS)
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(SECONDS)


async def test_pages_of_metrics_are_shared_and_a_source_has_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    port, collected = free_port(), []

    def resources() -> list[Resource]:
        collected.append(1)
        return []

    monkeypatch.setattr(RESOURCE_METRICS, "resources", resources)
    async with (
        serve_health(port, alive=lambda: True, ready=lambda: True),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):

        async def status() -> int:
            async with client.get("/metrics") as response:
                await response.read()
                return response.status

        statuses = await asyncio.gather(*(status() for _ in range(20)))
        assert len(collected) == 1, "who asks while the page is made gets that one"
        assert {200, 429} == set(statuses)
        assert statuses.count(200) >= PAGES
