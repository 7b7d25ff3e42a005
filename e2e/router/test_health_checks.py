"""What health checks of cloud load balancers get, which ask `/` and have no key."""

import asyncio
import subprocess

from e2e.router.loopback import Loopback
from e2e.router.test_keys import ALICE, KEYS, line
from inference_operator.api.router import RouterSpec


async def _curl(*arguments: str) -> str:
    """The status that curl sees."""
    command = (
        "curl",
        "--silent",
        "--max-time",
        "5",
        "--output",
        "/dev/null",
        "--write-out",
        "%{http_code}",
        *arguments,
    )
    return (await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, text=True)).stdout


async def test_the_root_answers_without_a_key_at_zero_engines_and_says_that_a_router_stops(loopback: Loopback) -> None:
    loopback.spec = RouterSpec(keys=KEYS)
    loopback.write_keys(line("alice", ALICE))
    await loopback.start_router()
    root = f"{loopback.url}/"
    assert await _curl(root) == await _curl("--head", root) == await _curl("--http1.0", root) == "200"
    assert await _curl("--request", "POST", root) in ("401", "404")
    assert await _curl(f"{loopback.url}/v1/models") == "401"
    assert await asyncio.wait_for(loopback.stop_hook(drain_seconds=600), 60) == 0
    assert await _curl(root) == await _curl("--head", root) == "503"
    assert '"GET / ' not in loopback.log.read_text()
