from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import INFERENCE_DEPLOYMENT_API
from inference_operator.api.rollouts import RolloutSettings
from inference_operator.api.status import Status
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ROUTER
from inference_operator.status.report import Report
from inference_operator.views.pod import PodView, pod_template_hash
from inference_operator.views.samples import Samples
from inference_operator.workload.eviction.rollout import RolloutReason
from tests.status.situations import (
    CRASHING,
    CURRENT,
    EVICTED,
    HUNG,
    MINUTES,
    NO_IMAGE,
    NO_SECRET,
    OLD_ENGINE,
    OVER_QUOTA,
    OVERDUE,
    RAW,
    REFUSED_POD,
    REJECTED,
    SERVING,
    decided,
    loading,
    main_conditions,
    message,
    observed,
    reported,
    starting,
    view,
)
from tests.testing.builders import (
    ENGINES,
    NOW,
    SETTINGS,
    deployment_status,
    inference_deployment,
    inputs,
    planned,
)

SHOWN_SIZES = 14
"""Fields of a plan that people read in status."""


def test_the_problem_of_the_oldest_engine_pod_is_reported_first() -> None:
    pods = [
        view(NO_IMAGE, name="qwen-router-a", component=ROUTER, age=9),
        view(NO_IMAGE, name="qwen-engine-young", age=1),
        view(NO_SECRET, name="qwen-engine-old", age=2),
    ]
    result = reported(observed(engines=deployment_status(2, ready=0), routers=deployment_status(2, ready=0), pods=pods))
    assert message(result, ConditionType.RECONCILING).startswith("Pod qwen-engine-old ")


def test_the_problem_of_a_terminating_pod_is_not_reported() -> None:
    going = replace(view(NO_IMAGE), terminating=True)
    result = reported(loading(pods=[going]))
    assert main_conditions(result) == ("False Starting", "True Starting", "False NotStalled")


def test_the_problem_of_a_pod_of_an_earlier_template_is_not_reported() -> None:
    current = pod_template_hash(planned(RAW).desired[ENGINES]["spec"]["template"]["metadata"])
    assert current
    for template, reason in (("earlier", "RollingOut"), (current, "ImagePullFailed"), (None, "ImagePullFailed")):
        stuck = view(NO_IMAGE, template=template)
        status = deployment_status(2, updated=1, ready=1)
        result = reported(observed(engines=status, routers=deployment_status(2), pods=[stuck]))
        assert main_conditions(result)[1] == f"True {reason}"


def test_a_failed_pod_is_the_reported_cause_until_another_cause_is_known() -> None:
    evicted = view(EVICTED, name="qwen-engine-old", age=9)
    cause = "Pod qwen-engine-old does not run: Evicted: The node was low on resource: memory."
    alone = reported(loading(pods=[evicted]))
    assert message(alone, ConditionType.RECONCILING) == cause
    both = reported(loading(pods=[evicted, view(NO_IMAGE)]))
    assert message(both, ConditionType.RECONCILING).startswith("Pod qwen-engine-a ")
    router_down = observed(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=[evicted])
    assert main_conditions(reported(router_down))[1] == "True RouterUnavailable"


def rejected(name: str, age: int, **more: object) -> PodView:
    return replace(view(REJECTED, name=f"qwen-engine-{name}", age=age), node="gpu-1", **more)  # type: ignore[arg-type]


