"""The autoscaling loop as a state machine: a request and rounds of scrapes in, results out."""

from dataclasses import replace

from inference_operator.autoscaling.decision import ScalingSettings
from inference_operator.autoscaling.inputs import ScalingInputs
from inference_operator.autoscaling.loop import LoopState, ScrapeRound, needs_reconcile, observed, requested
from inference_operator.autoscaling.target import Target, TargetBound
from inference_operator.controller.sample_store import ScalingStore
from inference_operator.manifest import Key
from inference_operator.objects.names import ENGINE, PREFILL, ROUTER
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView
from inference_operator.views.samples import EngineActivity, EngineSample, RouterSample, Samples
from tests.testing.builders import NOW
from tests.testing.engine_groups import grouped

KEY = Key("default", "qwen")
REQUEST = ScalingInputs(
    ScalingSettings(0, 8, target_concurrency=4, start_seconds=60, idle_seconds=600),
    replicas=1,
    bypasses_routers=False,
    target=Target(4, TargetBound.REQUESTED, {}),
    role=ENGINE,
    plan="one/0",
)
A = PodView("a", ENGINE, NOW, ready=True, terminating=False, failed=False, problem=None, uid="uid-a")
R = replace(A, name="r", component=ROUTER, uid="uid-r")


def scraped(at: float, running: int, *, pods: list[PodView] | None = None) -> ScrapeRound:
    activity = EngineActivity(EngineSample("m", running, 0, (at,)), 0, at)
    samples = Samples({A.uid: activity}, {R.uid: RouterSample({}, 0, 0)})
    return ScrapeRound(engines_of([A] if pods is None else pods), [R], samples, at)


def test_the_first_round_has_a_result_that_needs_a_reconcile() -> None:
    state = LoopState(REQUEST)
    after, result = observed(state, scraped(0, 2))
    assert result.decision.replicas >= 1
    assert needs_reconcile(state, result)
    assert after.result == result
    assert after.has_demand
    assert not state.has_demand, "a state never changes"


def test_engines_for_prompts_begin_with_the_first_prompt_that_nobody_took_and_end_when_none_comes() -> None:
    inputs = replace(REQUEST, replicas=0, role=PREFILL, of_prompts=True)
    state, found = LoopState(inputs), [0]
    idle = EngineActivity(EngineSample("m", 0, 0, (0.0,)), 0, 0.0)
    for number in range(30):
        pods = [replace(A, component=PREFILL)] * min(1, found[-1])
        came = RouterSample({}, 0, 0, prompts=min(number, 6), prompts_failed=min(max(number - 1, 0), 3))
        samples = Samples({A.uid: idle} if pods else {}, {R.uid: came})
        state, result = observed(state, ScrapeRound(engines_of(pods), [R], samples, at=60.0 * number))
        state = requested(state, replace(inputs, replicas=result.decision.replicas))
        found.append(result.decision.replicas)
    assert found[:4] == [0, 0, 0, 1]
    assert found[-1] == 0
    assert found.index(0, 4) > 10, "none goes while prompts come"


def test_a_round_that_changes_nothing_needs_no_reconcile() -> None:
    state, result = observed(LoopState(REQUEST), scraped(0, 2))
    state = requested(state, replace(REQUEST, replicas=result.decision.replicas))
    _, after = observed(state, scraped(5, 2))
    assert not needs_reconcile(state, after)


def test_an_engine_of_two_pods_that_does_not_answer_is_missing_once_and_in_the_second_round() -> None:
    pods = [*grouped(A, 2), *grouped(replace(A, name="b", uid="uid-b"), 2)]
    state, first = observed(LoopState(REQUEST), scraped(0, 2, pods=pods))
    state, second = observed(state, scraped(5, 2, pods=pods))
    assert (first.missing, second.missing) == ((), ("b",))
    assert state.sample is not None
    assert state.sample.ready == 2


def test_engines_of_other_roles_are_not_counted() -> None:
    state, _ = observed(LoopState(replace(REQUEST, role="decode")), scraped(0, 2))
    assert state.sample is not None
    assert state.sample.ready == 0


def test_another_plan_begins_a_new_window_of_latencies_and_keeps_the_rest() -> None:
    state, _ = observed(LoopState(REQUEST), scraped(0, 2))
    same, other = requested(state, REQUEST), requested(state, replace(REQUEST, plan="two/0"))
    assert same.latency == state.latency
    assert other.latency.since is None
    assert (other.decision, other.totals) == (state.decision, state.totals)


def test_the_store_keeps_the_state_of_the_requested_role_only() -> None:
    store = ScalingStore()
    store.want(KEY, [REQUEST])
    assert store.observe(KEY, scraped(0, 2))
    store.want(KEY, [replace(REQUEST, role="decode")])
    assert store.result(KEY) is None
    assert not store.has_demand(KEY)
    store.want(KEY, [])
    assert store.keys() == []
    assert not store.observe(KEY, scraped(5, 2))
