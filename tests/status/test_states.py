"""Every state of docs/contributing/states.md."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache

import pytest

from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API
from inference_operator.pipeline.inputs import Inputs
from inference_operator.router import security_revision
from inference_operator.settings import Settings
from inference_operator.status.report import Report, undecided
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting, WriteResult
from tests.status.adapter_states import ADAPTER_STATES
from tests.status.autoscaler_states import AUTOSCALER_STATES
from tests.status.download_states import DOWNLOAD_STATES
from tests.status.engine_states import ENGINE_STATES
from tests.status.exposure_states import EXPOSURE_STATES
from tests.status.group_states import GROUP_STATES
from tests.status.job_states import JOB_STATES
from tests.status.paused_states import PAUSED_STATES
from tests.status.prefill_states import PREFILL_STATES
from tests.status.rolling_states import ROLLING_STATES
from tests.status.router_states import ROUTER_STATES
from tests.status.scaling_states import SCALING_STATES
from tests.status.situations import (
    CRASHING,
    HUNG,
    MINUTES,
    NO_CLAIM,
    NO_GPU,
    NO_IMAGE,
    NO_SECRET,
    OUT_OF_MEMORY,
    OUT_OF_TRAFFIC,
    OVERDUE,
    REFUSED_POD,
    SERVING,
    loading,
    main_conditions,
    observed,
    reported,
    view,
)
from tests.status.sizing_states import SIZING_STATES
from tests.status.verification_states import VERIFICATION_STATES
from tests.testing.builders import (
    BUDGET_OF_ROUTERS,
    CONFIG,
    ENGINES,
    SERVICE_OF_ROUTERS,
    deployment_status,
    inference_deployment,
    inputs,
)
from tests.testing.for_each import for_each

OTHER_MODELS = Settings(
    policy=AdministratorPolicy.model_validate(
        {"modelSources": {"allowed": ["hf://org/"], "message": "Ask platform@example.com for others."}}
    )
)

STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    **PAUSED_STATES,
    **DOWNLOAD_STATES,
    **JOB_STATES,
    **ADAPTER_STATES,
    **PREFILL_STATES,
    **VERIFICATION_STATES,
    **AUTOSCALER_STATES,
    **EXPOSURE_STATES,
    **GROUP_STATES,
    **ROLLING_STATES,
    **ROUTER_STATES,
    **SCALING_STATES,
    "first start, nothing there yet": (
        inputs(inference_deployment()),
        [],
        ("False Starting", "True Starting", "False NotStalled"),
    ),
    "first start, engines load": (
        loading(),
        [],
        ("False Starting", "True Starting", "False NotStalled"),
    ),
    "first start, without end": (
        loading(engines={**deployment_status(1, ready=0), **OVERDUE}),
        [],
        ("False Starting", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "first start, the Deployment gave up on the specification before": (
        loading(engines={**deployment_status(1, ready=0, seen=0), **OVERDUE}),
        [],
        ("False Starting", "True Starting", "False NotStalled"),
    ),
    "first start of routers, without end": (
        observed(engines=deployment_status(1), routers={**deployment_status(2, ready=0), **OVERDUE}),
        [],
        ("False RouterUnavailable", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "serving, one engine never came": (
        observed(engines={**deployment_status(2, ready=1), **OVERDUE}, routers=deployment_status(2)),
        [],
        ("True Serving", "False Settled", "False NotStalled"),
    ),
    "had served although one engine never came": (
        loading(engines={**deployment_status(2, ready=0), **OVERDUE}, before=reported(SERVING).status, minutes=1),
        [],
        ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled"),
    ),
    "router down": (
        observed(engines=deployment_status(1), routers=deployment_status(2, ready=0)),
        [],
        ("False RouterUnavailable", "True RouterUnavailable", "False NotStalled"),
    ),
    "serving": (SERVING, [], ("True Serving", "False Settled", "False NotStalled")),
    "serving while scaling up": (
        observed(inference_deployment(replicas=3), engines=deployment_status(3, ready=1), routers=deployment_status(2)),
        [],
        ("True Serving", "False Settled", "False NotStalled"),
    ),
    "scaled to zero": (
        observed(inference_deployment(replicas=0), engines=deployment_status(0), routers=deployment_status(2)),
        [],
        ("True ScaledToZero", "False Settled", "False NotStalled"),
    ),
    "scaled to zero, router down": (
        observed(inference_deployment(replicas=0), engines=deployment_status(0), routers=deployment_status(2, ready=0)),
        [],
        ("False RouterUnavailable", "True RouterUnavailable", "False NotStalled"),
    ),
    "waiting for a node": (
        loading(pods=[view(NO_GPU, age=600)], engines={**deployment_status(1, ready=0), **OVERDUE}),
        [],
        ("False Unschedulable", "True Unschedulable", "False NotStalled"),
    ),
    "image missing": (
        loading(pods=[view(NO_IMAGE)]),
        [],
        ("False ImagePullFailed", "True ImagePullFailed", "False NotStalled"),
    ),
    "secret missing": (
        loading(pods=[view(NO_SECRET)]),
        [],
        ("False ContainerConfigError", "True ContainerConfigError", "False NotStalled"),
    ),
    "claim missing": (
        loading(pods=[view(NO_CLAIM)]),
        [],
        ("False VolumeUnavailable", "True VolumeUnavailable", "False NotStalled"),
    ),
    "out of memory": (
        loading(pods=[view(OUT_OF_MEMORY)]),
        [],
        ("False OutOfMemory", "True OutOfMemory", "False NotStalled"),
    ),
    "crashing": (
        loading(pods=[view(CRASHING)]),
        [],
        ("False CrashLoop", "True CrashLoop", "False NotStalled"),
    ),
    "a pod is refused": (
        observed(engines=REFUSED_POD, routers=deployment_status(2)),
        [],
        ("False PodRejected", "True PodRejected", "False NotStalled"),
    ),
    "had served, none ready now": (
        loading(before=reported(SERVING).status, minutes=1),
        [],
        ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled"),
    ),
    "managed argument": (
        inputs(inference_deployment(engine={"args": ["--port=1"]})),
        [],
        ("False ManagedArgument", "False Settled", "True ManagedArgument"),
    ),
    **ENGINE_STATES,
    **SIZING_STATES,
    "claim missing for too long": (
        loading(pods=[view(NO_CLAIM)], before=reported(loading(pods=[view(NO_CLAIM)])).status, minutes=MINUTES),
        [],
        ("False VolumeUnavailable", "False Settled", "True ProgressDeadlineExceeded"),
    ),
    "refused at once": (
        inputs(inference_deployment(source="gs://bucket")),
        [],
        ("False InvalidModelSource", "False Settled", "True InvalidModelSource"),
    ),
    "refused edit, old pods serving": (
        observed(
            inference_deployment(parallelism={"tensor": 0}),
            engines=deployment_status(1),
            routers=deployment_status(2),
        ),
        [],
        ("True Serving", "False Settled", "True InvalidSpec"),
    ),
    "refused edit at zero": (
        observed(
            inference_deployment(source="gs://bucket"),
            live=inference_deployment(replicas=0),
            engines=deployment_status(0),
            routers=deployment_status(2),
        ),
        [],
        ("True ScaledToZero", "False Settled", "True InvalidModelSource"),
    ),
    "the policy refuses a new resource": (
        inputs(inference_deployment(), settings=OTHER_MODELS),
        [],
        ("False RefusedByPolicy", "False Settled", "True RefusedByPolicy"),
    ),
    "a later policy refuses what serves": (
        replace(SERVING, settings=OTHER_MODELS),
        [],
        ("True Serving", "False Settled", "True RefusedByPolicy"),
    ),
    "a foreign Service": (
        observed(engines=deployment_status(1), routers=deployment_status(2), absent=[SERVICE_OF_ROUTERS]),
        [Conflict(SERVICE_OF_ROUTERS, "Gateway edge")],
        ("False NameConflict", "False Settled", "True NameConflict"),
    ),
    "a foreign Deployment": (
        observed(routers=deployment_status(2), absent=[ENGINES]),
        [Conflict(ENGINES, "somebody else")],
        ("False NameConflict", "False Settled", "True NameConflict"),
    ),
    "a foreign budget stands in nobody's way": (
        observed(engines=deployment_status(1), routers=deployment_status(2), absent=[BUDGET_OF_ROUTERS]),
        [Conflict(BUDGET_OF_ROUTERS, "somebody else")],
        ("True Serving", "False Settled", "True NameConflict"),
    ),
    "a request for the first child fails": (
        inputs(inference_deployment()),
        [Failed(CONFIG, "HTTP 500: etcd is slow")],
        ("False RequestFailed", "True RequestFailed", "False NotStalled"),
    ),
    "a request fails, old pods serving": (
        SERVING,
        [Failed(CONFIG, "HTTP 500: etcd is slow")],
        ("True Serving", "True RequestFailed", "False NotStalled"),
    ),
    "one request fails and another child is rejected": (
        SERVING,
        [Failed(CONFIG, "HTTP 500: etcd is slow"), Rejected(ENGINES, "denied by policy")],
        ("True Serving", "False Settled", "True ChildRejected"),
    ),
    "a rejected Service": (
        observed(engines=deployment_status(1), routers=deployment_status(2), absent=[SERVICE_OF_ROUTERS]),
        [Rejected(SERVICE_OF_ROUTERS, "exceeded quota")],
        ("False ChildRejected", "False Settled", "True ChildRejected"),
    ),
    "a rejected change, old pods serving": (
        SERVING,
        [Rejected(ENGINES, "denied by policy")],
        ("True Serving", "False Settled", "True ChildRejected"),
    ),
    "a child of the same name is being deleted": (
        observed(routers=deployment_status(2), absent=[ENGINES]),
        [Waiting(ENGINES)],
        ("False WaitingForDeletion", "True WaitingForDeletion", "False NotStalled"),
    ),
    "an engine gets no new requests": (OUT_OF_TRAFFIC, [], ("True Serving", "False Settled", "False NotStalled")),
    "an engine has stalled": (HUNG, [], ("True Serving", "False Settled", "False NotStalled")),
}


def test_every_reason_of_a_condition_occurs_in_a_state(monkeypatch: pytest.MonkeyPatch) -> None:
    now = reasons()
    closed = (*security_revision.CLOSED_ATTACKS, "an attack that no router of a state closes")
    monkeypatch.setattr(security_revision, "CLOSED_ATTACKS", closed)
    ours = {reason for reason in Reason if EXPLANATIONS[reason].condition in INFERENCE_DEPLOYMENT_API.conditions}
    assert now | reasons() | {undecided(next(iter(STATES.values()))[0]).reason} == ours


@cache
def report_of(state: str) -> Report:
    """What the operator reports in a state; frozen, and read by several tests."""
    situation, results, _ = STATES[state]
    return reported(situation, results)


def reasons() -> set[str]:
    reports = [reported(situation, results) for situation, results, _ in STATES.values()]
    return {c.reason for report in reports for c in report.status.conditions}


SOMETIMES = {
    ConditionType.EXPOSED,
    ConditionType.SCALING_ACTIVE,
    ConditionType.ADAPTERS_AVAILABLE,
    ConditionType.PREFILL_UNUSED,
    ConditionType.RENEWED,
}
"""Conditions that only some resources have."""


@for_each(STATES)
def test_a_state_has_the_expected_ready_reconciling_and_stalled_conditions(state: str) -> None:
    assert main_conditions(report_of(state)) == STATES[state][2]


@for_each(STATES)
def test_every_state_has_all_conditions_with_a_reason_and_one_line_message(state: str) -> None:
    situation, _, _ = STATES[state]
    conditions = report_of(state).status.conditions
    reported_types = [c.type for c in conditions]
    always = [kind for kind in INFERENCE_DEPLOYMENT_API.conditions if kind not in SOMETIMES]
    assert [kind for kind in reported_types if kind not in SOMETIMES] == always
    assert reported_types == [kind for kind in INFERENCE_DEPLOYMENT_API.conditions if kind in reported_types]
    for condition in conditions:
        assert condition.reason in set(Reason)
        assert condition.message
        assert "\n" not in condition.message
        assert condition.observed_generation == situation.resource.generation
    ready, reconciling, stalled = (c.status for c in conditions[:3])
    assert (reconciling, stalled) != ("True", "True")
    paused = conditions[0].reason == Reason.PAUSED
    assert ready == "True" or paused or "True" in (reconciling, stalled), "nobody would know why"


@for_each(STATES)
def test_equal_inputs_give_an_equal_status_at_a_later_time(state: str) -> None:
    situation, results, _ = STATES[state]
    first = report_of(state)
    later = replace(
        situation, resource=replace(situation.resource, status=first.status), now=situation.now + timedelta(seconds=30)
    )
    assert reported(later, results).status == first.status
