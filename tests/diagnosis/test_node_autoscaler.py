"""What a node autoscaler says about an unschedulable engine: when its Events are read, and where the answer stands."""

from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.diagnosis.node_autoscaler import EVENTS_LOOKUP_AFTER
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import EventsLookup, EventSummary, ObjectEvents
from tests.status.situations import NO_GPU, loading, message, observed, reported, view
from tests.status.test_ready import L4_NODE, NO_NODE
from tests.testing.builders import NOW, deployment_status, inference_deployment, unschedulable

POD = replace(view(NO_GPU), created=NOW)
LOOK = EventsLookup("default", POD.name, POD.uid)
LONG = EVENTS_LOOKUP_AFTER.total_seconds()
SCHEDULER = EventSummary("FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
ADDED = EventSummary("TriggeredScaleUp", "pod triggered scale-up: [{eks-h100 0->1 (max: 4)} {eks-h100b 1->2 (max: 4)}]")
NOT_ADDED = EventSummary(
    "NotTriggerScaleUp",
    "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector, 1 max node group size reached",
)
CHOSEN = EventSummary("Nominated", "Pod should schedule on: nodeclaim/gpu-x7k2p")
UNKNOWN_LABEL = EventSummary(
    "FailedScheduling",
    'Failed to schedule pod, incompatible requirements, label "example.com/pool" does not have known values',
)
LIMIT = EventSummary(
    "FailedScheduling", "Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=gpu)"
)


def after(seconds: float, *events: EventSummary) -> Inputs:
    situation = replace(loading(pods=[POD]), now=NOW + timedelta(seconds=seconds))
    return replace(situation, lookups={LOOK: ObjectEvents(events)}) if events else situation


def told(*events: EventSummary) -> str:
    return message(reported(after(LONG, *events)), ConditionType.RECONCILING)


def test_events_of_an_unschedulable_pod_are_read_once_an_autoscaler_has_had_time_to_answer() -> None:
    early, late = reported(after(LONG - 5)).requeue, reported(after(LONG)).requeue
    assert early is not None
    assert late is not None
    assert LOOK not in early.lookups
    assert early.seconds == 5
    assert LOOK in late.lookups


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ((ADDED,), "cluster-autoscaler adds a node: `eks-h100` grows from 0 to 1, `eks-h100b` grows from 1 to 2."),
        ((CHOSEN, SCHEDULER, UNKNOWN_LABEL), "Karpenter has chosen a node for it: nodeclaim/gpu-x7k2p."),
    ],
)
def test_a_node_that_is_on_its_way_is_said_without_advice(events: tuple[EventSummary, ...], sentence: str) -> None:
    said = told(*events)
    assert said.endswith(sentence)
    assert "Add a suitable node" not in said


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            NOT_ADDED,
            (
                "cluster-autoscaler adds no node: 2 node(s) didn't match Pod's node affinity/selector, 1 max node group"
                " size reached. Raise the maximum size of its node group."
            ),
        ),
        (
            UNKNOWN_LABEL,
            (
                'Karpenter adds no node: incompatible requirements, label "example.com/pool" does not have known'
                " values. Give your pool the labels that the engine selects, or name the pool's own label in the"
                " operator's setting `gpuNodeLabels`."
            ),
        ),
        (
            LIMIT,
            (
                "Karpenter adds no node: all available instance types exceed limits for nodepool (NodePool=gpu). Raise"
                " `spec.limits` of the NodePool."
            ),
        ),
    ],
)
def test_a_refusal_of_the_autoscaler_is_said_with_its_cause_and_what_to_do(event: EventSummary, sentence: str) -> None:
    said = told(SCHEDULER, event)
    assert f" {sentence} " in said
    assert said.endswith("or request less.")


def test_the_latest_answer_counts() -> None:
    assert "adds no node" not in told(ADDED, NOT_ADDED)
    assert "adds a node" not in told(NOT_ADDED, ADDED)


def test_events_of_the_scheduler_alone_say_nothing_about_an_autoscaler() -> None:
    assert told(SCHEDULER) == told()


def test_an_engine_in_an_empty_cluster_says_what_the_autoscaler_does() -> None:
    pod = replace(view(unschedulable("no nodes available to schedule pods")), created=NOW)
    situation = replace(loading(pods=[pod]), now=NOW + EVENTS_LOOKUP_AFTER, lookups={LOOK: ObjectEvents((CHOSEN,))})
    said = message(reported(situation), ConditionType.RECONCILING)
    assert said.endswith("the cluster has no nodes. Karpenter has chosen a node for it: nodeclaim/gpu-x7k2p.")


def test_a_gpu_kind_that_no_node_has_comes_with_the_answer_of_the_autoscaler() -> None:
    raw = inference_deployment(hardware={"gpu": {"products": ["H100"]}})
    pod = replace(view(unschedulable(NO_NODE)), created=NOW)
    waiting = observed(raw, live=raw, engines=deployment_status(1, ready=0), routers=deployment_status(2), pods=[pod])
    situation = replace(waiting, nodes=[L4_NODE], now=NOW + EVENTS_LOOKUP_AFTER, lookups={LOOK: ObjectEvents((ADDED,))})
    said = message(reported(situation), ConditionType.RECONCILING)
    assert said.startswith("No node has H100-80GB yet. cluster-autoscaler adds a node: `eks-h100` grows from 0 to 1")
    assert said.endswith(". Otherwise add such a node, or name other GPUs in `spec.hardware.gpu.products`.")
