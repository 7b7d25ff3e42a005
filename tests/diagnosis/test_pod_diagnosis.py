"""Why a pod does not run: the output of its container, or why it cannot be read."""

from dataclasses import replace

import pytest

from inference_operator.api.explanations import EXPLANATIONS
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.diagnosis.pod_diagnosis import LOG_IS_READ
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ROUTER
from inference_operator.settings import Settings
from inference_operator.views.lookups import LogLookup, LogText, LookupResult, Unavailable
from inference_operator.views.pod import PodView
from tests.engines.test_root_error import OUTER, QUOTED, VLLM, raised
from tests.status.situations import CRASHING, loading, message, observed, reported, view
from tests.testing.builders import deployment_status, waiting

SILENT = waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1}})
ENDED = "Pod qwen-engine-a does not run: container `engine` ended with exit code 1"
READ = "`kubectl logs -n default qwen-engine-a -c engine --previous` prints all of its output."


def log_of(pod: PodView) -> LogLookup:
    assert pod.problem
    assert pod.problem.terminated
    return pod.problem.terminated.log


def problem_message(pod: PodView, lookup_result: LookupResult | None = None) -> str:
    situation = loading(pods=[pod])
    if lookup_result:
        situation = replace(situation, lookups={log_of(pod): lookup_result})
    return message(reported(situation), ConditionType.RECONCILING)


KNOWN = waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1, "message": "CUDA out of memory"}})
CAUSE = "a GPU ran out of memory."


def test_a_known_error_in_the_termination_message_needs_no_log_lookup() -> None:
    pod = view(KNOWN)
    assert problem_message(pod).startswith(f"Pod qwen-engine-a does not run: {CAUSE}")
    again = reported(loading(pods=[pod])).requeue
    assert again is not None
    assert again.lookups == ()


def test_an_unknown_termination_message_makes_the_log_looked_up_for_a_known_error() -> None:
    pod = view(CRASHING)
    assert problem_message(pod) == f"{ENDED}: ValueError: no. {LOG_IS_READ}"
    again = reported(loading(pods=[pod])).requeue
    assert again is not None
    assert again.lookups == (log_of(pod),)
    assert problem_message(pod, LogText("CUDA out of memory\nValueError: no")).startswith(
        f"Pod qwen-engine-a does not run: {CAUSE}"
    )
    assert problem_message(pod, Unavailable("it is gone")) == f"{ENDED}: ValueError: no. {READ}"
    assert problem_message(pod, LogText("KeyError: 'inner'\n\nRuntimeError: See root cause above.")) == (
        f"{ENDED}: KeyError: 'inner'. {READ}"
    )


def test_messages_of_a_router_are_not_read_as_engine_errors() -> None:
    pod = view(KNOWN, component=ROUTER)
    result = reported(observed(engines=deployment_status(1), routers=deployment_status(2, ready=0), pods=[pod]))
    assert message(result, ConditionType.RECONCILING) == f"{ENDED}: CUDA out of memory. {READ}"
    assert result.requeue is not None
    assert result.requeue.lookups == ()


@pytest.mark.parametrize(
    ("lookup_result", "words"),
    [
        (None, LOG_IS_READ),
        (LogText("INFO loading", whole=False), f": INFO loading. {LOG_IS_READ}"),
        (LogText("Traceback\n  of old\nValueError: no\n"), f": ValueError: no. {READ}"),
        (LogText("\n"), READ),
        (Unavailable("there is none"), f"; its log cannot be read: there is none. {READ}"),
    ],
)
def test_without_a_termination_message_the_error_in_the_log_is_the_cause(
    lookup_result: LookupResult | None, words: str
) -> None:
    pod = view(SILENT)
    between = "" if words[0] in ":;" else ". "
    assert problem_message(pod, lookup_result) == f"{ENDED}{between}{words}"
    again = reported(loading(pods=[pod])).requeue
    assert again is not None
    assert again.lookups == (log_of(pod),)


def test_with_read_logs_off_the_message_says_that_the_log_is_not_read() -> None:
    pod = view(SILENT)
    result = reported(replace(loading(pods=[pod]), settings=Settings(read_logs=False)))
    words = "; its log is not read, because the operator's setting `readLogs` is off"
    assert message(result, ConditionType.RECONCILING) == f"{ENDED}{words}. {READ}"
    assert result.requeue is not None
    assert result.requeue.lookups == ()


INITIALIZED = {"type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-02T03:00:00Z"}
NEVER_READY = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T03:00:00Z"}
WAS_READY = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-02T04:00:00Z"}


def condition_of(log: str, *, ready: Manifest = NEVER_READY) -> tuple[str, str]:
    """Reason and message of Reconciling for an engine with this log."""
    pod = view({**SILENT, "conditions": [INITIALIZED, ready]})
    situation = replace(loading(pods=[pod]), lookups={log_of(pod): LogText(log)})
    condition = reported(situation).status.condition(ConditionType.RECONCILING)
    assert condition is not None
    return condition.reason, condition.message


