"""The checker of `infd drill` behind a real router: what planned changes cost where somebody does not do their part."""

import asyncio
import re
import signal
import time
from collections.abc import Awaitable, Callable

import pytest

from e2e.router import simulated
from e2e.router.loopback import Engine, Loopback
from e2e.runs.printed_figures import Say
from inference_operator.cli.drill.load import LoadPhase, NumberedLoad
from inference_operator.cli.drill.promises import NO_LIMITS, Fault
from inference_operator.cli.drill.report import DrillReport, FaultRecord, is_proven, verdict

ENGINES, WORKERS, TOKENS = 3, 32, 64
BEFORE, AFTER = 200, 400
NOTICED_SECONDS = 3
"""Records of the tests' DNS live for a second, and HAProxy asks each second."""
SECONDS = 120.0
REQUEST_SECONDS = 30.0


async def drained(loopback: Loopback, engine: Engine) -> None:
    """What the operator and the kubelet do: no new requests, and the end after the answers."""
    loopback.names.addresses.remove(engine.address)
    await asyncio.sleep(NOTICED_SECONDS)
    engine.process.send_signal(signal.SIGTERM)
    await engine.process.wait()


async def without_drain(_: Loopback, engine: Engine) -> None:
    """What an operator does that scales without draining."""
    engine.process.kill()
    await engine.process.wait()


def without_retries(configuration: str) -> str:
    """The router's configuration with one attempt for each request."""
    text, places = re.subn(r"retry-on .*", "retry-on none", configuration)
    text, numbers = re.subn(r"(set-retries int\(|^ +retries )\d+", r"\g<1>0", text, flags=re.MULTILINE)
    assert places, numbers
    return text


Removed = Callable[[Loopback, Engine], Awaitable[None]]


@pytest.mark.parametrize(
    ("fault", "change", "removed", "is_whole"),
    [
        pytest.param(Fault.SCALE_DOWN, str, drained, True, id="as it should be"),
        pytest.param(Fault.SCALE_DOWN, str, without_drain, False, id="an operator that scales without draining"),
        pytest.param(Fault.KILL_ENGINE, str, without_drain, True, id="an engine that is killed"),
        pytest.param(Fault.KILL_ENGINE, without_retries, without_drain, False, id="a router without retries"),
    ],
)
async def test_the_checker_reports_who_does_not_do_their_part(
    loopback: Loopback, say: Say, fault: Fault, change: Callable[[str], str], removed: Removed, *, is_whole: bool
) -> None:
    loopback.change, loopback.model_names = change, (simulated.MODEL,)
    await loopback.start_router()
    for number in range(ENGINES):
        engine = await simulated.started(loopback, f"127.0.54.{number + 1}")
        loopback.names.addresses.append(engine.address)
    await loopback.until_served(ENGINES)
    load = NumberedLoad(
        loopback.url, simulated.MODEL, workers=WORKERS, run="r", tokens=TOKENS, request_seconds=REQUEST_SECONDS
    )
    await load.learn_traits()
    phase = LoadPhase()
    sending = asyncio.create_task(load.send(phase))
    await _answered(phase, BEFORE)
    is_kill = fault is Fault.KILL_ENGINE
    if is_kill:  # no request is on its way then: what is lost was sent later
        phase.stopped = True
        await sending
    gone = time.monotonic()
    await removed(loopback, loopback.engines[0])
    if is_kill:
        phase.stopped = False
        sending = asyncio.create_task(load.send(phase))
    await _answered(phase, len(phase.answers) + AFTER)
    phase.stopped = True
    await sending
    last = max(one.ended for one in phase.answers)
    record = FaultRecord(fault, 0.0, last, "an engine less", gone=gone if is_kill else None)
    report = DrillReport("default", "m", 1, "", 0.0, NO_LIMITS, phase.sent, phase.answers, [record])
    judged = verdict(report)
    say(f"{fault}, {change.__name__}: {len(judged.findings)} of {judged.requests} lost, {len(judged.beyond)} beyond")
    assert is_proven(report, judged) == is_whole, judged.findings[:5]
    assert bool(judged.beyond) != is_whole


async def _answered(phase: LoadPhase, number: int) -> None:
    async with asyncio.timeout(SECONDS):
        while len(phase.answers) < number:  # noqa: ASYNC110 - counted by all workers
            await asyncio.sleep(0.02)
