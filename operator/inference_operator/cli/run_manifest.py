"""The smallest InferenceDeployment for what a command line asks for. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import resource
from inference_operator.cli.parser import UsageError
from inference_operator.manifest import API_VERSION, KIND, Manifest
from inference_operator.models.source import model_source

_RANGE = re.compile(r"(\d{1,4})\.\.(\d{1,4})")
_SCHEME = "://"


@dataclass(frozen=True, slots=True)
class RunChoices:
    """The choices of a command line."""

    name: str
    source: str
    """As `spec.model.source`; a repository of the hub needs no `hf://`."""
    namespace: str = "default"
    gpus: Sequence[str] = ()
    """Kinds of GPUs, of which the operator chooses; empty: all kinds of the cluster."""
    cpu: bool = False
    replicas: int | None = None
    autoscale: str = ""
    """`MIN..MAX` engines; empty: a fixed number."""
    token_secret: str = ""
    """Name of the Secret with a token of the hub."""
    engine: str = ""
    """Kind of the engine; empty: the operator chooses."""


def smallest_manifest(choices: RunChoices) -> Manifest:
    """The manifest that `kubectl apply` and GitOps take too, without any default.

    Raises:
        UsageError: a choice is invalid, with the field and the cure.

    Examples:
        >>> smallest_manifest(RunChoices("qwen", "Qwen/Qwen3-8B"))["spec"]
        {'model': {'source': 'hf://Qwen/Qwen3-8B'}}
        >>> smallest_manifest(RunChoices("neo", "org/neo", engine="Transformers"))["spec"]["engine"]
        {'kind': 'Transformers'}
        >>> spec = smallest_manifest(RunChoices("qwen", "pvc://models", gpus=("L4",), autoscale="0..4"))["spec"]
        >>> spec["hardware"], spec["autoscaling"]
        ({'gpu': {'products': ['L4']}}, {'minReplicas': 0, 'maxReplicas': 4})
    """
    source = choices.source if _SCHEME in choices.source else f"hf://{choices.source}"
    token = {"tokenSecretRef": {"name": choices.token_secret}} if choices.token_secret else {}
    spec: Manifest = {"model": {"source": source, **token}}
    if choices.cpu:
        spec["hardware"] = {"device": "CPU"}
    elif choices.gpus:
        spec["hardware"] = {"gpu": {"products": list(choices.gpus)}}
    if choices.engine:
        spec["engine"] = {"kind": choices.engine}
    if choices.autoscale:
        spec["autoscaling"] = _scaling(choices.autoscale)
    elif choices.replicas is not None:
        spec["replicas"] = choices.replicas
    metadata = {"name": choices.name, "namespace": choices.namespace}
    made = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    for checked in (
        resource({**made, "metadata": {**metadata, "uid": "", "generation": 1}}).spec,
        model_source(source),
    ):
        if isinstance(checked, Refusal):
            raise UsageError(checked.message)
    return made


def _scaling(text: str) -> Manifest:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise UsageError("--autoscale: write the least and the most engines as MIN..MAX, for example `0..4`.")
    return {"minReplicas": int(found[1]), "maxReplicas": int(found[2])}
