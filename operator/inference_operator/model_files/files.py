"""Reads the small files of a model: config, weight index, tokenizer, pooling; it never reads weights."""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from inference_operator.jobs.inspection_result import InspectionResult, unusable
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import Manifest
from inference_operator.models import checkpoint, gguf
from inference_operator.models.config import NotUnderstood, UnreadableError
from inference_operator.models.entry import Entry
from inference_operator.models.gguf import MAX_HEADER_BYTES as MAX_GGUF_HEADER_BYTES
from inference_operator.models.mistral import PARAMS, WEIGHTS, transformers_config
from inference_operator.models.model import UNSTATED, model_facts
from inference_operator.models.side_files import SideFiles, side_files
from inference_operator.models.slim import slim

CONFIG = "config.json"
QUANTIZATION_FILES = ("hf_quant_config.json", "quantize_config.json", "quant_config.json")
"""The quantization of a checkpoint whose `config.json` has none: of NVIDIA ModelOpt (vLLM 0.32.0,
`vllm/transformers_utils/config.py`), GPTQ and AWQ (`model_executor/layers/quantization`, `get_config_filenames`)."""
MAX_INDEX_BYTES, MAX_BYTES = 32 * 2**20, 4 * 2**20
"""Maximum size of the index, and of each other file. An index has 100 to 200 bytes per tensor, and the largest
mixture-of-experts models have about 150,000 tensors. No config on the hub comes near 4 MiB."""
LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header in this number of bytes."""
MAX_HEADER_BYTES = 25_000_000
"""Maximum size of a safetensors header that is read (huggingface_hub 2.4, `SAFETENSORS_MAX_HEADER_LENGTH`)."""
FIRST_GGUF_BYTES = 2**20


class InspectionError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Files:
    name: str
    source: str
    sizes: Mapping[str, int]
    """Size in bytes by path."""
    local: Callable[[str], Path]
    """Returns the local path of a file; raises `InspectionError`."""
    head: Callable[[str, int], bytes]
    """Returns the first bytes of a file, at most so many."""
    commit: str = ""
    allow_pickle: bool = False
    download_bytes: int = 0


def inspect_files(files: Files, file: str = "") -> InspectionResult:
    try:
        return _entry(_only(files, file) if file else files)
    except InspectionError as error:
        return error.failure


def _only(files: Files, file: str) -> Files:
    folder = file[: file.rfind("/") + 1]
    sizes = {
        path.removeprefix(folder): files.sizes[path] for path in checkpoint.gguf_parts(file) if path in files.sizes
    }
    if not sizes:
        cure = "Check the path in `spec.model.source`."
        raise InspectionError(Failure(Cause.NOT_FOUND, NotUnderstood(files.name, f"has no file `{file}`.", cure)))
    return replace(
        files,
        sizes=sizes,
        local=lambda name: files.local(f"{folder}{name}"),
        head=lambda name, length: files.head(f"{folder}{name}", length),
        download_bytes=sum(sizes.values()) if files.download_bytes else 0,
    )


def _entry(files: Files) -> Entry:
    index = parsed(files, checkpoint.INDEX) if checkpoint.INDEX in files.sizes else None
    weights = checkpoint.weights_of_files(files.sizes, index, allow_pickle=files.allow_pickle)
    if isinstance(weights, checkpoint.Weights) and weights.file_format is checkpoint.WeightFormat.GGUF:
        return _gguf_entry(files, weights)
    if isinstance(weights, NotUnderstood) and any(checkpoint.GGUF in name for name in files.sizes):
        raise InspectionError(unusable(weights))
    config = _config(files)
    if isinstance(weights, NotUnderstood):
        raise InspectionError(unusable(weights))
    side = side_files(files.sizes, lambda name: parsed(files, name))
    facts = model_facts(config, weights, side)
    unstated = isinstance(facts, NotUnderstood) and facts.field.endswith(UNSTATED)
    has_header = weights.file_format is checkpoint.WeightFormat.SAFETENSORS
    if unstated and has_header and checkpoint.is_plain(_elements(files, _largest(files, index))):
        weights = replace(weights, plain=True)
        facts = model_facts(config, weights, side)
    if isinstance(facts, NotUnderstood):
        raise InspectionError(unusable(facts))
    name = CONFIG if CONFIG in files.sizes else PARAMS
    source, slimmed = f"{files.source}:{name}", slim(config, weights, side)
    return Entry(files.name, source, slimmed, weights, files.commit, side, files.download_bytes)


def _gguf_entry(files: Files, weights: checkpoint.Weights) -> Entry:
    """The entry of a model in GGUF. The file's own header counts, also beside a `config.json`."""
    name = weights.origin
    try:
        header = _gguf_header(files, name)
        if damaged := gguf.damage(header, len(checkpoint.gguf_parts(name)), files.sizes[name]):
            raise damaged
        config, side = gguf.config_of(header), SideFiles(has_chat_template=gguf.has_chat_template(header))
    except UnreadableError as error:
        why = replace(error.why, field=f"{name}: {error.why.field}")
        raise InspectionError(unusable(why)) from error
    facts = model_facts(config, weights, side)
    if isinstance(facts, NotUnderstood):
        raise InspectionError(unusable(facts))
    slimmed = slim(config, weights, side)
    return Entry(files.name, f"{files.source}:{name}", slimmed, weights, files.commit, side, files.download_bytes)


