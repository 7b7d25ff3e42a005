"""Where a field belongs that a user wrote elsewhere, or by the name that another project has for it.

1. A name of another project: the field that does the same here.
2. The name of a field in another section: that field. Of several the one that is least deep.
3. A misspelled field of the same section.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import get_args

from inference_operator.api.spec import Spec
from inference_operator.api.validation import SpecModel

_SOURCE = "`spec.model.source`, for example `hf://Qwen/Qwen3-8B`"
_GPUS = "nothing: the number is computed. `spec.parallelism.tensor` sets it, `spec.hardware.gpu.products` the kind"
_KINDS = "`spec.hardware.gpu.products`, for example `[L4]`"
_TOKEN = "`spec.model.tokenSecretRef`"  # noqa: S105 - the name of a field
_ARGS = "`spec.engine.args`"
OF_OTHER_PROJECTS: Mapping[str, str] = {
    "accelerator": _KINDS,
    "cacheProfile": "`spec.cache`",
    "dataParallelSize": "`spec.replicas`, or `spec.parallelism.data` for models with experts",
    "extraArgs": _ARGS,
    "gpu": _GPUS,
    "gpuCount": _GPUS,
    "gpus": _GPUS,
    "gpuType": _KINDS,
    "hf_token": _TOKEN,
    "hfToken": _TOKEN,
    "instanceType": _KINDS,
    "modelAccessSecret": _TOKEN,
    "modelId": _SOURCE,
    "modelURL": _SOURCE,
    "modelUri": _SOURCE,
    "nnodes": "`spec.parallelism.nodes`",
    "numGpus": _GPUS,
    "pipelineParallelSize": "`spec.parallelism.pipeline`",
    "preset": _SOURCE,
    "pvcStorage": "`spec.cache.size`",
    "replicaCount": "`spec.replicas`",
    "requestGPU": _GPUS,
    "resourceProfile": _GPUS,
    "scaleDownDelaySeconds": "`spec.autoscaling.scaleDownDelay`",
    "servedModelName": "`spec.model.servedName`",
    "storageUri": _SOURCE,
    "targetRequests": "`spec.autoscaling.targetConcurrency`",
    "tensorParallelSize": "`spec.parallelism.tensor`",
    "uri": _SOURCE,
    "url": _SOURCE,
    "vllmConfig": "`spec.engine`",
}
"""What to use instead of fields of KubeAI 0.23 (api/k8s/v1/model_types.go), KServe 0.17 (pkg/apis/serving,
llm_inference_service_types.go), KAITO 0.8 (api/v1beta1, workspace_types.go), production-stack 0.1.8
(helm/values.yaml), and of vLLM's arguments in camel case."""

ABBREVIATIONS: Mapping[str, str] = {"RWO": "ReadWriteOnce", "RWX": "ReadWriteMany"}
"""Values that `kubectl get pvc` prints in another form than the API takes."""


def field_hint(section: Sequence[str], name: str) -> str:
    """What to use instead of an unknown field, or nothing.

    Args:
        section: names of the fields that lead to its section, below `spec`.

    Examples:
        >>> field_hint((), "minReplicas"), field_hint((), "url")
        ('Use `spec.autoscaling.minReplicas`.', 'Use `spec.model.source`, for example `hf://Qwen/Qwen3-8B`.')
        >>> field_hint((), "repilcas"), field_hint((), "x")
        ('Did you mean `replicas`?', '')
    """
    if name in OF_OTHER_PROJECTS:
        return f"Use {OF_OTHER_PROJECTS[name]}."
    if elsewhere := _fields().get(name):
        return f"Use `spec.{elsewhere}`."
    near = get_close_matches(name, _names(_section(section)), n=1)
    return f"Did you mean `{near[0]}`?" if near else ""


def value_hint(value: str, allowed: Sequence[str]) -> str:
    by_lower = {name.lower(): name for name in allowed}
    meant = ABBREVIATIONS.get(value.upper(), value).lower()
    near = [meant] if meant in by_lower else get_close_matches(meant, by_lower, n=1)
    return f"Did you mean `{by_lower[near[0]]}`?" if near else ""


def _section(path: Sequence[str]) -> type[SpecModel] | None:
    model: type[SpecModel] | None = Spec
    for step in path:
        field = next((field for field in model.model_fields.values() if field.alias == step), None) if model else None
        model = model_of(field.annotation) if field else None
    return model


def model_of(annotation: object) -> type[SpecModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation
    return next((model for item in get_args(annotation) if (model := model_of(item)) is not None), None)


def _names(model: type[SpecModel] | None) -> Sequence[str]:
    return [field.alias for field in model.model_fields.values() if field.alias] if model else []


@lru_cache(maxsize=1)
def _fields() -> Mapping[str, str]:
    """The path of the least deep field of each name, without those in items of lists."""
    paths: dict[str, str] = {}
    for path in sorted(_paths(Spec, ()), key=len):
        paths.setdefault(path[-1], ".".join(path))
    return paths


def _paths(model: type[SpecModel], path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in model.model_fields.values():
        here = (*path, field.alias or "")
        yield here
        inner = model_of(field.annotation)
        if inner and not str(field.annotation).startswith("tuple["):
            yield from _paths(inner, here)
