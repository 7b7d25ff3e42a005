"""Requests in flight while pods are added, deleted or killed.

`e2e.load` defines a lost request. Each phase prints its counts. A planned change loses no request, nor does a killed
operator. A killed engine or router loses the requests in progress on it, and none that was sent later.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e.deploy import stack
from e2e.helpers.faults import kill_container
from e2e.helpers.served_deployment import Served
from e2e.load import GENTLE_PAUSE_SECONDS, Fault, Load, Loss, Result, is_clean_error
from e2e.runs.printed_figures import Say

FAULTLESS_REQUESTS = 2000
"""All answers to a prompt must be equal; otherwise comparing their texts proves nothing."""
BEFORE, AFTER = 200, 500
"""Requests answered in a phase before its fault and after it: several seconds, long enough for late effects to show.

A replaced engine starts after its phase, since a start takes twice as long under load. The test of scaling up shows
how a new engine joins under load."""
PHASE_SECONDS = 600
"""Limit of a phase: two engines start or stop on two cores that the load keeps busy."""
SHOWN_LOSSES = 4

Show = Callable[[Result], None]


@pytest.fixture(scope="module")
def load(tiny: Served) -> Load:
    """The client, which has learned the right answers."""
    load = Load(tiny.address, tiny.name)
    load.learn()
    return load


@pytest.fixture
def two_engines(tiny: Served) -> Iterator[Served]:
    """The tiny model with two ready engines and two ready routers."""
    tiny.scale(2)
    tiny.await_routers(2)
    yield tiny
    tiny.await_routers(2)


@pytest.fixture
def show(say: Say) -> Show:
    """Prints the counts of a phase."""

    def _show(result: Result) -> None:
        say(str(result))
        for line in result.losses()[:SHOWN_LOSSES]:
            say(f"  {line}")

    return _show


def test_without_a_fault_all_answers_to_a_prompt_are_equal(load: Load, show: Show) -> None:
    with load.phase("no fault", at_least=FAULTLESS_REQUESTS, seconds=PHASE_SECONDS) as phase:
        pass
    show(phase.result)
    assert phase.result.ok == phase.result.sent >= FAULTLESS_REQUESTS


def test_scaling_up_loses_no_request(tiny: Served, load: Load, show: Show) -> None:
    pause = GENTLE_PAUSE_SECONDS
    with load.phase("scale 1 to 2", at_least=BEFORE, seconds=PHASE_SECONDS, pause=pause) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        tiny.scale(2)
        assert len(tiny.pods("engine")) == 2
        tiny.await_all_in_use()
        phase.await_answers(AFTER)
    show(phase.result)
    assert phase.result.lost == ()


@pytest.mark.parametrize(("component", "fault"), [("engine", Fault.DELETE_ENGINE), ("router", Fault.DELETE_ROUTER)])
def test_deleting_a_pod_loses_no_request(
    two_engines: Served, load: Load, show: Show, component: str, fault: Fault
) -> None:
    pod = min(two_engines.pods(component))
    with load.phase(f"kubectl delete pod of the {component}", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        two_engines.kubectl("delete", "pod", pod, "--wait=true")
        phase.await_answers(AFTER)
    show(phase.result)
    assert phase.result.beyond(fault) == ()
    assert pod not in two_engines.pods(component)


def test_a_killed_operator_loses_no_request(two_engines: Served, load: Load, show: Show) -> None:
    operator = stack.leader(two_engines.cluster)
    generations = _generations(two_engines)
    with load.phase("SIGKILL of the operator", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        kill_container(two_engines.cluster, operator, stack.SYSTEM)
        phase.mark()
        phase.await_answers(AFTER)
        two_engines.cluster.kubectl(
            "--namespace", stack.SYSTEM, "rollout", "status", f"deployment/{stack.RELEASE}", "--timeout=120s"
        )
    show(phase.result)
    assert phase.result.beyond(Fault.END_OPERATOR) == ()
    assert _generations(two_engines) == generations


def _generations(served: Served) -> str:
    selector = f"--selector=inference-operator.dev/name={served.name}"
    fields = "--output=jsonpath={range .items[*]}{.metadata.name} {.metadata.generation} {end}"
    return served.kubectl("get", "deployments", selector, fields)


def test_a_killed_engine_loses_only_the_requests_in_progress(two_engines: Served, load: Load, show: Show) -> None:
    before = two_engines.answered()
    with load.phase("SIGKILL of an engine", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        after = two_engines.answered()
        busiest = max(after, key=lambda pod: after[pod] - before.get(pod, 0))
        kill_container(two_engines.cluster, busiest)
        phase.mark()
        phase.await_answers(AFTER)
    result = phase.result
    show(result)
    assert result.beyond(Fault.KILL_ENGINE) == ()
    assert len(result.lost) <= result.in_flight, "often none: what has not begun is sent again"
    unclean = [a for a in result.lost if not (is_clean_error(a) or (a.loss is Loss.BROKEN and a.streamed))]
    assert unclean == []


def test_a_killed_router_loses_only_its_own_connections(two_engines: Served, load: Load, show: Show) -> None:
    with load.phase("SIGKILL of a router", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        kill_container(two_engines.cluster, min(two_engines.pods("router")))
        phase.mark()
        phase.await_answers(AFTER)
        two_engines.await_routers(2)
        phase.await_answers(AFTER)
    result = phase.result
    show(result)
    # The mark is set after its last process and its listener are gone: later requests meet only live processes.
    assert result.beyond(Fault.KILL_ROUTER_PROCESS) == ()
    assert 0 < len(result.lost) <= result.in_flight
    refused = [a for a in result.lost if a.loss not in {Loss.BROKEN, Loss.RESET}]
    assert refused == [], f"the other HAProxy of the pod accepts connections: {refused}"


def test_scaling_down_loses_no_request(two_engines: Served, load: Load, show: Show) -> None:
    with load.phase("scale 2 to 1", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        two_engines.scale(1)
        phase.await_answers(AFTER)
    show(phase.result)
    assert phase.result.beyond(Fault.SCALE_DOWN) == ()
