"""Cause and cure of every reason that a condition can have; source of the reference page of reasons."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference_operator.api.reasons import ConditionType, Reason


@dataclass(frozen=True, slots=True)
class Explanation:
    """The condition that has a reason, the cause of the reason, and the cure."""

    condition: ConditionType
    cause: str
    cure: str


_MODEL, _SIZED = ConditionType.MODEL_RESOLVED, ConditionType.SIZED
_READY, _RECONCILING, _STALLED = ConditionType.READY, ConditionType.RECONCILING, ConditionType.STALLED
_NO_ACTION = "No action needed."

ENGINE_ERRORS: Mapping[Reason, Explanation] = {
    reason: Explanation(_RECONCILING, cause, cure)
    for reason, cause, cure in (
        (
            Reason.KV_CACHE_TOO_SMALL,
            "The memory left for the KV cache holds no request of full length, or too few states for a batch.",
            "Set `spec.engine.maxModelLen` or `.maxNumSeqs` to the value in the message, or use more or larger GPUs.",
        ),
        (
            Reason.GPU_OUT_OF_MEMORY,
            "A GPU ran out of memory while the engine was loading or serving.",
            "Use more or larger GPUs or a quantized model, or lower `spec.engine.gpuMemoryUtilization`.",
        ),
        (
            Reason.DEVICE_MEMORY_IN_USE,
            "Another process uses memory of the device that the engine starts on.",
            "Find the process that shares the device, or lower `spec.engine.gpuMemoryUtilization`.",
        ),
        (
            Reason.HEADS_NOT_DIVISIBLE,
            "The tensor parallel size does not divide the model's attention heads.",
            "Set `spec.parallelism.tensor` to a divisor of the number of heads.",
        ),
        (
            Reason.CONTEXT_TOO_LONG,
            "`spec.engine.maxModelLen` is larger than the model's maximum context length.",
            "Set it to the value in the message, or less.",
        ),
        (
            Reason.UNSUPPORTED_PRECISION,
            "The engine does not support the model's quantization or data type, or not on this device.",
            "Remove `spec.engine.quantization` and `spec.engine.dtype`, or use another model or device.",
        ),
        (
            Reason.UNSUPPORTED_ARCHITECTURE,
            "The engine does not support this model architecture.",
            "Use another model, or a newer engine image.",
        ),
        (
            Reason.REMOTE_CODE_NEEDED,
            "The model repository contains custom code, and the engine may not run it.",
            "Use a model that the engine supports, or allow `--trust-remote-code`.",
        ),
        (
            Reason.MODEL_GATED,
            "The model is gated: the hub gives it only to accounts that accepted its licence.",
            "Accept the licence on the hub, and name a Secret with the account's token in `spec.model.tokenSecretRef`.",
        ),
        (
            Reason.MODEL_NOT_FOUND,
            "The model does not exist, or this account may not see it.",
            "Check `spec.model.source`. For a private model name a Secret with a token in `spec.model.tokenSecretRef`.",
        ),
        (
            Reason.HUB_UNREACHABLE,
            "The model cannot be downloaded: no hub answers or can be reached, or a mirror's answer lacks fields.",
            "Check the cluster's egress and proxy, or serve the model from a `pvc://` or `oci://` source.",
        ),
        (
            Reason.INVALID_MODEL,
            "The model's files are incomplete, damaged or from different models.",
            "Copy the model again.",
        ),
        (
            Reason.SHARED_MEMORY_TOO_SMALL,
            "The processes of an engine need more shared memory than `/dev/shm` has.",
            "Raise `spec.engine.resources.limits.memory`; shared memory counts towards it.",
        ),
        (
            Reason.SERVICE_ENV_CONFLICT,
            "A Service named `vllm` adds environment variables to the pod that vLLM reads as its own.",
            "Rename that Service.",
        ),
        (
            Reason.COMMUNICATION_FAILED,
            "The GPUs of an engine cannot communicate with each other.",
            "Set `NCCL_DEBUG=INFO` in `spec.engine.env` and read the log of the pod in the message.",
        ),
        (
            Reason.WRONG_GPU,
            "The node has other GPUs than its labels say, so the engine ended before it loaded weights.",
            "Correct the labels or the setting `gpuNodeLabels`, or name this GPU in `spec.hardware.gpu.products`.",
        ),
        (
            Reason.DRIVER_TOO_OLD,
            "The node's GPU driver is too old for the CUDA version of the engine image.",
            "Update the driver, or set `spec.engine.image` to an image of an older CUDA, such as vLLM's `-cu129` tags.",
        ),
        (
            Reason.GPU_NOT_VISIBLE,
            "The engine sees no GPU although its pod has one: the container runtime does not give it the driver.",
            "Set `spec.scheduling.runtimeClassName: nvidia`, or make NVIDIA's runtime the default of the nodes.",
        ),
        (
            Reason.GPU_NOT_SUPPORTED,
            "The engine image has no code for this kind of GPU: the GPU is too old, or newer than the image.",
            "Use another kind of GPU (`spec.hardware.gpu.products`), or set `spec.engine.image` to an image for it.",
        ),
        (
            Reason.GPU_HARDWARE_ERROR,
            "A GPU of the node reports a hardware error. The pod is deleted once if its engine has ended three times.",
            "Cordon the node in the message, then reset or replace its GPU. Uncordon it afterwards.",
        ),
        (
            Reason.WEIGHTS_NOT_DIVISIBLE,
            "Tensor parallelism divides a quantized weight matrix into parts that are no multiple of its blocks.",
            "Set `spec.parallelism.tensor` to a smaller size.",
        ),
        (
            Reason.KERNELS_BROKEN,
            "Compiled kernels that an earlier engine stored are broken, for example because it was killed.",
            "With `spec.cache`, wait: a Job deletes them, if no equal engine serves. Else delete the pod.",
        ),
        (
            Reason.DISK_FULL,
            "The disk of the engine's node is full, or the pod uses more of it than it may; or the claim is full.",
            "Free space on the node, or keep caches on a claim (`spec.cache`). Expand a full claim, or prune it.",
        ),
        (
            Reason.INVALID_ARGUMENT,
            "The engine rejects an argument or a variable.",
            "Change what the message names, in `spec.engine.args` or `spec.engine.env`.",
        ),
        (
            Reason.CONFIGURATION_REFUSED,
            "The engine's own code ended its start: it does not run this model with these arguments on this device.",
            "Change what the message names: an argument, the parallel sizes, the model or the image.",
        ),
    )
}
"""Errors that an engine logs before it exits. All of them are reasons of Reconciling."""

EXPLANATIONS: Mapping[Reason, Explanation] = {
    Reason.SERVING: Explanation(_READY, "At least one engine and one router are ready.", _NO_ACTION),
    Reason.SCALED_TO_ZERO: Explanation(
        _READY,
        "No engine is wanted. The router holds requests until an engine is ready.",
        "With `spec.autoscaling`, the next request starts an engine. Without it, raise `spec.replicas`.",
    ),
    Reason.PAUSED: Explanation(
        _READY,
        "`spec.paused` is true: the operator does not create, change or delete objects. It still updates the status.",
        "Run `infd resume`, or set `spec.paused` to false. Edits made while paused are then applied.",
    ),
    Reason.STARTING: Explanation(
        _READY,
        "No engine has been ready yet. The message shows what the most advanced engine pod is doing: waiting for a"
        " node, volumes or images, or a phase of the engine's start.",
        "Wait.",
    ),
    Reason.ENGINES_UNAVAILABLE: Explanation(
        _READY, "No engine is ready. At least one was ready before.", "Check the engine pods and their logs."
    ),
    Reason.ROUTER_UNAVAILABLE: Explanation(
        _READY, "No router is ready.", "Check the router pods. Engines stay loaded meanwhile."
    ),
    Reason.ENGINES_OUTDATED: Explanation(
        ConditionType.ENGINES_AVAILABLE,
        "Enough engines are ready, or none should run. They keep the image or the pod template that they began with,"
        " and this release or its settings would give them another.",
        "No action needed. `infd renew --engines` replaces them one by one, and so does the window of"
        " `settings.rollouts.renewal`.",
    ),
    Reason.ENGINES_VULNERABLE: Explanation(
        ConditionType.ENGINES_AVAILABLE,
        "Enough engines are ready, or none should run. Their image has known vulnerabilities, and this release would"
        " give them another one.",
        "Run `infd renew --engines`, or Argo CD's action `renew`. Engines are replaced one by one, as"
        " `spec.rollout.strategy` says.",
    ),
    Reason.NETWORK_DEVICES_UNUSED: Explanation(
        ConditionType.ENGINES_AVAILABLE,
        "Enough engines are ready. NCCL connects their nodes by TCP sockets, which is slow, and not by the devices of"
        " `spec.hardware.network.resource`.",
        "Look for the cause in the lines with `NCCL` of the log of an engine's start: an image without the plugin of"
        " this network, or a limit on locked memory.",
    ),
    Reason.ROUTER_OUTDATED: Explanation(
        ConditionType.ROUTER_AVAILABLE,
        "Routers are ready. They keep the pod template and the configuration that they began with, and this release or"
        " its settings would build others.",
        "No action needed. The command in the message replaces the routers one by one, and loses no request.",
    ),
    Reason.ROUTER_VULNERABLE: Explanation(
        ConditionType.ROUTER_AVAILABLE,
        "Routers are ready. Their pod template and configuration are of an earlier release, and do not close the"
        " attacks in the message.",
        "Run the command in the message, or Argo CD's action `renew-routers`. Routers are replaced one by one, and no"
        " request is lost.",
    ),
    Reason.EXTERNAL_ROUTING: Explanation(
        ConditionType.ROUTER_AVAILABLE,
        "`spec.router.strategy` is `External`: no router runs. A Gateway or another router sends the requests.",
        "Point it at the pods in the message. Clients that call the Service reach the engines directly.",
    ),
    Reason.EXPOSED: Explanation(ConditionType.EXPOSED, "Clients outside the cluster can reach the router.", _NO_ACTION),
    Reason.FOLLOWING_DEMAND: Explanation(
        ConditionType.SCALING_ACTIVE, "The number of engines follows the requests. The message says why.", _NO_ACTION
    ),
    Reason.CAPACITY_LIMITED: Explanation(
        ConditionType.SCALING_ACTIVE,
        "More engines are wanted than nodes have GPUs for. The message says how many are missing.",
        "Add nodes, free GPUs, or lower `spec.autoscaling.maxReplicas`.",
    ),
    Reason.METRICS_MISSING: Explanation(
        ConditionType.SCALING_ACTIVE,
        "The operator cannot read the metrics of the pods in the message. It takes no engine away until it can.",
        "Check that the pods run, and that network policies and service meshes admit the operator to their metrics.",
    ),
    Reason.METRICS_PENDING: Explanation(
        ConditionType.SCALING_ACTIVE, "The operator has not read the metrics for the first time yet.", "Wait."
    ),
    Reason.FOLLOWING_AUTOSCALER: Explanation(
        ConditionType.SCALING_ACTIVE,
        "A HorizontalPodAutoscaler or KEDA sets the number of engines through `/scale`.",
        _NO_ACTION,
    ),
    Reason.AUTOSCALER_PENDING: Explanation(
        ConditionType.SCALING_ACTIVE,
        "The HorizontalPodAutoscaler or ScaledObject has not acted yet. Until then no engine is taken away.",
        "Wait for a minute. Then check that its controller runs.",
    ),
    Reason.AUTOSCALER_MISSING: Explanation(
        ConditionType.SCALING_ACTIVE,
        "`spec.autoscaling.backend` is `KEDA`, and KEDA's CRD or the address of Prometheus is missing.",
        "Install KEDA, and set `settings.prometheus.url` of the operator's chart. The operator finds KEDA within"
        " half a minute.",
    ),
    Reason.AUTOSCALER_CONFLICT: Explanation(
        ConditionType.SCALING_ACTIVE,
        "Another HorizontalPodAutoscaler or ScaledObject acts on the engines beside the operator. On their Deployment,"
        " it wins: the operator leaves its number. On `/scale` with the backend `BuiltIn`, it has no effect.",
        "Delete it. To scale by an HPA or KEDA, set `autoscaling.backend`, and the operator creates the object.",
    ),
    Reason.AUTOSCALER_FAILED: Explanation(
        ConditionType.SCALING_ACTIVE,
        "The HorizontalPodAutoscaler or KEDA cannot act. The message has its own words. The number of engines stays.",
        "Check the metrics adapter, the rule of its metric, and that Prometheus scrapes routers and engines.",
    ),
    Reason.ADAPTERS_READY: Explanation(
        ConditionType.ADAPTERS_AVAILABLE, "Every ready engine has loaded all adapters.", _NO_ACTION
    ),
    Reason.ADAPTER_PENDING: Explanation(
        ConditionType.ADAPTERS_AVAILABLE,
        "An adapter is copied to the claim, or engines load it. The model and the other adapters are served.",
        "Wait. If it lasts, look at `status.adapters` and at the Job of the copy.",
    ),
    Reason.ADAPTER_REFUSED: Explanation(
        ConditionType.ADAPTERS_AVAILABLE,
        "The files of an adapter cannot be used: the message says why. Its former files, the model and the other"
        " adapters are served on.",
        "Correct the adapter's section of `spec.model.adapters`, or its files.",
    ),
    Reason.ADAPTER_NOT_LOADED: Explanation(
        ConditionType.ADAPTERS_AVAILABLE,
        "An engine could not load an adapter, so routers do not advertise it. The model and the other adapters are"
        " served on.",
        "Read the engine's answer in the log of the container `adapters` of the pod in the message.",
    ),
    Reason.WAITING_FOR_TURN: Explanation(
        ConditionType.RENEWED,
        "Pods stay as they are until the turn of this InferenceDeployment comes: the operator's settings have changed,"
        " and few replace their pods at a time. Nobody's turn comes while the canary,"
        " or resources of two namespaces, are not healthy after theirs.",
        "Wait. `infd renew` replaces them now.",
    ),
    Reason.ROLLOUT_STOPPED: Explanation(
        ConditionType.RENEWED,
        "The operator's settings have changed, and with its new pods this InferenceDeployment is not healthy, as it was"
        " before. If it is the canary, or others fail too, those that have not begun wait.",
        "Read the other conditions. Then correct the operator's settings, or pause this InferenceDeployment.",
    ),
    Reason.ADDRESS_PENDING: Explanation(
        ConditionType.EXPOSED,
        "The Service, Ingress or HTTPRoute has no address yet, or no Gateway uses the InferencePool. A controller of"
        " the cluster assigns it.",
        "Wait. If it lasts, check that the cluster has a load balancer, an Ingress controller or a Gateway for it.",
    ),
    Reason.ROUTE_NOT_ACCEPTED: Explanation(
        ConditionType.EXPOSED,
        "A Gateway does not accept the HTTPRoute or InferencePool; the message quotes it.",
        "Correct `spec.router.httpRoute` or `.inferencePool`, or the Gateway's listeners.",
    ),
    Reason.GATEWAY_API_MISSING: Explanation(
        ConditionType.EXPOSED,
        "`spec.router.httpRoute` or `.inferencePool` is set, and the operator cannot use that kind in this cluster.",
        "Install Gateway API (v1.2 or later) or its Inference Extension (v1.5 or later), or give the operator's account"
        " the right to `httproutes` or `inferencepools` if the message says that it is missing. The operator looks"
        " again every half minute.",
    ),
    Reason.ROLLING_OUT: Explanation(
        _RECONCILING,
        "Pods of the previous specification are being replaced.",
        "Wait. Old pods serve meanwhile.",
    ),
    Reason.SWITCHED_TO_REPLACE: Explanation(
        _RECONCILING,
        "A surge rollout found no node for its new engine within 30 s (`surgeWaitSeconds` where nodes can be added and"
        " only one engine is ready), or a full quota or a volume in use kept it from starting. So this rollout"
        " continues with the strategy Replace.",
        "No action needed. To wait for a node instead, set `spec.rollout.strategy: Surge`.",
    ),
    Reason.WAITING_FOR_NODE: Explanation(
        _RECONCILING,
        "No node has the GPUs that the engines were sized for, but one can be added (`capacity: Elastic`).",
        "Wait for the node autoscaler, or add the node.",
    ),
    Reason.WAITING_FOR_OLDER_GROUP: Explanation(
        _RECONCILING,
        "An engine over several nodes found room for a part of its pods only, and an older one lacked that room. The"
        " younger one gave it back, so that they do not block each other.",
        "Wait: it tries again at the time in the message. More nodes help, or fewer engines.",
    ),
    Reason.NODE_LOST: Explanation(
        _RECONCILING,
        "A pod of an engine over several nodes is on a node that does not answer, and the others wait for it.",
        "Wait: the operator deletes the pod, so that it starts elsewhere. If the message has a command, check that the"
        " node is gone, then run it.",
    ),
    Reason.NODE_LEAVING: Explanation(
        _RECONCILING,
        "The node of an engine or of the only router is cordoned, or is about to be removed. Its successor starts"
        " first.",
        "Wait: it ends when its successor serves. A drain waits for that until the time in Ready's message.",
    ),
    Reason.SETTLED: Explanation(_RECONCILING, "All changes are applied and rolled out.", _NO_ACTION),
    Reason.NOT_STALLED: Explanation(_STALLED, "There is no blocking problem.", _NO_ACTION),
    Reason.INVALID_SPEC: Explanation(
        _STALLED,
        "A field of the spec has an invalid value.",
        "Change the field in the message.",
    ),
    Reason.INVALID_MODEL_SOURCE: Explanation(
        _STALLED,
        "`spec.model.source` is not a valid model address.",
        "Use `hf://org/name`, `s3://bucket/path`, `pvc://claim/path` or `oci://image-reference`.",
    ),
    Reason.REFUSED_BY_POLICY: Explanation(
        _STALLED,
        "The administrator's setting `policy` does not allow what a field names, or the number of GPUs. What runs stays"
        " as it is, and nothing new is made.",
        "Change the field as the message says, or ask the administrator to allow it:"
        " [restrict what users may run](../how-to/restrict.md).",
    ),
    Reason.MANAGED_ARGUMENT: Explanation(
        _STALLED,
        "`spec.engine.args` or `spec.engine.env` sets an option that the operator sets itself.",
        "Use the field in the message instead.",
    ),
    Reason.SECRET_IN_SPEC: Explanation(
        _STALLED,
        "`spec.engine.args` contains a secret. Everyone who can read the pod could read it.",
        "Set the variable in the message from a Secret.",
    ),
    Reason.ARGUMENT_NOT_ALLOWED: Explanation(
        _STALLED,
        "An argument or variable can load code, read files or open endpoints, and the operator's settings do not allow"
        " it.",
        "Remove it, or allow it in the operator's settings: [arguments](arguments.md).",
    ),
    Reason.UNKNOWN_ARGUMENT: Explanation(
        _STALLED,
        "This version of the engine has no such argument, or the abbreviation is ambiguous.",
        "Use the argument in the message.",
    ),
    Reason.MODEL_KNOWN: Explanation(_MODEL, "The model's config and checkpoint size are known.", _NO_ACTION),
    Reason.INSPECTING_MODEL: Explanation(
        _MODEL,
        "A Job in the model's namespace reads its config and file sizes, before the first engine is sized.",
        "Wait; the Job takes seconds once its pod runs. The message shows what the pod is waiting for.",
    ),
    Reason.INSPECTION_FAILED: Explanation(
        _MODEL,
        "The inspection Job failed or did not finish in time.",
        "See the message. The operator retries; with `spec.parallelism.tensor` engines start without a memory check.",
    ),
    Reason.INSUFFICIENT_DISK: Explanation(
        _STALLED,
        "No node has the disk (ephemeral storage) that an engine requests for its model, and no node will be added.",
        "Set `spec.cache`, use nodes with larger disks, or request less in `spec.engine.resources.requests`.",
    ),
    Reason.DOWNLOADING_MODEL: Explanation(
        _RECONCILING,
        "A Job downloads the model to the claim in `spec.cache`. Engines of the specification start after it.",
        "Wait; the message shows the progress, or what the Job's pod waits for.",
    ),
    Reason.DOWNLOAD_FAILED: Explanation(
        _STALLED,
        "The Job that downloads the model failed, or a file differs from what the hub lists.",
        "See the message. The operator retries, and a download continues where it ended.",
    ),
    Reason.VERIFYING_MODEL: Explanation(
        _RECONCILING,
        "A Job verifies the signature of the model's image with the key in `spec.model.verify`, or of all images with"
        " the key in the cluster's policy. Engines start after it.",
        "Wait; the Job takes seconds once its pod runs. The message shows what the pod waits for.",
    ),
    Reason.VERIFICATION_FAILED: Explanation(
        _STALLED,
        "An image is not signed with the key in `spec.model.verify` or in the cluster's policy, or the key or the"
        " signature cannot be read.",
        "See the message. Engines that run are not stopped. The operator retries.",
    ),
    Reason.MODEL_UNKNOWN: Explanation(
        _MODEL,
        "No model facts are available: engines run on CPUs, for which only models of hubs are inspected; or the"
        " specification is paused or rejected. A model that could not be read has the reason of that.",
        "No action needed if engines serve.",
    ),
    Reason.MODEL_NOT_UNDERSTOOD: Explanation(
        _MODEL,
        "The model's config lacks figures that sizing needs.",
        "Set `spec.parallelism.tensor`. Engines then start without a memory check.",
    ),
    Reason.PICKLE_WEIGHTS: Explanation(
        _MODEL,
        "The weights are pickle files, which can run code when they are loaded. No engine starts with them.",
        "Use safetensors, or set `spec.model.allowPickle: true` if you trust their author.",
    ),
    Reason.FITS: Explanation(
        _SIZED, "The model fits on the GPUs. The message shows the memory of one GPU.", _NO_ACTION
    ),
    Reason.CONTEXT_REDUCED: Explanation(
        _SIZED,
        "The largest group of GPUs cannot hold a context of 32,768 tokens (or the model's own length) and"
        " eight requests of 2,048 tokens. The context is shorter, or fewer requests fit at once.",
        "No action needed if that is enough. Otherwise use larger GPUs, or a smaller or quantized model.",
    ),
    Reason.PARTLY_ESTIMATED: Explanation(
        _SIZED,
        "Memory could not be computed completely: the model or GPUs are unknown, or a part such as a draft model is"
        " unknown, or engines run on CPUs, for which nodes are not checked, or the image has another version of vLLM"
        " than the operator's tables.",
        "No action needed if the sizes are right. Otherwise see the message, or set `spec.engine.resources`.",
    ),
    Reason.NOT_SIZED: Explanation(
        _SIZED, "The specification is invalid, so sizes cannot be computed.", "See the condition Stalled."
    ),
    Reason.INSUFFICIENT_GPU_MEMORY: Explanation(
        _STALLED,
        "No group of GPUs, of one node or of several, can hold the model; the message shows the figures. No pod is"
        " created.",
        "Use the alternative in the message, or add a node with enough GPU memory; the operator then continues.",
    ),
    Reason.INVALID_PARALLEL_SIZE: Explanation(
        _STALLED,
        "The model cannot be divided by the sizes in `spec.parallelism`, no node has enough GPUs, there are too few"
        " nodes with GPUs of one kind, or the engine runs on one node.",
        "Use a size from the message, or remove the field.",
    ),
    Reason.NEEDS_MULTI_NODE: Explanation(
        _STALLED,
        "The model needs the GPUs of more nodes than the cluster has or `spec.parallelism` allows.",
        "Add nodes, or remove `spec.parallelism.nodes` and `.pipeline`. Otherwise use larger GPUs, or a smaller or"
        " quantized model.",
    ),
    Reason.NO_SUITABLE_GPU: Explanation(
        _STALLED,
        "No GPU that exists, is declared or is named in the spec can run the model or may be used.",
        "Add a node, declare GPUs with the operator's setting `gpuOffers`, or change `spec.hardware.gpu`.",
    ),
    Reason.NO_SUITABLE_NETWORK: Explanation(
        _STALLED,
        "No nodes with the GPUs of an engine have the network devices or the label that its pods ask for.",
        "Install the device plugin, or change `spec.hardware.network` or `spec.scheduling.topologyKey`.",
    ),
    Reason.NAME_CONFLICT: Explanation(
        _STALLED,
        "An object with the name of a child object exists and has another owner.",
        "Delete or rename that object, take over what a former InferenceDeployment left behind with the annotation"
        ' `inference-operator.dev/adopt: "true"`, or use another name for the InferenceDeployment.',
    ),
    Reason.WAITING_FOR_DELETION: Explanation(
        _RECONCILING,
        "An object with the name of a child object is still being deleted.",
        "Wait. If it remains, check its finalizers.",
    ),
    Reason.CHILD_REJECTED: Explanation(
        _STALLED,
        "The API server or an admission policy rejects a child object.",
        "Change what the message names, in the InferenceDeployment or in the policy.",
    ),
    Reason.OPERATOR_ERROR: Explanation(
        _STALLED,
        "A bug of the operator: it could not finish a decision about this resource. Engines that serve go on.",
        "Undo the last edit if there was one, and report the error in the operator's log. The operator tries again.",
    ),
    Reason.REQUEST_FAILED: Explanation(
        _RECONCILING,
        "A request to the API server for a child object failed or got no answer.",
        "Wait. The operator retries with backoff, at least every two minutes. If it persists, see the message.",
    ),
    Reason.IMAGE_PULL_FAILED: Explanation(
        _RECONCILING,
        "The kubelet cannot pull an image, of a container or of an `oci://` model. The message has the registry's"
        " answer, and what helps after it.",
        "Check the image name, and the pull secret of the namespace's default ServiceAccount.",
    ),
    Reason.CONTAINER_CONFIG_ERROR: Explanation(
        _RECONCILING,
        "The container of an engine, a router or a Job refers to an object that is missing, such as a Secret or one of"
        " its keys.",
        "Create the missing object.",
    ),
    Reason.VOLUME_UNAVAILABLE: Explanation(
        _RECONCILING,
        "A volume is missing, or cannot be attached or mounted.",
        "Create the PersistentVolumeClaim or Secret in the message, or stop the pod that uses its volume on another"
        " node.",
    ),
    Reason.UNSCHEDULABLE: Explanation(
        _RECONCILING,
        "No node can run a pod.",
        "Add a node with the resources in the message, free resources on a node, or lower the requests.",
    ),
    Reason.OUT_OF_MEMORY: Explanation(
        _RECONCILING,
        "The container exceeded its memory limit and was killed (OOMKilled).",
        "Raise `spec.engine.resources.limits.memory`.",
    ),
    Reason.CRASH_LOOP: Explanation(
        _RECONCILING,
        "A container exits repeatedly.",
        "Correct what the message names. `infd logs --previous` prints the whole log, the cause first.",
    ),
    Reason.STARTUP_TIMEOUT: Explanation(
        _RECONCILING,
        "An engine was not ready within `spec.startupTimeout`, so the kubelet restarts it.",
        "Raise `spec.startupTimeout`, or serve the model from a `pvc://` or `oci://` source.",
    ),
    **ENGINE_ERRORS,
    Reason.QUOTA_EXCEEDED: Explanation(
        _RECONCILING,
        "A ResourceQuota of the namespace does not allow another pod, or counts a request or limit that the pod lacks.",
        "Raise the quota in the message, or lower the requests.",
    ),
    Reason.POD_REJECTED: Explanation(
        _RECONCILING,
        "The API server rejects a pod, or a node rejected or evicted it. A pod that a node rejects is replaced at once;"
        " the operator keeps three of them and deletes the others.",
        "Change what the message names. A node that rejects every pod: `kubectl cordon` it until it is repaired.",
    ),
    Reason.ENGINE_NOT_PROGRESSING: Explanation(
        ConditionType.ENGINES_AVAILABLE,
        "An engine had requests, made no progress and did not answer a probe request for the operator's"
        " `noProgressSeconds`. It gets no new requests until it answers; other engines get them.",
        "No action needed. If the engine does not answer, the operator replaces it after `stallSeconds`.",
    ),
    Reason.ENGINE_STALLED: Explanation(
        ConditionType.ENGINES_AVAILABLE,
        "An engine had requests, made no progress and did not answer a probe request. The operator deleted its pod; a"
        " new pod replaces it.",
        "No action needed. If it happens again, check the engine's previous log and its GPU.",
    ),
    Reason.PROGRESS_DEADLINE_EXCEEDED: Explanation(
        _STALLED,
        "A problem that can resolve by itself has lasted longer than `spec.rollout.progressDeadline`. Two have ten"
        " minutes: nodes that reject pods, and an obstacle of a rollout that the end of no engine removes.",
        "See the cause in the message.",
    ),
}


def with_cure(cause: str, cure: str) -> str:
    """A cause and its cure as two sentences; only the cause if no cure is known."""
    return f"{cause.rstrip('.')}. {cure}" if cure else cause
