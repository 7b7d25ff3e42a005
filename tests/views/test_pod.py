from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.views.lookups import LogLookup
from inference_operator.views.pod import PodProblem, Terminated, has_been_ready, pod_view
from inference_operator.views.untrusted_text import MAX_CAUSE_LENGTH, one_line
from tests.testing.builders import NOW, pod, ready_pod, unschedulable, waiting
from tests.testing.for_each import for_each

OOM_KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": ""}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "ValueError: No supported config format found\n"}}
COMPLETED = {"terminated": {"exitCode": 0, "reason": "Completed"}}
BACK_OFF = "back-off 40s restarting failed container=engine pod=qwen-engine-7c9f-abcde_default(a1b2)"
PULLING = (
    'Back-off pulling image "example.com/vllm:nope": ErrImagePull: rpc error: code = NotFound desc = failed to pull'
    ' and unpack image "example.com/vllm:nope": failed to resolve reference: not found'
)
NOT_FOUND = 'failed to pull and unpack image "example.com/vllm:nope": failed to resolve reference: not found'
NO_CLAIM = (
    '0/3 nodes are available: persistentvolumeclaim "models" not found. preemption: 0/3 nodes are available: 3'
    " Preemption is not helpful for scheduling."
)

PROBLEMS: list[tuple[Manifest, Reason, str]] = [
    (
        waiting(
            "ImagePullBackOff",
            PULLING,
        ),
        Reason.IMAGE_PULL_FAILED,
        NOT_FOUND,
    ),
    (
        waiting("ErrImagePull", PULLING.partition("ErrImagePull: ")[2]),
        Reason.IMAGE_PULL_FAILED,
        NOT_FOUND,
    ),
    (waiting("ErrImageNeverPull", ""), Reason.IMAGE_PULL_FAILED, "ErrImageNeverPull"),
    (
        waiting("InvalidImageName", 'Failed to apply default image tag "A:B:C": invalid reference format'),
        Reason.IMAGE_PULL_FAILED,
        'Failed to apply default image tag "A:B:C": invalid reference format',
    ),
    (
        waiting("CreateContainerConfigError", 'secret "hugging-face" not found'),
        Reason.CONTAINER_CONFIG_ERROR,
        'secret "hugging-face" not found',
    ),
    (
        waiting("CreateContainerConfigError", "couldn't find key token in Secret default/hugging-face"),
        Reason.CONTAINER_CONFIG_ERROR,
        "couldn't find key token in Secret default/hugging-face",
    ),
    (
        unschedulable(NO_CLAIM),
        Reason.VOLUME_UNAVAILABLE,
        NO_CLAIM,
    ),
    (
        unschedulable('0/4 nodes are available: persistentvolumeclaim "models" not found. not found'),
        Reason.VOLUME_UNAVAILABLE,
        '0/4 nodes are available: persistentvolumeclaim "models" not found.',
    ),
    (
        unschedulable(
            "0/3 nodes are available: 1 node(s) had volume node affinity conflict, 2 Insufficient nvidia.com/gpu."
        ),
        Reason.UNSCHEDULABLE,
        "0/3 nodes are available: 1 node(s) had volume node affinity conflict, 2 Insufficient nvidia.com/gpu.",
    ),
    (
        unschedulable("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims."),
        Reason.VOLUME_UNAVAILABLE,
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
    ),
    (
        unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."),
        Reason.UNSCHEDULABLE,
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    ),
    (
        waiting("CrashLoopBackOff", BACK_OFF, last=OOM_KILLED),
        Reason.OUT_OF_MEMORY,
        "container `engine` used more memory than its limit",
    ),
    (
        waiting("CrashLoopBackOff", BACK_OFF, last=FAILED),
        Reason.CRASH_LOOP,
        "container `engine` ended with exit code 1",
    ),
]


@pytest.mark.parametrize(("status", "reason", "cause"), PROBLEMS)
def test_a_pod_problem_has_the_message_of_the_kubelet_or_the_scheduler(
    status: Manifest, reason: Reason, cause: str
) -> None:
    problem = pod_view(pod(status=status), component="engine").problem
    assert problem is not None
    assert (problem.reason, problem.cause) == (reason, cause)