def test_pods_that_a_node_rejects_name_it_and_are_stalled_after_ten_minutes_although_each_is_a_new_one() -> None:
    first = reported(loading(pods=[rejected("z", 0)]))
    assert main_conditions(first) == ("False PodRejected", "True PodRejected", "False NotStalled")
    assert message(first, ConditionType.RECONCILING).startswith(
        "Pod qwen-engine-z does not run on node `gpu-1`: UnexpectedAdmissionError: Pod was rejected: Allocate failed"
    )
    assert first.requeue is not None
    assert first.requeue.seconds == 600
    pods = [rejected("z", 0), rejected("a", -8), view({"phase": "Pending"}, name="qwen-engine-b", age=-9)]
    later = reported(loading(pods=pods, before=first.status, minutes=9))
    assert later.status.message == first.status.message, "the first one, so that the status is not written for each"
    late = reported(loading(pods=pods, before=later.status, minutes=10))
    assert main_conditions(late) == ("False PodRejected", "False Settled", "True ProgressDeadlineExceeded")
    assert message(late, ConditionType.STALLED).startswith("For 10 minutes: Pod qwen-engine-z does not run on node")
    assert main_conditions(reported(loading(pods=pods, before=late.status, minutes=11))) == main_conditions(late)


def test_a_rollout_whose_pods_a_node_rejects_is_stalled_after_ten_minutes_beside_engines_that_serve() -> None:
    def rolling(pods: list[PodView], before: Status, minutes: int) -> Report:
        engines = deployment_status(2, updated=1, ready=1)
        pods = [OLD_ENGINE, *pods]
        situation = observed(engines=engines, routers=deployment_status(2), pods=pods, before=before, minutes=minutes)
        return reported(decided(situation, RolloutReason.FREE_SLOT))

    long_ago = rejected("left", 60 * 24, template=CURRENT)
    first = rolling([long_ago], reported(SERVING).status, 0)
    assert main_conditions(first) == ("True Serving", "True PodRejected", "False NotStalled")
    assert main_conditions(rolling([long_ago], first.status, 9))[2] == "False NotStalled"
    assert main_conditions(rolling([long_ago], first.status, 10))[2] == "True ProgressDeadlineExceeded"
    starts = view(starting(state={"running": {}}, started=False), name="qwen-engine-b", age=-1, template=CURRENT)
    assert main_conditions(rolling([long_ago, starts], first.status, 10))[1] == "True RollingOut"


def test_a_further_engine_that_a_node_rejects_is_no_stall() -> None:
    two = inference_deployment(replicas=2)
    engines = deployment_status(2, ready=1)
    situation = observed(two, live=two, engines=engines, routers=deployment_status(2), pods=[rejected("a", 60)])
    result = reported(situation)
    assert main_conditions(result) == ("True Serving", "False Settled", "False NotStalled")
    assert message(result, ConditionType.ENGINES_AVAILABLE).startswith("1 of 2 engines are ready. Pod qwen-engine-a ")
    assert result.requeue is None


def test_the_summary_is_the_rejection_of_a_pod() -> None:
    result = reported(observed(engines=REFUSED_POD, routers=deployment_status(2)))
    assert result.status.message == "Kubernetes refuses a pod: denied by policy"
    assert message(result, ConditionType.ENGINES_AVAILABLE) == "0 of 1 engine is ready."


def test_a_resource_that_served_is_stalled_after_the_progress_deadline() -> None:
    served = reported(SERVING).status
    first = reported(loading(before=served, minutes=1))
    assert main_conditions(first) == ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled")
    assert first.requeue is not None
    assert first.requeue.seconds == MINUTES * 60
    almost = reported(loading(before=first.status, minutes=MINUTES))
    assert main_conditions(almost)[2] == "False NotStalled"
    assert almost.requeue is not None
    assert almost.requeue.seconds == 60
    late = reported(loading(before=first.status, minutes=MINUTES + 1))
    assert main_conditions(late) == ("False EnginesUnavailable", "False Settled", "True ProgressDeadlineExceeded")
    assert late.requeue is None
    back = reported(replace(SERVING, resource=replace(SERVING.resource, status=late.status)))
    assert main_conditions(back) == ("True Serving", "False Settled", "False NotStalled")


