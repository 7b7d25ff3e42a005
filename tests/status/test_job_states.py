"""What users read about Jobs whose pods do not run, and about models that could not be read."""

from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.manifest import JOB
from inference_operator.objects.names import ENGINE, INSPECTION
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.report import Report
from inference_operator.views.pod import pod_view
from tests.status.job_states import (
    ADAPTING,
    CREATE_TOKEN,
    DOWNLOADING,
    INSPECTING,
    NO_TOKEN,
    OVERDUE_INSPECTION,
    SILENT_HUB,
    SILENT_HUB_AND_CACHE,
    VERIFYING,
    gated,
    not_running,
)
from tests.status.situations import loading, message, reported, view
from tests.testing.builders import ENGINES, inference_deployment, inputs, planned, waiting


@pytest.mark.parametrize("situation", [INSPECTING, DOWNLOADING, ADAPTING, OVERDUE_INSPECTION])
def test_the_missing_secret_of_a_job_is_the_reason_with_the_command_that_makes_it(situation: Inputs) -> None:
    status = reported(situation).status
    assert status.reason == "ContainerConfigError"
    assert f'secret "hf-token" not found. {CREATE_TOKEN}' in status.message


def test_a_model_whose_job_lacks_its_secret_is_not_resolved_for_that_reason() -> None:
    assert verdict(reported(INSPECTING), ConditionType.MODEL_RESOLVED) == ("Unknown", "ContainerConfigError")
    assert verdict(reported(OVERDUE_INSPECTION), ConditionType.MODEL_RESOLVED) == ("False", "ContainerConfigError")
    assert verdict(reported(OVERDUE_INSPECTION), ConditionType.SIZED) == ("False", "ContainerConfigError")


def test_a_further_adapter_whose_job_lacks_its_secret_is_not_available_for_that_reason() -> None:
    assert verdict(reported(ADAPTING), ConditionType.ADAPTERS_AVAILABLE) == ("False", "ContainerConfigError")


def test_a_registry_that_nodes_do_not_reach_is_a_matter_of_the_network() -> None:
    network = "Check the network path from the nodes to the registry (DNS, proxy, firewall), or set `imageRegistry`"
    assert network in reported(VERIFYING).status.message
    refused = waiting("ErrImagePull", 'Head "https://a.b/v2": dial tcp 1.2.3.4:443: connect: connection refused')
    assert network in reported(loading(pods=[view(refused)])).status.message
    absent = waiting("ErrImagePull", "docker.io/vllm/vllm-openai:nope: not found")
    assert "Check the image name" in reported(loading(pods=[view(absent)])).status.message


def test_the_stall_of_a_job_has_its_message_and_is_due_at_the_progress_deadline() -> None:
    asked = inference_deployment(model={"source": "hf://org/gated", "tokenSecretRef": {"name": "hf-token"}})
    asked["spec"]["rollout"] = {"progressDeadline": "3m"}
    begun = not_running(inputs(asked), INSPECTION, NO_TOKEN)
    requeue = reported(begun).requeue
    assert requeue
    assert requeue.seconds == 180
    late = not_running(inputs(asked), INSPECTION, NO_TOKEN, minutes=3)
    stalled = message(reported(late), ConditionType.STALLED)
    assert stalled.startswith("For 3 minutes: Job qwen-model-")
    assert stalled.endswith(CREATE_TOKEN)


@pytest.mark.parametrize("situation", [SILENT_HUB, SILENT_HUB_AND_CACHE])
def test_a_model_that_the_hub_did_not_show_is_unknown_for_that_reason(situation: Inputs) -> None:
    resolved = verdict(reported(situation), ConditionType.MODEL_RESOLVED)
    assert resolved[1] == "HubUnreachable"


def test_the_cause_of_an_unknown_model_on_cpus_stays_once_its_engines_are_decided() -> None:
    """A plan needs no further attempt, and the Job that failed is the only record of the cause."""
    decided = outcome(SILENT_HUB)
    later = replace(SILENT_HUB, children={**decided.desired, **SILENT_HUB.children})
    again = outcome(later)
    assert [ref.name for ref in again.desired if ref.kind == JOB] == [
        ref.name for ref in SILENT_HUB.children if ref.kind == JOB
    ]
    text = message(reported(later), ConditionType.MODEL_RESOLVED)
    assert text == "The model's files could not be read. pvc://models/mine: is of no use. Use another."
    assert again.due is None


def test_a_claim_without_a_size_names_why_the_size_of_the_model_is_not_known() -> None:
    told = reported(SILENT_HUB_AND_CACHE).status
    assert told.reason == "HubUnreachable"
    assert told.message.startswith(
        "spec.cache.size: is needed: the size of the model's files is not known. pvc://models/mine: is of no use."
        " Set the size of the files"
    )


def test_a_job_that_has_just_ended_does_not_send_users_to_a_log_that_is_not_there() -> None:
    """The phase of its pod follows a moment after its container."""
    ended = {"phase": "Running", "containerStatuses": [{"state": {"terminated": {"exitCode": 1, "message": "{}"}}}]}
    status = reported(not_running(gated(), INSPECTION, ended)).status
    assert status.reason == Reason.INSPECTING_MODEL
    assert "--previous" not in status.message


def test_a_missing_key_of_a_secret_is_added_by_a_command() -> None:
    lacks = waiting("CreateContainerConfigError", "couldn't find key token in Secret default/hf-token")
    told = reported(not_running(gated(), INSPECTION, lacks)).status.message
    command = """`kubectl patch secret -n default hf-token -p '{"stringData":{"token":"…"}}'`"""
    assert f"Add the key `token` to the Secret: {command}." in told


def test_the_secret_of_a_bucket_is_made_with_both_of_its_keys() -> None:
    asked = inference_deployment(
        model={"source": "s3://models/qwen", "s3": {"credentialsSecretRef": {"name": "store"}}},
        cache={"claimName": "models"},
    )
    lacks = waiting("CreateContainerConfigError", 'secret "store" not found')
    told = reported(not_running(inputs(asked), INSPECTION, lacks)).status.message
    keys = "--from-literal=AWS_ACCESS_KEY_ID=… --from-literal=AWS_SECRET_ACCESS_KEY=…"
    assert f"`kubectl create secret generic -n default store {keys}`" in told


def test_an_engine_that_lacks_its_secret_has_the_command_as_well() -> None:
    asked = inference_deployment()
    asked["spec"]["model"]["tokenSecretRef"] = {"name": "hf-token", "key": "hub"}
    template = planned(asked).desired[ENGINES]["spec"]["template"]
    meta = {"name": "qwen-engine-a", "namespace": "default", "labels": template["metadata"]["labels"]}
    own = [{**one, "name": ENGINE} for one in NO_TOKEN["containerStatuses"]]
    status = {**NO_TOKEN, "containerStatuses": own}
    pod = pod_view({"metadata": meta, "spec": template["spec"], "status": status}, component=ENGINE)
    command = "`kubectl create secret generic -n default hf-token --from-literal=hub=…`"
    assert command in reported(loading(pods=[pod])).status.message


def verdict(found: Report, kind: ConditionType) -> tuple[str, str]:
    condition = found.status.condition(kind)
    assert condition is not None
    return condition.status, condition.reason
