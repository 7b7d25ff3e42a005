"""States that follow from an engine's options or from its termination message."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.api.reasons import Reason
from inference_operator.manifest import Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from inference_operator.views.lookups import EventsLookup, EventSummary, LogLookup, LogText, ObjectEvents
from inference_operator.views.pod import PodView
from tests.status.situations import HALF_AN_HOUR, OVER_QUOTA, RAW, loading, observed, starting, view
from tests.testing.builders import ENGINES, SETTINGS, deployment_status, inference_deployment, inputs, planned, waiting

DEVICE_MEMORY_TAKEN = (
    "Free memory on device cuda:0 (1.0/9.0 GiB) on startup is less than desired GPU memory utilization (0.9, 8.1 GiB)"
)
LAST_WORDS: dict[str, Reason] = {
    "No available memory for the cache blocks": Reason.KV_CACHE_TOO_SMALL,
    "CUDA out of memory": Reason.GPU_OUT_OF_MEMORY,
    DEVICE_MEMORY_TAKEN: Reason.DEVICE_MEMORY_IN_USE,
    "Total number of attention heads (4) must be divisible by tensor parallel size (3)": Reason.HEADS_NOT_DIVISIBLE,
    "User-specified max_model_len (9) is greater than the derived max_model_len (m=8.0": Reason.CONTEXT_TOO_LONG,
    "Unknown quantization method: x": Reason.UNSUPPORTED_PRECISION,
    "Model architectures ['X'] are not supported for now": Reason.UNSUPPORTED_ARCHITECTURE,
    "consider setting `trust_remote_code=True`": Reason.REMOTE_CODE_NEEDED,
    "Cannot access gated repo": Reason.MODEL_GATED,
    "Repository Not Found for url": Reason.MODEL_NOT_FOUND,
    "couldn't connect to 'https://hub.example'": Reason.HUB_UNREACHABLE,
    "Error while deserializing header": Reason.INVALID_MODEL,
    "insufficient shared memory (shm)": Reason.SHARED_MEMORY_TOO_SMALL,
    "VLLM_PORT 'tcp://10.0.0.1:80' appears to be a URI": Reason.SERVICE_ENV_CONFLICT,
    "NCCL error: x": Reason.COMMUNICATION_FAILED,
    "wrong GPU: the engine was sized for 1 x H100; this node gives it 1: NVIDIA L4": Reason.WRONG_GPU,
    "CUDA driver version is insufficient for CUDA runtime version": Reason.DRIVER_TOO_OLD,
    "Failed to infer device type, please set": Reason.GPU_NOT_VISIBLE,
    "CUDA error: no kernel image is available for execution on the device": Reason.GPU_NOT_SUPPORTED,
    "CUDA error: uncorrectable ECC error encountered": Reason.GPU_HARDWARE_ERROR,
    "weight = 192 is not divisible by weight quantization block_n = 128.": Reason.WEIGHTS_NOT_DIVISIBLE,
    "a previous compilation failed, leading to a corrupted compilation artifact.": Reason.KERNELS_BROKEN,
    "OSError: [Errno 28] No space left on device": Reason.DISK_FULL,
    "vllm serve: error: unrecognized arguments: -x": Reason.INVALID_ARGUMENT,
}
"""Termination messages of engines, and the reasons that they become."""


REFUSING = view(waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1}}))
REFUSAL = LogText(
    '  File "/usr/lib/python3.13/site-packages/vllm/config/model.py", line 7, in check\n    raise ValueError(\n'
    "ValueError: the model does not support float16\n"
)
SLOW = view(waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 137, **HALF_AN_HOUR}}))
OUT_OF_TIME = ObjectEvents((EventSummary("Killing", "Container engine failed startup probe, will be restarted"),))
UNMOUNTED = view(starting(minutes=-2), age=2)
ATTACHED_ELSEWHERE = ObjectEvents(
    (
        EventSummary("FailedMount", "Unable to attach or mount volumes: unmounted volumes=[model]: timed out"),
        EventSummary(
            "FailedAttachVolume",
            'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other, another',
        ),
    )
)


def kept(image: str) -> Inputs:
    """A service whose engines keep an image that is not the default any more."""
    found = observed(engines=deployment_status(1), routers=deployment_status(2))
    earlier = planned(RAW, settings=SETTINGS.model_copy(update={"gpu_engine_image": image})).desired[ENGINES]
    live = {**found.children[ENGINES], "metadata": {**earlier["metadata"], "generation": 1}, "spec": earlier["spec"]}
    return replace(found, children={**found.children, ENGINES: live})


def ended(words: str) -> Manifest:
    return waiting("CrashLoopBackOff", "", last={"terminated": {"exitCode": 1, "message": words}})


def log_of(pod: PodView) -> LogLookup:
    assert pod.problem
    assert pod.problem.terminated
    return pod.problem.terminated.log


ENGINE_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    **{
        f"engine says {reason}": (
            loading(pods=[view(ended(words))]),
            [],
            (f"False {reason}", f"True {reason}", "False NotStalled"),
        )
        for words, reason in LAST_WORDS.items()
    },
    "engine refuses its configuration": (
        replace(loading(pods=[REFUSING]), lookups={log_of(REFUSING): REFUSAL}),
        [],
        ("False ConfigurationRefused", "True ConfigurationRefused", "False NotStalled"),
    ),
    "engine did not answer in time": (
        replace(loading(pods=[SLOW]), lookups={EventsLookup("default", SLOW.name, SLOW.uid): OUT_OF_TIME}),
        [],
        ("False StartupTimeout", "True StartupTimeout", "False NotStalled"),
    ),
    "a volume is in use elsewhere": (
        replace(
            loading(pods=[UNMOUNTED]),
            lookups={EventsLookup("default", UNMOUNTED.name, UNMOUNTED.uid): ATTACHED_ELSEWHERE},
        ),
        [],
        ("False VolumeUnavailable", "True VolumeUnavailable", "False NotStalled"),
    ),
    "over quota": (
        observed(engines=OVER_QUOTA, routers=deployment_status(2)),
        [],
        ("False QuotaExceeded", "True QuotaExceeded", "False NotStalled"),
    ),
    "secret in an argument": (
        inputs(inference_deployment(engine={"args": ["--api-key=a"]})),
        [],
        ("False SecretInSpec", "False Settled", "True SecretInSpec"),
    ),
    "dangerous argument": (
        inputs(inference_deployment(engine={"args": ["--trust-remote-code"]})),
        [],
        ("False ArgumentNotAllowed", "False Settled", "True ArgumentNotAllowed"),
    ),
    "misspelt argument": (
        inputs(inference_deployment(engine={"args": ["--max-model-length=1"]})),
        [],
        ("False UnknownArgument", "False Settled", "True UnknownArgument"),
    ),
    "serving, engines of an earlier release": (
        kept("docker.io/vllm/vllm-openai:v0.32.1"),
        [],
        ("True Serving", "False Settled", "False NotStalled"),
    ),
    "serving, engines with known vulnerabilities": (
        kept("docker.io/vllm/vllm-openai:v0.30.0"),
        [],
        ("True Serving", "False Settled", "False NotStalled"),
    ),
}