def test_the_requeue_of_a_pod_problem_is_at_its_progress_deadline() -> None:
    first = reported(loading(pods=[view(NO_IMAGE)]))
    second = reported(loading(pods=[view(NO_IMAGE)], before=first.status, minutes=10))
    younger = reported(loading(pods=[view(NO_IMAGE, age=-5)], before=first.status, minutes=10))
    waits = [(result.requeue.seconds or 0) / 60 for result in (first, second, younger) if result.requeue]
    assert waits == [MINUTES, MINUTES - 10, MINUTES - 5]


def test_a_pod_that_was_ready_for_days_has_a_full_progress_deadline_to_recover() -> None:
    crashing = [view(CRASHING, age=3 * 24 * 60)]
    first = reported(loading(pods=crashing, before=reported(SERVING).status, minutes=1))
    assert main_conditions(first) == ("False EnginesUnavailable", "True CrashLoop", "False NotStalled")
    assert first.requeue is not None
    assert first.requeue.seconds == MINUTES * 60
    late = reported(loading(pods=crashing, before=first.status, minutes=MINUTES + 1))
    assert main_conditions(late)[2] == "True ProgressDeadlineExceeded"


def test_an_edit_that_fixes_a_problem_restarts_the_progress_deadline() -> None:
    down = reported(loading(before=reported(SERVING).status, minutes=1)).status
    earlier = view(CRASHING, name="qwen-engine-old", age=60, template="earlier")
    rolling = deployment_status(1, updated=0, ready=0)
    applied = reported(loading(engines=rolling, pods=[earlier], before=down, minutes=40))
    assert main_conditions(applied) == ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled")
    young = view({}, age=-41)
    loads = reported(loading(pods=[young], before=applied.status, minutes=50))
    assert main_conditions(loads)[2] == "False NotStalled"
    assert loads.requeue is not None
    assert loads.requeue.seconds == (MINUTES - 9) * 60


def test_time_without_a_router_does_not_count_for_the_engines_deadline() -> None:
    down = reported(
        observed(
            engines=deployment_status(1),
            routers=deployment_status(2, ready=0),
            before=reported(SERVING).status,
            minutes=1,
        )
    )
    assert main_conditions(down) == ("False RouterUnavailable", "True RouterUnavailable", "False NotStalled")
    both = reported(loading(before=down.status, minutes=MINUTES + 10))
    assert main_conditions(both) == ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled")
    late = reported(loading(before=both.status, minutes=2 * MINUTES + 10))
    assert main_conditions(late)[2] == "True ProgressDeadlineExceeded"


def test_a_crashing_router_beside_a_ready_router_has_no_progress_deadline() -> None:
    nothing = inference_deployment(replicas=0)
    result = reported(
        observed(
            nothing,
            live=nothing,
            engines=deployment_status(0),
            routers=deployment_status(2, ready=1),
            pods=[view(CRASHING, component=ROUTER, age=600)],
        )
    )
    assert main_conditions(result) == ("True ScaledToZero", "False Settled", "False NotStalled")
    assert result.requeue is None


@pytest.mark.parametrize(
    ("status", "lasting"),
    [
        (deployment_status(1, ready=0), "0 of 1 engine is ready."),
        (deployment_status(2, updated=1, ready=1), "No pod of the new specification has become ready."),
    ],
)
def test_stalled_names_the_problem_of_a_deployment_that_exceeded_its_deadline(status: Manifest, lasting: str) -> None:
    result = reported(loading(engines={**status, **OVERDUE}))
    assert message(result, ConditionType.STALLED) == f"For {MINUTES} minutes: {lasting}"


def test_stalled_names_a_lasting_rejection_of_pods() -> None:
    conditions = [*REFUSED_POD["conditions"], *OVERDUE["conditions"]]
    result = reported(loading(engines={**REFUSED_POD, "conditions": conditions}))
    lasting = f"For {MINUTES} minutes: Kubernetes refuses a pod: denied by policy"
    assert message(result, ConditionType.STALLED) == lasting


def test_a_settled_resource_has_no_requeue() -> None:
    assert reported(SERVING).requeue is None


