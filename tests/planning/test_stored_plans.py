"""Stored plans equal those of the release before `ParallelSizes`; the literals are from that release."""

import json
from dataclasses import replace

import pytest

from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from inference_operator.objects.child import content_hash
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Planned
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION, PinnedPlan
from inference_operator.sizing.shape import ParallelSizes
from inference_operator.workload.pinned_template import template_inputs_hash
from tests.testing.builders import ENGINES, inference_deployment, inputs, planned

GPU = inference_deployment(parallelism={"tensor": 2, "pipeline": 2})
CPU = inference_deployment(hardware={"device": "CPU"})

CPU_ANNOTATION = (
    '{"asked":"7b35308dd9956dee","image":"docker.io/vllm/vllm-openai-cpu:v0.32.0-x86_64","plan":{"assumptions":[],'
    '"avoided_products":[],"context_reduced":false,"cpu":"1","cpu_offload_gib":0.0,"decision":0,"device":"CPU",'
    '"ephemeral_storage":"18Gi","gpu":"","gpu_memory_utilization":null,"gpus_per_replica":0,'
    '"kv_cache_bytes":4850712576,"max_model_len":32768,"max_num_batched_tokens":null,"max_num_seqs":null,'
    '"memory":"23Gi","node_selector":{},"per_gpu":null,"pipeline_parallel_size":1,"resource":"nvidia.com/gpu",'
    '"shared_memory":"2Gi","tensor_parallel_size":1,"unchecked":"","uncounted":[],"weight_bytes":16381444096},'
    '"rules":2}'
)
GPU_ANNOTATION_HASH = "aa54ebba8242ffba"
"""Of the text of the annotation."""


def decision(raw: Manifest) -> tuple[Spec, PinnedPlan]:
    """The decision as that release made it: it set all sizes by arguments."""
    spec = resource(raw).spec
    assert isinstance(spec, Spec)
    decided = planned(raw).plan
    return spec, replace(
        decided,
        plan=replace(
            decided.plan,
            labels_of_kind=False,
            left_to_engine=(),
            tool_call_parser="",
            reasoning_parser="",
            step=None,
            runner_up="",
        ),
        rules=2,
    )


@pytest.mark.parametrize(
    ("raw", "template_hash"), [(GPU, "84bec19a4836cdce"), (CPU, "ce4bc671121ae1bb")], ids=["GPU", "CPU"]
)
def test_the_inputs_hash_of_a_pod_template_does_not_change(raw: Manifest, template_hash: str) -> None:
    assert template_inputs_hash(*decision(raw)) == template_hash


def read(text: str) -> PinnedPlan | None:
    return PLAN_ANNOTATION.read({"metadata": {"annotations": {PLAN_ANNOTATION.key: text}}})


def without_engine(text: str) -> str:
    """The annotation as builds wrote it that knew only one engine, and had no hash in it."""
    document = json.loads(text)
    assert document.pop("engine") == "VLLM"
    assert document.pop("hash")
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def test_the_plan_annotation_of_a_cpu_engine_does_not_change() -> None:
    _, decided = decision(CPU)
    assert without_engine(PLAN_ANNOTATION.write(decided)) == CPU_ANNOTATION
    assert read(CPU_ANNOTATION) == decided


def test_the_plan_annotation_of_a_gpu_engine_with_a_pipeline_does_not_change() -> None:
    _, decided = decision(GPU)
    assert decided.plan.parallel == ParallelSizes(tensor=2, pipeline=2)
    assert content_hash(without_engine(PLAN_ANNOTATION.write(decided))) == GPU_ANNOTATION_HASH
    assert read(PLAN_ANNOTATION.write(decided)) == decided


@pytest.mark.parametrize("stored", ['"tensor_parallel_size":1,', '"cpu":"1",'])
def test_a_plan_annotation_without_a_required_part_is_not_read(stored: str) -> None:
    assert read(CPU_ANNOTATION.replace(stored, "")) is None


def test_a_plan_of_an_earlier_release_selects_nodes_by_its_node_selector_alone() -> None:
    made = planned(GPU)
    text = json.loads(PLAN_ANNOTATION.write(made.plan))
    del text["hash"]
    assert text["plan"].pop("labels_of_kind") is True
    earlier = made.desired[ENGINES]
    earlier["metadata"]["annotations"][PLAN_ANNOTATION.key] = json.dumps(text)
    again = outcome(inputs(GPU, children=made.desired.values(), nodes=[]))
    assert isinstance(again, Planned)
    pod = again.desired[ENGINES]["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert "affinity" not in pod
    assert json.loads(PLAN_ANNOTATION.write(again.plan)).items() >= text.items()