def _gguf_header(files: Files, name: str) -> gguf.GgufHeader:
    """The header of a GGUF file. Its length is not known before, so more and more is read."""
    length = FIRST_GGUF_BYTES
    while True:
        content = files.head(name, length)
        try:
            return gguf.gguf_header(content)
        except gguf.ShortHeaderError as error:
            if len(content) < length:
                raise UnreadableError("header", "ends too early", "Copy the file again.") from error
            if length >= MAX_GGUF_HEADER_BYTES:
                problem = f"is larger than {MAX_GGUF_HEADER_BYTES // 2**20} MiB"
                raise UnreadableError("header", problem, "Use another GGUF file.") from error
        length = min(4 * length, MAX_GGUF_HEADER_BYTES)


def _elements(files: Files, name: str) -> Mapping[str, int]:
    """The number of elements by type, from the header of a safetensors file; empty if it has no valid header."""
    length = int.from_bytes(files.head(name, LENGTH_BYTES), "little")
    room = files.sizes[name] - LENGTH_BYTES
    if not 0 < length <= min(MAX_HEADER_BYTES, room):
        return {}
    return elements_of(files.head(name, LENGTH_BYTES + length)[LENGTH_BYTES:])


def elements_of(header: bytes) -> Mapping[str, int]:
    """The number of elements by type, from the header of a safetensors file; empty if the header is invalid.

    Examples:
        >>> elements_of(b'{"a": {"dtype": "F16", "shape": [2, 3]}, "__metadata__": {}}')
        Counter({'F16': 6})
    """
    elements: Counter[str] = Counter()
    try:
        for tensor in (tensor for key, tensor in json.loads(header).items() if key != "__metadata__"):
            elements[str(tensor["dtype"])] += math.prod(tensor["shape"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return elements


def _largest(files: Files, index: object) -> str:
    """The largest safetensors file that the engine loads; its types stand for those of all.

    A smaller one may hold nothing but an embedding, which is never quantized.
    """
    named: set[str]
    if isinstance(index, dict):
        named = set(index["weight_map"].values())
    elif checkpoint.SINGLE in files.sizes:
        return checkpoint.SINGLE
    else:
        named = {name for name in files.sizes if name.endswith(checkpoint.SAFETENSORS) and "/" not in name}
    return max(sorted(named), key=lambda name: files.sizes[name])


def _config(files: Files) -> object:
    if CONFIG not in files.sizes:
        return _of_mistral(files)
    config = parsed(files, CONFIG)
    if not isinstance(config, dict) or "quantization_config" in config:
        return config
    stored = next((parsed(files, name) for name in QUANTIZATION_FILES if name in files.sizes), None)
    return with_quantization(config, stored)


def _of_mistral(files: Files) -> Manifest:
    """The config of a model in Mistral's own format, which is taken only where nothing else is there."""
    weights = any(name.startswith(WEIGHTS) and name.endswith(checkpoint.SAFETENSORS) for name in files.sizes)
    if PARAMS not in files.sizes or not weights:
        raise InspectionError(unusable(_without_config(files)))
    try:
        return transformers_config(parsed(files, PARAMS))
    except UnreadableError as error:
        why = replace(error.why, cure="Copy the model again.")
        raise InspectionError(unusable(why)) from error


def with_quantization(config: Manifest, stored: object) -> Manifest:
    """The config with the quantization that a file beside it describes, unless it describes one itself.

    Examples:
        >>> with_quantization({}, {"producer": {}, "quantization": {"quant_algo": "FP8"}})
        {'quantization_config': {'quant_method': 'modelopt', 'quant_algo': 'FP8'}}
        >>> with_quantization({}, {"bits": 4, "group_size": 128, "desc_act": False})
        {'quantization_config': {'quant_method': 'gptq', 'bits': 4, 'group_size': 128, 'desc_act': False}}
    """
    if not isinstance(stored, dict) or "quantization_config" in config:
        return config
    if isinstance(section := stored.get("quantization"), dict):
        return {**config, "quantization_config": {"quant_method": "modelopt", **section}}
    if "w_bit" in stored or "q_group_size" in stored:
        return {**config, "quantization_config": {"quant_method": "awq", **stored}}
    return {**config, "quantization_config": {"quant_method": "gptq", **stored}} if "bits" in stored else config


def _without_config(files: Files) -> NotUnderstood:
    cure = (
        "Use a model in the Transformers format (`config.json` and safetensors files), in Mistral's (`params.json` and"
        " `consolidated*.safetensors`), or in GGUF."
    )
    return NotUnderstood(files.name, f"has no `{CONFIG}`.", cure)


def parsed(files: Files, name: str) -> object:
    """The JSON of a file; raises `InspectionError` if the file is too large or invalid."""
    limit = _limit(name)
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


def _limit(name: str) -> int:
    return MAX_INDEX_BYTES if name == checkpoint.INDEX else MAX_BYTES


def _too_large(name: str) -> InspectionError:
    problem = f"is larger than {_limit(name) // 2**20} MiB."
    return InspectionError(unusable(NotUnderstood(name, problem, "Check that the file is what its name says.")))


def unreadable(what: str) -> Failure:
    cure = "Make the model's files readable for all users."
    return Failure(Cause.NOT_FOUND, NotUnderstood(what, "cannot be read.", cure))
