"""A real vLLM whose engine core process is stopped gets no new requests, and is replaced if it does not move again.

Its health endpoint still answers 200.

The operator runs here with its smallest `stallSeconds`, so that a test does not wait for the default of five minutes.
"""

import json
import os
import random
import signal
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes, engine_core
from e2e.helpers.served_deployment import Served
from e2e.load import Load
from e2e.localkube.waiting import eventually

NO_PROGRESS_SECONDS, STALL_SECONDS, SCRAPE_SECONDS = 6, 30, 2
SHORT_STALL = {
    "settings.noProgressSeconds": NO_PROGRESS_SECONDS,
    "settings.stallSeconds": STALL_SECONDS,
    "settings.scrapeSeconds": SCRAPE_SECONDS,
}
"""Values of the chart."""
CALM_ROUNDS = 8
"""The operator reads the metrics of a single engine that makes progress every eighth time: it may see a stall that
late."""
OUT_SECONDS = CALM_ROUNDS * SCRAPE_SECONDS + NO_PROGRESS_SECONDS + 3 * SCRAPE_SECONDS + 5
"""From the stop of an engine core until it is out of traffic, with a margin. An engine that had no request just then is
seen at the next scrape of the routers, which alone know of its later requests."""
DNS_SECONDS = stack.RECORD_SECONDS + 2
"""TTL of a record in the cluster's DNS, and until HAProxy asks again."""
ALL_STOPPED_SECONDS = 25
"""Four times `noProgressSeconds`, and less than `stallSeconds`, after which an engine is replaced."""
REPLACED_SECONDS = STALL_SECONDS + 2 * CALM_ROUNDS * SCRAPE_SECONDS + 15
"""From the stop of the engine core to the deletion of its pod, with a margin for a busy machine."""
PHASE_SECONDS = 400
END_SECONDS = 20
"""For the end of a pod whose grace period is one second."""
LIVENESS_SECONDS = 240
"""Six probes, one every 30 s, and 10 s until the last one times out; a grace period of 10 s, which a stopped process
outlasts, and two seconds that the kubelet adds; then the start of a new container."""
SATURATED_SECONDS, SATURATING, LONG_WORDS = 1800, 32, 900
CLIENTS, CLIENT_PAUSE_SECONDS = 8, 0.2
ANY_NUMBER = 1_000_000
"""A fast machine answers many requests until the engine is replaced; the phase ends by itself then."""
FEW = 50
"""Answers that show that clients are served."""
BEFORE, MEANWHILE, AFTER = 200, 200, 200
"""Requests answered before the engine core is stopped, before the operator notices it, and after the pod's end."""


@pytest.fixture(scope="module")
def short_stall(tiny: Served) -> Iterator[Served]:
    """The tiny model, under an operator with a short `stallSeconds`."""
    stack.install_operator(tiny.cluster, numbers=SHORT_STALL)
    yield tiny
    stack.install_operator(tiny.cluster)


@pytest.fixture
def one_engine(short_stall: Served) -> Served:
    """The same with one ready engine."""
    short_stall.scale(1)
    return short_stall


@pytest.mark.full
def test_an_engine_that_hung_while_idle_is_replaced_after_its_first_request(one_engine: Served) -> None:
    (pod,) = one_engine.pods("engine")
    os.kill(engine_core(one_engine.cluster, pod), signal.SIGSTOP)
    time.sleep(STALL_SECONDS)
    assert pod in one_engine.pods("engine"), "no request has been sent to it"
    with ThreadPoolExecutor(1) as client:
        answer = client.submit(_patient_request, one_engine)
        assert _until_replaced(one_engine, pod) == {200}
        message = eventually(
            lambda: stalled(one_engine),
            seconds=10,
            what=lambda: f"EngineStalled: {stack.conditions(one_engine.cluster, one_engine.name)}",
        )
        assert pod in message
        stack.wait_engines(one_engine.cluster, one_engine.name, 1)
        assert answer.result() == 200, "the request was sent again, to the new engine"
    assert one_engine.complete()


