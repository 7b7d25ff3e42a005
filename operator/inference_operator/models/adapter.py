"""The facts of a LoRA adapter from its config and the header of its safetensors file, or why engines cannot serve it.

What vLLM cannot load is refused here, in words: it answers a request to load such an adapter with an error and a
traceback (vLLM 0.32.0, `lora/peft_helper.py`, `_validate_features`; `lora/utils.py`, `parse_fine_tuned_lora_name`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from inference_operator.api.engine import ADAPTER_RANKS
from inference_operator.manifest import Manifest
from inference_operator.models.config import NotUnderstood
from inference_operator.models.source import REPOSITORY

CONFIG, WEIGHTS, PICKLED = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
FILES = (CONFIG, WEIGHTS, PICKLED)
"""Files of an adapter that vLLM reads (0.32.0, `lora/lora_model.py`, `from_local_checkpoint`)."""
MAX_RANK = ADAPTER_RANKS[-1]
MAX_BASE_LENGTH = 256
"""Characters of the name of a base model, above the longest repository. A longer one would not fit into the result."""
_A, _B = "lora_A", "lora_B"
_TENSOR = re.compile(r"(?P<module>.+)\.(?P<side>lora_A|lora_B)\.weight", re.ASCII)
_EMBEDDING = re.compile(r".+\.lora_embedding_[AB]", re.ASCII)
_BASE = (".embed_tokens.base_layer.weight", ".lm_head.base_layer.weight")
"""Ends of copies of the model's own weights, which vLLM ignores."""
_LAYER = re.compile(r"\.layers?\.(\d{1,5})\.", re.ASCII)
_FROM_HIDDEN = frozenset({"q_proj", "k_proj", "v_proj", "qkv_proj", "gate_proj", "up_proj", "gate_up_proj"})
_TO_HIDDEN = frozenset({"o_proj", "down_proj"})
"""Modules whose inputs, and whose outputs, are hidden states of the decoder."""
_TOWERS = ("visual.", "vision_tower.", "vision_model.", "vision_encoder.", "audio_tower.", "multi_modal_projector.")
_SAFE_INITS = frozenset({"gaussian", "eva", "orthogonal", "mica", "lora_ga"})
"""Values of `init_lora_weights` that leave the model's own weights as they are."""
_FEATURES: Mapping[str, str] = {
    "use_dora": "DoRA",
    "lora_bias": "a bias (`lora_bias`)",
    "alora_invocation_tokens": "activated LoRA",
    "layer_replication": "replicated layers",
    "use_bdlora": "block-diagonal LoRA",
    "use_qalora": "QALoRA",
}
_CLASSIFIERS = frozenset({"classifier", "score"})
_SAVE_AGAIN = "Train or save the adapter without it: engines serve plain LoRA."
Shapes = Mapping[str, Sequence[int]]
"""Shapes of tensors by name, from the header of a safetensors file."""


@dataclass(frozen=True, slots=True)
class AdapterFacts:
    rank: int
    base: str = ""
    """The model that it was trained for, as its config names it: a repository or a path. Empty if it does not say."""
    hidden_size: int = 0
    """Of the model that it fits; 0 if no tensor tells."""
    layers: int = 0
    """Layers that the model has at least; 0 if no tensor tells."""


def adapter_facts(config: object, shapes: Shapes) -> AdapterFacts | NotUnderstood:
    """The facts of an adapter, or why engines cannot serve it.

    Args:
        shapes: the shapes of its tensors; empty for pickle files, which are not read.
    """
    if not isinstance(config, dict):
        return NotUnderstood(CONFIG, "is no JSON object.", "Copy the adapter again.")
    if problem := next(_problems_of_config(config), None):
        return problem
    if problem := next(_problems_of_tensors(shapes), None):
        return problem
    rank = max([int(config["r"]), *_ranks(config, shapes)])
    if rank > MAX_RANK:
        return NotUnderstood(CONFIG, f"has rank {rank}; engines take at most {MAX_RANK}.", "Train a smaller adapter.")
    base = config.get("base_model_name_or_path")
    layers = max((int(match[1]) + 1 for name in shapes if (match := _LAYER.search(name))), default=0)
    named = base if isinstance(base, str) and len(base) <= MAX_BASE_LENGTH else ""
    return AdapterFacts(rank, named, _hidden_size(shapes), layers)