@pytest.mark.parametrize(
    "status",
    [
        None,
        {"phase": "Pending"},
        ready_pod(),
        waiting("ContainerCreating", ""),
        waiting("PodInitializing", ""),
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]},
        {"containerStatuses": [{"name": "engine", "started": True, "state": {"running": {}}, "lastState": FAILED}]},
        {"containerStatuses": [{"name": "engine", "started": True, "state": {"running": {}}, "lastState": OOM_KILLED}]},
        {"initContainerStatuses": [{"name": "fetch", "state": COMPLETED, "lastState": FAILED}]},
    ],
    ids=[
        "no status",
        "pending",
        "ready",
        "container creating",
        "pod initializing",
        "scheduling gated",
        "running after a failure",
        "running after an out-of-memory kill",
        "init container completed after a failure",
    ],
)
def test_a_pod_that_starts_or_runs_normally_has_no_problem(status: Manifest | None) -> None:
    assert pod_view(pod(status=status), component="engine").problem is None


@pytest.mark.parametrize(
    ("end", "reason", "cause"),
    [
        (
            FAILED,
            Reason.CRASH_LOOP,
            "container `engine` ended with exit code 1",
        ),
        (
            {"terminated": {"exitCode": 2, "reason": "Error"}},
            Reason.CRASH_LOOP,
            "container `engine` ended with exit code 2",
        ),
        (OOM_KILLED, Reason.OUT_OF_MEMORY, "container `engine` used more memory than its limit"),
    ],
    ids=["error with message", "error without message", "out of memory"],
)
def test_a_crash_loop_is_the_same_problem_in_each_of_its_phases(end: Manifest, reason: Reason, cause: str) -> None:
    running = {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
    phases: list[Manifest] = [
        {"state": end, "restartCount": 2},
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": end, "restartCount": 2},
        {"state": running, "started": False, "lastState": end, "restartCount": 3},
        {"state": end, "started": False, "lastState": end, "restartCount": 2},
    ]
    problems = [_problem_of({"name": "engine", **phase}) for phase in phases]
    assert [(p.reason, p.cause) for p in problems] == [(reason, cause)] * len(phases)
    assert {problem.terminated for problem in problems} == {problems[0].terminated}
    logs = [problem.terminated.log for problem in problems if problem.terminated]
    assert {(log.run, log.running) for log in logs} <= {(2, False)}
    assert [log.previous for log in logs] in ([], [False, True, True, False])


def test_an_out_of_memory_problem_names_the_memory_limit() -> None:
    manifest = pod(status={"containerStatuses": [{"name": "engine", "state": OOM_KILLED}]})
    limits = {"limits": {"memory": "16Gi"}}
    manifest["spec"] = {"containers": [{"name": "other"}, {"name": "engine", "resources": limits}]}
    problem = pod_view(manifest, component="engine").problem
    assert problem == PodProblem(Reason.OUT_OF_MEMORY, "container `engine` used more memory than its limit of 16Gi")


def _problem_of(container: Manifest) -> PodProblem:
    status = {"phase": "Running", "containerStatuses": [container]}
    problem = pod_view(pod(status=status), component="engine").problem
    assert problem is not None
    return problem


def test_the_problem_of_a_terminated_container_names_the_log_lookup_that_it_needs() -> None:
    problem = _problem_of({"name": "engine", "state": FAILED, "restartCount": 1})
    log = LogLookup("default", "qwen-engine-7c9f-abcde", "pod-qwen-engine-7c9f-abcde", "engine", 1, False, False)  # noqa: FBT003
    assert problem.terminated == Terminated("ValueError: No supported config format found", log)


def test_termination_messages_and_pull_errors_contain_no_secret() -> None:
    said = {"terminated": {"exitCode": 1, "message": "401 with hf_AbCdEfGhIjKlMnOp"}}
    ended = _problem_of({"name": "engine", "state": said}).terminated
    assert ended is not None
    assert ended.message == "401 with [hidden]"
    pulling = waiting("ErrImagePull", "GET https://me:pass@registry.example/v2: 401")
    assert _problem_of(pulling["containerStatuses"][0]).cause == "GET https://[hidden]@registry.example/v2: 401"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            {"reason": "Evicted", "message": "The node was low on resource: memory. "},
            "Evicted: The node was low on resource: memory.",
        ),
        ({"reason": "UnexpectedAdmissionError"}, "UnexpectedAdmissionError"),
    ],
)
def test_the_problem_of_a_failed_pod_has_its_reason_and_message(said: Manifest, cause: str) -> None:
    status = {"phase": "Failed", **said, "containerStatuses": [{"name": "engine", "state": OOM_KILLED}]}
    view = pod_view(pod(status=status), component="engine")
    assert view.failed
    assert view.problem == PodProblem(Reason.POD_REJECTED, cause)


