"""A plan that serves and that this release would not make: it stays, and `Sized` says why."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.engines.vllm.vllm import Vllm
from inference_operator.manifest import Manifest
from inference_operator.models.source import model_source
from inference_operator.pipeline.contexts import live_roles, role_contexts, role_specs
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.planning.capacity import refusal_of_network
from inference_operator.planning.engine_plan import ModelFindings
from inference_operator.planning.known_model import known_model
from inference_operator.planning.role_plan import RolePlan, plan_state, role_plan, spec_hash
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.status.report import report
from inference_operator.views.node import NodeView
from tests.testing.builders import ENGINES, inference_deployment, inputs, planned

AWQ, TAKEN = "hf://Qwen/Qwen3-8B-AWQ", {"quantization": "awq"}


def serving(asked: Manifest, source: str = AWQ, taken: Manifest = TAKEN) -> Inputs:
    """A resource with this `spec.engine` whose engines run by a plan of an earlier release, which refused nothing."""
    raw = inference_deployment(source=source, engine=asked)
    made = planned(inference_deployment(source=source, engine=taken))
    spec = resource(raw).spec
    assert spec
    children = copy.deepcopy(dict(made.desired))
    text = PLAN_ANNOTATION.write(replace(made.plan, spec_hash=spec_hash(spec, Vllm())))  # type: ignore[arg-type]  # valid
    children[ENGINES]["metadata"]["annotations"][PLAN_ANNOTATION.key] = text
    return inputs(raw, children=children.values())


def said(seen: Inputs) -> str:
    found = report(seen, outcome(seen), []).status.condition(ConditionType.SIZED)
    assert found
    return found.message


REFUSED = [
    (AWQ, {"quantization": "gptq"}, "spec.engine.quantization: the model is quantized with `awq`, not `gptq`."),
    ("hf://google/gemma-3-4b-it", {"dtype": "float16"}, "spec.engine.dtype: Models of the type"),
]


@pytest.mark.parametrize(("source", "asked", "why"), REFUSED)
def test_a_plan_that_serves_stays_and_says_that_a_new_one_would_be_refused(
    source: str, asked: Manifest, why: str
) -> None:
    seen = serving(asked, source, {})
    decided = outcome(seen)
    assert isinstance(decided, Planned)
    assert decided.plan == PLAN_ANNOTATION.read(decided.desired[ENGINES])
    assert f"The plan stays, but would be refused for a new specification: {why}" in said(seen)


@pytest.mark.parametrize(("source", "asked", "why"), REFUSED)
def test_an_edit_that_sizes_again_is_refused_and_leaves_what_serves(source: str, asked: Manifest, why: str) -> None:
    before = serving(asked, source, {})
    raw = inference_deployment(source=source, engine={**asked, "maxModelLen": 4096})
    edited = replace(before, resource=resource(raw))
    decided = outcome(edited)
    assert isinstance(decided, Refused)
    assert decided.refusal.reason is Reason.UNSUPPORTED_PRECISION
    assert why in decided.refusal.message
    assert set(before.children) <= set(decided.desired)


def test_a_plan_that_this_release_makes_too_says_nothing_of_it() -> None:
    assert "would be refused" not in said(serving(TAKEN))


class UnreadNodes(Sequence[NodeView]):
    """Nodes that nobody looks at."""

    @override
    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("a node was read")

    @override
    def __len__(self) -> int:
        raise AssertionError("nodes were counted")


def test_a_plan_that_stays_is_decided_without_a_look_at_all_nodes() -> None:
    """There may be thousands, and each resource that serves is decided all the time."""
    asked, source = {"quantization": "gptq"}, model_source(AWQ)
    seen = replace(serving(asked, taken={}), nodes=UnreadNodes())
    specs = role_specs(seen)
    assert not isinstance(source, Refusal)
    (context,) = role_contexts(seen, specs, live_roles(seen, specs), source)
    plan = role_plan(plan_state(context), ModelFindings(known_model(source, None), None))
    assert isinstance(plan, RolePlan)
    assert (plan.is_kept, bool(plan.doubt)) == (True, True)
    assert refusal_of_network(context, plan.pinned.plan, {}) is None
