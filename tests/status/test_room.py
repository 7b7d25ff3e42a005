"""No room for an engine: how many devices are short, and which nodes come close."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import Manifest
from inference_operator.observed.look import Found, FreeGpus, Gpus, NodeGpus, Unseen
from inference_operator.observed.node import node_view
from inference_operator.observed.scheduler import CURE
from inference_operator.pipeline import Inputs
from inference_operator.resources.names import ROUTER
from inference_operator.settings import Settings
from tests.builders import deployment_status, inference_deployment, unschedulable
from tests.nodes import GPU, H100_LABELS, node
from tests.status.situations import message, seen, told, view

TENSOR = inference_deployment(parallelism={"tensor": 4})
LOOK = FreeGpus(GPU)
SCHEDULER = "0/9 nodes are available: 2 node(s) were unschedulable, 7 Insufficient nvidia.com/gpu."
SAID = (
    "Pod qwen-engine-a does not run: none of 9 nodes takes it: 2 have been closed to new pods, 7 have too little free"
    " `nvidia.com/gpu`."
)
NEEDS = "It needs 4 `nvidia.com/gpu` on one node"


def waiting(found: Found | None = None, *, words: str = SCHEDULER, raw: Manifest = TENSOR) -> Inputs:
    situation = seen(
        raw,
        live=raw,
        engines=deployment_status(1, ready=0),
        routers=deployment_status(2),
        pods=[view(unschedulable(words), age=1)],
    )
    return replace(situation, seen={LOOK: found} if found else {})


def gpus(*nodes: tuple[Manifest, int, int]) -> Gpus:
    return Gpus(tuple(NodeGpus(node_view(one), total, free) for one, total, free in nodes), 4)


def said(situation: Inputs) -> str:
    return message(told(situation), ConditionType.RECONCILING)


def test_the_nodes_are_looked_at_where_devices_are_short() -> None:
    again = told(waiting()).again
    assert again is not None
    assert LOOK in again.looks
    assert said(waiting()) == f"{SAID} {CURE}."


@pytest.mark.parametrize(
    ("found", "words"),
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
        (gpus(), f"{NEEDS}, and no node that it may be on has any."),
        (
            gpus(
                (node("a", labels=H100_LABELS, cordoned=True), 8, 8), (node("b", labels=H100_LABELS, ready=False), 8, 8)
            ),
            f"{NEEDS}, and no node that it may be on has any.",
        ),
    ],
)
def test_those_that_come_close_are_named(found: Gpus, words: str) -> None:
    assert said(waiting(found)) == f"{SAID} {words} {CURE}."


@pytest.mark.parametrize(
    "found", [gpus((node("a", labels=H100_LABELS), 8, 4)), Unseen("the operator has no right to it")]
)
def test_what_is_not_known_is_not_told(found: Found) -> None:
    assert said(waiting(found)) == f"{SAID} {CURE}."


@pytest.mark.parametrize(
    "words",
    [
        "0/9 nodes are available: 9 Insufficient cpu.",
        "0/9 nodes are available: 9 Insufficient example.com/foo.",
        "no nodes available to schedule pods",
    ],
)
def test_other_wants_cost_no_look(words: str) -> None:
    again = told(waiting(words=words)).again
    assert again is None or LOOK not in again.looks


def test_an_operator_that_sees_no_nodes_does_not_ask_for_them() -> None:
    again = told(replace(waiting(), settings=Settings(namespaces=["default"]))).again
    assert again is None or LOOK not in again.looks


def test_a_router_asks_for_no_device() -> None:
    pods = [view(unschedulable(SCHEDULER), component=ROUTER)]
    again = told(seen(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=pods)).again
    assert again is None or LOOK not in again.looks
