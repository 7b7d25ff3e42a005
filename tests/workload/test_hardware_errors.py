"""Which pods on nodes with hardware errors are recorded and deleted."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from inference_operator.controller.node_store import NodeStore
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Manifest
from inference_operator.views.engine import engines_of
from inference_operator.views.lookups import LogText, LookupResults
from inference_operator.views.node import NodeView
from inference_operator.views.pod import PodView, pod_view
from inference_operator.workload.eviction.hardware_errors import MOVED_ANNOTATION, moved_pods, pods_to_move
from tests.testing.builders import pod, waiting
from tests.testing.engine_groups import grouped

ECC = "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered"
BAD = NodeView("bad", {}, (), {}, ready=True, unschedulable=False)


def crashed(message: str, *, restarts: int) -> Manifest:
    """The status of a pod whose container waits for its next start."""
    status = waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1, "message": message}})
    status["containerStatuses"][0]["restartCount"] = restarts
    return status


def engine(message: str = ECC, *, restarts: int = 3, node: str = "bad", name: str = "a") -> PodView:
    made = pod(name=name, status=crashed(message, restarts=restarts))
    return pod_view({**made, "spec": {"nodeName": node}}, component="engine")


def recorded(uids: Mapping[str, str]) -> Manifest:
    return {"metadata": {"annotations": MOVED_ANNOTATION.entry(uids)}}


@pytest.mark.parametrize(
    ("found", "uids"),
    [
        (engine(), {"bad": "pod-a"}),
        (engine(restarts=1), {}),
        (engine("ValueError: no"), {}),
        (engine(node=""), {}),
        (replace(engine(), terminating=True), {}),
    ],
    ids=["three errors", "two errors", "another error", "no node", "already being deleted"],
)
def test_a_pod_is_recorded_after_three_hardware_errors(found: PodView, uids: Mapping[str, str]) -> None:
    assert moved_pods(None, engines_of([found]), {}, Vllm(), [BAD]).uids == uids
    assert pods_to_move(None, engines_of([found])) == ()


def test_a_hardware_error_in_the_log_counts_too() -> None:
    found = engine("RuntimeError: Engine core initialization failed. See root cause above.")
    assert found.problem is not None
    assert found.problem.terminated is not None
    lookups: LookupResults = {found.problem.terminated.log: LogText(f"{ECC}\nRuntimeError")}
    assert moved_pods(None, engines_of([found]), lookups, Vllm(), None).uids == {"bad": "pod-a"}


def test_only_the_recorded_pod_is_deleted() -> None:
    (removal,) = pods_to_move(recorded({"bad": "pod-a"}), engines_of([engine(), engine(name="b")]))
    assert (removal.pod.name, removal.pod.uid) == ("a", "pod-a")
    assert removal.delete
    assert removal.delete.why == "Pod `a` ended 3 times on node `bad`, at last with a hardware error of a GPU"


def test_an_engine_with_two_pods_moves_as_a_whole() -> None:
    leader, worker = grouped(engine(message="ValueError: no", node="good"), 2)
    broken = replace(engine(name="b"), group=leader.group, index=1)
    engines = engines_of([leader, broken])
    assert moved_pods(None, engines, {}, Vllm(), None).uids == {"bad": "pod-b"}
    removals = pods_to_move(recorded({"bad": "pod-b"}), engines)
    assert [removal.pod.uid for removal in removals] == ["pod-b", "pod-a"]
    assert {removal.delete.why for removal in removals if removal.delete} == {
        "Pod `b` ended 3 times on node `bad`, at last with a hardware error of a GPU"
    }
    assert pods_to_move(recorded({"bad": "pod-x"}), engines_of([leader, worker])) == ()


def test_a_pod_is_deleted_once_if_two_pods_of_its_engine_are_recorded() -> None:
    leader = replace(engine(), group="g")
    worker = replace(engine(name="b", node="worse"), group="g", index=1)
    live = recorded({"bad": "pod-a", "worse": "pod-b"})
    removals = pods_to_move(live, engines_of([leader, worker]))
    assert sorted(removal.pod.uid for removal in removals) == ["pod-a", "pod-b"]


def test_of_a_recorded_node_no_further_pod_is_recorded() -> None:
    assert moved_pods(recorded({"bad": "pod-a"}), engines_of([engine(name="b")]), {}, Vllm(), [BAD]).uids == {
        "bad": "pod-a"
    }
    assert pods_to_move(recorded({"bad": "pod-a"}), engines_of([engine(name="b")])) == ()


@pytest.mark.parametrize(
    ("nodes", "uids"),
    [([BAD], {"bad": "pod-a"}), (None, {"bad": "pod-a"}), ([replace(BAD, unschedulable=True)], {}), ([], {})],
    ids=["still in use", "not visible", "cordoned", "gone"],
)
def test_the_record_of_a_node_ends_when_it_is_cordoned_or_gone(nodes: Any, uids: Mapping[str, str]) -> None:  # noqa: ANN401 - nodes or None
    assert moved_pods(recorded({"bad": "pod-a"}), [], {}, Vllm(), nodes).uids == uids


def test_the_record_of_a_node_outlives_a_device_plugin_that_reports_no_gpu() -> None:
    bad = {"metadata": {"name": "bad", "resourceVersion": "1"}, "status": {"allocatable": {"nvidia.com/gpu": "1"}}}
    store = NodeStore()
    store.put(bad)
    store.put(
        {
            **bad,
            "metadata": {"name": "bad", "resourceVersion": "2"},
            "status": {"allocatable": {"nvidia.com/gpu": "0"}},
        }
    )
    assert moved_pods(recorded({"bad": "pod-a"}), [], {}, Vllm(), store.nodes).uids == {"bad": "pod-a"}
