from http import HTTPStatus

import aiohttp
import pytest

from e2e.free_ports import free_port
from inference_operator.telemetry.http import serve_health
from inference_operator.telemetry.metrics import QUEUE_DEPTH, RESOURCE_METRICS
from inference_operator.telemetry.resources import Resource


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
