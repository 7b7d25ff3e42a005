"""A real vLLM whose computing process is stopped: its health endpoint says all is well, yet it is replaced.

The operator runs with the least time that an engine may stand still here, so that a test need not wait for the five
minutes that it ships with.
"""

import json
import os
import random
import signal
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from e2e import stack
from e2e.containers import container_processes, engine_core
from e2e.load import Load
from e2e.served import Served
from e2e.waiting import eventually

STALL_SECONDS, SCRAPE_SECONDS = 30, 2
CALM_ROUNDS = 8
"""What gets on is looked at every eighth time, so a standstill may be seen as late as that."""
REPLACED_SECONDS = STALL_SECONDS + 2 * CALM_ROUNDS * SCRAPE_SECONDS + 15
"""From the stop of the core to the deletion of its pod; a busy machine's share with it."""
PHASE_SECONDS = 400
END_SECONDS = 20
"""For the end of a pod that gets one second of grace."""
LIVENESS_SECONDS = 240
"""Six probes, one in 30 s, the last given up after 10 s; a grace of 10 s, in which a stopped process does not end, and
the two seconds that the kubelet adds; then a new container."""
SATURATED_SECONDS, SATURATING, LONG_WORDS = 1800, 32, 900
BEFORE, MEANWHILE, AFTER = 200, 200, 200
"""Requests answered before the core is stopped, while nobody has noticed, and after its pod is deleted."""


@pytest.fixture(scope="module")
def impatient(tiny: Served) -> Iterator[Served]:
    """What is served, watched by an operator that waits for less."""
    stack.install_operator(
        tiny.cluster, numbers={"settings.stallSeconds": STALL_SECONDS, "settings.scrapeSeconds": SCRAPE_SECONDS}
    )
    yield tiny
    stack.install_operator(tiny.cluster)


@pytest.fixture
def one(impatient: Served) -> Served:
    """One engine that serves."""
    impatient.scale(1)
    return impatient


def test_an_engine_that_hung_while_idle_is_replaced_once_it_is_used(one: Served) -> None:
    (pod,) = one.pods("engine")
    os.kill(engine_core(one.cluster, pod), signal.SIGSTOP)
    time.sleep(STALL_SECONDS)
    assert pod in one.pods("engine"), "nobody has used it"
    client = threading.Thread(target=_use, args=(one,))
    client.start()
    seen = _until_replaced(one, pod)
    client.join()
    assert seen == {200}
    condition = eventually(
        lambda: _stalled(one), seconds=10, what=lambda: f"EngineStalled: {stack.conditions(one.cluster, one.name)}"
    )
    assert pod in condition
    stack.wait_engines(one.cluster, one.name, 1)
    assert one.complete()


