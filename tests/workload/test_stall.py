from collections.abc import Sequence
from dataclasses import replace

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.manifest import POD, Ref
from inference_operator.objects.names import ENGINE
from inference_operator.views.pod import PodProblem, PodView
from inference_operator.views.samples import Asked, EngineSample, Samples, Watched
from inference_operator.workload.stall import Removal, has_stalled, is_suspect, stalled_engines

STALL = 300.0
SAMPLE = EngineSample("m", running=2, waiting=1, progress=(7.0,))
HUNG = Watched(SAMPLE, sessions=3, at=400.0, since=100.0, asked=Asked.WAITING, asked_at=250.0)
WELL = Watched(SAMPLE, sessions=3, at=400.0, since=399.0)


def engine(name: str, **parts: object) -> PodView:
    plain = PodView(name, ENGINE, None, ready=True, terminating=False, failed=False, problem=None, uid=f"uid-{name}")
    return replace(plain, **parts)  # type: ignore[arg-type]


A, B = engine("a"), engine("b")
LOADING = engine("c", ready=False)
HOMELESS = engine("c", ready=False, problem=PodProblem(Reason.UNSCHEDULABLE, "no node"))


def verdict(pods: Sequence[PodView], known: dict[str, Watched], *, wanted: int = 2) -> list[str]:
    samples = Samples({f"uid-{name}": seen for name, seen in known.items()})
    found = stalled_engines(pods, samples, desired=wanted, namespace="default", stall_seconds=STALL)
    return [removal.uid for removal in found]


def test_an_engine_that_stands_still_is_replaced_and_says_why() -> None:
    found = stalled_engines([A], Samples({A.uid: HUNG}), desired=1, namespace="default", stall_seconds=STALL)
    assert found == (
        Removal(Ref(POD, "default", "a"), "uid-a", "Pod `a` had 3 requests and made no progress for 300 s"),
    )


def test_one_at_a_time_the_longest_first() -> None:
    assert verdict([A, B], {"a": HUNG, "b": replace(HUNG, since=90.0)}) == ["uid-b"]


@pytest.mark.parametrize(
    ("pods", "why"),
    [
        ([A, LOADING], "a replacement loads"),
        ([A], "a replacement has not been made yet"),
        ([A, engine("b", terminating=True)], "nor while the one before it ends"),
        ([engine("a", terminating=True), B], "it is going already"),
        ([engine("a", ready=False, problem=PodProblem(Reason.CRASH_LOOP, "x")), B], "it is not ready"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_it_waits(pods: Sequence[PodView], why: str) -> None:
    assert verdict(pods, {"a": HUNG}) == [], why


def test_a_pod_that_cannot_start_delays_nothing() -> None:
    assert verdict([A, HOMELESS], {"a": HUNG}) == ["uid-a"]


def test_without_samples_there_is_no_verdict() -> None:
    assert verdict([A, B], {}) == []


def test_an_engine_that_gets_on_stays() -> None:
    assert verdict([A, B], {"a": WELL, "b": WELL}) == []


@pytest.mark.parametrize(
    ("seen", "stalled"),
    [
        (HUNG, True),
        (replace(HUNG, at=399.0), False),
        (replace(HUNG, asked=Asked.NOT), False),
        (replace(HUNG, asked_at=251.0), False),
        (replace(HUNG, asked=Asked.UNFIT), True),
        (replace(HUNG, asked=Asked.UNFIT, sample=replace(SAMPLE, running=0, waiting=0)), False),
        (replace(HUNG, sample=replace(SAMPLE, running=0, waiting=0)), True),
        (replace(HUNG, since=None), False),
    ],
    ids=[
        "it owes an answer",
        "not long enough",
        "nobody has asked",
        "it has not had its time to answer",
        "it takes no such question, and says that it has work",
        "it takes no such question, and only a router says that it has work",
        "it hung while idle and owes an answer",
        "it gets on",
    ],
)
def test_what_counts_as_stalled(seen: Watched, stalled: bool) -> None:  # noqa: FBT001 - a column of the table
    assert has_stalled(seen, stall_seconds=STALL) is stalled


def test_it_is_asked_once_after_half_of_the_time() -> None:
    half = replace(HUNG, asked=Asked.NOT, at=250.0)
    assert is_suspect(half, stall_seconds=STALL)
    assert not is_suspect(replace(half, at=249.0), stall_seconds=STALL)
    assert not is_suspect(half.asked_now(), stall_seconds=STALL)
