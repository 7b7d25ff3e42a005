"""The status of engines that are groups of two pods: an engine is ready only if both of its pods are."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import StartupStep
from inference_operator.manifest import Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.pod import PodView
from inference_operator.views.samples import Samples
from tests.status.situations import (
    CURRENT,
    NO_IMAGE,
    RAW,
    main_conditions,
    observed,
    reported,
    starting,
    view,
)
from tests.testing.builders import STALLED_ENGINE, deployment_status, inference_deployment, ready_pod
from tests.testing.engine_groups import grouped

SANDBOX = starting()
RUNNING = starting(state={"running": {}}, started=False)


def group(leader: Manifest, worker: Manifest, *, name: str = "a", template: str | None = CURRENT) -> list[PodView]:
    """An engine of two pods with these statuses, a minute old."""
    first, second = (view(status, name=f"qwen-engine-{name}", age=1, template=template) for status in (leader, worker))
    return [grouped(first, 2)[0], grouped(second, 2)[1]]


def served_by(*engines: Sequence[PodView], replicas: int = 1) -> Inputs:
    """Inputs with these engines and ready routers. The Deployment counts pods, as its controller does."""
    raw = inference_deployment(replicas=replicas) if replicas > 1 else RAW
    pods = [pod for engine in engines for pod in engine]
    counted = deployment_status(len(pods), ready=sum(pod.ready for pod in pods))
    return observed(raw, live=raw, engines=counted, routers=deployment_status(2), pods=pods)


@pytest.mark.parametrize(
    ("leader", "worker", "expected"),
    [
        (ready_pod(), ready_pod(), ("True Serving", "False Settled", "False NotStalled")),
        (ready_pod(), RUNNING, ("False Starting", "True Starting", "False NotStalled")),
        (RUNNING, ready_pod(), ("False Starting", "True Starting", "False NotStalled")),
        (ready_pod(), NO_IMAGE, ("False ImagePullFailed", "True ImagePullFailed", "False NotStalled")),
    ],
)
def test_an_engine_of_two_pods_is_ready_only_if_both_are(
    leader: Manifest, worker: Manifest, expected: tuple[str, str, str]
) -> None:
    result = reported(served_by(group(leader, worker)))
    ready = int(expected[0] == "True Serving")
    assert main_conditions(result) == expected
    assert (result.status.replicas, result.status.ready_replicas, result.status.ready) == (1, ready, f"{ready}/1")


def test_engines_of_two_pods_are_counted_as_engines() -> None:
    engines = [group(ready_pod(), ready_pod(), name=name) for name in ("a", "b")]
    half = [engines[0], group(ready_pod(), RUNNING, name="b")]
    for given, ready in ((engines, 2), (half, 1)):
        status = reported(served_by(*given, replicas=2)).status
        assert (status.replicas, status.ready_replicas, status.ready) == (2, ready, f"{ready}/2")


def test_an_engine_of_which_one_pod_is_deleted_is_not_counted() -> None:
    leader, worker = group(ready_pod(), ready_pod())
    status = reported(served_by([leader, replace(worker, terminating=True)])).status
    assert (status.replicas, status.ready_replicas) == (0, 0)


def test_an_engine_of_an_earlier_template_is_rolled_out() -> None:
    old, new = group(ready_pod(), ready_pod(), name="old", template="earlier"), group(RUNNING, RUNNING, name="new")
    result = reported(served_by(old, new))
    assert main_conditions(result)[1] == "True RollingOut"
    assert result.status.startup is not None
    assert result.status.startup.pod == "qwen-engine-new"


def test_the_problem_of_a_worker_is_the_problem_of_its_engine() -> None:
    result = reported(served_by(group(ready_pod(), NO_IMAGE)))
    assert result.status.message.startswith("Pod qwen-engine-a-1 does not run: Back-off pulling image")


@pytest.mark.parametrize(
    ("leader", "worker", "pod", "step"),
    [
        (RUNNING, SANDBOX, "qwen-engine-a-1", StartupStep.PREPARING_POD),
        (SANDBOX, RUNNING, "qwen-engine-a", StartupStep.PREPARING_POD),
        (RUNNING, RUNNING, "qwen-engine-a", StartupStep.STARTING_ENGINE),
        (RUNNING, ready_pod(), "qwen-engine-a", StartupStep.STARTING_ENGINE),
    ],
)
def test_the_start_of_an_engine_is_as_far_as_the_pod_that_holds_it_back(
    leader: Manifest, worker: Manifest, pod: str, step: StartupStep
) -> None:
    startup = reported(served_by(group(leader, worker))).status.startup
    assert startup is not None
    assert (startup.pod, startup.step) == (pod, step)


@pytest.mark.parametrize("unread", [0, 1])
def test_metrics_are_those_of_the_leader(unread: int) -> None:
    engine = group(ready_pod(), ready_pod())
    uid = engine[0].uid
    samples = Samples(unread=frozenset({uid})) if unread else Samples({uid: STALLED_ENGINE})
    status = reported(replace(served_by(engine), samples=samples)).status
    assert status.engine is not None
    assert status.engine.unread_metrics == unread


def test_an_engine_out_of_traffic_is_named_once() -> None:
    leader, worker = group(ready_pod(), ready_pod())
    result = reported(served_by([replace(leader, traffic=False), worker]))
    condition = result.status.condition(ConditionType.ENGINES_AVAILABLE)
    assert condition is not None
    assert (condition.reason, condition.message.count("gets no new requests")) == (Reason.ENGINE_NOT_PROGRESSING, 1)
