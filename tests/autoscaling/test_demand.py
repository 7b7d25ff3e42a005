"""The demand, the order of removal and the start time of engines, also of those with several pods."""

from dataclasses import replace
from datetime import timedelta

from inference_operator.api.reasons import Reason
from inference_operator.autoscaling.decision import ScalingSample
from inference_operator.autoscaling.demand import NO_ROUTER, Total, Totals, scaling_sample
from inference_operator.autoscaling.external_state import ExternalState, followed_replicas
from inference_operator.autoscaling.inputs import start_seconds
from inference_operator.objects.names import ENGINE, ROUTER
from inference_operator.pipeline.removal_order import deletion_costs
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodView
from inference_operator.views.samples import EngineActivity, EngineSample, RouterSample, Samples
from tests.testing.builders import NOW
from tests.testing.engine_groups import grouped


def engine(name: str, **parts: object) -> PodView:
    plain = PodView(name, ENGINE, NOW, ready=True, terminating=False, failed=False, problem=None, uid=f"uid-{name}")
    return replace(plain, **parts)  # type: ignore[arg-type]


A, B = engine("a"), engine("b")
R = replace(engine("r"), component=ROUTER)
ROUTED = {R.uid: RouterSample({}, queued=1, held=0, arrivals=9)}
BUSY = EngineActivity(EngineSample("m", running=3, waiting=2, progress=(1.0,), finished=40.0), sessions=4, at=0.0)


def sample_of(pods: list[PodView], samples: Samples) -> ScalingSample:
    sample, _ = scaling_sample(engines_of(pods), [R], samples, Totals(), at=0.0, bypasses_routers=False)
    return sample


def test_a_request_counts_once_at_its_engine_and_queued_ones_at_routers() -> None:
    sample = sample_of([A, B], Samples({A.uid: BUSY, B.uid: BUSY}, ROUTED))
    assert (sample.outstanding, sample.running, sample.ready, sample.missing) == (11, 6, 2, ())


def test_an_engine_of_two_pods_is_one_engine_that_needs_one_sample() -> None:
    pods = [*grouped(A, 2), *grouped(B, 2)]
    sample = sample_of(pods, Samples({A.uid: BUSY}, ROUTED))
    assert (sample.outstanding, sample.ready, sample.starting, sample.missing) == (6, 1 + 1, 0, ("b",))


def test_an_engine_whose_worker_is_not_ready_starts_and_serves_nothing() -> None:
    leader, worker = grouped(A, 2)
    sample = sample_of([leader, replace(worker, ready=False), B], Samples({A.uid: BUSY, B.uid: BUSY}, ROUTED))
    assert (sample.ready, sample.starting, sample.running, sample.missing) == (1, 1, 3, ())
    ends = sample_of([leader, replace(worker, terminating=True), B], Samples({B.uid: BUSY}, ROUTED))
    assert (ends.ready, ends.starting) == (1, 0)


def test_without_a_router_that_answers_something_is_missing() -> None:
    sample, _ = scaling_sample(engines_of([A]), [], Samples({A.uid: BUSY}), Totals(), at=0.0, bypasses_routers=False)
    assert sample.missing == (NO_ROUTER,)


def test_the_leader_of_each_engine_gets_its_requests_as_the_cost_of_its_deletion() -> None:
    pods = [*grouped(A, 2), *grouped(B, 2)]
    idle = replace(BUSY, sample=replace(BUSY.sample, running=0, waiting=0), sessions=0)
    samples = Samples({A.uid: BUSY, B.uid: idle})
    costs = deletion_costs(engines_of(pods), samples, live=2, desired=1)
    assert [(cost.pod.uid, cost.deletion_cost) for cost in costs] == [("uid-a", 5)]
    assert deletion_costs(engines_of(pods), samples, live=2, desired=2) == ()


def test_a_start_ends_when_the_last_pod_of_the_engine_is_ready() -> None:
    leader, worker = grouped(A, 2)
    pods = [
        replace(leader, ready_since=NOW + timedelta(seconds=80)),
        replace(worker, ready_since=NOW + timedelta(seconds=60), created=NOW - timedelta(seconds=10)),
    ]
    assert start_seconds(None, engines_of(pods)) == 90
    assert start_seconds(None, engines_of([leader, replace(worker, ready=False)])) is None


def test_prompts_of_other_engines_are_counted_by_routers_and_wait_where_no_engine_took_them() -> None:
    """With no engine for prompts the others compute them, so that only what failed asks for a first one."""
    first, then = (
        Samples(routers={R.uid: RouterSample({}, 1, 0, 9, prompts=came, prompts_queued=2, prompts_failed=failed)})
        for came, failed in ((5, 1), (12, 4))
    )
    before, totals = _of_prompts(first, Totals())
    after, _ = _of_prompts(then, totals)
    assert (before.outstanding, before.arrivals) == (2, 0)
    assert (after.outstanding, after.arrivals, after.missing) == (5, 7, ())
    assert _of_prompts(replace(then, engines={A.uid: BUSY}), totals, A)[0].outstanding == 5 + 5


def _of_prompts(samples: Samples, totals: Totals, *engines: PodView) -> tuple[ScalingSample, Totals]:
    return scaling_sample(
        engines_of(list(engines)), [R], samples, totals, at=0.0, bypasses_routers=False, of_prompts=True
    )


def test_pods_that_come_and_go_do_not_change_a_total() -> None:
    total = Total().after({"a": 100.0}, staying={"a"})
    total = total.after({"a": 103.0, "b": 50.0}, staying={"a", "b"})
    assert total.value == 3.0
    assert total.after({"a": 1.0, "b": 52.0}, staying={"a", "b"}).value == 6.0


def test_engines_keep_their_number_and_the_least_one_until_the_autoscaler_has_decided() -> None:
    waiting = ExternalState(Reason.AUTOSCALER_PENDING, "")
    assert (followed_replicas(1, 5, waiting), followed_replicas(8, 5, waiting)) == (5, 8)
    assert followed_replicas(1, 5, ExternalState(Reason.FOLLOWING_AUTOSCALER, "", replicas=1)) == 1
