"""One table of everything a condition can say: reason, condition, cause and cure.

The reference page and the tests come from this table; a reason that is not here cannot be written.
"""

from dataclasses import dataclass
from enum import StrEnum


class ConditionType(StrEnum):
    """The conditions of an InferenceDeployment, in the order in which status lists them."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    ENGINES_AVAILABLE = "EnginesAvailable"
    ROUTER_AVAILABLE = "RouterAvailable"


class Reason(StrEnum):
    """One CamelCase word per cause; a released word never changes its meaning."""

    SERVING = "Serving"
    SCALED_TO_ZERO = "ScaledToZero"
    PAUSED = "Paused"
    STARTING = "Starting"
    ENGINES_UNAVAILABLE = "EnginesUnavailable"
    ROUTER_UNAVAILABLE = "RouterUnavailable"
    ROLLING_OUT = "RollingOut"
    MAKING_ROOM = "MakingRoom"
    SETTLED = "Settled"
    UNOBSTRUCTED = "Unobstructed"
    INVALID_SPEC = "InvalidSpec"
    INVALID_MODEL_SOURCE = "InvalidModelSource"
    MANAGED_ARGUMENT = "ManagedArgument"
    SECRET_IN_SPEC = "SecretInSpec"  # noqa: S105 - a reason
    ARGUMENT_NOT_ALLOWED = "ArgumentNotAllowed"
    UNKNOWN_ARGUMENT = "UnknownArgument"
    NAME_CONFLICT = "NameConflict"
    WAITING_FOR_DELETION = "WaitingForDeletion"
    CHILD_REJECTED = "ChildRejected"
    REQUEST_FAILED = "RequestFailed"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    CONTAINER_CONFIG_ERROR = "ContainerConfigError"
    VOLUME_UNAVAILABLE = "VolumeUnavailable"
    UNSCHEDULABLE = "Unschedulable"
    OUT_OF_MEMORY = "OutOfMemory"
    CRASH_LOOP = "CrashLoop"
    KV_CACHE_TOO_SMALL = "KvCacheTooSmall"
    GPU_OUT_OF_MEMORY = "GpuOutOfMemory"
    DEVICE_MEMORY_TAKEN = "DeviceMemoryTaken"
    HEADS_NOT_DIVISIBLE = "HeadsNotDivisible"
    CONTEXT_TOO_LONG = "ContextTooLong"
    UNSUPPORTED_PRECISION = "UnsupportedPrecision"
    UNSUPPORTED_ARCHITECTURE = "UnsupportedArchitecture"
    REMOTE_CODE_NEEDED = "RemoteCodeNeeded"
    MODEL_GATED = "ModelGated"
    MODEL_NOT_FOUND = "ModelNotFound"
    HUB_UNREACHABLE = "HubUnreachable"
    INVALID_MODEL = "InvalidModel"
    SHARED_MEMORY_TOO_SMALL = "SharedMemoryTooSmall"
    SERVICE_VARIABLE = "ServiceVariable"
    COMMUNICATION_FAILED = "CommunicationFailed"
    DRIVER_TOO_OLD = "DriverTooOld"
    INVALID_ARGUMENT = "InvalidArgument"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_REJECTED = "PodRejected"
    ENGINE_STALLED = "EngineStalled"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a reason shows, what brings it about, and what to do."""

    condition: ConditionType
    cause: str
    cure: str


_READY, _RECONCILING, _STALLED = ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED
_NOTHING = "Nothing to do."