def test_a_stopped_engine_gets_no_new_requests_until_it_moves_again_and_no_request_is_lost(short_stall: Served) -> None:
    short_stall.scale(2)
    load = Load(short_stall.address, short_stall.name, workers=CLIENTS)
    load.learn()
    pods = short_stall.pods("engine")
    pod, other = pods
    with load.phase("looping clients", at_least=FEW, seconds=PHASE_SECONDS, pause=CLIENT_PAUSE_SECONDS) as looping:
        short_stall.await_all_in_use()
        with _stopped(engine_core(short_stall.cluster, pod)):
            eventually(lambda: _traffic(short_stall)[pod] == "false", seconds=OUT_SECONDS, what=f"{pod} is out")
            time.sleep(DNS_SECONDS)
            with load.phase("new clients", at_least=FEW, seconds=PHASE_SECONDS, pause=CLIENT_PAUSE_SECONDS) as new:
                new.await_answers(FEW)
            assert _traffic(short_stall) == {pod: "false", other: "true"}
        eventually(lambda: _traffic(short_stall)[pod] == "true", seconds=OUT_SECONDS, what=f"{pod} is back")
    print(f"\n  {looping.result}\n  {new.result}")
    assert new.result.lost == (), "each new request went to the other engine"
    assert looping.result.lost == ()
    assert set(short_stall.pods("engine")) == set(pods)


def test_an_engine_that_hangs_under_load_is_replaced_while_others_answer(short_stall: Served) -> None:
    short_stall.scale(2)
    load = Load(short_stall.address, short_stall.name)
    load.learn()
    pod = min(short_stall.pods("engine"))
    with load.phase("engine core stopped", at_least=BEFORE, seconds=PHASE_SECONDS, at_most=ANY_NUMBER) as phase:
        phase.await_answers(BEFORE)
        short_stall.await_all_in_use()
        stopped = time.monotonic()
        os.kill(engine_core(short_stall.cluster, pod), signal.SIGSTOP)
        phase.await_answers(MEANWHILE)
        assert _until_replaced(short_stall, pod) == {200}
        replaced = time.monotonic()
        eventually(lambda: pod not in short_stall.pods("engine"), seconds=END_SECONDS, what=f"{pod} has ended")
        phase.mark()
        phase.await_answers(AFTER)
    print(f"\n  {phase.result}\n  replaced {replaced - stopped:.0f} s after the stop")
    assert phase.result.lost_later == ()
    assert {answer for answer in phase.result.lost if answer.ended < stopped} == set()


@pytest.mark.full
def test_the_last_engine_stays_in_traffic_where_all_stop_and_no_request_is_lost(short_stall: Served) -> None:
    """Storage that is slow for all engines stops all of them: without an engine in traffic, clients would get 503."""
    short_stall.scale(2)
    load = Load(short_stall.address, short_stall.name, workers=CLIENTS)
    load.learn()
    pods = set(short_stall.pods("engine"))
    with load.phase("all engines stop", at_least=FEW, seconds=PHASE_SECONDS, pause=CLIENT_PAUSE_SECONDS) as phase:
        short_stall.await_all_in_use()
        with ExitStack() as stops:
            for pod in pods:
                stops.enter_context(_stopped(engine_core(short_stall.cluster, pod)))
            until = time.monotonic() + ALL_STOPPED_SECONDS
            while time.monotonic() < until:
                assert "true" in _traffic(short_stall).values()
                time.sleep(1)
        eventually(
            lambda: set(_traffic(short_stall).values()) == {"true"}, seconds=OUT_SECONDS, what="all are in traffic"
        )
        phase.mark()
        phase.await_answers(FEW)
    print(f"\n  {phase.result}")
    assert phase.result.lost == ()
    assert set(short_stall.pods("engine")) == pods


@pytest.mark.full
def test_an_engine_whose_api_process_hangs_is_restarted_by_the_kubelet(one_engine: Served) -> None:
    (pod,) = one_engine.pods("engine")
    leader = container_processes(one_engine.cluster, pod)[0]
    stopped = time.monotonic()
    os.kill(int(leader.name), signal.SIGSTOP)
    eventually(lambda: _restarts(one_engine, pod) == 1, seconds=LIVENESS_SECONDS, what="the kubelet restarts it")
    print(f"\n  restarted {time.monotonic() - stopped:.0f} s after the stop")
    stack.wait_engines(one_engine.cluster, one_engine.name, 1)
    assert one_engine.complete()
    assert set(one_engine.pods("engine")) == {pod}, "the operator does not replace an engine without metrics"


