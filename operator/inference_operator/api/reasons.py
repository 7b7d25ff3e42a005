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
    POD_REJECTED = "PodRejected"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a reason shows, what brings it about, and what to do."""

    condition: ConditionType
    cause: str
    cure: str


_READY, _RECONCILING, _STALLED = ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED
_NOTHING = "Nothing to do."

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
        "Add a node, or lower what `spec.engine.resources` asks for.",
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
    Reason.POD_REJECTED: Explanation(
        _RECONCILING,
        "Kubernetes refuses a pod, for example because of a quota, or a node turned it away or evicted it.",
        "Change what the message names.",
    ),
    Reason.PROGRESS_DEADLINE_EXCEEDED: Explanation(
        _STALLED,
        "A problem that waiting could have cured has lasted longer than the progress deadline.",
        "See the cause in the message.",
    ),
}