_LAST_WORDS: dict[Reason, tuple[str, str]] = {
    Reason.KV_CACHE_TOO_SMALL: (
        "After the model is loaded, the memory left for KV cache does not hold one request of the longest length.",
        "Set the `--max-model-len` that the message names, or use more or larger GPUs.",
    ),
    Reason.GPU_OUT_OF_MEMORY: (
        "A GPU ran out of memory while the engine loaded or served.",
        "Use more or larger GPUs or a quantised model, or lower `--gpu-memory-utilization`.",
    ),
    Reason.DEVICE_MEMORY_TAKEN: (
        "Something else uses the memory of the device on which the engine starts.",
        "Look who shares the device, or lower `--gpu-memory-utilization`.",
    ),
    Reason.HEADS_NOT_DIVISIBLE: (
        "The model's attention heads cannot be divided among as many GPUs.",
        "Set `spec.parallelism.tensor` to a size that divides them.",
    ),
    Reason.CONTEXT_TOO_LONG: (
        "`--max-model-len` is more than the model was made for.",
        "Set the length that the message names, or less.",
    ),
    Reason.UNSUPPORTED_PRECISION: (
        "The engine cannot use the model's quantisation or number format, or not on this device.",
        "Leave the format to the engine, or use another model or device.",
    ),
    Reason.UNSUPPORTED_ARCHITECTURE: (
        "The engine does not know this kind of model.",
        "Use another model, or a newer engine's image.",
    ),
    Reason.REMOTE_CODE_NEEDED: (
        "The model brings code of its own, which does not run unless it is trusted.",
        "Use a model that the engine knows, or have `--trust-remote-code` allowed.",
    ),
    Reason.MODEL_GATED: (
        "The hub gives the model only to accounts that have accepted its licence.",
        "Accept it on the hub, and set `HF_TOKEN` in `spec.engine.env` from a Secret.",
    ),
    Reason.MODEL_NOT_FOUND: (
        "There is no such model, or it is not shown to this account.",
        "Check `spec.model.source`; for a private model set `HF_TOKEN` in `spec.engine.env` from a Secret.",
    ),
    Reason.HUB_UNREACHABLE: (
        "The engine cannot download the model: the hub does not answer, or not to this cluster.",
        "Check the way out of the cluster, or serve the model from a claim or an image.",
    ),
    Reason.INVALID_MODEL: (
        "The model's files are incomplete, damaged or of different models.",
        "Copy the model again.",
    ),
    Reason.SHARED_MEMORY_TOO_SMALL: (
        "The processes of an engine share less memory than they need, at `/dev/shm`.",
        "Raise `spec.engine.resources.limits.memory`, to which shared memory counts.",
    ),
    Reason.SERVICE_VARIABLE: (
        "A Service called `vllm` puts variables into the pod that vLLM takes for its own.",
        "Give that Service another name.",
    ),
    Reason.COMMUNICATION_FAILED: (
        "The GPUs of an engine cannot talk to each other.",
        "Set `NCCL_DEBUG=INFO` in `spec.engine.env` and read the log of the pod that is named.",
    ),
    Reason.DRIVER_TOO_OLD: (
        "The node's GPU driver is older than the CUDA of the engine's image.",
        "Update the driver, or name an image of an older CUDA in `spec.engine.image`.",
    ),
    Reason.INVALID_ARGUMENT: (
        "The engine does not accept its arguments.",
        "Change what the message names in `spec.engine.args`.",
    ),
}
"""What engines say last: cause and cure. Each shows in Reconciling."""

_ENGINES = {reason: Explanation(_RECONCILING, *words) for reason, words in _LAST_WORDS.items()}

