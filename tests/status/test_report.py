from dataclasses import replace
from typing import Any

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ROUTER
from inference_operator.views.pod import pod_template_hash
from tests.status.situations import (
    CRASHING,
    EVICTED,
    MINUTES,
    NO_IMAGE,
    NO_SECRET,
    OVER_QUOTA,
    OVERDUE,
    RAW,
    REFUSED_POD,
    SERVING,
    loading,
    message,
    seen,
    three,
    told,
    view,
)
from tests.testing.builders import (
    ENGINES,
    SETTINGS,
    deployment_status,
    inference_deployment,
    inputs,
    planned,
)


def test_the_engines_problem_comes_before_the_routers_and_the_oldest_first() -> None:
    pods = [
        view(NO_IMAGE, name="qwen-router-a", component=ROUTER, age=9),
        view(NO_IMAGE, name="qwen-engine-young", age=1),
        view(NO_SECRET, name="qwen-engine-old", age=2),
    ]
    result = told(seen(engines=deployment_status(2, ready=0), routers=deployment_status(2, ready=0), pods=pods))
    assert message(result, ConditionType.RECONCILING).startswith("Pod qwen-engine-old ")


def test_a_pod_that_is_going_is_nobodys_problem() -> None:
    going = replace(view(NO_IMAGE), terminating=True)
    result = told(loading(pods=[going]))
    assert three(result) == ("False Starting", "True Starting", "False NotStalled")


def test_a_pod_of_an_earlier_template_is_nobodys_problem() -> None:
    current = pod_template_hash(planned(RAW).desired[ENGINES]["spec"]["template"]["metadata"])
    assert current
    for template, reason in (("earlier", "RollingOut"), (current, "ImagePullFailed"), (None, "ImagePullFailed")):
        stuck = view(NO_IMAGE, template=template)
        status = deployment_status(2, updated=1, ready=1)
        result = told(seen(engines=status, routers=deployment_status(2), pods=[stuck]))
        assert three(result)[1] == f"True {reason}"


def test_a_failed_pod_counts_until_it_is_made_up_for() -> None:
    evicted = view(EVICTED, name="qwen-engine-old", age=9)
    cause = "Pod qwen-engine-old does not run: Evicted: The node was low on resource: memory."
    alone = told(loading(pods=[evicted]))
    assert message(alone, ConditionType.RECONCILING) == cause
    both = told(loading(pods=[evicted, view(NO_IMAGE)]))
    assert message(both, ConditionType.RECONCILING).startswith("Pod qwen-engine-a ")
    router_down = seen(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=[evicted])
    assert three(told(router_down))[1] == "True RouterUnavailable"


def test_a_pod_that_kubernetes_refuses_is_told() -> None:
    result = told(seen(engines=REFUSED_POD, routers=deployment_status(2)))
    assert message(result, ConditionType.ENGINES_AVAILABLE) == (
        "0 of 1 engines are ready. Kubernetes refuses a pod: denied by policy"
    )


def test_who_had_served_is_stalled_after_the_deadline() -> None:
    served = told(SERVING).status
    first = told(loading(before=served, minutes=1))
    assert three(first) == ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled")
    assert first.requeue is not None
    assert first.requeue.seconds == MINUTES * 60
    almost = told(loading(before=first.status, minutes=MINUTES))
    assert three(almost)[2] == "False NotStalled"
    assert almost.requeue is not None
    assert almost.requeue.seconds == 60
    late = told(loading(before=first.status, minutes=MINUTES + 1))
    assert three(late) == ("False EnginesUnavailable", "False Settled", "True ProgressDeadlineExceeded")
    assert late.requeue is None
    back = told(replace(SERVING, resource=replace(SERVING.resource, status=late.status)))
    assert three(back) == ("True Serving", "False Settled", "False NotStalled")


