"""Failed pods of a ReplicaSet: three are kept, the others are deleted, later and later."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import Reason
from inference_operator.diagnosis.component import rejected_pods
from inference_operator.views.pod import PodProblem, PodView
from inference_operator.workload.eviction.failed_pods import failed_pods
from tests.testing.builders import NOW

PROBLEM = PodProblem(Reason.POD_REJECTED, "UnexpectedAdmissionError")


def failed(second: int, **more: object) -> PodView:
    created = NOW + timedelta(seconds=second)
    name = f"engine-{second:04}"
    view = PodView(name, "engine", created, ready=False, terminating=False, failed=True, problem=PROBLEM, uid=name)
    return replace(view, template="new", **more)  # type: ignore[arg-type]


def deleted(pods: list[PodView], second: int) -> list[str]:
    patches, _ = failed_pods(pods, NOW + timedelta(seconds=second))
    return [patch.pod.name for patch in patches]


def test_the_first_and_the_last_two_are_kept_and_the_others_are_deleted_later_and_later() -> None:
    pods, moments = [failed(second) for second in (0, 2, 20, 50, 300, 301, 302)], list[float]()
    while due := failed_pods(pods, NOW + timedelta(seconds=moments[-1] if moments else 0))[1]:
        moments.append((due - NOW).total_seconds())
    assert moments == [2 + 10, 20 + 20, 50 + 50, 300 + 60]
    assert [len(deleted(pods, second)) for second in (11, 12, 40, 100, 359, 360, 900)] == [0, 1, 2, 3, 3, 4, 4]
    assert deleted(pods, 900) == ["engine-0002", "engine-0020", "engine-0050", "engine-0300"]


def test_pods_that_end_or_that_a_stateful_set_replaces_are_left_alone() -> None:
    kinds = ({"terminating": True}, {"group": "qwen-engine-0"}, {"failed": False})
    for kind in kinds:
        assert deleted([failed(second, **kind) for second in range(9)], 600) == []


def test_an_admitted_pod_ends_the_rejections_before_it() -> None:
    before, admitted, after = failed(0), failed(5, failed=False, admitted=True), failed(6)
    assert rejected_pods([after, before]) == [before, after]
    assert rejected_pods([after, admitted, before]) == [after]
    assert rejected_pods([failed(7, failed=False), failed(8, admitted=True)]) == []


@given(seconds=st.sets(st.integers(0, 900), max_size=40), now=st.integers(900, 2000))
def test_the_first_and_the_last_two_always_stay_and_no_more_in_the_end(*, seconds: set[int], now: int) -> None:
    pods = [failed(second) for second in sorted(seconds)]
    kept = {pod.name for pod in (*pods[:1], *pods[-2:])}
    assert not kept.intersection(deleted(pods, now))
    assert {pod.name for pod in pods} - set(deleted(pods, 3000)) == kept
