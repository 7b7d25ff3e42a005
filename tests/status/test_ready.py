"""Kubernetes' message about a pod is in each condition with its cure, also in Ready."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.models.side_files import SideFiles
from inference_operator.pipeline.decide import outcome
from inference_operator.planning.known_model import KnownModel
from inference_operator.status.model_resolved import model_resolved
from inference_operator.status.observation import Observation
from inference_operator.views.node import node_view
from tests.status.situations import (
    MINUTES,
    NO_CLAIM,
    NO_IMAGE,
    NO_SECRET,
    OVER_QUOTA,
    RAW,
    loading,
    message,
    observed,
    reported,
    view,
)
from tests.testing.builders import deployment_status, inference_deployment, unschedulable
from tests.testing.nodes import node

NO_NODE = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
L4_NODE = node_view(node("l4-a", gpus=4, labels={"nvidia.com/gpu.product": "NVIDIA-L4"}))


@pytest.mark.parametrize(
    ("problem", "cause"),
    [
        (NO_SECRET, 'secret "hugging-face" not found. Create the Secret `hugging-face` in this namespace.'),
        (
            NO_IMAGE,
            (
                'Back-off pulling image "example.com/vllm:nope". Check the image name, and the pull secret of the'
                " namespace's default ServiceAccount."
            ),
        ),
        (
            NO_CLAIM,
            (
                '0/1 nodes are available: persistentvolumeclaim "models" not found. Create the'
                " PersistentVolumeClaim or Secret in the message, or stop the pod that uses its volume on another"
                " node."
            ),
        ),
    ],
)
def test_the_kubelets_cause_is_in_one_condition_with_its_cure(problem: Manifest, cause: str) -> None:
    cause = f"Pod qwen-engine-a does not run: {cause}"
    young = reported(loading(pods=[view(problem)]))
    assert message(young, ConditionType.RECONCILING) == cause
    assert young.status.message == cause
    assert message(young, ConditionType.ENGINES_AVAILABLE) == "0 of 1 engine is ready."
    old = reported(loading(pods=[view(problem)], before=young.status, minutes=MINUTES))
    assert message(old, ConditionType.STALLED) == f"For {MINUTES} minutes: {cause}"


@pytest.mark.parametrize("problem", [NO_SECRET, NO_IMAGE])
def test_ready_has_the_reason_of_the_cause_and_the_number_of_ready_engines(problem: Manifest) -> None:
    result = reported(loading(pods=[view(problem)]))
    reasons = [result.status.condition(kind) for kind in (ConditionType.READY, ConditionType.RECONCILING)]
    assert len({one.reason for one in reasons if one}) == 1
    assert message(result, ConditionType.READY) == "0 of 1 engine is ready."


def test_the_summary_names_the_rejection_of_a_pod() -> None:
    result = reported(loading(engines=OVER_QUOTA))
    assert "Kubernetes refuses a pod: " in result.status.message


def test_the_summary_names_a_gpu_kind_that_no_node_has_with_its_cure() -> None:
    raw = inference_deployment(hardware={"gpu": {"products": ["H100"]}})
    pods, engines = [view(unschedulable(NO_NODE))], deployment_status(1, ready=0)
    situation = replace(
        observed(raw, live=raw, engines=engines, routers=deployment_status(2), pods=pods), nodes=[L4_NODE]
    )
    cause = (
        "No node has H100-80GB yet. Wait for the node autoscaler, add such a node, or name other GPUs in"
        " `spec.hardware.gpu.products`."
    )
    result = reported(situation)
    assert message(result, ConditionType.RECONCILING) == cause
    assert result.status.message == cause


def test_model_resolved_describes_a_model_without_an_architecture_name() -> None:
    situation = observed(RAW)
    decided = outcome(situation)
    assert isinstance(decided.model, KnownModel)
    assert isinstance(decided.model.facts, ModelFacts)
    nameless = replace(decided.model, facts=replace(decided.model.facts, architecture=""))
    text = model_resolved(Observation(situation, replace(decided, model=nameless), [])).message
    assert text.startswith("A model whose config names no architecture: ")


def test_model_resolved_says_that_a_model_has_no_chat_template() -> None:
    situation = observed(RAW)
    decided = outcome(situation)
    assert isinstance(decided.model, KnownModel)
    known = decided.model.facts
    assert isinstance(known, ModelFacts)
    silent = replace(decided.model, facts=replace(known, side=SideFiles(has_chat_template=False)))
    assert "no chat template" in model_resolved(Observation(situation, replace(decided, model=silent), [])).message
    assert "no chat template" not in model_resolved(Observation(situation, decided, [])).message
