from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from inference_operator.api.reasons import Reason
from inference_operator.objects.names import ENGINE
from inference_operator.views.engine import EngineView, engines_of
from inference_operator.views.pod import GROUP_LABEL, POD_INDEX_LABEL, PodProblem, PodView, pod_view
from inference_operator.views.pod_startup import StartupTimes
from tests.testing.builders import NOW, pod, ready_pod
from tests.testing.engine_groups import grouped

READY = PodView("a", ENGINE, NOW, ready=True, terminating=False, failed=False, problem=None, uid="uid-a", node="gpu-1")
SECOND = timedelta(seconds=1)


def test_a_pod_without_the_group_label_is_an_engine_of_its_own() -> None:
    other = replace(READY, name="b")
    assert engines_of([READY, other]) == [EngineView(READY), EngineView(other)]


def test_pods_of_one_group_are_one_engine_whose_leader_has_index_0() -> None:
    leader, first, second = grouped(READY, 3)
    engines = engines_of([second, replace(READY, name="z"), leader, first])
    assert engines == [EngineView(leader, (first, second)), EngineView(replace(READY, name="z"))]
    assert engines[0].pods == (leader, first, second)
    assert (engines[0].name, engines[0].uid) == (leader.name, leader.uid)


def test_groups_of_the_same_name_in_two_roles_are_two_engines() -> None:
    assert len(engines_of([*grouped(READY, 2), *grouped(replace(READY, component="prefill"), 2)])) == 2


def test_an_engine_is_ready_only_with_all_of_its_pods() -> None:
    leader, worker = grouped(READY, 2)
    assert EngineView(leader, (worker,)).is_serving
    assert not EngineView(leader, (replace(worker, ready=False),)).ready
    assert not EngineView(replace(leader, ready=False), (worker,)).has_answered


def test_a_group_that_has_lost_its_leader_is_not_ready() -> None:
    (engine,) = engines_of(grouped(READY, 2)[1:])
    assert not engine.ready
    assert not engine.has_answered


@pytest.mark.parametrize("state", ["terminating", "failed"])
def test_an_engine_ends_with_any_of_its_pods(state: str) -> None:
    leader, worker = grouped(READY, 2)
    ends: dict[str, Any] = {state: True}
    assert getattr(EngineView(leader, (replace(worker, **ends),)), state)


def test_the_problem_of_an_engine_is_that_of_its_worst_pod() -> None:
    leader, worker = grouped(READY, 2)
    problem = PodProblem(Reason.UNSCHEDULABLE, "0/3 nodes are available")
    waiting = replace(worker, ready=False, problem=problem, node="")
    engine = EngineView(replace(leader, ready=False), (waiting,))
    assert engine.problem == problem
    assert engine.worst_pod == waiting
    assert not engine.is_scheduled
    assert engine.nodes == ("gpu-1",)


def test_the_start_of_an_engine_ends_with_its_last_pod() -> None:
    leader, worker = grouped(READY, 2)
    of_leader = StartupTimes(NOW, NOW + SECOND, NOW + 2 * SECOND, NOW + 9 * SECOND)
    of_worker = StartupTimes(NOW + SECOND, NOW + 5 * SECOND, NOW + 6 * SECOND, NOW + 7 * SECOND)
    engine = EngineView(
        replace(leader, startup_times=of_leader, ready_since=of_leader.ready),
        (replace(worker, startup_times=of_worker, ready_since=of_worker.ready, created=of_worker.created),),
    )
    assert engine.startup_times == StartupTimes(NOW, NOW + 5 * SECOND, NOW + 6 * SECOND, NOW + 9 * SECOND)
    assert (engine.created, engine.ready_since) == (NOW, NOW + 9 * SECOND)
    assert EngineView(leader, (worker,)).startup_times is None


def test_a_pods_view_has_its_group_and_index() -> None:
    labels = {GROUP_LABEL: "qwen-engine-0", POD_INDEX_LABEL: "3"}
    view = pod_view(pod(status=ready_pod(), added_labels=labels), component=ENGINE)
    assert (view.group, view.index) == ("qwen-engine-0", 3)
    plain = pod_view(pod(status=ready_pod()), component=ENGINE)
    assert (plain.group, plain.index) == ("", 0)
    odd = pod_view(pod(status=ready_pod(), added_labels={**labels, POD_INDEX_LABEL: "x"}), component=ENGINE)
    assert odd.index == 0


def test_an_index_that_a_user_set_on_a_pod_of_no_group_means_nothing() -> None:
    """Anyone who may edit pods can add the label: the engine still leads itself."""
    view = pod_view(pod(added_labels={POD_INDEX_LABEL: "1"}), component="engine")
    assert view.index == 0
    assert engines_of([replace(view, ready=True)])[0].ready