def test_an_engine_that_hangs_under_load_is_replaced_while_others_answer(one: Served) -> None:
    one.scale(2)
    load = Load(one.address, one.name)
    load.learn()
    pod = min(one.pods("engine"))
    with load.phase("core of an engine stopped", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        one.await_all_in_use()
        stopped = time.monotonic()
        os.kill(engine_core(one.cluster, pod), signal.SIGSTOP)
        phase.await_answers(MEANWHILE)
        assert _until_replaced(one, pod) == {200}
        replaced = time.monotonic()
        eventually(lambda: pod not in one.pods("engine"), seconds=END_SECONDS, what=f"{pod} has ended")
        phase.mark()
        phase.await_answers(AFTER)
    print(f"\n  {phase.result}\n  replaced {replaced - stopped:.0f} s after the stop")
    assert phase.result.lost_later == ()
    assert {answer for answer in phase.result.lost if answer.ended < stopped} == set()
    assert phase.result.lost, "what the engine had is lost, and no longer waited for"


@pytest.mark.full
def test_an_engine_whose_api_process_hangs_is_restarted_by_the_kubelet(one: Served) -> None:
    (pod,) = one.pods("engine")
    leader = container_processes(one.cluster, pod)[0]
    stopped = time.monotonic()
    os.kill(int(leader.name), signal.SIGSTOP)
    eventually(lambda: _restarts(one, pod) == 1, seconds=LIVENESS_SECONDS, what="the kubelet starts it again")
    print(f"\n  started again {time.monotonic() - stopped:.0f} s after the stop")
    stack.wait_engines(one.cluster, one.name, 1)
    assert one.complete()
    assert set(one.pods("engine")) == {pod}, "without metrics there is no verdict"


@pytest.mark.full
def test_half_an_hour_of_saturation_raises_no_alarm(one: Served) -> None:
    """With the shortest time that an engine may stand still here, a tenth of what the operator ships with."""
    pods, stalls = set(one.pods("engine")), _stalls(one)
    deadline = time.monotonic() + SATURATED_SECONDS
    with ThreadPoolExecutor(SATURATING) as clients:
        answered = sum(clients.map(lambda number: _saturate(one, number, deadline), range(SATURATING)))
    print(f"\n  {answered} prompts of {LONG_WORDS} words in {SATURATED_SECONDS / 60:.0f} minutes")
    assert answered > SATURATING
    assert set(one.pods("engine")) == pods
    assert _stalls(one) == stalls


def _saturate(served: Served, number: int, deadline: float) -> int:
    """Send long prompts that no cache knows, one after the other; returns how many were answered."""
    answered = 0
    words = random.Random(number)  # noqa: S311 - the same ones each time
    while time.monotonic() < deadline:
        prompt = " ".join(str(words.randrange(10)) for _ in range(LONG_WORDS))
        status, text = served.post("/v1/completions", {"model": served.name, "prompt": prompt, "max_tokens": 16})
        assert status == 200, text
        answered += 1
    return answered


def _stalls(served: Served) -> float:
    """Standstills that the operator has counted, in all of its pods that stay."""
    addresses = served.cluster.kubectl("--namespace", stack.SYSTEM, "get", "pods", _of_staying(".status.podIP"))
    lines = [line for address in addresses.split() for line in _metrics(address)]
    return sum(float(line.split()[-1]) for line in lines if line.startswith("infd_engine_stalls_total{"))


def _metrics(address: str) -> list[str]:
    with urllib.request.urlopen(f"http://{address}:8080/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text.splitlines()


def _restarts(served: Served, pod: str) -> int:
    field = "--output=jsonpath={.status.containerStatuses[0].restartCount}"
    return int(served.kubectl("get", "pod", pod, field))


def _use(served: Served) -> None:
    """Send a request that the engine cannot answer while it hangs; how it ends is not what is tested."""
    body = json.dumps({"model": served.name, "prompt": "otters", "max_tokens": 4}).encode()
    request = urllib.request.Request(
        f"http://{served.address}/v1/completions", body, {"Content-Type": "application/json"}
    )
    with suppress(OSError), urllib.request.urlopen(request, timeout=PHASE_SECONDS):  # noqa: S310 - a cluster's own
        pass


def _until_replaced(served: Served, pod: str) -> set[int]:
    """Wait until a pod is deleted; returns the statuses that its health endpoint showed meanwhile."""
    address, seen = served.pods("engine")[pod], set()
    deadline = time.monotonic() + REPLACED_SECONDS
    while pod in _staying(served):
        assert time.monotonic() < deadline, f"{pod} is still there"
        with urllib.request.urlopen(f"http://{address}:8000/health", timeout=10) as answer:
            seen.add(answer.status)
        time.sleep(1)
    return seen


def _staying(served: Served) -> str:
    return served.kubectl(
        "get", "pods", f"--selector=inference-operator.dev/name={served.name}", _of_staying(".metadata.name")
    )


def _of_staying(field: str) -> str:
    """Of pods that are not being deleted, what kubectl is to print."""
    each = f"{{{{if not .metadata.deletionTimestamp}}}}{{{{{field}}}}} {{{{end}}}}"
    return f"--output=go-template={{{{range .items}}}}{each}{{{{end}}}}"


def _stalled(served: Served) -> str:
    condition = stack.conditions(served.cluster, served.name).get("EnginesAvailable", {})
    return str(condition["message"]) if condition.get("reason") == "EngineStalled" else ""
