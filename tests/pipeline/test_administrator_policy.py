"""A resource that the policy does not allow: nothing is made of it, and what runs stays as it is."""

from collections.abc import Iterable
from typing import Any

import pytest

from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import Outcome, Paused, Planned, Refused
from inference_operator.settings import ModelInspection, Settings
from inference_operator.status.report import report
from tests.testing.builders import inference_deployment, inputs, planned

SENTENCE = "Ask platform@example.com."


def limited(**policy: Any) -> Settings:  # noqa: ANN401 - JSON
    return Settings(policy=AdministratorPolicy.model_validate(policy), model_inspection=ModelInspection.WHEN_UNKNOWN)


OTHERS = limited(modelSources={"allowed": ["hf://org/"], "message": SENTENCE})


def decided(settings: Settings, raw: Manifest | None = None, children: Iterable[Manifest] = ()) -> Outcome:
    return outcome(inputs(raw or inference_deployment(), children=children, settings=settings))


@pytest.mark.parametrize("inspection", ModelInspection)
def test_nothing_is_made_of_a_resource_that_the_policy_does_not_allow(inspection: ModelInspection) -> None:
    found = decided(OTHERS.model_copy(update={"model_inspection": inspection}))
    assert isinstance(found, Refused)
    assert not found.desired
    assert found.refusal.reason is Reason.REFUSED_BY_POLICY
    assert found.refusal.message.startswith("spec.model.source: The policy of this cluster (`modelSources`)")
    assert found.refusal.message.endswith(SENTENCE)


def test_the_gpus_of_the_sizes_count_and_not_only_those_that_the_fields_name() -> None:
    large = inference_deployment(source="hf://meta-llama/Llama-3.3-70B-Instruct", replicas=2)
    sized = decided(limited(), large)
    assert isinstance(sized, Planned)
    gpus = 2 * sized.plan.plan.gpus_per_replica
    assert gpus > 2
    assert isinstance(decided(limited(gpus={"most": gpus}), large), Planned)
    found = decided(limited(gpus={"most": gpus - 1, "message": SENTENCE}), large)
    assert isinstance(found, Refused)
    assert found.refusal.field == "spec.replicas"
    assert f"this needs {gpus}: 2 engines of {gpus // 2} each." in found.refusal.message
    assert found.refusal.message.endswith(SENTENCE)


def test_what_runs_stays_as_it_is_when_a_later_policy_does_not_allow_it() -> None:
    live = planned(inference_deployment(), settings=limited()).desired
    found = decided(OTHERS, inference_deployment(replicas=5), live.values())
    assert isinstance(found, Refused)
    assert found.desired == live
    assert not found.scaling


def test_a_paused_resource_stays_paused_under_any_policy() -> None:
    assert isinstance(decided(OTHERS, inference_deployment(paused=True)), Paused)


def test_what_the_administrators_own_defaults_add_is_not_judged() -> None:
    variable = {"name": "AWS_ENDPOINT_URL", "value": "http://minio.storage.svc:9000"}
    hub = {"name": "HF_ENDPOINT", "value": "http://mirror.hub.svc"}
    settings = limited(hubs={"allowed": ["https://hub.example"]}, images={"allowed": ["registry.example/"]})
    defaults = settings.engine_defaults.model_validate(
        {"env": [variable, hub], "podTemplate": {"sidecars": [{"name": "a", "image": "other.example/a"}]}}
    )
    assert isinstance(decided(settings.model_copy(update={"engine_defaults": defaults})), Planned)


def test_the_status_names_field_rule_fix_and_the_owners_sentence() -> None:
    asked = inputs(inference_deployment(), settings=OTHERS)
    status = report(asked, outcome(asked), []).status
    stalled, ready = status.condition(ConditionType.STALLED), status.condition(ConditionType.READY)
    assert stalled is not None
    assert ready is not None
    assert (stalled.status, stalled.reason) == ("True", "RefusedByPolicy")
    assert stalled.message == (
        "spec.model.source: The policy of this cluster (`modelSources`) does not allow this source. Use one that begins"
        f" with hf://org/. {SENTENCE}"
    )
    assert (ready.status, ready.reason) == ("False", "RefusedByPolicy")
