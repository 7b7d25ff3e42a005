"""Which nodes are leaving, by the fields that Kubernetes, clouds and autoscalers set."""

import pytest

from inference_operator.manifest import Manifest
from inference_operator.views.draining_node import SIGNS, DrainingNode, draining_node
from inference_operator.views.node import node_view
from tests.testing.nodes import node

SPOT = "aws-node-termination-handler/spot-itn"


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Manifest:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


TAINTS = (
    ("karpenter.sh/disrupted", "", False),
    ("karpenter.sh/disruption", "disrupting", False),
    ("ToBeDeletedByClusterAutoscaler", "1795000000", False),
    (SPOT, "event", True),
    ("aws-node-termination-handler/asg-lifecycle-termination", "event", False),
    ("aws-node-termination-handler/rebalance-recommendation", "event", False),
    ("aws-node-termination-handler/scheduled-maintenance", "event", False),
    ("cloud.google.com/impending-node-termination", "", True),
    ("remediator.kubernetes.azure.com/unschedulable", "", True),
    ("node.cloudprovider.kubernetes.io/shutdown", "", True),
    ("node.kubernetes.io/out-of-service", "nodeshutdown", True),
)
"""Taints as those programs set them, and whether the machine ends soon."""


def test_every_sign_is_tested() -> None:
    assert [sign.key for sign in SIGNS] == [key for key, _, _ in TAINTS]


@pytest.mark.parametrize(("key", "value", "is_soon"), TAINTS)
def test_a_node_with_one_of_these_taints_is_leaving(key: str, value: str, *, is_soon: bool) -> None:
    found = draining_node(node_view(node("n", gpus=8, taints=[taint(key, value)])))
    assert found == DrainingNode("n", f"which has the taint `{key}`", is_soon)


@pytest.mark.parametrize(
    "taints",
    [
        [],
        [taint("DeletionCandidateOfClusterAutoscaler", "1795000000", "PreferNoSchedule")],
        [taint("nvidia.com/gpu")],
        [taint("node.kubernetes.io/not-ready", effect="NoExecute")],
        [taint("karpenter.sh/disruption", "candidate")],
        [taint("kubernetes.azure.com/scalesetpriority", "spot")],
    ],
)
def test_a_candidate_or_a_node_that_is_only_unready_or_dear_stays(taints: list[Manifest]) -> None:
    assert draining_node(node_view(node("n", gpus=8, taints=taints))) is None


def test_of_several_signs_the_end_that_comes_soon_counts() -> None:
    both = node("n", taints=[taint("karpenter.sh/disrupted"), taint(SPOT)], cordoned=True)
    assert draining_node(node_view(both)) == DrainingNode("n", f"which has the taint `{SPOT}`", is_soon=True)


@pytest.mark.parametrize(("value", "leaves"), [("ONGOING", True), ("PENDING", False)])
def test_a_label_says_that_maintenance_has_begun(value: str, *, leaves: bool) -> None:
    found = node("n", labels={"cloud.google.com/active-node-maintenance": value})
    assert (draining_node(node_view(found)) is not None) is leaves


def test_a_cordoned_node_is_leaving() -> None:
    assert draining_node(node_view(node("n", cordoned=True))) == DrainingNode("n", "which is cordoned")
