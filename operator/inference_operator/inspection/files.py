"""From the files of a model to what is known of it. Weights are never read: their sizes are enough."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from inference_operator.models.checkpoint import GGUF, INDEX, weights_of_files
from inference_operator.models.entry import Entry
from inference_operator.models.inspected import Cause, Failure, Inspection, unusable
from inference_operator.models.model import model_facts
from inference_operator.models.not_understood import NotUnderstood
from inference_operator.models.slim import slim

CONFIG = "config.json"
QUANTIZATION = "hf_quant_config.json"
"""Where checkpoints of NVIDIA ModelOpt say how they are quantised, if `config.json` does not (vLLM 0.32.0,
`vllm/transformers_utils/config.py`)."""

LARGEST_BYTES = {CONFIG: 4 * 2**20, QUANTIZATION: 4 * 2**20, INDEX: 32 * 2**20}
"""What is read of each file. No config on the hub comes near 4 MiB; an index names each tensor with 100 to 200 bytes,
and the largest mixtures have some 150,000."""

MOST_FILES = 20_000
"""Files of a model. The largest have some hundreds; whoever has more keeps something else beside it."""


class InspectionError(Exception):
    """There are no facts, and why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Files:
    """The files of one model."""

    name: str
    """The model, as its user knows it."""
    source: str
    """Where the files are, in which state."""
    sizes: Mapping[str, int]
    """Bytes of each file by its path."""
    local: Callable[[str], Path]
    """Where a file can be read; raises `InspectionError`."""
    commit: str = ""


def inspect_files(files: Files) -> Inspection:
    """What is known of a model, from its files."""
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
    """What to do depends on what is there instead."""
    if any(name.endswith(GGUF) for name in files.sizes):
        problem = f"holds GGUF files, and no `{CONFIG}` that says what the model is."
        cure = (
            "Give the original model with safetensors, or its `config.json` beside one GGUF file, and an image whose"
            " engine reads GGUF (vLLM does with `vllm-gguf-plugin`)."
        )
        return NotUnderstood(files.name, problem, cure)
    cure = "Give a model in the form that Transformers reads: its `config.json` beside safetensors files."
    return NotUnderstood(files.name, f"has no `{CONFIG}`.", cure)


def _parsed(files: Files, name: str) -> object:
    """A file's JSON, if it is not too large."""
    most = LARGEST_BYTES[name]
    if files.sizes[name] > most:
        raise _too_large(name)
    try:
        with files.local(name).open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise InspectionError(unreadable(name)) from error
    if len(content) > most:
        raise _too_large(name)
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InspectionError(unusable(NotUnderstood(name, "is no JSON.", "Copy the model again."))) from error
    return document


def _too_large(name: str) -> InspectionError:
    problem = f"is larger than {LARGEST_BYTES[name] // 2**20} MiB."
    return InspectionError(unusable(NotUnderstood(name, problem, "Give a model whose files are what they are called.")))


def unreadable(what: str) -> Failure:
    """A file or folder that is there and cannot be read."""
    cure = "Make the model's files readable for everybody."
    return Failure(Cause.NOT_FOUND, NotUnderstood(what, "cannot be read.", cure))
