"""What two real HAProxy processes let into an engine, by a file that changes while they run."""

import asyncio
import re
import time

import aiohttp
import pytest

from e2e.helpers.free_ports import free_ports
from e2e.router.loopback import POLL_SECONDS, START_SECONDS, Loopback
from e2e.router.places import Places
from inference_operator.router.entry import ROOM_FILE
from inference_operator.router.process import METRICS_PORTS
from inference_operator.router.stats import SAMPLE_PATH, router_sample

MOST, REQUESTS = 64, 60


def _write(loopback: Loopback, text: str) -> None:
    """As the kubelet does: as a whole, by renaming."""
    folder = loopback.root / "etc/haproxy"
    (folder / ".new").write_text(text)
    (folder / ".new").rename(folder / ROOM_FILE)


async def _until_limited(loopback: Loopback, wanted: int) -> None:
    """Wait until all processes together let so many into the first engine."""
    deadline, ports = time.monotonic() + START_SECONDS, (loopback.metrics_port, loopback.twin_metrics_port)
    name = 'haproxy_server_limit_sessions{proxy="engines",server="e1"}'
    while (limit := sum([await loopback.metric(name, port=port) for port in ports if port])) != wanted:
        assert time.monotonic() < deadline, limit
        await asyncio.sleep(POLL_SECONDS)


async def _waiting(loopback: Loopback) -> tuple[int, int]:
    """Requests that are queued, and that are held as if no engine was up."""
    samples = [
        router_sample(await loopback.metrics(SAMPLE_PATH, port=port))
        for port in (loopback.metrics_port, loopback.twin_metrics_port)
        if port
    ]
    return sum(one.queued for one in samples if one), sum(one.held for one in samples if one)


@pytest.mark.parametrize("processes", [1, 2])
async def test_processes_share_the_room_of_an_engine_and_follow_it_without_a_restart(
    loopback: Loopback, processes: int
) -> None:
    (loopback.twin_metrics_port,) = free_ports(1)
    listed = ",".join(map(str, METRICS_PORTS))
    usual = loopback.change

    def change(text: str) -> str:
        text = text.replace(f" {listed}\n", f" {loopback.metrics_port},{loopback.twin_metrics_port}\n")
        return re.sub(r"server-template r .*", "server r1 127.0.0.1:1", usual(text))

    loopback.change = change
    loopback.engine_max_concurrency = MOST
    _write(loopback, "e 10\n")
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    if processes == 2:
        await loopback.start_twin()
    else:
        loopback.twin_metrics_port = 0
    places = Places()
    await places.listen(loopback)
    await loopback.until_served(1)
    try:
        await _until_limited(loopback, 10)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as clients:
            asked = [asyncio.create_task(loopback.ask(clients)) for _ in range(REQUESTS)]
            await places.until_started(10)
            _write(loopback, "e 24\n")
            await places.until_started(24)
            await _until_limited(loopback, 24)
            _write(loopback, "e 8\n")
            await _until_limited(loopback, 8)
            assert await _waiting(loopback) == (REQUESTS - len(places.started), 0), "fewer than run are let in"
            assert len(places.started) <= 24 + processes
            (loopback.root / "etc/haproxy" / ROOM_FILE).unlink()
            await places.until_started(REQUESTS)
            await _until_limited(loopback, processes * MOST)
            for ends in places.ends:
                ends.set()
            assert {(await one).status for one in asked} == {200}
    finally:
        await places.close()
