"""Random specs from the schema of the CRD, valid and invalid; equal for equal seeds."""

import copy
import random
import re
import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from inference_operator.api.crd import crd
from inference_operator.api.disaggregation import DisaggregationSpec
from inference_operator.api.router import RouterSpec
from inference_operator.api.spec import Spec
from inference_operator.manifest import Manifest

SCHEMA: Manifest = crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
_QUANTITIES = ("1", "500m", "0.5", "2Gi", "1536Mi", "4G", 3)
_DURATIONS = ("90s", "10m", "1h", "45m")
_BY_RULE: Mapping[str, tuple[object, ...]] = {
    "spec.model.source": (
        *("hf://Qwen/Qwen3-8B",) * 11,
        *("pvc://models/a/b", "oci://example.com/model:1", "hf://nobody"),
    ),
    "spec.paused": (False, False, False, True),  # nothing is planned while it is true
    "spec.model.adapters[].name": ("sql", "org/chat", "summary"),
    "spec.model.adapters[].source": ("hf://org/sql", "pvc://adapters/a", "oci://example.com/adapter:1"),
    "spec.model.servedName": ("chat", "Qwen/Qwen3-8B:latest"),
    "spec.engine.image": ("example.com/vllm:1",),
    "spec.engine.args[]": ("--seed=8", "--enforce-eager", "--block-size=16", "--seed=1"),
    "spec.engine.quantization": ("fp8",),
    "spec.engine.ropeScaling.factor": (1.0, 2.0, 4.0),
    "spec.engine.ropeScaling.originalMaxPositionEmbeddings": (32768, 40960),
    "spec.engine.ropeScaling.theta": (10_000.0, 1_000_000.0),
    "spec.engine.kvOffload.memory": ("1Gi", "64Gi", "Auto"),
    "spec.engine.speculative.model": ("hf://Qwen/Qwen3-0.6B", "hf://org/draft"),
    "spec.engine.speculative.revision": ("main", "v1"),
    "spec.engine.speculative.tokens": (1, 3),
    "spec.engine.toolCallParser": ("Auto", "None", "hermes", "nobody"),
    "spec.engine.reasoningParser": ("Auto", "None", "qwen3", "nobody"),
    "spec.engine.maxModelLen": (2048, 8192),
    "spec.engine.maxNumSeqs": (8, 256),
    "spec.engine.maxNumBatchedTokens": (2048, 8192),
    "spec.engine.cpuOffloadGiB": (0, 4),
    "spec.hardware.gpu.products[]": ("H100-80GB", "NVIDIA-L4", "abacus"),
    "spec.hardware.gpu.memory": ("1Gi", "40Gi"),
    "spec.hardware.gpu.resourceName": ("nvidia.com/gpu",),
    "spec.disaggregation.prefill.hardware.gpu.products[]": ("H100-80GB", "NVIDIA-L4"),
    "spec.disaggregation.prefill.hardware.gpu.memory": ("1Gi", "40Gi"),
    "spec.disaggregation.prefill.hardware.gpu.resourceName": ("nvidia.com/gpu",),
    "spec.disaggregation.prefill.engine.args[]": ("--enforce-eager", "--scheduling-policy=fcfs"),
    "spec.disaggregation.prefill.engine.maxNumSeqs": (8, 32),
    "spec.disaggregation.prefill.engine.maxNumBatchedTokens": (2048, 8192),
    "spec.disaggregation.prefill.parallelism.tensor": (1, 2),
    "spec.disaggregation.prefill.parallelism.pipeline": (1,),
    "spec.disaggregation.minPromptTokens": (512, 2048),
    "spec.disaggregation.network.gigabitsPerSecond": (10, 400),
    "spec.disaggregation.network.resource": ("rdma/ib", "kubernetes.io/zone"),
    "spec.hardware.network.resource": ("rdma/ib", "vpc.amazonaws.com/efa", "kubernetes.io/zone"),
    "spec.parallelism.tensor": (1, 2, 3, 4, 64),
    "spec.parallelism.pipeline": (1, 2),
    "spec.parallelism.data": (1, 1, 1, 1, 2),  # ranks need a model with experts, and most of these have none
    "spec.cache.size": ("40Gi", "2Ti"),
    "spec.startupTimeout": _DURATIONS,
    "spec.drainTimeout": _DURATIONS,
    "spec.rollout.progressDeadline": _DURATIONS,
    "spec.autoscaling.schedule[].start": ("0 8 * * 1-5", "*/15 7 * * MON"),
    "spec.autoscaling.schedule[].end": ("0 18 * * *", "30 2 29 2 *"),
    "spec.autoscaling.schedule[].timeZone": ("Europe/Berlin", "UTC"),
    **dict.fromkeys(
        (
            f"{part}.{name}"
            for part in ("spec.podTemplate", "spec.router.podTemplate")
            for name in ("volumes[].name", "volumeMounts[].name", "sidecars[].volumeMounts[].name")
        ),
        ("a", "b"),
    ),
    "spec.router.service.loadBalancerClass": ("example.com/lb",),
    "allowedOrigins[]": ("https://app.example.com", "http://localhost:3000"),
    "allowedDomains[]": ("images.example.com", "media"),
    "spec.router.httpRoute.path": ("/models/qwen", "/v1"),
    "spec.router.httpRoute.modelHeader": ("X-Gateway-Model-Name", "x-gateway-base-model-name"),
    "hostnames[]": ("llm.example.com", "*.example.com"),
    "host": ("llm.example.com",),
    "image": ("example.com/sidecar:1",),
    "reference": ("example.com/files:1",),
    "subPath": ("a", "a/b"),
    "mountPath": ("/data", "/home/vllm/.cache/huggingface", "/etc/a", "/models", "/a"),
    "values[]": ("1", "40000", "a", ""),
    "key": ("team", "nvidia.com/gpu.product", "a.b-c/d"),
    "serviceAccountName": ("default",),
    "fieldPath": ("metadata.namespace", "status.hostIP", "metadata.labels['team']"),
}
"""Texts whose form only a rule says, or that would hardly ever mean anything: by path or by name."""

