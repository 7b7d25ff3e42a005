"""A Model of KubeAI (api/k8s/v1/model_types.go of kubeai-project/kubeai v0.23), as an InferenceDeployment."""

import re

from inference_operator.cli.import_.containers import put_arguments
from inference_operator.cli.import_.origin import OPERATOR_SETS, Draft, ForeignObject
from inference_operator.cli.parser import UsageError
from inference_operator.hardware.kinds import kind_named

API_VERSION, KIND = "kubeai.org/v1", "Model"
SCHEMES = ("hf://", "s3://", "pvc://")
_PROFILE = re.compile(r"nvidia-gpu-([a-z0-9-]+?)(?::\d+)?")
_CPU_PROFILE = re.compile(r"cpu(?::\d+)?")
ASSUMED_MOST = 1
"""Engines, where the Model sets no limit: one more would cost a GPU that nobody asked for."""


def from_model(origin: ForeignObject) -> Draft:
    """The draft of a Model.

    Raises:
        UsageError: its engine or its model's URL has no counterpart.
    """
    draft = Draft()
    engine = origin.take(str, "spec", "engine")
    if engine != "VLLM":
        raise UsageError("spec.engine: only VLLM can be taken over; choose a model in safetensors or GGUF.")
    url, _, query = (origin.take(str, "spec", "url") or "").partition("?")
    if not url.startswith(SCHEMES):
        raise UsageError("spec.url: copy the model to `hf://`, `s3://`, `pvc://` or an image, and name that.")
    draft.put("model.source", url)
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
    origin.leave("the engine offers what the model can do.", "spec", "features")
    origin.leave(
        "`spec.router.strategy: PrefixAffinity` keeps requests with the same prefix on one engine.",
        "spec",
        "loadBalancing",
    )
    origin.leave("put them into a ConfigMap, and mount it with `spec.podTemplate.volumes`.", "spec", "files")
    origin.leave("clients see the operator's name.", "spec", "owner")
    return draft


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
        if source.startswith(SCHEMES):
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
