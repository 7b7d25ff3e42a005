"""Too few free GPUs for an engine: how many are missing, and which nodes have the most."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.diagnosis.unschedulable import CURE
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.inputs import Inputs
from inference_operator.settings import Settings
from inference_operator.views.lookups import ClusterGpus, FreeGpusLookup, LookupResult, NodeGpus, Unavailable
from inference_operator.views.node import node_view
from tests.status.situations import message, observed, reported, view
from tests.testing.builders import deployment_status, inference_deployment, unschedulable
from tests.testing.nodes import GPU, H100_LABELS, node

TENSOR = inference_deployment(parallelism={"tensor": 4})
LOOK = FreeGpusLookup(GPU)
SCHEDULER = "0/9 nodes are available: 2 node(s) were unschedulable, 7 Insufficient nvidia.com/gpu."
SHORTFALL = (
    "Pod qwen-engine-a does not run: it fits none of 9 nodes: 2 have been cordoned, 7 have too little free"
    " `nvidia.com/gpu`."
)
NEEDS = "It needs 4 `nvidia.com/gpu` on one node"


def waiting(lookup_result: LookupResult | None = None, *, words: str = SCHEDULER, raw: Manifest = TENSOR) -> Inputs:
    situation = observed(
        raw,
        live=raw,
        engines=deployment_status(1, ready=0),
        routers=deployment_status(2),
        pods=[view(unschedulable(words), age=1)],
    )
    return replace(situation, lookups={LOOK: lookup_result} if lookup_result else {})


def gpus(*nodes: tuple[Manifest, int, int]) -> ClusterGpus:
    return ClusterGpus(tuple(NodeGpus(node_view(one), total, free) for one, total, free in nodes), 4)


def problem_message(situation: Inputs) -> str:
    return message(reported(situation), ConditionType.RECONCILING)


def test_free_gpus_are_looked_up_for_a_pod_that_lacks_gpus() -> None:
    again = reported(waiting()).requeue
    assert again is not None
    assert LOOK in again.lookups
    assert problem_message(waiting()) == f"{SHORTFALL} {CURE}."


@pytest.mark.parametrize(
    ("lookup_result", "words"),
    [
        (
            gpus(
                (node("b", labels=H100_LABELS), 8, 1),
                (node("c", labels=H100_LABELS), 8, 2),
                (node("a", labels=H100_LABELS), 4, 1),
                (node("d", labels=H100_LABELS), 8, 0),
                (node("e", labels=H100_LABELS), 8, 1),
            ),
            f"{NEEDS} and is 2 short: the most free are 2 of 8 on `c`, 1 of 8 on `b`, 1 of 8 on `e`.",
        ),
        (
            gpus((node("a", labels=H100_LABELS), 2, 2)),
            f"{NEEDS} and is 2 short: the most free are 2 of 2 on `a`.",
        ),
        (
            gpus((node("a", labels=H100_LABELS), 8, -1)),
            f"{NEEDS}, and none is free.",
        ),
        (gpus(), f"{NEEDS}, and no node that it may run on has any."),
        (
            gpus(
                (node("a", labels=H100_LABELS, cordoned=True), 8, 8), (node("b", labels=H100_LABELS, ready=False), 8, 8)
            ),
            f"{NEEDS}, and no node that it may run on has any.",
        ),
    ],
)
def test_the_message_names_the_nodes_with_the_most_free_gpus(lookup_result: ClusterGpus, words: str) -> None:
    assert problem_message(waiting(lookup_result)) == f"{SHORTFALL} {words} {CURE}."


@pytest.mark.parametrize(
    "lookup_result", [gpus((node("a", labels=H100_LABELS), 8, 4)), Unavailable("the operator has no right to it")]
)
def test_without_a_shortfall_in_the_lookup_the_message_names_no_nodes(lookup_result: LookupResult) -> None:
    assert problem_message(waiting(lookup_result)) == f"{SHORTFALL} {CURE}."


@pytest.mark.parametrize(
    "words",
    [
        "0/9 nodes are available: 9 Insufficient cpu.",
        "0/9 nodes are available: 9 Insufficient example.com/foo.",
        "no nodes available to schedule pods",
    ],
)
def test_free_gpus_are_not_looked_up_for_other_missing_resources(words: str) -> None:
    again = reported(waiting(words=words)).requeue
    assert again is None or LOOK not in again.lookups


def test_free_gpus_are_not_looked_up_without_the_right_to_read_nodes() -> None:
    again = reported(replace(waiting(), settings=Settings(namespaces=["default"]))).requeue
    assert again is None or LOOK not in again.lookups


def test_free_gpus_are_not_looked_up_for_a_router() -> None:
    pods = [view(unschedulable(SCHEDULER), component=ROUTER)]
    again = reported(observed(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=pods)).requeue
    assert again is None or LOOK not in again.lookups