def test_with_a_window_all_resources_are_due_when_it_opens() -> None:
    opens = NOW + timedelta(hours=2)
    window = {"start": f"{opens:%M %H} * * *", "end": f"{opens + timedelta(hours=1):%M %H} * * *"}
    settings = SETTINGS.model_copy(update={"rollouts": RolloutSettings.model_validate({"renewal": window})})
    requeue = reported(replace(SERVING, settings=settings)).requeue
    assert requeue is not None
    assert requeue.with_all
    assert requeue.seconds == (opens.replace(second=0, microsecond=0) - NOW).total_seconds()


def test_a_transition_time_changes_only_with_the_status_of_its_condition() -> None:
    first = reported(observed(engines=deployment_status(1, ready=0), routers=deployment_status(2, ready=0))).status
    second = reported(
        observed(engines=deployment_status(1, ready=0), routers=deployment_status(2), before=first, minutes=1)
    ).status
    third = reported(
        observed(engines=deployment_status(1), routers=deployment_status(2), before=second, minutes=2)
    ).status
    times = {
        kind: [c.last_transition_time for status in (first, second, third) for c in status.conditions if c.type == kind]
        for kind in INFERENCE_DEPLOYMENT_API.conditions
    }
    start, minute, two = "2026-01-02T03:04:05Z", "2026-01-02T03:05:05Z", "2026-01-02T03:06:05Z"
    assert times == {
        ConditionType.READY: [start, start, two],
        ConditionType.RECONCILING: [start, start, two],
        ConditionType.STALLED: [start, start, start],
        ConditionType.MODEL_RESOLVED: [start, start, start],
        ConditionType.SIZED: [start, start, start],
        ConditionType.ENGINES_AVAILABLE: [start, start, two],
        ConditionType.ROUTER_AVAILABLE: [start, minute, minute],
        ConditionType.EXPOSED: [],
        ConditionType.SCALING_ACTIVE: [],
        ConditionType.ADAPTERS_AVAILABLE: [],
        ConditionType.PREFILL_UNUSED: [],
        ConditionType.RENEWED: [],
    }


def test_the_status_of_a_serving_resource_has_url_counts_selector_plan_and_image() -> None:
    status = reported(SERVING).status
    assert status.url == "http://qwen.default.svc.cluster.local/v1"
    assert (status.replicas, status.ready_replicas, status.ready) == (1, 1, "1/1")
    assert status.selector == "app.kubernetes.io/component=engine,inference-operator.dev/name=qwen"
    assert status.observed_generation == 1
    assert status.plan is not None
    assert len(type(status.plan).model_fields) <= SHOWN_SIZES
    assert (status.plan.gpus_per_replica, status.plan.gpu, status.plan.max_model_len) == (1, "H100-80GB", 40960)
    assert status.engine is not None
    assert status.engine.image == SETTINGS.gpu_engine_image


def test_a_refused_edit_keeps_the_plan_of_the_serving_engines_in_the_status() -> None:
    refused = reported(
        observed(inference_deployment(source="gs://b"), engines=deployment_status(1), routers=deployment_status(2))
    ).status
    assert refused.plan == reported(SERVING).status.plan
    assert refused.engine == reported(SERVING).status.engine
    assert refused.ready == "1/1"
    reconciling = refused.condition(ConditionType.RECONCILING)
    assert reconciling is not None
    assert reconciling.message == "Engines keep their specification until the refused edit is changed."


def test_a_refused_edit_counts_engines_by_the_last_valid_spec() -> None:
    refused = inference_deployment(source="gs://b", replicas=5)
    status = deployment_status(2, ready=1)
    result = reported(
        observed(refused, live=inference_deployment(replicas=2), engines=status, routers=deployment_status(3, ready=2))
    )
    assert message(result, ConditionType.READY) == "1 of 2 engines are ready. The last edit is refused."
    assert result.status.reason == "InvalidModelSource"
    assert result.status.message.startswith("spec.model.source: `gs://b` has no scheme")
    assert message(result, ConditionType.ENGINES_AVAILABLE) == "1 of 2 engines are ready."
    assert message(result, ConditionType.ROUTER_AVAILABLE) == "2 of 2 routers are ready."
    assert result.status.ready == "1/2"