def test_the_deadline_of_a_pods_problem_is_looked_at_in_time() -> None:
    first = told(loading(pods=[view(NO_IMAGE)]))
    second = told(loading(pods=[view(NO_IMAGE)], before=first.status, minutes=10))
    younger = told(loading(pods=[view(NO_IMAGE, age=-5)], before=first.status, minutes=10))
    waits = [(result.requeue.seconds or 0) / 60 for result in (first, second, younger) if result.requeue]
    assert waits == [MINUTES, MINUTES - 10, MINUTES - 5]


def test_a_pod_that_has_served_for_days_has_its_time_to_recover() -> None:
    crashing = [view(CRASHING, age=3 * 24 * 60)]
    first = told(loading(pods=crashing, before=told(SERVING).status, minutes=1))
    assert three(first) == ("False EnginesUnavailable", "True CrashLoop", "False NotStalled")
    assert first.requeue is not None
    assert first.requeue.seconds == MINUTES * 60
    late = told(loading(pods=crashing, before=first.status, minutes=MINUTES + 1))
    assert three(late)[2] == "True ProgressDeadlineExceeded"


def test_a_cure_has_its_time() -> None:
    down = told(loading(before=told(SERVING).status, minutes=1)).status
    earlier = view(CRASHING, name="qwen-engine-old", age=60, template="earlier")
    rolling = deployment_status(1, updated=0, ready=0)
    applied = told(loading(engines=rolling, pods=[earlier], before=down, minutes=40))
    assert three(applied) == ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled")
    young = view({}, age=-41)
    loads = told(loading(pods=[young], before=applied.status, minutes=50))
    assert three(loads)[2] == "False NotStalled"
    assert loads.requeue is not None
    assert loads.requeue.seconds == (MINUTES - 9) * 60


def test_time_without_a_router_is_not_time_without_engines() -> None:
    down = told(
        seen(
            engines=deployment_status(1),
            routers=deployment_status(2, ready=0),
            before=told(SERVING).status,
            minutes=1,
        )
    )
    assert three(down) == ("False RouterUnavailable", "True RouterUnavailable", "False NotStalled")
    both = told(loading(before=down.status, minutes=MINUTES + 10))
    assert three(both) == ("False EnginesUnavailable", "True EnginesUnavailable", "False NotStalled")
    late = told(loading(before=both.status, minutes=2 * MINUTES + 10))
    assert three(late)[2] == "True ProgressDeadlineExceeded"


def test_a_router_that_crashes_beside_one_that_answers_has_no_deadline() -> None:
    nothing = inference_deployment(replicas=0)
    result = told(
        seen(
            nothing,
            live=nothing,
            engines=deployment_status(0),
            routers=deployment_status(2, ready=1),
            pods=[view(CRASHING, component=ROUTER, age=600)],
        )
    )
    assert three(result) == ("True ScaledToZero", "False Settled", "False NotStalled")
    assert result.requeue is None


@pytest.mark.parametrize(
    ("status", "lasting"),
    [
        (deployment_status(1, ready=0), "0 of 1 engines are ready."),
        (deployment_status(2, updated=1, ready=1), "No pod of the new specification has become ready."),
    ],
)
def test_what_the_deployment_gave_up_on_is_told(status: Manifest, lasting: str) -> None:
    result = told(loading(engines={**status, **OVERDUE}))
    assert message(result, ConditionType.STALLED) == f"For {MINUTES} minutes: {lasting}"


def test_a_pod_that_stays_refused_is_told_as_what_lasts() -> None:
    conditions = [*REFUSED_POD["conditions"], *OVERDUE["conditions"]]
    result = told(loading(engines={**REFUSED_POD, "conditions": conditions}))
    lasting = f"For {MINUTES} minutes: Kubernetes refuses a pod: denied by policy"
    assert message(result, ConditionType.STALLED) == lasting


def test_what_is_settled_is_not_looked_at_again() -> None:
    assert told(SERVING).requeue is None


def test_transition_times_move_with_the_status_only() -> None:
    first = told(seen(engines=deployment_status(1, ready=0), routers=deployment_status(2, ready=0))).status
    second = told(
        seen(engines=deployment_status(1, ready=0), routers=deployment_status(2), before=first, minutes=1)
    ).status
    third = told(seen(engines=deployment_status(1), routers=deployment_status(2), before=second, minutes=2)).status
    times = {
        kind: [c.last_transition_time for status in (first, second, third) for c in status.conditions if c.type == kind]
        for kind in ConditionType
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
    }