REJECTIONS: dict[str, tuple[str, str]] = {
    "UnexpectedAdmissionError": ("Allocate failed due to no healthy devices present", "Look at the devices of `gpu-1`"),
    "OutOfnvidia.com/gpu": ("Node didn't have enough resource", "Something on `gpu-1` uses what the scheduler"),
    "NodeAffinity": ("Predicate NodeAffinity failed", "The labels of `gpu-1` no longer match"),
    "TopologyAffinityError": ("Resources cannot be allocated", "The Topology Manager of `gpu-1` allows no"),
    "NodeShutdown": ("Pod was rejected as the node is shutting down.", "`gpu-1` shuts down"),
    "SysctlForbidden": ("forbidden sysctl", "If `gpu-1` rejects every pod, run `kubectl cordon gpu-1`"),
}


@for_each(REJECTIONS)
def test_a_pod_that_its_node_rejects_names_the_node_and_what_helps_there(reason: str) -> None:
    said, cure = REJECTIONS[reason]
    status = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {said}"}
    rejected = {**pod(status=status), "spec": {"nodeName": "gpu-1"}}
    view = pod_view(rejected, component="engine")
    assert view.rejected
    assert view.problem is not None
    assert view.problem.cause == f"{reason}: Pod was rejected: {said}"
    assert view.problem.cure.startswith(cure)
    admitted = {**status, "containerStatuses": [{"name": "engine"}]}
    assert not pod_view({**rejected, "status": admitted}, component="engine").rejected
    pressed = {"phase": "Failed", "reason": "Evicted", "message": "The node had condition: [DiskPressure]."}
    full = pod_view({**rejected, "status": pressed}, component="engine").problem
    assert full is not None
    assert (full.reason, full.cure) == (Reason.DISK_FULL, ""), "its reason has a cure"


def test_the_problem_of_a_failed_pod_without_a_reason_is_how_its_container_ended() -> None:
    status = {"phase": "Failed", "containerStatuses": [{"name": "download", "state": OOM_KILLED}]}
    problem = pod_view(pod(status=status), component="download").problem
    assert problem is not None
    assert problem.reason is Reason.OUT_OF_MEMORY
    assert pod_view(pod(status={"phase": "Failed"}), component="download").problem == PodProblem(
        Reason.POD_REJECTED, "it has failed"
    )


def test_a_ready_pod_has_no_problem_even_after_a_crash() -> None:
    recovered = {**ready_pod(), "containerStatuses": [{"name": "engine", "lastState": OOM_KILLED}]}
    view = pod_view(pod(status=recovered), component="engine")
    assert view.ready
    assert view.problem is None


def test_shortening_a_long_log_to_a_single_line_keeps_its_end() -> None:
    cut = one_line("\n".join(f"line {number}" for number in range(1000)))
    assert cut.endswith("line 998 line 999")
    assert "\n" not in cut
    assert len(cut) == MAX_CAUSE_LENGTH + len("… ")


def test_a_pod_view_has_name_component_readiness_and_deletion() -> None:
    view = pod_view(pod(name="a", status=ready_pod()), component="router")
    assert (view.name, view.component, view.created, view.ready, view.terminating) == ("a", "router", NOW, True, False)
    going = pod(name="a")
    going["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert pod_view(going, component="router").terminating


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
STATUS_WORDS = st.sampled_from(
    [
        "conditions",
        "containerStatuses",
        "initContainerStatuses",
        "state",
        "waiting",
        "lastState",
        "terminated",
        "started",
        "exitCode",
        "phase",
        "message",
        "reason",
    ]
)
LIKE_A_STATUS: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.sampled_from(["ImagePullBackOff", "CrashLoopBackOff", "OOMKilled", "Unschedulable"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STATUS_WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(status=JSON | LIKE_A_STATUS)
def test_pod_view_reads_any_status_without_an_error(status: object) -> None:
    pod_view(pod(status=status), component="engine")
    pod_view({"metadata": status, "status": status}, component="engine")
    pod_view({}, component="engine")


def test_a_pod_whose_readiness_changed_after_its_start_has_been_ready() -> None:
    initialized = {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-02T03:00:00Z"}
    ready = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:00:00Z"}
    later = {**ready, "lastTransitionTime": "2026-01-02T03:10:00Z"}
    assert not has_been_ready({"status": {"conditions": [initialized, ready]}})
    assert has_been_ready({"status": {"conditions": [initialized, later]}})
