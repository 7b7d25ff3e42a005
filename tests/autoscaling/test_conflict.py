"""Another autoscaler beside the operator's own."""

import pytest

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.conflict import ScalingConflict, scaling_conflict
from inference_operator.manifest import Key, Manifest
from inference_operator.views.lookups import (
    ForeignAutoscaler,
    ForeignAutoscalers,
    ForeignAutoscalersLookup,
    LookupResult,
    LookupResults,
    Unavailable,
    foreign_autoscaler,
)
from tests.testing.builders import inference_deployment

KEY = Key("default", "qwen")
ON_WORKLOAD = ForeignAutoscaler("HorizontalPodAutoscaler", "cpu", "Deployment", "qwen-engine")
ON_SCALE = ForeignAutoscaler("ScaledObject", "cron", "InferenceDeployment", "qwen")
ELSEWHERE = ForeignAutoscaler("HorizontalPodAutoscaler", "web", "Deployment", "web")
OWN = ForeignAutoscaler("InferenceDeployment", "qwen", "InferenceDeployment", "qwen")
WRITTEN = {"metadata": {"managedFields": [{"manager": "kube-controller-manager", "subresource": "scale", "time": "t"}]}}
UNTOUCHED: Manifest = {"metadata": {"managedFields": [{"manager": "inference-operator"}]}}


def found(
    *autoscalers: ForeignAutoscaler,
    live: Manifest = UNTOUCHED,
    seen: str = "1",
    result: LookupResult | None = None,
    before: Condition | None = None,
    backend: str = "BuiltIn",
) -> ScalingConflict | None:
    raw = inference_deployment(autoscaling={"maxReplicas": 4, "backend": backend})
    spec = resource(raw).spec
    assert isinstance(spec, Spec)
    lookups: LookupResults = {
        ForeignAutoscalersLookup("default", "qwen"): result or ForeignAutoscalers(seen, autoscalers)
    }
    return scaling_conflict(KEY, spec, "qwen-engine", live, before, lookups=lookups)


def test_one_on_the_deployment_of_the_engines_holds_the_live_number() -> None:
    told = found(ON_WORKLOAD, ELSEWHERE)
    assert told is not None
    assert (told.is_frozen, told.on_workload, told.on_scale) == (True, (ON_WORKLOAD,), ())


def test_one_on_scale_is_told_and_holds_nothing() -> None:
    told = found(ON_SCALE, ELSEWHERE)
    assert told is not None
    assert (told.is_frozen, told.on_workload, told.on_scale) == (False, (), (ON_SCALE,))


def test_the_operators_own_and_those_of_others_are_none() -> None:
    told = found(OWN, ELSEWHERE)
    assert told is not None
    assert (told.is_frozen, told.on_workload, told.on_scale) == (False, (), ())
    assert not told.lookup.often


def test_after_a_write_through_scale_the_live_number_stays_until_autoscalers_were_listed_since() -> None:
    told = found(live=WRITTEN)
    assert told is not None
    assert told.is_frozen
    assert told.lookup.often
    again = found(live=WRITTEN, seen=told.lookup.seen)
    assert again is not None
    assert not again.is_frozen, "no autoscaler: somebody has called `kubectl scale`"


def test_without_the_right_to_list_them_nothing_is_held_for_ever() -> None:
    told = found(live=WRITTEN, result=Unavailable("no right"))
    assert told is not None
    assert not told.is_frozen


@pytest.mark.parametrize(("status", "holds"), [("False", True), ("True", False)])
def test_after_a_restart_a_conflict_that_was_told_lasts_until_autoscalers_are_listed(
    status: str, *, holds: bool
) -> None:
    before = Condition(
        type=ConditionType.SCALING_ACTIVE,
        status=status,
        reason=Reason.AUTOSCALER_CONFLICT,
        message="",
        observed_generation=1,
        last_transition_time="2026-01-02T03:04:05Z",
    )
    told = found(seen="of another time", before=before)
    assert told is not None
    assert told.is_frozen is holds


@pytest.mark.parametrize("backend", ["HPA", "KEDA"])
def test_where_another_autoscaler_decides_there_is_no_conflict(backend: str) -> None:
    assert found(ON_SCALE, backend=backend) is None


def test_keda_is_named_by_its_scaled_object_and_a_deleted_one_does_not_count() -> None:
    owner = {"kind": "ScaledObject", "name": "cron", "controller": True}
    raw: Manifest = {
        "metadata": {"name": "keda-hpa-cron", "ownerReferences": [owner]},
        "spec": {"scaleTargetRef": {"kind": "InferenceDeployment", "name": "qwen"}},
    }
    assert foreign_autoscaler(raw) == ON_SCALE
    raw["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert foreign_autoscaler(raw) is None
