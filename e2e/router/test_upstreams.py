"""A router with two upstreams: engines of different roles, with ports, health paths and limits of their own."""

import asyncio
from dataclasses import replace

from e2e.router.loopback import Loopback
from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.router.inputs import Upstream

ADDRESS = "127.0.55.1"
PORTS = 8_011, 8_012
REQUESTS = 32


def helpers(loopback: Loopback) -> Upstream:
    """Another upstream beside that of the engines."""
    loopback.engine_port = PORTS[0]
    (engines,) = loopback.upstreams
    host = "tiny-helpers.default.svc.cluster.local"
    loopback.names.others[host] = []
    return replace(engines, name="helper", host=host, port=PORTS[1], health_path="/metrics", max_concurrency=64)


async def test_requests_reach_the_engines_of_both_upstreams_by_their_weights(loopback: Loopback) -> None:
    other = replace(helpers(loopback), weight=3)
    loopback.other_upstreams = (other,)
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    first, second = await loopback.start_engine(), await loopback.start_engine_of(other, ADDRESS)
    await loopback.until_served(2)
    answers = [asyncio.create_task(loopback.ask(held=1)) for _ in range(8)]
    for engine, share in ((first, 2), (second, 6)):
        await loopback.until_counted(engine, started=share)
        await loopback.release(engine)
    assert {answer.status for answer in await asyncio.gather(*answers)} == {200}


async def test_keys_of_affinity_are_spread_over_the_engines_of_both_upstreams(loopback: Loopback) -> None:
    other = helpers(loopback)
    loopback.spec, loopback.other_upstreams = RouterSpec(strategy=RouterStrategy.PREFIX_AFFINITY), (other,)
    await loopback.start_router()
    assert await loopback.checked_configuration() == ("", "")
    engines = await loopback.start_engine(), await loopback.start_engine_of(other, ADDRESS)
    await loopback.until_served(2)
    for number in range(REQUESTS):
        headers = {loopback.spec.session_header: str(number)}
        async with loopback.session.post(f"{loopback.url}/v1/completions", json={}, headers=headers) as answer:
            assert answer.status == 200
    assert all([(await loopback.counts(engine))["started"] for engine in engines])


async def test_an_engine_is_checked_at_the_path_of_its_own_upstream(loopback: Loopback) -> None:
    other = replace(helpers(loopback), health_path="/missing")
    loopback.other_upstreams = (other,)
    await loopback.start_router()
    await loopback.start_engine_of(other, ADDRESS)
    await loopback.start_engine()
    for server, status in (("engine_1", 200), ("helper_1", 404)):
        await loopback.until_checked(server, status)


async def test_requests_are_held_while_no_upstream_has_an_engine(loopback: Loopback) -> None:
    other = helpers(loopback)
    loopback.other_upstreams = (other,)
    await loopback.start_router()
    held = asyncio.create_task(loopback.ask())
    await loopback.until_held(1)
    await loopback.start_engine_of(other, ADDRESS)
    assert (await held).status == 200