@pytest.mark.full
def test_half_an_hour_of_saturation_is_not_taken_for_a_stall(one_engine: Served) -> None:
    """With the smallest `stallSeconds`, a tenth of the default."""
    pods, stalls = set(one_engine.pods("engine")), _stalls(one_engine)
    deadline = time.monotonic() + SATURATED_SECONDS
    with ThreadPoolExecutor(SATURATING) as clients:
        answered = sum(clients.map(lambda number: _saturate(one_engine, number, deadline), range(SATURATING)))
    print(f"\n  {answered} prompts of {LONG_WORDS} words in {SATURATED_SECONDS / 60:.0f} minutes")
    assert answered > SATURATING
    assert set(one_engine.pods("engine")) == pods
    assert _stalls(one_engine) == stalls


def _saturate(served: Served, number: int, deadline: float) -> int:
    """Send long prompts, each of them new to the prefix cache, one after the other; returns how many were answered."""
    answered = 0
    words = random.Random(number)  # noqa: S311 - the same ones each time
    while time.monotonic() < deadline:
        prompt = " ".join(str(words.randrange(10)) for _ in range(LONG_WORDS))
        status, text = served.post("/v1/completions", {"model": served.name, "prompt": prompt, "max_tokens": 16})
        assert status == 200, text
        answered += 1
    return answered


@contextmanager
def _stopped(process: int) -> Iterator[None]:
    """Stop a process during the block."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def _traffic(served: Served) -> dict[str, str]:
    """Values of the engines' traffic labels, by pod."""
    selector = f"--selector=inference-operator.dev/name={served.name},app.kubernetes.io/component=engine"
    listed = json.loads(served.kubectl("get", "pods", selector, "--output=json"))["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["labels"]["inference-operator.dev/traffic"] for pod in listed}


def _stalls(served: Served) -> float:
    """Stalls that the operator has counted, over its pods that are not terminating."""
    addresses = served.cluster.kubectl("--namespace", stack.SYSTEM, "get", "pods", _of_not_terminating(".status.podIP"))
    lines = [line for address in addresses.split() for line in _metrics(address)]
    return sum(float(line.split()[-1]) for line in lines if line.startswith("infd_engine_stalls_total{"))


def _metrics(address: str) -> list[str]:
    with urllib.request.urlopen(f"http://{stack.authority(address, 8080)}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text.splitlines()


def _restarts(served: Served, pod: str) -> int:
    field = "--output=jsonpath={.status.containerStatuses[0].restartCount}"
    return int(served.kubectl("get", "pod", pod, field))


def _patient_request(served: Served) -> int:
    """The status of the answer to a request that waits for a new engine."""
    body = json.dumps({"model": served.name, "prompt": "otters", "max_tokens": 4}).encode()
    request = urllib.request.Request(
        f"http://{served.address}/v1/completions", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=PHASE_SECONDS) as answer:  # noqa: S310 - a cluster's own
        status: int = answer.status
        return status


def _until_replaced(served: Served, pod: str) -> set[int]:
    """Wait until a pod is deleted; returns the HTTP statuses of its health endpoint until then."""
    address, seen = served.pods("engine")[pod], set()
    deadline = time.monotonic() + REPLACED_SECONDS
    while pod in _not_terminating(served):
        assert time.monotonic() < deadline, f"{pod} is still there"
        with urllib.request.urlopen(f"http://{stack.authority(address, 8000)}/health", timeout=10) as answer:
            seen.add(answer.status)
        time.sleep(1)
    return seen


def _not_terminating(served: Served) -> str:
    return served.kubectl(
        "get", "pods", f"--selector=inference-operator.dev/name={served.name}", _of_not_terminating(".metadata.name")
    )


def _of_not_terminating(field: str) -> str:
    """The kubectl option that prints a field of each pod that is not terminating."""
    each = f"{{{{if not .metadata.deletionTimestamp}}}}{{{{{field}}}}} {{{{end}}}}"
    return f"--output=go-template={{{{range .items}}}}{each}{{{{end}}}}"


def stalled(served: Served) -> str:
    """The message of the condition that says that an engine has stalled; empty if none has."""
    condition = stack.conditions(served.cluster, served.name).get("EnginesAvailable", {})
    return str(condition["message"]) if condition.get("reason") == "EngineStalled" else ""
