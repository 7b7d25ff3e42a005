"""A Model of KubeAI, an LLMInferenceService of KServe, and a Deployment that runs vLLM, as InferenceDeployments.

Fields are those of kubeai-project/kubeai v0.23, api/k8s/v1/model_types.go; and of kserve/kserve of August 2026,
pkg/apis/serving/v1alpha1/llm_inference_service_types.go, and of the same file of v1alpha2.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from inference_operator.cli.import_.containers import is_vllm, put_arguments, put_model, take_container, take_pod
from inference_operator.cli.import_.origin import OPERATOR_SETS, Draft, ForeignObject
from inference_operator.cli.parser import UsageError
from inference_operator.hardware.kinds import kind_named
from inference_operator.manifest import DEPLOYMENT, Kind

KUBEAI_VERSION, KUBEAI_KIND = "kubeai.org/v1", "Model"
KUBEAI_SCHEMES = ("hf://", "s3://", "pvc://")
_PROFILE = re.compile(r"nvidia-gpu-([a-z0-9-]+?)(?::\d+)?")
_CPU_PROFILE = re.compile(r"cpu(?::\d+)?")
ASSUMED_MOST = 1
"""Engines, where the Model sets no limit: one more would cost a GPU that nobody asked for."""
LEFT_OF_KUBEAI = {
    "features": "the engine offers what the model can do.",
    "loadBalancing": "`spec.router.strategy: PrefixAffinity` keeps requests with the same prefix on one engine.",
    "files": "put them into a ConfigMap, and mount it with `spec.podTemplate.volumes`.",
    "owner": "clients see the operator's name.",
}


def from_model(origin: ForeignObject) -> Draft:
    """Raises `UsageError` if its engine or its model's URL has no counterpart."""
    draft = Draft()
    engine = origin.take(str, "spec", "engine")
    if engine != "VLLM":
        raise UsageError("spec.engine: only VLLM can be taken over; choose a model in safetensors or GGUF.")
    url, _, query = (origin.take(str, "spec", "url") or "").partition("?")
    if not url.startswith(KUBEAI_SCHEMES):
        raise UsageError("spec.url: copy the model to `hf://`, `s3://`, `pvc://` or an image, and name that.")
    draft.put("model.source", url)
    draft.put("model.servedName", _dotted_name(origin))
    if query:
        draft.notes.append(("spec.url", "what follows `?` was left out."))
    draft.put("engine.kind", "VLLM")
    draft.put("engine.image", origin.take(str, "spec", "image"))
    put_arguments(draft, [str(one) for one in origin.take(list, "spec", "args") or ()])
    _environment(origin, draft)
    _hardware(origin, draft)
    _adapters_and_cache(origin, draft, url)
    _scaling(origin, draft)
    draft.put("scheduling.priorityClassName", origin.take(str, "spec", "priorityClassName"))
    if origin.look(list, "spec", "features") == ["TextGeneration"]:
        origin.take(list, "spec", "features")
    for one, why in LEFT_OF_KUBEAI.items():
        origin.leave(why, "spec", one)
    return draft


def _dotted_name(origin: ForeignObject) -> str:
    """The name that requests have, where the name of the resource must differ from it; empty where it need not."""
    name = origin.look(str, "metadata", "name") or ""
    return name if "." in name else ""


def _environment(origin: ForeignObject, draft: Draft) -> None:
    variables = origin.look(dict, "spec", "env") or {}
    kept = []
    for name in variables:
        if "TOKEN" in str(name).upper():
            origin.leave("a token belongs into a Secret: name it in `spec.model.tokenSecretRef`.", "spec", "env", name)
        elif (value := origin.take(str, "spec", "env", name)) is not None:
            kept.append({"name": name, "value": value})
    draft.put("engine.env", kept)
    draft.put("podTemplate.envFrom", origin.take(list, "spec", "envFrom"))


def _hardware(origin: ForeignObject, draft: Draft) -> None:
    profile = origin.look(str, "spec", "resourceProfile") or ""
    gpu = _PROFILE.fullmatch(profile)
    kind = kind_named(gpu[1]) if gpu else None
    if kind:
        draft.put("hardware.gpu.products", [kind.name])
        origin.take(str, "spec", "resourceProfile")
        draft.notes.append(("spec.resourceProfile", "its kind of GPU was taken; the number of GPUs is computed."))
    elif _CPU_PROFILE.fullmatch(profile):
        draft.put("hardware.device", "CPU")
        origin.take(str, "spec", "resourceProfile")
    origin.leave("name the GPUs in `spec.hardware.gpu.products`; their number is computed.", "spec", "resourceProfile")


