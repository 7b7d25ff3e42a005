"""500 streams through both HAProxy processes of a router pod while one of them is killed, or stops for a successor."""

import asyncio
import re
from collections import Counter

from e2e.router.loopback import Answer, Engine, Loopback

STREAMS = 500
SESSIONS = re.compile(r'haproxy_backend_current_sessions\{proxy="engines"\} ([0-9]+)')


async def both(loopback: Loopback) -> Engine:
    """Start a router, its twin and an engine that takes all streams at once."""
    loopback.engine_max_concurrency = 2 * STREAMS
    await loopback.start_router()
    engine = await loopback.start_engine()
    await loopback.until_served(1)
    await loopback.start_twin()
    await loopback.until_twin_served(1)
    return engine


async def streams(loopback: Loopback, engine: Engine) -> list[asyncio.Task[Answer]]:
    """500 streams, each on a connection of its own, of which the engine has sent the first chunk."""
    tasks = [asyncio.create_task(loopback.ask(chunks=2, gap=0.0, held=1)) for _ in range(STREAMS)]
    await loopback.until_counted(engine, started=STREAMS)
    return tasks


async def sessions(loopback: Loopback, port: int) -> int:
    """The streams of one HAProxy process."""
    found = SESSIONS.search(await loopback.metrics(port=port))
    assert found is not None
    return int(found[1])


async def test_a_killed_haproxy_breaks_its_own_of_500_streams_and_no_other(loopback: Loopback) -> None:
    engine = await both(loopback)
    tasks = await streams(loopback, engine)
    of_twin = await sessions(loopback, loopback.twin_metrics_port)
    await loopback.kill_twin()
    await loopback.release(engine)
    whole = Counter(answer.whole for answer in await asyncio.gather(*tasks))
    assert 0 < of_twin < STREAMS
    assert whole == {True: STREAMS - of_twin, False: of_twin}
    assert (await loopback.ask()).status == 200


async def test_a_haproxy_that_stops_for_a_successor_breaks_none_of_500_streams(loopback: Loopback) -> None:
    engine = await both(loopback)
    tasks = await streams(loopback, engine)
    assert await sessions(loopback, loopback.metrics_port) > 0
    loopback.soft_stop()
    # A connection that waits at a listener while that closes is reset. The preStop hook keeps new ones away from pods.
    await loopback.until_refusing("127.0.0.1", loopback.metrics_port)
    short = [(await loopback.ask()).status for _ in range(20)]
    await loopback.release(engine)
    assert Counter(answer.whole for answer in await asyncio.gather(*tasks)) == {True: STREAMS}
    assert short == [200] * 20, "the other process takes all new requests"
