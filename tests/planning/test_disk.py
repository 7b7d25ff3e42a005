"""The disk that an engine requests, compared with its nodes before any pod waits."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.planning.capacity import disk_shortfall
from inference_operator.settings import Capacity
from inference_operator.views.node import NodeView, node_view
from tests.status.situations import message, reported
from tests.testing.builders import H100, SETTINGS, inference_deployment, inputs
from tests.testing.nodes import GPU

POD = {"containers": [{"resources": {"requests": {"ephemeral-storage": "134Gi"}}}]}


def node(name: str, disk: str, **labels: str) -> NodeView:
    return NodeView(name, labels, (), {GPU: "1", "ephemeral-storage": disk}, ready=True, unschedulable=False)


@pytest.mark.parametrize(
    ("disks", "words"),
    [
        (["99857989632"], "`n0` has 93Gi."),
        (["93Gi", "80Gi"], "`n0` has 93Gi, `n1` has 80Gi."),
        (["93Gi"] * 5, "`n0` has 93Gi, `n1` has 93Gi, `n2` has 93Gi and 2 more."),
        (["93Gi", "200Gi"], ""),
        ([], ""),
    ],
)
def test_nodes_without_the_disk_are_named_if_all_lack_it(disks: list[str], words: str) -> None:
    found = disk_shortfall([node(f"n{number}", disk) for number, disk in enumerate(disks)], POD, GPU)
    assert found.endswith(words)
    assert bool(found) is bool(words)


def test_nodes_that_the_engine_may_not_use_do_not_count() -> None:
    pod = {**POD, "nodeSelector": {"pool": "llm"}}
    assert disk_shortfall([node("large", "999Gi"), node("small", "93Gi", pool="llm")], pod, GPU)


SMALL = replace(node_view(H100), allocatable={**node_view(H100).allocatable, "ephemeral-storage": "10Gi"})


def test_where_no_node_can_come_a_model_without_a_disk_is_refused_before_any_pod() -> None:
    fixed = replace(inputs(inference_deployment()), nodes=[SMALL])
    fixed = replace(fixed, settings=SETTINGS.model_copy(update={"capacity": Capacity.FIXED}))
    refused = outcome(fixed)
    assert isinstance(refused, Refused)
    assert refused.refusal.reason == "InsufficientDisk"
    assert "requests `18Gi` of disk, and no node for it has so much" in refused.refusal.problem
    cached = inference_deployment(cache={"claimName": "models"})
    assert isinstance(outcome(replace(fixed, resource=inputs(cached).resource)), Planned)


def test_where_nodes_can_come_the_condition_sized_says_which_nodes_lack_the_disk() -> None:
    said = message(reported(replace(inputs(inference_deployment()), nodes=[SMALL])), ConditionType.SIZED)
    assert "no node for it has so much" in said
    assert "Set `spec.cache`" in said
