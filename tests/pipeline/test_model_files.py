"""Which facts of a model a plan is made from: its own files, or the catalogue where the hub cannot be asked."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.model import ModelSpec
from inference_operator.api.pod_defaults import EngineDefaults
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.jobs.inspection import model_record
from inference_operator.jobs.inspection_result import InspectionResult, unusable
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Ref
from inference_operator.models.checkpoint import Weights, weights_of_files
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.objects.names import INSPECTION
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Planned, Refused
from inference_operator.settings import ModelInspection, Settings
from inference_operator.status.report import report
from inference_operator.views.pod import pod_view
from tests.testing.builders import ENGINES, inference_deployment, inputs
from tests.testing.collected import entry
from tests.testing.inspected import job_of, over, pod_of

ALWAYS = Settings(model_inspection=ModelInspection.ALWAYS)
WHEN_UNKNOWN = Settings(model_inspection=ModelInspection.WHEN_UNKNOWN)
COMMIT = "0123456789abcdef0123456789abcdef01234567"
UNREACHABLE = Failure(Cause.UNREACHABLE, NotUnderstood("hf://Qwen/Qwen3-8B", "the hub cannot be reached.", "Check."))
CPUS = {"device": "CPU"}
GATED = Failure(Cause.GATED, NotUnderstood("hf://Qwen/Qwen3-8B", "is gated.", "Accept the licence."))


def qwen(commit: str = COMMIT) -> Entry:
    known = entry("Qwen/Qwen3-8B")
    assert known
    return replace(known, source=f"hf://Qwen/Qwen3-8B@{commit}:config.json", commit=commit)


def with_weights(found: Entry) -> Entry:
    return replace(found, weights=Weights(16_381_470_720, "5 files of model.safetensors.index.json"))


def inspected(result: InspectionResult, settings: Settings = ALWAYS, **spec: object) -> Inputs:
    """What is seen when the first inspection has ended with this result."""
    asked = inputs(inference_deployment(**spec), settings=settings)  # type: ignore[arg-type]  # fields of the spec
    job = job_of(outcome(asked).desired)
    pod = pod_view(pod_of(job, result), component=INSPECTION)
    kind = "Complete" if isinstance(result, Entry) else "Failed"
    return replace(asked, children={Ref.of(job): {**job, "status": over(kind)}}, pods=(pod,))


def later(before: Inputs, decided: Outcome, children: Mapping[Ref, Manifest]) -> Inputs:
    """The inputs of the next decision: the objects exist, and the status shows the plan."""
    status = report(before, decided, []).status
    return replace(before, children=children, pods=(), resource=replace(before.resource, status=status))


def kinds(found: Outcome) -> set[str]:
    return {ref.kind.name for ref in found.desired}


def args(found: Outcome) -> list[str]:
    arguments: list[str] = found.desired[ENGINES]["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def condition(before: Inputs, found: Outcome, kind: ConditionType) -> str:
    shown = report(before, found, []).status.condition(kind)
    return shown.message if shown else ""


def test_a_model_of_the_catalogue_is_inspected_before_it_is_sized() -> None:
    found = outcome(inputs(inference_deployment(), settings=ALWAYS))
    assert isinstance(found, NeedsInspection)
    assert kinds(found) == {JOB.name}


def test_the_setting_when_unknown_sizes_a_model_of_the_catalogue_without_a_job() -> None:
    asked = inputs(inference_deployment(), settings=WHEN_UNKNOWN)
    found = outcome(asked)
    assert isinstance(found, Planned)
    assert JOB.name not in kinds(found)
    assert "since its own files were not read" in condition(asked, found, ConditionType.MODEL_RESOLVED)


def test_engines_load_the_commit_that_was_inspected() -> None:
    before = inspected(with_weights(qwen()))
    found = outcome(before)
    assert isinstance(found, Planned)
    assert args(found)[-2:] == [f"--revision={COMMIT}", f"--tokenizer-revision={COMMIT}"]
    assert f"From its files (hf://Qwen/Qwen3-8B@{COMMIT}" in condition(before, found, ConditionType.MODEL_RESOLVED)


def test_a_branch_of_the_user_is_pinned_to_the_commit_that_was_inspected() -> None:
    asked: Manifest = {
        "model": {"source": "hf://Qwen/Qwen3-8B", "revision": "main"},
        "engine": {"args": ["--tokenizer=org/other"]},
    }
    found = outcome(inspected(with_weights(qwen()), **asked))
    assert args(found)[-2:] == ["--tokenizer=org/other", f"--revision={COMMIT}"]


def test_a_branch_of_the_user_is_loaded_where_the_hub_cannot_be_asked() -> None:
    asked: Manifest = {"model": {"source": "hf://Qwen/Qwen3-8B", "revision": "v1"}, "parallelism": {"tensor": 1}}
    found = outcome(inspected(UNREACHABLE, **asked))
    assert args(found)[-2:] == ["--revision=v1", "--tokenizer-revision=v1"]


def test_the_token_of_a_secret_reaches_the_engine_and_replaces_that_of_the_owner() -> None:
    asked: Manifest = {"model": {"source": "hf://Qwen/Qwen3-8B", "tokenSecretRef": {"name": "hub", "key": "token"}}}
    owner = EngineDefaults(env=(EnvironmentVariable(name="HF_TOKEN", value="hf_of_the_owner"),))
    settings = ALWAYS.model_copy(update={"engine_defaults": owner})
    found = outcome(inspected(with_weights(qwen()), settings, **asked))
    (engine,) = found.desired[ENGINES]["spec"]["template"]["spec"]["containers"]
    tokens = [one for one in engine["env"] if one["name"] == "HF_TOKEN"]
    assert tokens == [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}]


def test_the_commit_stays_with_the_plan_when_the_branch_moves() -> None:
    before = inspected(with_weights(qwen()))
    found = outcome(before)
    moved = {**found.desired}
    for ref in found.desired:
        if ref.kind == CONFIG_MAP and "-model-" in ref.name:
            record = model_record(ModelSpec(source="hf://Qwen/Qwen3-8B"), None, owner=before.resource.owner)
            assert record.ref == ref
            moved[ref] = record.manifest(with_weights(qwen("f" * 40)))
    again = outcome(later(before, found, moved))
    assert args(again) == args(found)


def test_a_hub_that_cannot_be_asked_leaves_the_catalogue_and_the_plan_says_why() -> None:
    before = inspected(UNREACHABLE)
    found = outcome(before)
    assert isinstance(found, Planned)
    assert not [each for each in args(found) if each.startswith("--revision")]
    why = "the config in the catalogue, because the hub could not be asked (the hub cannot be reached)"
    assert found.plan.plan.assumptions[-1:] == (why,)
    assert why in condition(before, found, ConditionType.SIZED)
    assert "From the catalogue (ai-dynamo/" in condition(before, found, ConditionType.MODEL_RESOLVED)
    following = later(before, found, found.desired)
    again = outcome(following)
    assert JOB.name not in kinds(again), "no further attempt once the engine is sized"
    assert why in condition(following, again, ConditionType.SIZED)


def test_a_gated_model_of_the_catalogue_is_refused_before_any_pod() -> None:
    before = inspected(GATED)
    found = outcome(before)
    assert isinstance(found, Refused)
    assert "is gated. Accept the licence." in condition(before, found, ConditionType.STALLED)


def test_an_engine_on_cpus_loads_the_commit_of_a_hub_that_was_inspected() -> None:
    found = outcome(inspected(with_weights(qwen()), hardware=CPUS))
    assert isinstance(found, Planned)
    assert f"--revision={COMMIT}" in args(found)


def test_an_engine_on_cpus_of_a_gated_model_is_refused_before_any_pod() -> None:
    found = outcome(inspected(GATED, hardware=CPUS))
    assert isinstance(found, Refused)
    assert found.refusal.reason is Reason.MODEL_GATED


def test_an_engine_on_cpus_starts_where_the_hub_cannot_be_asked() -> None:
    found = outcome(inspected(UNREACHABLE, hardware=CPUS))
    assert isinstance(found, Planned)
    assert not [each for each in args(found) if each.startswith("--revision")]


def test_an_engine_on_cpus_with_a_model_in_an_image_is_not_inspected() -> None:
    asked = inputs(inference_deployment(model={"source": "oci://registry/model:1"}, hardware=CPUS), settings=ALWAYS)
    found = outcome(asked)
    assert isinstance(found, Planned)
    assert JOB.name not in kinds(found)


@pytest.mark.parametrize("hardware", [CPUS, {"device": "GPU"}])
def test_an_image_named_by_a_tag_is_said_to_be_able_to_change_and_one_named_by_digest_is_not(
    hardware: dict[str, str],
) -> None:
    def said(source: str) -> str:
        spec: dict[str, object] = {"model": {"source": source}, "hardware": hardware}
        on_gpus = hardware != CPUS
        asked = inspected(with_weights(qwen("")), **spec) if on_gpus else inputs(inference_deployment(**spec))  # type: ignore[arg-type]
        found = outcome(asked)
        assert isinstance(found, Planned)
        return condition(asked, found, ConditionType.MODEL_RESOLVED)

    assert "The image `registry/model:1` has no digest in its name" in said("oci://registry/model:1")
    assert "add its digest, `@sha256:...`, to `spec.model.source`" in said("oci://registry/model:1")
    assert "digest" not in said(f"oci://registry/model:1@sha256:{'0' * 64}")


def test_an_update_of_the_operator_inspects_no_model_of_a_pinned_plan() -> None:
    asked = inputs(inference_deployment(), settings=WHEN_UNKNOWN)
    made = outcome(asked)
    updated = replace(later(asked, made, made.desired), settings=ALWAYS)
    again = outcome(updated)
    assert isinstance(again, Planned)
    assert (JOB.name in kinds(again), args(again)) == (False, args(made))


@pytest.mark.parametrize("spec", [{"parallelism": {"tensor": 1}}, {"hardware": CPUS}], ids=["GPUs", "CPUs"])
def test_no_engine_starts_with_pickle_weights_without_consent_though_its_sizes_are_given(spec: Manifest) -> None:
    weights = weights_of_files({"pytorch_model.bin": 16_381_470_720})
    assert isinstance(weights, NotUnderstood)
    asked = inspected(unusable(weights), **spec)
    found = outcome(asked)
    assert isinstance(found, Refused)
    assert found.refusal.reason is Reason.PICKLE_WEIGHTS
    assert "set `spec.model.allowPickle: true`" in found.refusal.message
    assert "spec.parallelism" not in found.refusal.message
    assert "pickle files" in condition(asked, found, ConditionType.STALLED)


def test_pickle_weights_with_consent_are_sized_and_named_until_the_consent_is_withdrawn() -> None:
    model = {"source": "hf://Qwen/Qwen3-8B", "revision": COMMIT}
    weights = weights_of_files({"pytorch_model.bin": 16_381_470_720}, allow_pickle=True)
    assert isinstance(weights, Weights)
    found = replace(qwen(), weights=weights)
    asked = inspected(found, model={**model, "allowPickle": True})
    made = outcome(asked)
    assert isinstance(made, Planned)
    shown = condition(asked, made, ConditionType.MODEL_RESOLVED)
    assert "15.3 GiB of weights (pytorch_model.bin)" in shown
    assert "pickle files, which can run code in the engine; `spec.model.allowPickle` allows them" in shown
    after = later(asked, made, made.desired)
    withdrawn = resource(inference_deployment(model=model))
    again = outcome(replace(after, resource=replace(after.resource, spec=withdrawn.spec)))
    assert isinstance(again, NeedsInspection)
    assert again.desired[ENGINES] == made.desired[ENGINES]
    (job,) = (one for ref, one in again.desired.items() if ref.kind == JOB)
    assert "--allow-pickle" not in job["spec"]["template"]["spec"]["containers"][0]["args"]
