"""HAProxy reads configurations of random resources without a warning: all fields of a router at once, each valid.

It reads each as that of a router and as that of a gateway.
"""

import asyncio

import pytest

from e2e.router.loopback import Loopback
from e2e.router.test_keys import ALICE, line
from inference_operator.router.haproxy import config_files
from inference_operator.router.process import CONFIG_FILE, CONFIG_FOLDER
from tests.testing.random_routers import Routers

FEW, MANY = 24, 1_000


async def check(loopback: Loopback, seeds: range) -> None:
    """Each configuration passes `haproxy -c`, which prints nothing."""
    loopback.write_keys(line("alice", ALICE))
    loopback.renew_certificate()
    for seed in seeds:
        for request in (Routers(seed).request(), Routers(seed).gateway()):
            for name, text in config_files(request).items():
                await asyncio.to_thread((loopback.root / CONFIG_FOLDER.lstrip("/") / name).write_text, text)
            checked = await loopback.checked_configuration()
            assert checked == ("", ""), (seed, request.component, checked)


async def test_haproxy_accepts_configurations_of_random_resources_without_a_warning(loopback: Loopback) -> None:
    assert CONFIG_FILE in config_files(Routers(0).request())
    await check(loopback, range(FEW))


@pytest.mark.full
async def test_haproxy_accepts_a_thousand_configurations_of_random_resources(loopback: Loopback) -> None:
    await check(loopback, range(FEW, FEW + MANY))
