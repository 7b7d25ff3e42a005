"""The stored form of plans: the hash of what pods are made of, and parts without which a plan is not read."""

import json
from dataclasses import replace

import pytest

from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest
from inference_operator.objects.child import content_hash
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION, PinnedPlan
from inference_operator.workload.pinned_template import template_inputs_hash
from tests.testing.builders import inference_deployment, planned
from tests.testing.for_each import for_each

GPU = inference_deployment(parallelism={"tensor": 2, "pipeline": 2})
CPU = inference_deployment(hardware={"device": "CPU"})


def decision(raw: Manifest) -> tuple[Spec, PinnedPlan]:
    """A decision with all sizes as arguments, and no field that is only stored where it is set."""
    spec = resource(raw).spec
    assert isinstance(spec, Spec)
    decided = planned(raw).plan
    return spec, replace(
        decided,
        plan=replace(
            decided.plan,
            labels_of_kind=False,
            memory=decided.plan.memory if decided.plan.per_gpu is None else "27Gi",
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


def _hashed(document: Manifest) -> str:
    content = _without(document, "hash")
    return json.dumps({**content, "hash": content_hash(content)})


def _without(document: Manifest, key: str) -> Manifest:
    return {
        name: _without(value, key) if isinstance(value, dict) else value
        for name, value in document.items()
        if name != key
    }


@for_each(["tensor_parallel_size", "cpu", "plan", "engine", "image", "asked"])
def test_a_plan_annotation_without_a_required_part_is_not_read(key: str) -> None:
    document = json.loads(PLAN_ANNOTATION.write(planned(CPU).plan))
    assert read(_hashed(document)) == planned(CPU).plan
    assert read(_hashed(_without(document, key))) is None


def test_a_plan_annotation_without_its_hash_is_not_read() -> None:
    assert read(json.dumps(_without(json.loads(PLAN_ANNOTATION.write(planned(CPU).plan)), "hash"))) is None