_KEYS = ("cpu", "memory", "ephemeral-storage", "team", "example.com/zone")
_LETTERS = "abcxyz019"
FEW = 3
"""Most items of a list or map, and letters of a free text: more of the same finds nothing new."""
_CHANCE = 0.35
"""Of each field that may be left out."""
_RARE: Mapping[str, float] = {"spec.disaggregation": 0.05}
"""The same of fields that most other fields do not go with."""
_TRIES = 300
"""Draws of one part until its rules hold."""

WRONG: tuple[Any, ...] = (
    *(None, True, -1, 10**6, 1.5, "", "x" * 9000, "a b\n", "é", "-", "/../.."),
    *([], [{}], ["x"] * 300, {}, {"unknown": 1}),
    {f"k{number}": "v" for number in range(300)},
)


class Specs:
    """A source of specs."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same ones each time

    def valid(self) -> Manifest:
        """What schema and rules allow; the operator may still refuse it."""
        drawn: Manifest = self._object(SCHEMA, "spec", Spec)
        return _without_others(drawn) if "disaggregation" in drawn else drawn

    def valid_disaggregation(self) -> Manifest:
        """Such a spec of engines that compute prompts apart, of a model that allows it."""
        path = "spec.disaggregation"
        own = self._object(SCHEMA["properties"]["disaggregation"], path, DisaggregationSpec)
        model = {"source": "hf://Qwen/Qwen3-8B"}
        return _without_others(self.valid() | {"disaggregation": own, "model": model, "paused": False})

    def valid_router(self) -> Manifest:
        """The section `router` of such a spec."""
        drawn: Manifest = self._object(SCHEMA["properties"]["router"], "spec.router", RouterSpec)
        return drawn

    def spoiled(self) -> Manifest:
        """A spec with one place that holds what it mostly must not."""
        spec = copy.deepcopy(self.valid())
        *way, last = self._random.choice(list(places(spec)))
        target: Any = spec
        for step in way:
            target = target[step]
        target[last] = copy.deepcopy(self._random.choice(WRONG))
        return spec

    def any(self) -> Manifest:
        """One or the other."""
        return self.valid() if self._random.random() < 1 / 2 else self.spoiled()

    def _value(self, node: Manifest, path: str, model: Any) -> Any:  # noqa: ANN401 - JSON
        name = path.rpartition(".")[2]
        if found := (_BY_RULE.get(path) or _BY_RULE.get(name)) if "enum" not in node else None:
            return self._random.choice(found)
        if node.get("x-kubernetes-int-or-string"):
            return self._random.choice(_QUANTITIES)
        if "enum" in node:
            return self._random.choice(node["enum"])
        match node["type"]:
            case "boolean":
                return self._random.random() < 1 / 2
            case "integer" | "number":
                return self._number(node)
            case "string":
                return self._text(node)
            case "array":
                return self._list(node, path, model)
        return self._object(node, path, model)

    def _number(self, node: Manifest) -> float:
        low, high = node["minimum"], node["maximum"]
        drawn: float = self._random.choice((low, high, min(low + 1, high), min(low + 2, high)))
        return drawn

    def _text(self, node: Manifest) -> str:
        least = node.get("minLength", 0)
        pattern = re.compile(node.get("pattern", ""))
        for _ in range(_TRIES):
            length = self._random.randint(least, max(least, FEW))
            text = "".join(self._random.choice(_LETTERS) for _ in range(length))
            if pattern.search(text):
                return text
        raise AssertionError(f"no text of the form {pattern.pattern}: give one in `_BY_RULE`")

    def _list(self, node: Manifest, path: str, model: Any) -> list[Any]:  # noqa: ANN401 - JSON
        least = node.get("minItems", 0)
        items = [
            self._value(node["items"], f"{path}[]", model) for _ in range(self._random.randint(least, max(least, FEW)))
        ]
        keys = node.get("x-kubernetes-list-map-keys")
        return list({str([item[key] for key in keys]): item for item in items}.values()) if keys else items

    def _object(self, node: Manifest, path: str, model: Any) -> Manifest:  # noqa: ANN401 - a model or what stands for it
        if "additionalProperties" in node:
            number = self._random.randint(node.get("minProperties", 0), FEW)
            keys = self._random.sample(_KEYS, number)
            return {key: self._value(node["additionalProperties"], f"{path}{{}}", None) for key in keys}
        part = _model_in(model)
        for _ in range(_TRIES):
            drawn = self._fields(node, path, part)
            if _holds(part, drawn):
                return drawn
        raise AssertionError(f"{path}: no draw meets its rules: {drawn}")

    def _fields(self, node: Manifest, path: str, part: type[BaseModel]) -> Manifest:
        fields = {info.alias or name: info.annotation for name, info in part.model_fields.items()}
        return {
            name: self._value(inner, f"{path}.{name}", fields[name])
            for name, inner in node["properties"].items()
            if name in node.get("required", ()) or self._random.random() < _RARE.get(f"{path}.{name}", _CHANCE)
        }


_NOT_APART = {
    "engine": ("kind", "kvOffload", "speculative", "adapterSlots", "args", "image"),
    "parallelism": ("nodes", "data", "pipeline"),
    "model": ("adapters",),
    "router": ("strategy",),
    "hardware": ("device", "network"),
}
"""Fields of which some values are refused beside `disaggregation`, by their section."""


def _without_others(drawn: Manifest) -> Manifest:
    """The spec without the fields that `disaggregation` does not go with."""
    kept = copy.deepcopy(drawn)
    for section, fields in _NOT_APART.items():
        for field in fields:
            kept.get(section, {}).pop(field, None)
    return kept


def _holds(part: type[BaseModel], drawn: Manifest) -> bool:
    try:
        part.model_validate(drawn)
    except ValidationError as error:
        # Of its parts, each has been asked before; a source is the operator's to judge.
        return all(len(problem["loc"]) > 1 for problem in error.errors())
    return True


def _model_in(annotation: Any) -> type[BaseModel]:  # noqa: ANN401 - a type as typing has it
    """The model that a field holds, alone, optional or in a tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    origin = get_origin(annotation)
    assert origin in (Union, types.UnionType, tuple) or annotation is not None, annotation
    return next(found for argument in get_args(annotation) if (found := _try_model(argument)))


def _try_model(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401 - a type as typing has it
    try:
        return _model_in(annotation)
    except StopIteration:
        return None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    """Every place of a value below its root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in items:
        yield (*path, step)
        yield from places(part, (*path, step))