def _adapters_and_cache(origin: ForeignObject, draft: Draft, url: str) -> None:
    adapters = []
    for at, one in enumerate(origin.look(list, "spec", "adapters") or ()):
        source = str(one.get("url") or "") if isinstance(one, dict) else ""
        if source.startswith(KUBEAI_SCHEMES):
            adapters.append({"name": origin.take(str, "spec", "adapters", at, "name"), "source": source})
            origin.take(str, "spec", "adapters", at, "url")
        else:
            origin.leave("copy it to `hf://`, `s3://` or `pvc://`, and name that.", "spec", "adapters", at)
    draft.put("model.adapters", adapters)
    profile = origin.take(str, "spec", "cacheProfile")
    if profile:
        draft.notes.append(
            ("spec.cacheProfile", "a claim of the default StorageClass was asked for: see `spec.cache`.")
        )
    if profile or adapters or url.startswith("s3://"):
        draft.spec["cache"] = {}


def _scaling(origin: ForeignObject, draft: Draft) -> None:
    replicas = origin.take(int, "spec", "replicas")
    least, most = (origin.take(int, "spec", one) for one in ("minReplicas", "maxReplicas"))
    if origin.take(bool, "spec", "autoscalingDisabled"):
        draft.put("replicas", replicas)
        for one in ("minReplicas", "maxReplicas", "targetRequests", "scaleDownDelaySeconds"):
            origin.leave("autoscaling is off.", "spec", one)
        return
    if most is None:
        most = max(least or 0, replicas or 0, ASSUMED_MOST)
        why = f"no limit is set there; `spec.autoscaling.maxReplicas` was set to {most}."
        draft.notes.append(("spec.maxReplicas", why))
    draft.put("autoscaling.maxReplicas", most)
    draft.put("autoscaling.minReplicas", least or 0)
    draft.put("autoscaling.targetConcurrency", origin.take(int, "spec", "targetRequests"))
    if (delay := origin.take(int, "spec", "scaleDownDelaySeconds")) is not None:
        draft.put("autoscaling.scaleDownDelay", f"{delay}s")
    if replicas is not None:
        draft.notes.append(("spec.replicas", f"{OPERATOR_SETS[:-1]} between `minReplicas` and `maxReplicas`."))


KSERVE_VERSIONS = frozenset({"serving.kserve.io/v1alpha1", "serving.kserve.io/v1alpha2"})
KSERVE_KIND = "LLMInferenceService"
MAIN = "main"
"""Name of the container with vLLM (kserve/kserve, config/llmisvcconfig)."""
ADDED = "VLLM_ADDITIONAL_ARGS"
"""Variable whose words KServe's own command adds to vLLM's arguments (kserve/kserve, config/llmisvcconfig)."""
KSERVE_SCHEMES = ("hf://", "s3://", "pvc://", "oci://")
POD = ("spec", "template")
LEFT = {
    "baseRefs": "what they contain was not read: apply it by hand.",
    "prefill": "prefill and decode run in one engine here.",
    "worker": "`spec.parallelism.nodes` divides an engine over nodes.",
    "router": "routers of the operator replace it: `spec.router` has `ingress`, `httpRoute` and `affinity`.",
    "tracing": "the operator's setting `tracesEndpoint` switches it on.",
    "storageInitializer": OPERATOR_SETS,
    "kvCacheOffloading": "`spec.engine.kvOffload` is near it.",
    "rolloutStrategy": "`spec.rollout.strategy` chooses the order.",
    "labels": "write them into `spec.podTemplate.labels` by hand, if something needs them.",
    "annotations": "write them into `spec.podTemplate.annotations` by hand, if something needs them.",
}


def from_llm_inference_service(origin: ForeignObject) -> Draft:
    """Raises `UsageError` if its model's URI has no counterpart."""
    draft = Draft()
    uri = origin.take(str, "spec", "model", "uri") or ""
    if not uri.startswith(KSERVE_SCHEMES):
        raise UsageError("spec.model.uri: copy the model to `hf://`, `s3://`, `pvc://` or an image, and name that.")
    draft.put("model.source", uri)
    draft.put("engine.kind", "VLLM")
    _pod(origin, draft)
    draft.put("model.servedName", origin.take(str, "spec", "model", "name") or _dotted_name(origin))
    for one in ("tensor", "pipeline"):
        draft.put(f"parallelism.{one}", origin.take(int, "spec", "parallelism", one))
    for one in ("data", "dataLocal", "dataRPCPort"):
        origin.leave("`spec.replicas` sets the number of engines.", "spec", "parallelism", one)
    origin.leave("add `--enable-expert-parallel` to `spec.engine.args`.", "spec", "parallelism", "expert")
    _adapters(origin, draft, uri)
    draft.put("replicas", origin.take(int, "spec", "replicas"))
    draft.put("autoscaling.minReplicas", origin.take(int, "spec", "scaling", "minReplicas"))
    draft.put("autoscaling.maxReplicas", origin.take(int, "spec", "scaling", "maxReplicas"))
    for one in ("wva", "keda"):
        origin.leave("the operator scales by requests: `spec.autoscaling`.", "spec", "scaling", one)
    origin.leave("requests of one resource have one rank.", "spec", "model", "criticality")
    for one, why in LEFT.items():
        origin.leave(why, "spec", one)
    return draft