EXPLANATIONS: dict[Reason, Explanation] = {
    Reason.SERVING: Explanation(_READY, "At least one engine and one router are ready.", _NOTHING),
    Reason.SCALED_TO_ZERO: Explanation(
        _READY,
        "`spec.replicas` is 0; the router holds requests until an engine is ready.",
        "Raise `spec.replicas`.",
    ),
    Reason.PAUSED: Explanation(
        _READY,
        "`spec.paused` is true: nothing is made, changed, mended or deleted. The status still says what serves.",
        "Set `spec.paused` to false; what was edited meanwhile is done then.",
    ),
    Reason.STARTING: Explanation(
        _READY,
        "No engine has been ready yet: images are pulled and the model is loaded.",
        "Wait; `kubectl get pods -l inference-operator.dev/name=NAME` shows where it is.",
    ),
    Reason.ENGINES_UNAVAILABLE: Explanation(
        _READY, "Engines have served before and none is ready now.", "Look at the engine pods and their logs."
    ),
    Reason.ROUTER_UNAVAILABLE: Explanation(
        _READY, "No router is ready.", "Look at the router pods; engines keep what they have loaded."
    ),
    Reason.ROLLING_OUT: Explanation(
        _RECONCILING,
        "Pods of the previous specification are being replaced.",
        "Wait; old pods serve meanwhile.",
    ),
    Reason.MAKING_ROOM: Explanation(
        _RECONCILING,
        "A new engine found no room beside its predecessors for 30 s, so one of them ends first.",
        "Nothing to do. Set `spec.rollout.strategy: Surge` to wait for a node instead.",
    ),
    Reason.SETTLED: Explanation(_RECONCILING, "Nothing is being changed.", _NOTHING),
    Reason.UNOBSTRUCTED: Explanation(_STALLED, "Nothing stands in the way.", _NOTHING),
    Reason.INVALID_SPEC: Explanation(
        _STALLED,
        "A field has a value that the operator cannot use.",
        "Change the field that the message names.",
    ),
    Reason.INVALID_MODEL_SOURCE: Explanation(
        _STALLED,
        "`spec.model.source` is no address of a model.",
        "Use `hf://org/name`, `pvc://claim/path` or `oci://image-reference`.",
    ),
    Reason.MANAGED_ARGUMENT: Explanation(
        _STALLED,
        "`spec.engine.args` or `spec.engine.env` sets what the operator sets itself.",
        "Use the field that the message names instead.",
    ),
    Reason.SECRET_IN_SPEC: Explanation(
        _STALLED,
        "`spec.engine.args` holds a secret, which whoever sees the pod could read.",
        "Set the variable that the message names from a Secret.",
    ),
    Reason.ARGUMENT_NOT_ALLOWED: Explanation(
        _STALLED,
        "An argument or variable loads code, reads files or opens endpoints, and no setting of the operator allows it.",
        "Remove it, or have it allowed: [arguments](arguments.md).",
    ),
    Reason.UNKNOWN_ARGUMENT: Explanation(
        _STALLED,
        "The engine's version has no such argument, or cannot tell which one is meant.",
        "Write the argument that the message names.",
    ),
    Reason.NAME_CONFLICT: Explanation(
        _STALLED,
        "An object that belongs to somebody else has the name of a child.",
        "Delete or rename that object, or give the InferenceDeployment another name.",
    ),
    Reason.WAITING_FOR_DELETION: Explanation(
        _RECONCILING,
        "An object of the same name is still being deleted.",
        "Wait; look at its finalizers if it stays.",
    ),
    Reason.CHILD_REJECTED: Explanation(
        _STALLED,
        "The API server or an admission policy refuses a child.",
        "Change what the message names, in the InferenceDeployment or in the policy.",
    ),
    Reason.REQUEST_FAILED: Explanation(
        _RECONCILING,
        "The API server could not carry out a request about a child, or did not answer.",
        "Wait; it is tried again, later each time, up to every two minutes. If it lasts, see the message.",
    ),
    Reason.IMAGE_PULL_FAILED: Explanation(
        _RECONCILING,
        "The kubelet cannot get an image, of the container or of the model.",
        "Check the image's name and the pull secret of the namespace's default ServiceAccount.",
    ),
    Reason.CONTAINER_CONFIG_ERROR: Explanation(
        _RECONCILING,
        "The kubelet misses something that the container refers to, such as a Secret or one of its keys.",
        "Create what the message names.",
    ),
    Reason.VOLUME_UNAVAILABLE: Explanation(
        _RECONCILING,
        "A volume is missing or cannot be attached.",
        "Create the PersistentVolumeClaim that the message names.",
    ),
    Reason.UNSCHEDULABLE: Explanation(
        _RECONCILING,
        "No node has room for a pod.",
        "Add a node that has what the message names, make room on one, or ask for less.",
    ),
    Reason.OUT_OF_MEMORY: Explanation(
        _RECONCILING,
        "The kernel ended the container because it used more memory than its limit.",
        "Raise `spec.engine.resources.limits.memory`.",
    ),
    Reason.CRASH_LOOP: Explanation(
        _RECONCILING,
        "A container ends again and again.",
        "Read `kubectl logs --previous` of the pod that is named.",
    ),
    **_ENGINES,
    Reason.QUOTA_EXCEEDED: Explanation(
        _RECONCILING,
        "A quota of the namespace has no room for a pod.",
        "Raise the quota that is named, or ask for less.",
    ),
    Reason.POD_REJECTED: Explanation(
        _RECONCILING,
        "Kubernetes refuses a pod, or a node turned it away or evicted it.",
        "Change what the message names.",
    ),
    Reason.ENGINE_STALLED: Explanation(
        ConditionType.ENGINES_AVAILABLE,
        "An engine had requests, made no progress and did not answer one of the operator's own; its pod was deleted, so"
        " that a new one takes its place.",
        "Nothing to do; if it happens again, look at the engine's log from before and at its GPU.",
    ),
    Reason.PROGRESS_DEADLINE_EXCEEDED: Explanation(
        _STALLED,
        "A problem that waiting could have cured has lasted longer than the progress deadline.",
        "See the cause in the message.",
    ),
}
