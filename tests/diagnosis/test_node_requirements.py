"""What an unschedulable engine says about the node labels that it waits for."""

from dataclasses import replace

import pytest

from inference_operator.diagnosis.component import Component, DiagnosisInputs
from inference_operator.diagnosis.unschedulable import node_requirements
from inference_operator.engines.registry import ENGINES, VLLM
from inference_operator.manifest import Manifest
from inference_operator.views.pod import pod_view
from inference_operator.views.workload import workload_view
from tests.testing.builders import ENGINES as DEPLOYMENT
from tests.testing.builders import NOW, inference_deployment, planned, pod, unschedulable

NO_LABEL = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."


def said(raw: Manifest, cause: str = NO_LABEL) -> str:
    live = planned(raw).desired[DEPLOYMENT]
    roles = {"engine": Component("engine", workload_view(live), (), ENGINES[VLLM])}
    request = DiagnosisInputs("default", roles, {}, read_logs=True, nodes_visible=True, now=NOW)
    view = pod_view(pod(status=unschedulable(cause)), component="engine")
    return node_requirements(replace(view, created=NOW), request)


def test_an_engine_names_the_labels_that_its_node_needs_and_since_when_it_waits() -> None:
    told = said(
        inference_deployment(hardware={"gpu": {"products": ["H100"]}}, scheduling={"nodeSelector": {"pool": "a"}})
    )
    assert told.startswith("It waits for a node with `pool=a` and one of `nvidia.com/gpu.product` ")
    assert "`karpenter.k8s.aws/instance-gpu-name` `h100`" in told
    assert f", since {NOW:%Y-%m-%d %H:%M} UTC. " in told
    assert "`gpuNodeLabels`" in told


@pytest.mark.parametrize("cause", ["0/3 nodes are available: 3 Insufficient nvidia.com/gpu.", "no nodes available"])
def test_an_engine_whose_nodes_have_the_labels_names_none(cause: str) -> None:
    assert not said(inference_deployment(), cause)


def test_an_engine_without_node_requirements_names_none() -> None:
    assert not said(inference_deployment(hardware={"device": "CPU"}))
