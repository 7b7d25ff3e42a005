"""What people read of each situation: one file each, as `kubectl get` and `kubectl describe` print it."""

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from inference_operator.manifest import Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.report import Report
from tests.status.kubectl_output import described, table
from tests.status.situations import SERVING, observed, reported
from tests.status.test_states import STATES, report_of
from tests.testing.builders import deployment_status, inference_deployment
from tests.testing.for_each import for_each
from tests.testing.golden import GoldenFile

TERMINAL = 100
"""Columns of a terminal that is not wide."""


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.use_extension(GoldenFile.ending("txt"))


def resource(situation: Inputs, report: Report) -> Manifest:
    return {"metadata": {"name": situation.resource.key.name}, "status": report.status.dump()}


@pytest.mark.parametrize("state", STATES, ids=[re.sub("[^a-z0-9]+", "-", state.lower()) for state in STATES])
def test_what_kubectl_prints_of_a_situation(state: str, golden: SnapshotAssertion) -> None:
    raw = resource(STATES[state][0], report_of(state))
    lines = [*table(raw), "", *table(raw, wide=True), "", *described(raw["status"])]
    assert "\n".join(lines) + "\n" == golden


@for_each(STATES)
def test_a_cause_stands_in_one_condition_and_no_message_only_names_another_condition(state: str) -> None:
    status = report_of(state).status
    messages = [one.message for one in status.conditions]
    assert not [one for one in messages if "see the condition" in one]
    long = [sentence for one in messages for sentence in one.split(". ") if len(sentence) > 60]
    assert [one for one in long if sum(one in message for message in messages) > 1] == []
    assert status.message in messages


def test_the_columns_of_a_large_model_fit_into_a_terminal() -> None:
    raw = inference_deployment(
        source="hf://meta-llama/Llama-3.1-70B-Instruct", hardware={"gpu": {"products": ["H100"]}}
    )
    situation = observed(raw, live=raw, engines=deployment_status(1), routers=deployment_status(2))
    lines = table(resource(situation, reported(situation)))
    assert "4xH100-80GB" in lines[1] or "2xH100-80GB" in lines[1], lines
    assert max(map(len, lines)) <= TERMINAL, lines


def test_a_service_without_trouble_prints_why_it_is_ready() -> None:
    assert resource(SERVING, reported(SERVING))["status"]["reason"] == "Serving"


def test_a_trouble_beside_ready_is_the_reason_that_get_prints() -> None:
    state = "a rejected change, old pods serving"
    situation, _, conditions = STATES[state]
    assert conditions[0] == "True Serving"
    assert resource(situation, report_of(state))["status"]["reason"] == "ChildRejected"