def _pod(origin: ForeignObject, draft: Draft) -> None:
    containers = origin.look(list, *POD, "containers") or []
    names = [one.get("name") if isinstance(one, dict) else None for one in containers]
    index = names.index(MAIN) if MAIN in names else None
    if index is not None:
        found = take_container(origin, draft, (*POD, "containers", index), POD)
        if found and found.model and not found.model.startswith("/"):
            draft.notes.append(("argument --model", "`spec.model.uri` was taken instead."))
        environment = draft.spec.get("engine", {}).get("env") or []
        for one in [one for one in environment if one.get("name") == ADDED]:
            draft.spec["engine"]["env"] = [other for other in environment if other is not one]
            try:
                put_arguments(draft, shlex.split(str(one.get("value") or "")))
            except ValueError:
                draft.notes.append((f"variable {ADDED}", "its quotes do not match: write `spec.engine.args` by hand."))
    if draft.spec["engine"].get("env") == []:
        del draft.spec["engine"]["env"]
    take_pod(origin, draft, POD, index)


def _adapters(origin: ForeignObject, draft: Draft, uri: str) -> None:
    lora = ("spec", "model", "lora")
    adapters = []
    for at, one in enumerate(origin.look(list, *lora, "adapters") or ()):
        source = str(one.get("uri") or "") if isinstance(one, dict) else ""
        if source.startswith(KSERVE_SCHEMES) and set(one) <= {"name", "uri"}:
            adapters.append({"name": one.get("name"), "source": source})
            origin.take(dict, *lora, "adapters", at)
        origin.leave(
            "only a name and a URI `hf://`, `s3://`, `pvc://` or `oci://` can be taken.", *lora, "adapters", at
        )
    draft.put("model.adapters", adapters)
    draft.put("engine.maxAdapterRank", origin.take(int, *lora, "maxRank"))
    draft.put("engine.adapterSlots", origin.take(int, *lora, "maxAdapters"))
    if adapters or uri.startswith("s3://"):
        draft.spec.setdefault("cache", {})


POD_OF_DEPLOYMENT = ("spec", "template", "spec")


def from_deployment(origin: ForeignObject) -> Draft:
    """Raises `UsageError` if no container runs vLLM."""
    draft = Draft()
    containers = origin.look(list, *POD_OF_DEPLOYMENT, "containers") or []
    index = next((at for at, one in enumerate(containers) if isinstance(one, dict) and is_vllm(one)), None)
    if index is None:
        raise UsageError("no container of it runs vLLM.")
    draft.put("engine.kind", "VLLM")
    draft.put("replicas", origin.take(int, "spec", "replicas"))
    found = take_container(origin, draft, (*POD_OF_DEPLOYMENT, "containers", index), POD_OF_DEPLOYMENT)
    take_pod(origin, draft, POD_OF_DEPLOYMENT, index)
    if found is not None:
        put_model(draft, found.model, "spec.template.spec.containers")
    for part in ("selector", "strategy", "revisionHistoryLimit", "progressDeadlineSeconds", "minReadySeconds"):
        origin.leave(OPERATOR_SETS, "spec", part)
    origin.leave("write them into `spec.podTemplate` by hand, if something needs them.", "spec", "template", "metadata")
    return draft


Reader = Callable[[ForeignObject], Draft]
READERS: Mapping[tuple[str, str], Reader] = {
    (KUBEAI_VERSION, KUBEAI_KIND): from_model,
    (DEPLOYMENT.api_version, DEPLOYMENT.name): from_deployment,
    **{(version, KSERVE_KIND): from_llm_inference_service for version in KSERVE_VERSIONS},
}
KINDS: Mapping[str, Sequence[Kind]] = {
    "model": [Kind(KUBEAI_VERSION, KUBEAI_KIND)],
    "deployment": [DEPLOYMENT],
    "llminferenceservice": [Kind(version, KSERVE_KIND) for version in sorted(KSERVE_VERSIONS, reverse=True)],
}
