"""A lone first request at zero: no router restarts, and no request is lost, whatever happens to the operator."""

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from e2e.deploy import stack
from e2e.helpers.cold_starts import ColdStarts, services_at_zero
from e2e.helpers.faults import kill_container
from e2e.localkube.handle import LocalCluster
from e2e.runs.printed_figures import Say

STARTS = 50
SERVICES = {"alone-1": 1, "alone-2": 2, "alone-3": 1, "alone-4": 2, "alone-5": 2}
"""Routers of each service."""
TWO = {"lone-1": 1, "lone-2": 2}
_built = count()


def killed(cluster: LocalCluster) -> None:
    """Kill the operator."""
    kill_container(cluster, stack.leader(cluster), stack.SYSTEM)


def restarted(cluster: LocalCluster) -> None:
    """Restart the operator, as `kubectl rollout restart` does."""
    system = ("--namespace", stack.SYSTEM)
    cluster.kubectl(*system, "rollout", "restart", f"deployment/{stack.RELEASE}")
    cluster.kubectl(*system, "rollout", "status", f"deployment/{stack.RELEASE}", "--timeout=180s")


def upgraded(cluster: LocalCluster) -> None:
    """Upgrade the operator, which replaces its pods."""
    stack.install_operator(cluster, settings={"podAnnotations.round": f"n{next(_built)}"})


def untouched(_cluster: LocalCluster) -> None:
    """Leave the operator alone."""


ROUNDS: tuple[Callable[[LocalCluster], None], ...] = (untouched, killed, restarted, upgraded, untouched)


async def cold_starts(cluster: LocalCluster, starting: ColdStarts, rounds: int, say: Say) -> None:
    """So many rounds, each with a start of each service. What happens to the operator comes at zero or meanwhile."""
    before = starting.restarts()
    for number in range(rounds):
        await asyncio.to_thread(starting.await_zero)
        change = ROUNDS[number % len(ROUNDS)]
        if number >= len(ROUNDS):
            await asyncio.gather(asyncio.to_thread(change, cluster), starting.start_all())
        else:
            await asyncio.to_thread(change, cluster)
            await starting.start_all()
        await asyncio.to_thread(starting.use_kept if starting.kept else starting.keep)
        say(f"{starting.starts} cold starts, {change.__name__}: {dict(starting.answers)}, {starting.restarts()}")
        assert set(starting.answers) == {"200"}
        assert starting.restarts() == before


async def test_a_lone_first_request_restarts_no_router_and_cuts_no_kept_connection(
    cluster: LocalCluster, say: Say
) -> None:
    with services_at_zero(cluster, TWO) as starting:
        await cold_starts(cluster, starting, 1, say)
        restarted(cluster)
        await cold_starts(cluster, starting, 1, say)


@pytest.mark.full
async def test_fifty_lone_first_requests_while_the_operator_ends_restart_no_router(
    cluster: LocalCluster, say: Say
) -> None:
    with services_at_zero(cluster, SERVICES) as starting:
        await cold_starts(cluster, starting, STARTS // len(SERVICES), say)
        assert starting.starts == STARTS
