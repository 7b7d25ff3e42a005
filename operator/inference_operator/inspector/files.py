"""Reads config, weight index and file sizes of a model; it never reads weights."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inference_operator.inspection.result import Cause, Failure, InspectionResult, unusable
from inference_operator.models.checkpoint import GGUF, INDEX, weights_of_files
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.models.model import model_facts
from inference_operator.models.slim import slim

CONFIG = "config.json"
QUANTIZATION = "hf_quant_config.json"
"""Quantization config of NVIDIA ModelOpt checkpoints, if `config.json` has none (vLLM 0.32.0,
`vllm/transformers_utils/config.py`)."""

MAX_BYTES = {CONFIG: 4 * 2**20, QUANTIZATION: 4 * 2**20, INDEX: 32 * 2**20}
"""Maximum size of each file. No config on the hub comes near 4 MiB. An index has 100 to 200 bytes per tensor, and the
largest mixture-of-experts models have about 150,000 tensors."""

MAX_FILES = 20_000
"""Maximum number of files of a model. The largest models have some hundreds."""


class InspectionError(Exception):
    """A model cannot be used; `failure` has the cause."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a model."""

    name: str
    """Name of the model for its user."""
    source: str
    """Location and revision of the files."""
    sizes: Mapping[str, int]
    """Size in bytes by path."""
    local: Callable[[str], Path]
    """Returns the local path of a file; raises `InspectionError`."""
    commit: str = ""


def inspect_files(files: Files) -> InspectionResult:
    """The config and weights of a model, or why it cannot be used."""
    try:
        return _entry(files)
    except InspectionError as error:
        return error.failure


def _entry(files: Files) -> Entry:
    config = _config(files)
    index = _parsed(files, INDEX) if INDEX in files.sizes else None
    weights = weights_of_files(files.sizes, index)
    if isinstance(weights, NotUnderstood):
        raise InspectionError(unusable(weights))
    facts = model_facts(config, weights)
    if isinstance(facts, NotUnderstood):
        raise InspectionError(unusable(facts))
    return Entry(files.name, f"{files.source}:{CONFIG}", slim(config, weights), weights, files.commit)


def _config(files: Files) -> object:
    if CONFIG not in files.sizes:
        raise InspectionError(unusable(_without_config(files)))
    config = _parsed(files, CONFIG)
    if not isinstance(config, dict) or "quantization_config" in config or QUANTIZATION not in files.sizes:
        return config
    stored = _parsed(files, QUANTIZATION)
    section = stored.get("quantization") if isinstance(stored, dict) else None
    return {**config, "quantization_config": {"quant_method": "modelopt", **section}} if section else config


def _without_config(files: Files) -> NotUnderstood:
    """The message for a model without `config.json`, depending on its other files."""
    if any(name.endswith(GGUF) for name in files.sizes):
        problem = f"has GGUF files but no `{CONFIG}`."
        cure = (
            "Use the original model with safetensors, or add its `config.json` to one GGUF file and use an image whose"
            " engine reads GGUF (vLLM with `vllm-gguf-plugin`)."
        )
        return NotUnderstood(files.name, problem, cure)
    cure = "Use a model in the Transformers format: `config.json` and safetensors files."
    return NotUnderstood(files.name, f"has no `{CONFIG}`.", cure)


def _parsed(files: Files, name: str) -> object:
    """The JSON of a file; raises `InspectionError` if the file is too large or invalid."""
    limit = MAX_BYTES[name]
    if files.sizes[name] > limit:
        raise _too_large(name)
    try:
        with files.local(name).open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise InspectionError(unreadable(name)) from error
    if len(content) > limit:
        raise _too_large(name)
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InspectionError(unusable(NotUnderstood(name, "is not valid JSON.", "Copy the model again."))) from error
    return document


def _too_large(name: str) -> InspectionError:
    problem = f"is larger than {MAX_BYTES[name] // 2**20} MiB."
    return InspectionError(unusable(NotUnderstood(name, problem, "Check that the file is what its name says.")))


def unreadable(what: str) -> Failure:
    """The failure for a file or directory without read permission."""
    cure = "Make the model's files readable for all users."
    return Failure(Cause.NOT_FOUND, NotUnderstood(what, "cannot be read.", cure))
