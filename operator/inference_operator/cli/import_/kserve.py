"""An LLMInferenceService of KServe, as an InferenceDeployment.

Fields are those of kserve/kserve of August 2026, pkg/apis/serving/v1alpha1/llm_inference_service_types.go, and of the
same file of v1alpha2.
"""

import shlex

from inference_operator.cli.import_.containers import put_arguments, take_container, take_pod
from inference_operator.cli.import_.origin import OPERATOR_SETS, Draft, ForeignObject
from inference_operator.cli.parser import UsageError

API_VERSIONS = frozenset({"serving.kserve.io/v1alpha1", "serving.kserve.io/v1alpha2"})
KIND = "LLMInferenceService"
MAIN = "main"
"""Name of the container with vLLM (kserve/kserve, config/llmisvcconfig)."""
ADDED = "VLLM_ADDITIONAL_ARGS"
"""Variable whose words KServe's own command adds to vLLM's arguments (kserve/kserve, config/llmisvcconfig)."""
SCHEMES = ("hf://", "s3://", "pvc://", "oci://")
POD = ("spec", "template")
LEFT = {
    "baseRefs": "what they contain was not read: apply it by hand.",
    "prefill": "prefill and decode run in one engine here.",
    "worker": "`spec.parallelism.nodes` divides an engine over nodes.",
    "router": "routers of the operator replace it: `spec.router` has `ingress`, `httpRoute` and `affinity`.",
    "tracing": "the operator's setting `tracesEndpoint` switches it on.",
    "storageInitializer": OPERATOR_SETS,
    "kvCacheOffloading": "`--kv-offloading-size` in `spec.engine.args` is near it.",
    "rolloutStrategy": "`spec.rollout.strategy` chooses the order.",
    "labels": "write them into `spec.podTemplate.labels` by hand, if something needs them.",
    "annotations": "write them into `spec.podTemplate.annotations` by hand, if something needs them.",
}


def from_llm_inference_service(origin: ForeignObject) -> Draft:
    """The draft of an LLMInferenceService.

    Raises:
        UsageError: its model's URI has no counterpart.
    """
    draft = Draft()
    uri = origin.take(str, "spec", "model", "uri") or ""
    if not uri.startswith(SCHEMES):
        raise UsageError("spec.model.uri: copy the model to `hf://`, `s3://`, `pvc://` or an image, and name that.")
    draft.put("model.source", uri)
    draft.put("engine.kind", "VLLM")
    _pod(origin, draft)
    draft.put("model.servedName", origin.take(str, "spec", "model", "name"))
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
    if MAIN in names:
        index = names.index(MAIN)
        found = take_container(origin, draft, (*POD, "containers", index), POD)
        if found and found.model and not found.model.startswith("/"):
            draft.notes.append(("argument --model", "`spec.model.uri` was taken instead."))
        environment = draft.spec.get("engine", {}).get("env") or []
        for one in [one for one in environment if one.get("name") == ADDED]:
            draft.spec["engine"]["env"] = [other for other in environment if other is not one]
            _added_arguments(draft, str(one.get("value") or ""))
    if draft.spec["engine"].get("env") == []:
        del draft.spec["engine"]["env"]
    take_pod(origin, draft, POD)
    for at, name in enumerate(names):
        if name != MAIN:
            origin.leave("write it into `spec.podTemplate.sidecars` by hand.", *POD, "containers", at)


def _added_arguments(draft: Draft, text: str) -> None:
    try:
        put_arguments(draft, shlex.split(text))
    except ValueError:
        draft.notes.append((f"variable {ADDED}", "its quotes do not match: write `spec.engine.args` by hand."))


def _adapters(origin: ForeignObject, draft: Draft, uri: str) -> None:
    lora = ("spec", "model", "lora")
    adapters = []
    for at, one in enumerate(origin.look(list, *lora, "adapters") or ()):
        source = str(one.get("uri") or "") if isinstance(one, dict) else ""
        if source.startswith(SCHEMES) and set(one) <= {"name", "uri"}:
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