def test_what_else_is_told() -> None:
    status = told(SERVING).status
    assert status.url == "http://qwen.default.svc.cluster.local/v1"
    assert (status.replicas, status.ready_replicas, status.ready) == (1, 1, "1/1")
    assert status.selector == "app.kubernetes.io/component=engine,inference-operator.dev/name=qwen"
    assert status.observed_generation == 1
    assert status.plan is not None
    assert (status.plan.gpus_per_replica, status.plan.memory) == (1, "15Gi")
    assert status.engine is not None
    assert status.engine.image == SETTINGS.gpu_engine_image


def test_a_refusal_tells_of_the_decisions_that_still_serve() -> None:
    refused = told(
        seen(inference_deployment(source="s3://b"), engines=deployment_status(1), routers=deployment_status(2))
    ).status
    assert refused.plan == told(SERVING).status.plan
    assert refused.engine == told(SERVING).status.engine
    assert refused.ready == "1/1"
    reconciling = refused.condition(ConditionType.RECONCILING)
    assert reconciling is not None
    assert reconciling.message == "No changes are applied until the specification is valid."


def test_a_refusal_counts_by_the_specification_before_it() -> None:
    refused = inference_deployment(source="s3://b", replicas=5)
    status = deployment_status(2, ready=1)
    result = told(
        seen(refused, live=inference_deployment(replicas=2), engines=status, routers=deployment_status(3, ready=2))
    )
    refusal = "The last edit is refused (InvalidModelSource): see the condition Stalled."
    assert message(result, ConditionType.READY) == f"1 of 2 engines are ready. {refusal}"
    assert message(result, ConditionType.ENGINES_AVAILABLE) == "1 of 2 engines are ready."
    assert message(result, ConditionType.ROUTER_AVAILABLE) == "2 of 2 routers are ready."
    assert result.status.ready == "1/2"


@pytest.mark.parametrize("refused", [{"source": "s3://b"}, {"parallelism": {"tensor": 0}}])
def test_a_refusal_at_once_leaves_no_engines(refused: dict[str, Any]) -> None:
    result = told(inputs(inference_deployment(**refused)))
    available = result.status.condition(ConditionType.ENGINES_AVAILABLE)
    assert available is not None
    assert (available.status, available.message) == (
        "False",
        "There are no engines: the specification cannot be served.",
    )


def test_engines_that_go_while_none_is_wanted_are_not_counted() -> None:
    nothing = inference_deployment(replicas=0)
    invalid = inference_deployment(parallelism={"tensor": 0})
    for raw in (nothing, invalid):
        result = told(seen(raw, live=nothing, engines=deployment_status(1), routers=deployment_status(2)))
        assert three(result)[0] == "True ScaledToZero"
        assert message(result, ConditionType.ENGINES_AVAILABLE) == "Scaled to zero."


def test_a_quota_that_stops_a_scale_up_is_told_beside_ready() -> None:
    refusing = {**OVER_QUOTA, **deployment_status(1)}
    result = told(seen(inference_deployment(replicas=3), engines=refusing, routers=deployment_status(2)))
    assert message(result, ConditionType.RECONCILING) == "No changes are in progress."
    assert message(result, ConditionType.ENGINES_AVAILABLE).endswith(
        "exceeded quota: small. Raise the quota in the message, or lower the requests."
    )


def test_a_newer_default_is_told() -> None:
    newer = SETTINGS.model_copy(update={"gpu_engine_image": "docker.io/vllm/vllm-openai:v9.9.9"})
    result = told(replace(SERVING, settings=newer))
    assert message(result, ConditionType.READY).startswith(
        "1 of 1 engines are ready. The engine stays on `docker.io/vllm/"
    )
    assert "v9.9.9" in message(result, ConditionType.READY)
