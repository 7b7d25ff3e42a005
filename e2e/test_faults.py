"""Nothing is lost that need not be: requests in flight while everything around them changes or dies.

What counts as lost is in `e2e.load`. Each phase prints its counts. Planned changes and the operator's death lose
nothing. The death of an engine or a router loses what was on its way through it, and nothing that was sent later.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e import stack
from e2e.faults import kill_container
from e2e.load import GENTLE_PAUSE_SECONDS, Load, Loss, Result
from e2e.said import Say
from e2e.served import Served

CALM_REQUESTS = 2000
"""All of them must be equal, or comparing texts would prove nothing."""
BEFORE, AFTER = 200, 500
"""Requests answered in a phase before its fault, and after it: several seconds, in which a change would still show.

A replaced engine starts after its phase, since it takes twice as long under load; how a new one joins under load is
what scaling up shows."""
PHASE_SECONDS = 600
"""Bound of a phase: two engines start or stop on two cores that the load keeps busy."""
SHOWN_LOSSES = 4

Show = Callable[[Result], None]


@pytest.fixture(scope="module")
def load(tiny: Served) -> Load:
    """The client, which knows the right answers."""
    load = Load(tiny.address, tiny.name)
    load.learn()
    return load


@pytest.fixture
def two(tiny: Served) -> Iterator[Served]:
    """Two engines and two routers that serve."""
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
    with load.phase("no fault", at_least=CALM_REQUESTS, seconds=PHASE_SECONDS) as phase:
        pass
    show(phase.result)
    assert phase.result.ok == phase.result.sent >= CALM_REQUESTS


def test_scaling_up_loses_no_request(tiny: Served, load: Load, show: Show) -> None:
    gently = GENTLE_PAUSE_SECONDS
    with load.phase("scale 1 to 2", at_least=BEFORE, seconds=PHASE_SECONDS, pause=gently) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        tiny.scale(2)
        assert len(tiny.pods("engine")) == 2
        tiny.await_all_in_use()
        phase.await_answers(AFTER)
    show(phase.result)
    assert phase.result.lost == ()


@pytest.mark.parametrize("component", ["engine", "router"])
def test_deleting_a_pod_loses_no_request(two: Served, load: Load, show: Show, component: str) -> None:
    pod = min(two.pods(component))
    with load.phase(f"kubectl delete pod of the {component}", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        two.kubectl("delete", "pod", pod, "--wait=true")
        phase.await_answers(AFTER)
    show(phase.result)
    assert phase.result.lost == ()
    assert pod not in two.pods(component)


def test_a_killed_operator_loses_no_request(two: Served, load: Load, show: Show) -> None:
    operator = stack.leader(two.cluster)
    generations = _generations(two)
    with load.phase("SIGKILL of the operator", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        kill_container(two.cluster, operator, stack.SYSTEM)
        phase.mark()
        phase.await_answers(AFTER)
        two.cluster.kubectl(
            "--namespace", stack.SYSTEM, "rollout", "status", f"deployment/{stack.RELEASE}", "--timeout=120s"
        )
    show(phase.result)
    assert phase.result.lost == ()
    assert _generations(two) == generations


def _generations(served: Served) -> str:
    selector = f"--selector=inference-operator.dev/name={served.name}"
    fields = "--output=jsonpath={range .items[*]}{.metadata.name} {.metadata.generation} {end}"
    return served.kubectl("get", "deployments", selector, fields)


def test_a_killed_engine_loses_only_the_requests_in_progress(two: Served, load: Load, show: Show) -> None:
    before = two.answered()
    with load.phase("SIGKILL of an engine", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        now = two.answered()
        busiest = max(now, key=lambda pod: now[pod] - before.get(pod, 0))
        kill_container(two.cluster, busiest)
        phase.mark()
        phase.await_answers(AFTER)
    result = phase.result
    show(result)
    assert result.lost_later == ()
    assert 0 < len(result.lost) <= result.in_flight
    unclean = [a for a in result.lost if not (a.clean_error or (a.loss is Loss.BROKEN and a.streamed))]
    assert unclean == []


def test_a_killed_router_loses_only_its_own_connections(two: Served, load: Load, show: Show) -> None:
    with load.phase("SIGKILL of a router", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        kill_container(two.cluster, min(two.pods("router")))
        phase.mark()
        phase.await_answers(AFTER)
        two.await_routers(2)
        phase.await_answers(AFTER)
    result = phase.result
    show(result)
    # Marked once its last process is gone and with it its listener: whatever was sent later met only the living.
    assert result.lost_later == ()
    assert 0 < len(result.lost) <= result.in_flight
    refused = [a for a in result.lost if a.loss not in {Loss.BROKEN, Loss.RESET}]
    assert refused == [], f"its pod's other HAProxy takes connections: {refused}"


def test_scaling_down_loses_no_request(two: Served, load: Load, show: Show) -> None:
    with load.phase("scale 2 to 1", at_least=BEFORE, seconds=PHASE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        two.scale(1)
        phase.await_answers(AFTER)
    show(phase.result)
    assert phase.result.lost == ()
