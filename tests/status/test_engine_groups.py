"""The status of engines that are groups of two pods: an engine is ready only if both of its pods are."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import StartupStep
from inference_operator.engines.start_log import Phase
from inference_operator.manifest import STATEFUL_SET, Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.views.lookups import LogLookup, LogText
from inference_operator.views.pod import POD_INDEX_LABEL, TRAFFIC_LABEL, PodView, pod_template_hash
from inference_operator.views.samples import Samples
from tests.engines.test_vllm_phase import QUOTED
from tests.status.situations import (
    CURRENT,
    NO_IMAGE,
    RAW,
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
    SERVICE_OF_ENGINES,
    STALLED_ENGINE,
    deployment_status,
    inference_deployment,
    planned,
    ready_pod,
    unschedulable,
)
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


def test_the_selector_of_scale_selects_one_pod_of_each_engine() -> None:
    groups = pair(ready_pod(), ready_pod())
    leaders = reported(groups).status.selector
    assert leaders is not None
    labels = dict(label.split("=") for label in leaders.split(","))
    service = groups.children[SERVICE_OF_ENGINES]["spec"]["selector"]
    assert labels == {name: value for name, value in service.items() if name != TRAFFIC_LABEL}
    assert labels[POD_INDEX_LABEL] == "0"
    both = replace(groups, children={**groups.children, ENGINES: planned(RAW).desired[ENGINES]})
    assert POD_INDEX_LABEL not in str(reported(both).status.selector)


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


NO_NODE = unschedulable("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")


def ended(message: str, *, again: bool = False) -> Manifest:
    """The status of a pod whose container has ended with this termination message, and may run again."""
    last = {"terminated": {"exitCode": 1, "message": message}}
    state = {"running": {}} if again else {"waiting": {"reason": "CrashLoopBackOff"}}
    return starting(state=state, lastState=last, started=False, restartCount=1)


def member(raw: Manifest, status: Manifest, index: int, *, group: str = "qwen-engine-0") -> PodView:
    """A pod of a group, with the name that a StatefulSet gives it, a minute old."""
    made = planned(raw).desired[Ref(STATEFUL_SET, "default", "qwen-engine-0")]
    template = pod_template_hash(made["spec"]["template"]["metadata"])
    one = view(status, name=f"{group}-{index}", template=template)
    return replace(one, group=group, index=index, created=NOW - timedelta(minutes=1))


def pair(*statuses: Manifest, missing: Sequence[int] = (), log: str = "") -> Inputs:
    """Inputs with a group of pods."""
    raw = inference_deployment(parallelism={"tensor": 1, "nodes": len(statuses)})
    pods = [member(raw, status, index) for index, status in enumerate(statuses)]
    found = observed(raw, live=raw, routers=deployment_status(2), pods=[p for p in pods if p.index not in missing])
    start = pods[0].start
    return replace(found, lookups={start.log: LogText(log)} if log and start and start.log else {})


def told(given: Inputs) -> str:
    """The message of the status; that of the condition Reconciling is the same."""
    result = reported(given)
    assert result.status.message == message(result, ConditionType.RECONCILING)
    return result.status.message


def joined(*ranks: int, of: int, go: bool = False) -> str:
    waits = ", ".join(f"qwen-engine-0-{rank}" for rank in range(1, of))
    lines = [f"Rank 0 of {of} waits for {waits}", *(f"qwen-engine-0-{rank} has joined" for rank in ranks)]
    lines += [f"All {of} members have joined: the engine starts"] if go else []
    return "\n".join(f"INFO 2026-01-02 03:00:00,000 group: {line}" for line in lines)


def test_a_group_with_a_pending_member_says_who_waits_for_what() -> None:
    said = told(pair(RUNNING, NO_NODE))
    assert said.startswith("Pod qwen-engine-0-1 does not run: it fits none of 2 nodes: 2 have too little")
    assert said.endswith(
        "1 of 2 members of group `qwen-engine-0` have joined: member 0 waits for 1 member to join; member 1 waits for a"
        " node."
    )


OF = "members of group `qwen-engine-0` have joined"
ONE = "waits for 1 member to join"
VOLUMES = "waits for its network, its volumes or its images"


@pytest.mark.parametrize(
    ("statuses", "missing", "log", "words"),
    [
        (
            [RUNNING, SANDBOX, SANDBOX],
            [],
            "",
            f"1 of 3 {OF}: member 0 waits for 2 members to join; each of members 1 and 2 {VOLUMES}.",
        ),
        ([SANDBOX, RUNNING], [], "", f"0 of 2 {OF}: member 0 {VOLUMES}; member 1 waits for the leader."),
        ([RUNNING, RUNNING], [1], "", f"1 of 2 {OF}: member 0 {ONE}; member 1 has no pod yet."),
        (
            [RUNNING, RUNNING, RUNNING],
            [],
            joined(2, of=3),
            f"2 of 3 {OF}: member 0 {ONE}; member 1 runs and does not reach the leader; member 2 {ONE}.",
        ),
        (
            [RUNNING, RUNNING],
            [],
            joined(1, of=2, go=True),
            f"All 2 {OF}. Pod qwen-engine-0-0 starts its engine.",
        ),
    ],
)
def test_the_status_of_a_start_says_how_many_have_joined_and_what_each_waits_for(
    statuses: Sequence[Manifest], missing: Sequence[int], log: str, words: str
) -> None:
    given = pair(*statuses, missing=missing, log=log)
    assert told(given) == f"0 of 1 engine is ready. {words}"
    later = replace(given, resource=replace(given.resource, status=reported(given).status))
    assert reported(later).status == reported(given).status


def test_the_furthest_step_follows_once_all_have_joined() -> None:
    log = f"{joined(1, of=2, go=True)}\n{next(text for text, phase in QUOTED if phase is Phase.LOADING)}"
    assert told(pair(RUNNING, RUNNING, log=log)) == (
        "0 of 1 engine is ready. All 2 members of group `qwen-engine-0` have joined. Pod qwen-engine-0-0 loads the"
        " weights."
    )


@pytest.mark.parametrize("first", [0, 1])
def test_the_cause_is_that_of_the_member_that_ended_first(first: int) -> None:
    follows = f"Member qwen-engine-0-{first} ended first: exit status 1."
    statuses = [ended("ValueError: no") if index == first else ended(follows, again=True) for index in range(2)]
    said = told(pair(*statuses))
    assert said.startswith(
        f"Pod qwen-engine-0-{first} does not run: container `engine` ended with exit code 1: ValueError"
    )
    assert "ended first" not in said
    assert f"member {first} waits until it is started again" in said


def test_a_member_that_only_follows_names_the_first_one_and_its_log_is_not_read() -> None:
    follows = ended("Member qwen-engine-0-1 ended first: its connection broke.")
    given = pair(follows, SANDBOX)
    assert told(given) == (
        "Pod qwen-engine-0-0 does not run: Member qwen-engine-0-1 ended first: its connection broke."
        " `kubectl describe pod -n default qwen-engine-0-1` shows what happened to that pod."
        " 0 of 2 members of group `qwen-engine-0` have joined: member 0 waits until it is started again; member 1 waits"
        " for its network, its volumes or its images."
    )
    requeue = reported(given).requeue
    assert requeue is not None
    assert [one for one in requeue.lookups if isinstance(one, LogLookup)] == []


def test_of_two_members_that_accuse_each_other_the_leader_is_believed() -> None:
    silent = [ended(f"Member qwen-engine-0-{1 - index} has been silent for 10 s.", again=True) for index in range(2)]
    assert "qwen-engine-0-0 does not run: Member qwen-engine-0-1 has been silent for 10 s." in told(pair(*silent))


def test_a_group_that_is_not_ready_beside_one_that_serves_is_told_by_the_engines_condition() -> None:
    raw = inference_deployment(replicas=2, parallelism={"tensor": 1, "nodes": 2})
    starts = [member(raw, status, index) for index, status in enumerate((RUNNING, SANDBOX))]
    serves = [member(raw, ready_pod(), index, group="qwen-engine-1") for index in range(2)]
    result = reported(observed(raw, live=raw, routers=deployment_status(2), pods=[*starts, *serves]))
    assert main_conditions(result)[0] == "True Serving"
    assert message(result, ConditionType.ENGINES_AVAILABLE).startswith(
        "1 of 2 engines are ready. 1 of 2 members of group `qwen-engine-0` have joined: member 0 waits for 1 member"
    )
    assert result.status.message == message(result, ConditionType.ENGINES_AVAILABLE)
