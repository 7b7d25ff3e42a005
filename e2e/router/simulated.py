"""Simulated engines behind a router on loopback."""

import os
import sys
from asyncio.subprocess import create_subprocess_exec
from pathlib import Path

from e2e.router.loopback import Engine, Loopback

ROOT = Path(__file__).parents[2]
MODEL = "chat"
"""The name that the router of `Loopback` knows."""


async def started(loopback: Loopback, address: str, *arguments: str, **environment: str) -> Engine:
    """Start a simulated engine, and return it as soon as it answers; its address is not in DNS yet.

    Args:
        loopback: ends it with all others.
        address: on loopback.
        arguments: of `vllm serve`.
        environment: `SIMULATOR_…` variables.
    """
    command = ("-m", "e2e.simulator", MODEL, f"--host={address}", f"--port={loopback.engine_port}", *arguments)
    log = (loopback.log.parent / f"{address}.log").open("ab")
    with log:
        process = await create_subprocess_exec(
            sys.executable, *command, cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log
        )
    engine = Engine(address, loopback.engine_port, process)
    loopback.engines.append(engine)
    await loopback.until_answers(f"{engine.url}/health")
    return engine