UNKNOWN = [
    QUOTED[0],
    # vLLM 0.32.0, vllm/config/scheduler.py and lora.py; no table knows them
    (
        "ValueError: long_prefill_token_threshold (9000) cannot be greater than the max_model_len (8192).",
        "config/scheduler.py",
        "raise ValueError(",
    ),
    ("ValueError: max_cpu_loras (1) must be >= max_loras (4).", "config/lora.py", "raise ValueError("),
]
KNOWN_REASONS = {
    "platforms/cuda.py": "UnsupportedPrecision",
    "distributed/utils.py": "HeadsNotDivisible",
    "v1/spec_decode/draft_model.py": "InvalidArgument",
    "config/model.py": "UnsupportedPrecision",
    "config/vllm.py": "UnsupportedPrecision",
    "model_executor/layers/attention/attention.py": "UnsupportedPrecision",
    "v1/core/encoder_cache_manager.py": "InvalidArgument",
    "model_executor/layers/quantization/fp8.py": "WeightsNotDivisible",
}
"""Of the quoted errors that a table knows, by file. Their message names the cure instead of the engine's words."""


@pytest.mark.parametrize(("error", "file", "statement"), UNKNOWN, ids=[file for _, file, _ in UNKNOWN])
def test_what_the_engines_own_code_raises_during_its_start_is_a_refusal_in_its_words(
    error: str, file: str, statement: str
) -> None:
    reason, message = condition_of(raised(error, VLLM + file, statement) + OUTER)
    assert reason == "ConfigurationRefused"
    cure = EXPLANATIONS[Reason.CONFIGURATION_REFUSED].cure
    words = error.rstrip(".")
    assert message == f"Pod qwen-engine-a does not run: the engine refuses its configuration: {words}. {cure} {READ}"


@pytest.mark.parametrize(("error", "file", "statement"), QUOTED[1:], ids=[file for _, file, _ in QUOTED[1:]])
def test_what_tables_know_keeps_its_reason_also_if_the_engine_raises_it(error: str, file: str, statement: str) -> None:
    assert condition_of(raised(error, VLLM + file, statement) + OUTER)[0] == KNOWN_REASONS[file]


def test_causes_outside_the_configuration_keep_their_reason_if_the_engine_raises_them() -> None:
    hub = "OSError: We couldn't connect to 'https://huggingface.co' to load the files"
    assert condition_of(raised(hub, f"{VLLM}transformers_utils/config.py", "raise OSError("))[0] == "HubUnreachable"
    assert condition_of("torch.OutOfMemoryError: CUDA out of memory.\n" + raised(*QUOTED[0]))[0] == "GpuOutOfMemory"


@pytest.mark.parametrize(
    ("file", "statement", "ready"),
    [
        (f"{VLLM}v1/engine/core.py", "raise ValueError(", WAS_READY),
        (f"{VLLM}_custom_ops.py", "torch.ops._C.f(", NEVER_READY),
        ("/usr/lib/python3.13/site-packages/torch/x.py", "raise ValueError(", NEVER_READY),
        ("/home/vllm/.cache/huggingface/modules/transformers_modules/a/vllm/m.py", "raise ValueError(", NEVER_READY),
        ("/home/vllm/.cache/vllm/torch_compile_cache/a.py", "raise ValueError(", NEVER_READY),
    ],
    ids=["after it has served", "in a call of C++", "in a library", "in code of the model", "in a compiled file"],
)
def test_no_other_error_is_a_refusal(file: str, statement: str, ready: Manifest) -> None:
    reason, message = condition_of(raised("ValueError: 12 is odd", file, statement) + OUTER, ready=ready)
    assert reason == "CrashLoop"
    assert message == f"{ENDED}: ValueError: 12 is odd. {READ}"


REQUIREMENT = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed:"
    " unable to start container process: error during container init: error running prestart hook #0: exit status 1,"
    " stderr: Auto-detected mode as 'legacy'\nnvidia-container-cli: requirement error: unsatisfied condition:"
    " cuda>=13.0, please update your driver to a newer version, or use an earlier cuda container: unknown"
)
START_ERROR = {"terminated": {"exitCode": 128, "reason": "StartError", "message": REQUIREMENT}}


@pytest.mark.parametrize(
    "status",
    [waiting("RunContainerError", REQUIREMENT), waiting("CrashLoopBackOff", "", last=START_ERROR)],
    ids=["while the container is created", "after it could not start"],
)
def test_a_driver_that_the_container_runtime_refuses_is_diagnosed(status: Manifest) -> None:
    result = reported(loading(pods=[view(status)]))
    condition = result.status.condition(ConditionType.RECONCILING)
    assert condition is not None
    assert condition.reason == "DriverTooOld"
    assert (
        "supports CUDA 13.0, and the node's is older. Update the driver, or set `spec.engine.image`"
        in condition.message
    )


@pytest.mark.parametrize(
    "said",
    [
        "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 8Gi. ",
        "Pod ephemeral local storage usage exceeds the total limit of containers 20Gi. ",
        'Container engine exceeded its local ephemeral storage limit "20Gi". ',
        'Usage of EmptyDir volume "tmp" exceeds the limit "1Gi". ',
        "Pod was rejected: The node had condition: [DiskPressure]. ",
    ],
)
def test_a_pod_that_is_evicted_for_its_use_of_disks_has_the_reason_disk_full(said: str) -> None:
    pod = view({"phase": "Failed", "reason": "Evicted", "message": said})
    result = reported(loading(pods=[pod]))
    condition = result.status.condition(ConditionType.RECONCILING)
    assert condition is not None
    assert condition.reason == "DiskFull"
    assert "keep caches on a claim" in condition.message
    memory = view({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."})
    assert memory.problem is not None
    assert memory.problem.reason == "PodRejected"
