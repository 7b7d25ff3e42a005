from collections.abc import Sequence
from dataclasses import replace

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.objects.names import ENGINE
from inference_operator.objects.pod_patch import PodDeletion, PodPatch
from inference_operator.views.engine import engines_of
from inference_operator.views.pod import PodProblem, PodView
from inference_operator.views.samples import EngineActivity, EngineSample, ProbeState, Samples
from inference_operator.workload.eviction.stall import STALLED_GRACE_SECONDS, has_stalled, needs_probe, stalled_engines
from tests.testing.engine_groups import grouped

STALL = 300.0
SAMPLE = EngineSample("m", running=2, waiting=1, progress=(7.0,))
STALLED = EngineActivity(
    SAMPLE, sessions=3, at=400.0, no_progress_since=100.0, probe=ProbeState.NO_RESPONSE, probe_sent_at=250.0
)
HEALTHY = EngineActivity(SAMPLE, sessions=3, at=400.0, no_progress_since=399.0)


def engine(name: str, **parts: object) -> PodView:
    plain = PodView(name, ENGINE, None, ready=True, terminating=False, failed=False, problem=None, uid=f"uid-{name}")
    return replace(plain, **parts)  # type: ignore[arg-type]


A, B = engine("a"), engine("b")
LOADING = engine("c", ready=False)
UNSCHEDULABLE = engine("c", ready=False, problem=PodProblem(Reason.UNSCHEDULABLE, "no node"))


def deleted_uids(pods: Sequence[PodView], activities: dict[str, EngineActivity], *, wanted: int = 2) -> list[str]:
    samples = Samples({f"uid-{name}": activity for name, activity in activities.items()})
    removals = stalled_engines(engines_of(pods), samples, desired=wanted, stall_seconds=STALL)
    return [removal.pod.uid for removal in removals]


def test_a_stalled_engine_is_deleted_with_the_reason() -> None:
    removals = stalled_engines(engines_of([A]), Samples({A.uid: STALLED}), desired=1, stall_seconds=STALL)
    assert removals == (
        PodPatch(
            pod=A,
            delete=PodDeletion(
                "Pod `a` had 3 requests and made no progress for 300 s",
                Reason.ENGINE_STALLED,
                STALLED_GRACE_SECONDS,
            ),
        ),
    )


def test_of_two_stalled_engines_only_the_longest_stalled_is_deleted() -> None:
    assert deleted_uids([A, B], {"a": STALLED, "b": replace(STALLED, no_progress_since=90.0)}) == ["uid-b"]


def test_of_a_stalled_engine_with_two_pods_both_are_deleted_for_the_same_reason() -> None:
    pods = [*grouped(A, 2), *grouped(B, 2)]
    assert deleted_uids(pods, {"a": STALLED, "b": HEALTHY}) == ["uid-a", "uid-a-1"]
    samples = Samples({A.uid: STALLED})
    removals = stalled_engines(engines_of(pods), samples, desired=2, stall_seconds=STALL)
    assert {one.delete.why for one in removals if one.delete} == {
        "Pod `a` had 3 requests and made no progress for 300 s"
    }


def test_a_stalled_engine_is_kept_while_a_worker_of_another_one_starts() -> None:
    leader, worker = grouped(B, 2)
    assert deleted_uids([*grouped(A, 2), leader, replace(worker, ready=False)], {"a": STALLED}) == []
    assert deleted_uids([*grouped(A, 2), leader], {"a": STALLED}, wanted=3) == [], "two engines are no three"


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([A, LOADING], "another pod starts"),
        ([A], "a replacement does not exist yet"),
        ([A, engine("b", terminating=True)], "another pod still terminates"),
        ([engine("a", terminating=True), B], "the stalled engine is already terminating"),
        ([engine("a", ready=False, problem=PodProblem(Reason.CRASH_LOOP, "x")), B], "the stalled engine is not ready"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_stalled_engine_is_kept_while_unready_or_terminating_or_without_another_ready_pod(
    pods: Sequence[PodView], why: str
) -> None:
    assert deleted_uids(pods, {"a": STALLED}) == [], why


def test_a_stalled_engine_is_deleted_while_another_pod_is_unschedulable() -> None:
    assert deleted_uids([A, UNSCHEDULABLE], {"a": STALLED}) == ["uid-a"]


def test_an_engine_without_samples_is_not_deleted() -> None:
    assert deleted_uids([A, B], {}) == []


def test_an_engine_with_progress_is_not_deleted() -> None:
    assert deleted_uids([A, B], {"a": HEALTHY, "b": HEALTHY}) == []


@pytest.mark.parametrize(
    ("activity", "stalled"),
    [
        (STALLED, True),
        (replace(STALLED, at=399.0), False),
        (replace(STALLED, probe=ProbeState.NOT_SENT), False),
        (replace(STALLED, probe_sent_at=251.0), False),
        (replace(STALLED, probe=ProbeState.UNSUPPORTED), True),
        (replace(STALLED, probe=ProbeState.UNSUPPORTED, sample=replace(SAMPLE, running=0, waiting=0)), False),
        (replace(STALLED, sample=replace(SAMPLE, running=0, waiting=0)), True),
        (replace(STALLED, no_progress_since=None), False),
    ],
    ids=[
        "the probe request is unanswered",
        "the time without progress is below the limit",
        "no probe request was sent",
        "the probe request has not timed out yet",
        "probe requests are unsupported, and the engine metrics count requests",
        "probe requests are unsupported, and only a router counts requests",
        "the engine hung while idle and the probe request is unanswered",
        "the engine makes progress",
    ],
)
def test_the_activity_of_an_engine_decides_whether_the_engine_has_stalled(
    activity: EngineActivity,
    stalled: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert has_stalled(activity, seconds=STALL) is stalled


def test_a_probe_request_is_sent_once_after_half_of_stall_seconds() -> None:
    half = replace(STALLED, probe=ProbeState.NOT_SENT, at=250.0)
    assert needs_probe(half, seconds=STALL, in_traffic=True)
    assert not needs_probe(replace(half, at=249.0), seconds=STALL, in_traffic=True)
    assert not needs_probe(half.with_probe_sent(), seconds=STALL, in_traffic=True)