@pytest.mark.parametrize("refused", [{"source": "gs://b"}, {"parallelism": {"tensor": 0}}])
def test_a_new_resource_with_a_refused_spec_has_no_engines_in_the_status(refused: dict[str, Any]) -> None:
    result = reported(inputs(inference_deployment(**refused)))
    available = result.status.condition(ConditionType.ENGINES_AVAILABLE)
    assert available is not None
    assert (available.status, available.message) == (
        "False",
        "There are no engines: the specification cannot be served.",
    )


def test_terminating_engines_are_not_counted_at_zero_replicas() -> None:
    nothing = inference_deployment(replicas=0)
    invalid = inference_deployment(parallelism={"tensor": 0})
    for raw in (nothing, invalid):
        result = reported(observed(raw, live=nothing, engines=deployment_status(1), routers=deployment_status(2)))
        assert main_conditions(result)[0] == "True ScaledToZero"
        assert message(result, ConditionType.ENGINES_AVAILABLE) == "Scaled to zero."


def test_a_quota_that_stops_a_scale_up_is_reported_while_ready_stays_true() -> None:
    refusing = {**OVER_QUOTA, **deployment_status(1)}
    result = reported(observed(inference_deployment(replicas=3), engines=refusing, routers=deployment_status(2)))
    assert message(result, ConditionType.RECONCILING) == "No changes are in progress."
    assert message(result, ConditionType.ENGINES_AVAILABLE).endswith(
        "exceeded quota: small. Raise the quota in the message, or lower the requests."
    )


def test_ready_names_a_newer_default_image() -> None:
    newer = SETTINGS.model_copy(update={"gpu_engine_image": "docker.io/vllm/vllm-openai:v9.9.9"})
    result = reported(replace(SERVING, settings=newer))
    assert message(result, ConditionType.READY).startswith(
        "1 of 1 engine is ready. The engine stays on `docker.io/vllm/"
    )
    assert "v9.9.9" in message(result, ConditionType.READY)
    engines = result.status.condition(ConditionType.ENGINES_AVAILABLE)
    assert engines is not None
    assert (engines.status, engines.reason) == ("True", "EnginesOutdated")
    assert engines.message == "1 of 1 engine is ready. Engines keep something older: `Ready` says what, and the cure."


def test_engines_whose_metrics_cannot_be_read_are_reported_with_the_cure() -> None:
    (pod,) = HUNG.pods
    blind = replace(HUNG, samples=Samples(unread=frozenset({pod.uid})))
    result = reported(blind)
    assert main_conditions(result)[0] == "True Serving"
    assert message(result, ConditionType.ENGINES_AVAILABLE).endswith(
        "The metrics of 1 of them cannot be read, so an engine that hangs is not found: let the operator's pods reach "
        "the port `http` of engines (NetworkPolicies, service mesh)."
    )
    assert "cannot be read" not in message(reported(SERVING), ConditionType.ENGINES_AVAILABLE)


def test_an_operator_that_has_just_started_keeps_what_the_status_says_of_unread_metrics() -> None:
    (pod,) = HUNG.pods
    blind = reported(replace(HUNG, samples=Samples(unread=frozenset({pod.uid}))))
    resource = replace(HUNG.resource, status=blind.status)
    started = reported(replace(HUNG, resource=resource, samples=Samples()))
    assert started.status == blind.status
    readable = reported(replace(HUNG, resource=resource))
    assert "cannot be read" not in message(readable, ConditionType.ENGINES_AVAILABLE)