def _problems_of_config(config: Manifest) -> Iterator[NotUnderstood]:
    kind = config.get("peft_type", "LORA")
    if kind != "LORA":
        yield NotUnderstood(CONFIG, "has another `peft_type` than `LORA`.", "Engines serve LoRA adapters only.")
    if missing := [f"`{name}`" for name in ("r", "lora_alpha", "target_modules") if not config.get(name)]:
        yield NotUnderstood(CONFIG, f"has no {', '.join(missing)}.", "Save the adapter anew with PEFT.")
    if not _is_rank(config.get("r")):
        yield NotUnderstood(CONFIG, "has an `r` that is no positive integer.", "Save the adapter anew with PEFT.")
    if feature := next((what for name, what in _FEATURES.items() if config.get(name)), ""):
        yield NotUnderstood(CONFIG, f"uses {feature}, which engines cannot load.", _SAVE_AGAIN)
    if config.get("bias", "none") != "none":
        yield NotUnderstood(CONFIG, "trains biases (`bias`), which engines cannot load.", _SAVE_AGAIN)
    saved = config.get("modules_to_save") or []
    if not isinstance(saved, list) or not _CLASSIFIERS.issuperset(map(str, saved)):
        yield NotUnderstood(CONFIG, "has whole layers (`modules_to_save`), which engines cannot load.", _SAVE_AGAIN)
    init = config.get("init_lora_weights", True)
    if isinstance(init, str) and init.lower() not in _SAFE_INITS:
        cure = "Convert it with PEFT's `path_initial_model_for_weight_conversion`."
        yield NotUnderstood(CONFIG, "changes the model's own weights (`init_lora_weights`).", cure)


def _problems_of_tensors(shapes: Shapes) -> Iterator[NotUnderstood]:
    for name in shapes:
        if any(f".{tower}" in name for tower in _TOWERS):
            yield NotUnderstood(WEIGHTS, "has weights for a vision or audio tower, which has no slots.", _SAVE_AGAIN)
        saved = any(f".{module}." in name for module in _CLASSIFIERS)
        if not (_TENSOR.fullmatch(name) or _EMBEDDING.fullmatch(name) or name.endswith(_BASE) or saved):
            yield NotUnderstood(WEIGHTS, "has tensors that are none of a LoRA adapter.", _SAVE_AGAIN)


def _is_rank(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _ranks(config: Manifest, shapes: Shapes) -> Iterator[int]:
    pattern = config.get("rank_pattern")
    yield from (rank for rank in (pattern or {}).values() if _is_rank(rank)) if isinstance(pattern, dict) else ()
    yield from (shape[0] for _, side, shape in _tensors(shapes) if side == _A)


def _tensors(shapes: Shapes) -> Iterator[tuple[str, str, Sequence[int]]]:
    """The last part of the module's name, the side and the shape of each matrix."""
    for name, shape in shapes.items():
        if (match := _TENSOR.fullmatch(name)) and len(shape) == 2:  # noqa: PLR2004 - a matrix
            yield match["module"].rpartition(".")[2], match["side"], shape


def _hidden_size(shapes: Shapes) -> int:
    inputs = {shape[1] for module, side, shape in _tensors(shapes) if side == _A and module in _FROM_HIDDEN}
    outputs = {shape[0] for module, side, shape in _tensors(shapes) if side == _B and module in _TO_HIDDEN}
    sizes = inputs | outputs
    return sizes.pop() if len(sizes) == 1 else 0


_QUANTIZED = re.compile(
    r"[-_.](awq|gptq|fp8|int[48]|w[48]a(?:16|8)|nvfp4|mxfp4|bnb|[48]bit|dynamic|unsloth|quantized|marlin|gguf|block)"
    r"(?=$|[-_.])",
    re.ASCII,
)
"""Words in names of repositories that hold the same model in another precision."""


def base_problem(facts: AdapterFacts, model: str, *, hidden_size: int = 0, layers: int = 0) -> str:
    """Why an adapter does not fit a model, as a sentence about the adapter; empty if it fits.

    Names of repositories are compared without owner and without words of a precision: an adapter of a model serves its
    quantized forms too. A path says nothing about the model, so then only the sizes are compared.

    Args:
        model: the repository of the model that engines serve; empty if it is not from a hub.
    """
    if hidden_size and facts.hidden_size not in (0, hidden_size):
        return f"It was trained for a model with a hidden size of {facts.hidden_size}; this one has {hidden_size}."
    if layers and facts.layers > layers:
        return f"It was trained for a model with {facts.layers} layers or more; this one has {layers}."
    if model and REPOSITORY.fullmatch(facts.base) and _family(facts.base) != _family(model):
        return f"It was trained for another base model, `{facts.base}`."
    return ""


def _family(repository: str) -> str:
    return _QUANTIZED.sub("", repository.partition("/")[2].lower())
