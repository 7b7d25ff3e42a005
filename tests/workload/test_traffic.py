"""Which engines get new requests, as a function of the labels and samples of their pods."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.objects.names import ENGINE
from inference_operator.objects.pod_patch import PodPatch
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import TRAFFIC_LABEL, PodView
from inference_operator.views.samples import EngineActivity, EngineSample, ProbeState, Samples, next_activity
from inference_operator.workload.eviction.stall import has_stalled, is_suspect, needs_probe, traffic_changes
from tests.testing.engine_groups import grouped

SECONDS, SCRAPE = 30.0, 15.0
SAMPLE = EngineSample("m", running=2, waiting=1, progress=(7.0,))
IDLE = replace(SAMPLE, running=0, waiting=0)
STALLED = EngineActivity(
    SAMPLE, sessions=3, at=130.0, no_progress_since=100.0, probe=ProbeState.NO_RESPONSE, probe_sent_at=115.0
)
SUSPECT = replace(STALLED, no_progress_since=115.0, probe_sent_at=130.0)
BUSY = EngineActivity(SAMPLE, sessions=3, at=130.0, no_progress_since=130.0)
NOTHING_TO_DO = EngineActivity(IDLE, sessions=0, at=130.0)
RESPONDED = replace(STALLED, probe=ProbeState.RESPONDED, no_progress_since=129.0)
UNSUPPORTED = replace(STALLED, probe=ProbeState.UNSUPPORTED)


def engine(name: str, *, traffic: bool = True, **parts: object) -> PodView:
    plain = PodView(name, ENGINE, None, ready=True, terminating=False, failed=False, problem=None, uid=f"uid-{name}")
    return replace(plain, traffic=traffic, **parts)  # type: ignore[arg-type]


A, B, C = engine("a"), engine("b"), engine("c")
OUT = engine("a", traffic=False)


def decided(pods: Sequence[PodView], activities: dict[str, EngineActivity]) -> dict[str, bool]:
    """Whether each engine whose label changes gets new requests afterwards."""
    samples = Samples({f"uid-{name}": activity for name, activity in activities.items()})
    changes = traffic_changes(engines_of(pods), samples, seconds=SECONDS)
    return {change.pod.name: change.labels[TRAFFIC_LABEL] == "true" for change in changes}


def test_a_stalled_engine_is_taken_out_with_the_reason() -> None:
    samples = Samples({A.uid: STALLED, B.uid: BUSY})
    assert traffic_changes(engines_of([A, B]), samples, seconds=SECONDS) == (
        PodPatch(pod=A, labels={TRAFFIC_LABEL: "false"}, why="it made no progress for 30 s"),
    )


def test_of_an_engine_with_two_pods_the_leader_is_taken_out_and_back_in() -> None:
    pods = [*grouped(A, 2), *grouped(B, 2)]
    assert decided(pods, {"a": STALLED, "b": BUSY}) == {"a": False}
    assert decided([*grouped(OUT, 2), *grouped(B, 2)], {"a": RESPONDED, "b": BUSY}) == {"a": True}
    (leader, worker) = grouped(B, 2)
    half = [*grouped(A, 2), leader, replace(worker, ready=False)]
    assert decided(half, {"a": STALLED, "b": BUSY}) == {}, "a worker of the other engine is not ready"


@pytest.mark.parametrize(
    ("pods", "activities", "expected"),
    [
        ([A, B], {"a": STALLED, "b": NOTHING_TO_DO}, {"a": False}),
        ([A, B, C], {"a": STALLED, "b": STALLED, "c": BUSY}, {"a": False, "b": False}),
        ([A], {"a": STALLED}, {}),
        ([A, B], {"a": STALLED, "b": STALLED}, {}),
        ([A, B], {"a": STALLED, "b": SUSPECT}, {}),
        ([A, B], {"a": STALLED}, {}),
        ([A, engine("b", ready=False)], {"a": STALLED, "b": BUSY}, {}),
        ([A, engine("b", terminating=True)], {"a": STALLED, "b": BUSY}, {}),
        ([A, engine("b", traffic=False)], {"a": STALLED, "b": BUSY}, {}),
        ([A, B], {"a": SUSPECT, "b": BUSY}, {}),
        ([A, B], {"a": UNSUPPORTED, "b": BUSY}, {"a": False}),
        ([A, B], {"a": replace(UNSUPPORTED, sample=IDLE), "b": BUSY}, {}),
    ],
    ids=[
        "another one is idle",
        "two stall and a third one does not",
        "it is the only one",
        "all stall",
        "the other one may have stalled too",
        "the other one has no sample",
        "the other one is not ready",
        "the other one terminates",
        "the other one is out itself",
        "it may still answer its probe request",
        "probe requests are unsupported, and the engine metrics count requests",
        "probe requests are unsupported, and only a router counts requests",
    ],
)
def test_a_stalled_engine_is_taken_out_only_while_another_one_serves(
    pods: Sequence[PodView], activities: dict[str, EngineActivity], expected: dict[str, bool]
) -> None:
    assert decided(pods, activities) == expected


@pytest.mark.parametrize(
    ("pods", "activities", "expected"),
    [
        ([OUT, B], {"a": RESPONDED, "b": BUSY}, {"a": True}),
        ([OUT, B], {"a": STALLED, "b": BUSY}, {}),
        ([OUT, B], {"b": BUSY}, {}),
        ([OUT, B], {"a": replace(STALLED, no_progress_since=130.0), "b": BUSY}, {}),
        ([OUT, B], {"a": UNSUPPORTED, "b": BUSY}, {}),
        ([OUT, B], {"a": replace(UNSUPPORTED, no_progress_since=130.0), "b": BUSY}, {"a": True}),
        ([OUT, B], {"a": replace(UNSUPPORTED, sample=IDLE), "b": BUSY}, {"a": True}),
        ([OUT, B], {"a": STALLED, "b": STALLED}, {}),
        ([OUT, engine("b", ready=False)], {"a": STALLED}, {"a": True}),
        ([OUT, engine("b", terminating=True)], {"a": STALLED, "b": BUSY}, {"a": True}),
        ([engine("a", traffic=False, terminating=True), B], {"a": RESPONDED, "b": BUSY}, {}),
    ],
    ids=[
        "it has responded",
        "it has not responded",
        "it has no sample, as after a change of the leader",
        "it makes progress and has not responded yet",
        "probe requests are unsupported, and it makes no progress",
        "probe requests are unsupported, and it makes progress",
        "probe requests are unsupported, and it has no requests",
        "the one in traffic stalls too",
        "no other one is ready",
        "the other one terminates",
        "it terminates",
    ],
)
def test_an_engine_comes_back_with_its_response_or_if_no_other_one_is_ready(
    pods: Sequence[PodView], activities: dict[str, EngineActivity], expected: dict[str, bool]
) -> None:
    assert decided(pods, activities) == expected


ACTIVITIES = st.sampled_from([STALLED, SUSPECT, BUSY, NOTHING_TO_DO, RESPONDED, UNSUPPORTED, None])
PODS = st.builds(
    lambda traffic, ready, terminating: engine("x", traffic=traffic, ready=ready, terminating=terminating),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@given(st.lists(st.tuples(PODS, ACTIVITIES), max_size=5))
def test_a_ready_engine_stays_in_traffic_and_a_second_decision_undoes_nothing(
    drawn: list[tuple[PodView, EngineActivity | None]],
) -> None:
    pods = [replace(pod, name=str(number), uid=f"uid-{number}") for number, (pod, _) in enumerate(drawn)]
    activities = {str(number): activity for number, (_, activity) in enumerate(drawn) if activity}
    changes = decided(pods, activities)
    after = [replace(pod, traffic=changes.get(pod.name, pod.traffic)) for pod in pods]
    serving = [pod for pod in after if pod.ready and not pod.terminating]
    assert not serving or any(pod.traffic for pod in serving)
    was_in = [pod for pod in pods if pod.ready and not pod.terminating and pod.traffic]
    taken = [name for name, inside in changes.items() if not inside]
    assert not taken or any(
        pod.name not in taken and not is_suspect(activities[pod.name], seconds=SECONDS)
        for pod in was_in
        if pod.name in activities
    )
    if was_in:  # without one, all come back, and those that have stalled are taken out again
        assert not changes.keys() & decided(after, activities).keys()


class Simulated:
    """An engine with requests, scraped every 15 s; its probe request is answered while it moves."""

    def __init__(self) -> None:
        self.activity: EngineActivity | None = None
        self.traffic, self.steps, self.now = True, 0, 0.0

    def scrape(self, *, moves: bool) -> bool:
        """Whether its label changes after the next scrape. Another engine is idle."""
        self.now += SCRAPE
        self.steps += moves
        sample = replace(SAMPLE, progress=(float(self.steps),))
        activity = next_activity(
            self.activity, sample, sessions=1, at=self.now, longest_gap=150.0, in_traffic=self.traffic
        )
        if needs_probe(activity, seconds=SECONDS, in_traffic=self.traffic):
            activity = activity.with_probe_sent()
        if moves and activity.probe is ProbeState.NO_RESPONSE:
            activity = activity.with_probe_answered(self.now)
        self.activity = activity
        changes = decided([engine("a", traffic=self.traffic), B], {"a": activity, "b": NOTHING_TO_DO})
        self.traffic = changes.get("a", self.traffic)
        return bool(changes)


@given(st.lists(st.booleans(), max_size=60))
def test_an_engine_is_taken_out_at_most_once_in_the_time_without_progress(moves: list[bool]) -> None:
    simulated = Simulated()
    taken_out = [simulated.now for one in moves if simulated.scrape(moves=one) and not simulated.traffic]
    assert all(later - earlier >= SECONDS + SCRAPE for earlier, later in pairwise(taken_out))


def test_an_engine_that_stops_is_out_after_three_samples_and_back_when_it_moves() -> None:
    simulated = Simulated()
    assert not simulated.scrape(moves=True)
    assert [simulated.scrape(moves=False) for _ in range(40)].count(True) == 1
    assert (simulated.traffic, has_stalled(simulated.activity, seconds=300.0)) == (False, True)  # type: ignore[arg-type]
    assert simulated.scrape(moves=True)
    assert simulated.traffic
    assert not any(simulated.scrape(moves=True) for _ in range(40))
