"""One table of everything a condition can say: reason, condition, cause and cure.

The reference page and the tests come from this table.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.api.last_words import LAST_WORDS
from inference_operator.api.reasons import ConditionType, Reason


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a reason shows, what brings it about, and what to do."""

    condition: ConditionType
    cause: str
    cure: str


_MODEL, _SIZED = ConditionType.MODEL_RESOLVED, ConditionType.SIZED
_READY, _RECONCILING, _STALLED = ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED
_NOTHING = "Nothing to do."

_ENGINES = {reason: Explanation(_RECONCILING, *words) for reason, words in LAST_WORDS.items()}

EXPLANATIONS: Mapping[Reason, Explanation] = {
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
        "No engine has been ready yet. The message tells where the furthest one is: waiting for a node, its volumes or"
        " its images, or what its log says that it does.",
        "Wait; it takes its course.",
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
    Reason.WAITING_FOR_NODE: Explanation(
        _RECONCILING,
        "No node has the GPUs that the engines were sized for, and one can be added (`capacity: Elastic`).",
        "Wait for the node autoscaler, or add the node.",
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
    Reason.MODEL_KNOWN: Explanation(_MODEL, "The model's config and size are known.", _NOTHING),
    Reason.INSPECTING_MODEL: Explanation(
        _MODEL,
        "The model is not in the catalogue: a Job in its namespace reads its config and how large its files are.",
        "Wait; it takes seconds once its pod runs. The message says what keeps the pod from that.",
    ),
    Reason.INSPECTION_FAILED: Explanation(
        _MODEL,
        "The Job that reads what the model's files say ended without an answer, or did not run in time.",
        "See the message. It is tried again; `spec.parallelism.tensor` starts engines without a check.",
    ),
    Reason.MODEL_UNKNOWN: Explanation(
        _MODEL,
        "Nothing has been read of the model: engines run on CPUs, which are started without; or it could not be"
        " read, and they were started as `spec.parallelism.tensor` asks; or the specification is paused or refused.",
        "Nothing to do where engines serve.",
    ),
    Reason.MODEL_NOT_UNDERSTOOD: Explanation(
        _MODEL,
        "The model's config does not say what sizing needs.",
        "Set `spec.parallelism.tensor`; engines are then started without a check.",
    ),
    Reason.FITS: Explanation(
        _SIZED, "The sizes of an engine are counted; `status.plan` shows the arithmetic of one GPU.", _NOTHING
    ),
    Reason.CONTEXT_REDUCED: Explanation(
        _SIZED,
        "The largest group of GPUs on one node does not hold sequences of 32,768 tokens (or of the model's own length)"
        " and eight requests of 2,048, so sequences are shorter, or fewer fit at once.",
        "Nothing to do where that is long enough; else use larger GPUs, or a smaller or quantised model.",
    ),
    Reason.NOT_COUNTED: Explanation(
        _SIZED,
        "Too little is known to count, so sizes are as asked; or a part is not known, such as a draft model; or engines"
        " run on CPUs: nodes are not looked at.",
        "Nothing to do where sizes are right; else see the message, or set `spec.engine.resources`.",
    ),
    Reason.NOT_SIZED: Explanation(
        _SIZED, "The specification cannot be read far enough for sizes.", "See the condition Stalled."
    ),
    Reason.INSUFFICIENT_GPU_MEMORY: Explanation(
        _STALLED,
        "No group of GPUs on one node holds the model, by the arithmetic in the message. No pod is made.",
        "Use what the message says would fit; a node that fits cures it by itself.",
    ),
    Reason.INVALID_PARALLEL_SIZE: Explanation(
        _STALLED,
        "The model cannot be divided into as many parts as `spec.parallelism` asks, or no node has as many GPUs.",
        "Use one of the sizes that the message names, or leave it out.",
    ),
    Reason.NEEDS_MULTI_NODE: Explanation(
        _STALLED,
        "Only several nodes together could hold the model, and engines are of one node.",
        "Use larger GPUs or a smaller or quantised model.",
    ),
    Reason.NO_SUITABLE_GPU: Explanation(
        _STALLED,
        "No GPU that is there, declared or named can compute the model or may be used.",
        "Add a node, declare GPUs with the operator's setting `gpuOffers`, or change `spec.hardware.gpu`.",
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
        "Create what is missing.",
    ),
    Reason.VOLUME_UNAVAILABLE: Explanation(
        _RECONCILING,
        "A volume is missing, or cannot be attached or mounted.",
        "Create the PersistentVolumeClaim that is named, or end what uses its volume on another node.",
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
    Reason.STARTUP_TIMEOUT: Explanation(
        _RECONCILING,
        "An engine did not answer within `spec.startupTimeout`, so that its kubelet ended it and starts it again.",
        "Raise `spec.startupTimeout`, or serve the model from a claim or an image.",
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


def with_cure(cause: str, cure: str) -> str:
    """A cause and what helps, as two sentences; the cause as it is where no cure is known.

    Examples:
        >>> with_cure('secret "b" not found', EXPLANATIONS[Reason.CONTAINER_CONFIG_ERROR].cure), with_cure("late", "")
        ('secret "b" not found. Create what is missing.', 'late')
    """
    return f"{cause.rstrip('.')}. {cure}" if cure else cause
