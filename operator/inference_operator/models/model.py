"""Computes the facts of a model from its `config.json` and the size of its weights."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from inference_operator.models.checkpoint import WeightFormat, Weights
from inference_operator.models.config import VISION_CONFIGS, Config, NotUnderstood, UnreadableError, language_model
from inference_operator.models.context import is_pooling, model_context, rope_parameters
from inference_operator.models.facts import Experts, Kernel, Matrix, ModelFacts, Quantization
from inference_operator.models.layers import head_dimension, kv_heads, layer_groups
from inference_operator.models.matrices import Dimensions, intermediate_size, matrices
from inference_operator.models.quantization import quantization
from inference_operator.models.side_files import NO_SIDE_FILES, SideFiles
from inference_operator.models.states import block_pattern, names_attention
from inference_operator.models.tower import tower_of
from inference_operator.units import GIB

MOST_LAYERS = 4096
USUAL_VOCABULARY = 152064
"""Assumed if a config states no vocabulary: that of the largest family in the catalogue (Qwen 2.5)."""
USUAL_CONTEXT = 8192
"""Assumed if a config states no longest sequence."""
ELEMENT_BYTES = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}
TIED = ("gemma", "gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text", "cohere", "cohere2", "gpt2", "starcoder2")
"""Model types that share embedding and head if the config does not state it (transformers 5.0)."""
SHARED_FROM = 250_000
"""Vocabulary from which all models of the catalogue share them (Gemma, Cohere); for configs without model type."""
TWO_COPIES = (1.9, 2.2)
"""Files this many times as large as the matrices hold them twice (openai/gpt-oss-20b: `original/` has a copy)."""
UNSTATED = "quantization_config"
"""Field of the refusal of files that are smaller than their config."""
UNSTATED_BELOW = 0.7
"""Files below this part of what the config counts to are quantized. The matrices of known models are within 3 % of
their files, and of those with an MLP of two matrices within 25 % (phi-2); 8 bits are about half."""
SHARED_LAYERS = ("zamba", "zamba2")
"""Model types whose layers share weights, so that files are smaller than the matrices (Zamba2-7B: 43 %; transformers
5.19.0, `models/zamba2`, `num_mem_blocks`)."""
QUERIES_PER_KV_HEAD = 4
"""Attention heads for each KV head, if the config states only the latter (Llama 3 8B, Qwen 3 8B)."""
USUAL_TOWER = 880_000_000
"""Bytes of a vision tower that a config does not describe: SigLIP So400m, Pixtral have 0.4 G parameters of 16 bits."""
DIVIDED_TOWERS = ("Llama4", "Qwen2VL", "Qwen2_5_VL", "Qwen3VL", "Qwen3_5", "Gemma3", "InternVL", "Mllama", "Glm4v")
"""Vision towers that tensor parallelism divides (measured on Llama-4-Scout; vLLM 0.32.0, `model_executor/models`)."""
WIDEST = 16
"""An MLP wider than this many times the hidden size means experts that the config does not state."""
ENCODERS = (
    *("Bert", "Roberta", "XLMRoberta", "ModernBert", "NomicBert", "Gte", "Snowflake", "BgeM3", "HF_ColBERT", "ColBERT"),
    *("DistilBert", "Camembert", "Electra", "JinaRoberta"),
)
"""Beginnings of architectures whose tokens attend to all others (vLLM 0.32.0, `model_executor/models/bert.py`,
`bert_with_rope.py`, `roberta.py`, `modernbert.py`, `colbert.py`: `default_pooling_type` CLS or `attn_type`)."""


def model_facts(
    document: object, weights: Weights | None = None, side: SideFiles = NO_SIDE_FILES
) -> ModelFacts | NotUnderstood:
    """The facts of a model, or the field that is missing or wrong.

    Args:
        weights: size of the checkpoint; None: the matrices of the config are counted.
    """
    try:
        config, has_vision = language_model(document)
        return _completed(_facts(config, has_vision=has_vision, weights=weights, side=side), config)
    except UnreadableError as error:
        field = error.why.field
        return replace(error.why, field=field if field.endswith(".json") else f"config.json.{field}")


ENCODER_DECODER = "is true: the operator sizes no model that has a decoder behind an encoder, such as Whisper"
UNSIZED_CURE = "vLLM starts it without a check of its sizes where `spec.parallelism.tensor` is set."


def _dimensions(config: Config, context: int | None) -> Dimensions:
    if config.flag("is_encoder_decoder", default=False):
        raise UnreadableError("is_encoder_decoder", ENCODER_DECODER, UNSIZED_CURE)
    blocks = sum(block_pattern(config).values())
    names = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    layers = (config.positive(*names) or blocks) if blocks else config.required(*names)
    if layers > MOST_LAYERS:
        raise UnreadableError("num_hidden_layers", f"is above {MOST_LAYERS}")
    size = head_dimension(config)
    heads = config.count("num_attention_heads", "n_head", "num_heads", "n_heads") or 0
    hidden = config.positive("hidden_size", "n_embd", "d_model")
    vocabulary = config.positive("vocab_size", "padded_vocab_size")
    likely = size * (heads or QUERIES_PER_KV_HEAD * kv_heads(config))
    assumed = (
        (hidden, f"a hidden size of {likely}"),
        (vocabulary, f"a vocabulary of {USUAL_VOCABULARY}"),
        (context, f"a context of {USUAL_CONTEXT}"),
    )
    return Dimensions(
        layers=layers,
        hidden=hidden or likely,
        vocabulary=vocabulary or USUAL_VOCABULARY,
        context=context or USUAL_CONTEXT,
        heads=heads,
        head_size=size,
        assumed=tuple(f"{text} (not in the config)" for given, text in assumed if given is None),
    )


def _facts(config: Config, *, has_vision: bool, weights: Weights | None, side: SideFiles) -> ModelFacts:
    context = model_context(config, side)
    dimensions = _dimensions(config, context.derived)
    groups, experts, stored = layer_groups(config, dimensions.layers), _experts(config), quantization(config)
    element = ELEMENT_BYTES.get((config.text("dtype") or config.text("torch_dtype")).removeprefix("torch."), 2)
    tied = config.flag("tie_word_embeddings", default=_shares(config, dimensions.vocabulary))
    of_width = partial(matrices, config, dimensions, groups, experts, tied=tied)
    assumed, wide = dimensions.assumed, intermediate_size(config)
    if not wide and experts is None:
        wide = _width_left(weights, of_width, element, stored)
        assumed = (*assumed, f"an MLP {wide} wide (what the checkpoint's size leaves; not in the config)")
    every_matrix = of_width(wide)
    tower = _tower(config, element) if has_vision else 0
    used = _believable(config, weights, counted_bytes(every_matrix, element, stored) + tower, stored)
    return ModelFacts(
        architecture=config.architecture,
        model_type=config.text("model_type"),
        names_attention=names_attention(config),
        hidden_size=dimensions.hidden,
        vocabulary=dimensions.vocabulary,
        heads=dimensions.heads,
        layers=dimensions.layers,
        groups=groups,
        matrices=every_matrix,
        intermediate_size=wide if wide <= WIDEST * dimensions.hidden else 0,
        experts=experts,
        has_vision=has_vision,
        tower_whole=_tower_whole(config.architecture, stored),
        context=dimensions.context,
        context_stated=context.derived is not None,
        rotary_dimension=config.positive("qk_rope_head_dim") or dimensions.head_size,
        element_bytes=element,
        quantization=stored,
        weight_bytes=used.total_bytes,
        weights_from=used.origin,
        assumptions=assumed,
        longest_context=context.longest,
        is_pooling=is_pooling(config.architecture, side),
        side=side,
        other_architectures=config.architectures[1:],
    )


def _completed(facts: ModelFacts, config: Config) -> ModelFacts:
    tower = tower_of(config) if facts.has_vision else None
    return replace(
        facts,
        rope=rope_parameters(config),
        predicting_layers=config.count("num_nextn_predict_layers", "mtp_num_hidden_layers"),
        tower=tower,
        assumptions=(*facts.assumptions, *(tower.assumptions if tower else ())),
        is_encoder=facts.is_pooling and _is_encoder(config),
    )


def _shares(config: Config, vocabulary: int) -> bool:
    nameless = not config.text("model_type") and not config.architecture
    return config.text("model_type") in TIED or (nameless and vocabulary >= SHARED_FROM)


def _width_left(
    weights: Weights | None, of_width: Callable[[int], tuple[Matrix, ...]], element: int, stored: Quantization
) -> int:
    """The width of the MLP that fills the rest of the checkpoint beside the other matrices."""
    if weights is None:
        raise UnreadableError("intermediate_size", "is missing, and the size of the checkpoint is not known")
    width_zero, width_one = (counted_bytes(of_width(width), element, stored) for width in (0, 1))
    return max(1, (weights.total_bytes - width_zero) // (width_one - width_zero)) if width_one > width_zero else 1


def counted_bytes(matrices: tuple[Matrix, ...], element_bytes: int, stored: Quantization) -> int:
    return round(sum(matrix.elements * element_size(matrix, element_bytes, stored) for matrix in matrices))


def element_size(matrix: Matrix, element_bytes: int, stored: Quantization) -> float:
    """In bytes. Embeddings, heads and routers are never quantized."""
    quantised = stored.kernel is not Kernel.NONE and matrix.part in stored.parts
    return stored.bits_of(matrix.part) / 8 if quantised else float(element_bytes)


def _tower_whole(architecture: str, stored: Quantization) -> bool:
    """Whether every tensor rank has the whole vision tower; assumed for unknown architectures."""
    if architecture.startswith("Mistral3"):
        return stored.kernel is Kernel.NONE  # Mistral's own format is loaded by another class than the hub's
    return not architecture.startswith(DIVIDED_TOWERS)


def _tower(config: Config, element: int) -> int:
    """Bytes of a vision tower; towers are never quantized."""
    vision = next((config.section(name) for name in VISION_CONFIGS if config.section(name).fields), None)
    width = vision.positive("embed_dim", "hidden_size") if vision else None  # Qwen2-VL: `hidden_size` is the output's
    layers = vision.positive("num_hidden_layers", "depth") if vision else None
    if vision is None or not width or not layers or layers > MOST_LAYERS:
        return USUAL_TOWER
    inner = vision.positive("intermediate_size") or 4 * width
    return layers * (4 * width * width + 2 * width * inner) * element


def _check_size(weights: Weights, counted: int, stored: Quantization) -> None:
    """Raise `UnreadableError` for files that are far smaller than what the config says they hold.

    Such weights are quantized and the config does not say how. Counted as 16 bits, their parallel sizes would be wrong.
    If the tensors are not quantized, layers are smaller than the config says, and the size of the files counts.
    """
    if not weights.exact or weights.plain or stored.kernel is not Kernel.NONE or counted < GIB:
        return  # a model below 1 GiB fits on every GPU
    if weights.total_bytes < UNSTATED_BELOW * counted:
        sizes = f"{weights.total_bytes / GIB:.1f} GiB ({weights.origin}), and the matrices need {counted / GIB:.1f} GiB"
        raise UnreadableError(
            UNSTATED,
            f"is missing, although the files have only {sizes} without quantization",
            "Use a checkpoint whose config.json says how its weights are quantized.",
        )


def _believable(config: Config, weights: Weights | None, counted: int, stored: Quantization) -> Weights:
    """The size to use: that of the files, unless they hold the weights twice. If they differ, both are named."""
    if weights is None:
        return Weights(counted, "counted from config.json")
    if weights.file_format is WeightFormat.GGUF:
        return weights  # quantized in more than one way, so that a count is none
    if config.text("model_type") not in SHARED_LAYERS:
        _check_size(weights, counted, stored)
    least, most = TWO_COPIES
    if not weights.exact and least * counted < weights.total_bytes < most * counted:
        return Weights(counted, f"counted from config.json, since {weights.origin} holds the weights twice")
    if not UNSTATED_BELOW * counted < weights.total_bytes < counted / UNSTATED_BELOW:
        return replace(weights, origin=f"{weights.origin}; counted from config.json: {counted / GIB:.1f} GiB")
    return weights


def _experts(config: Config) -> Experts | None:
    names = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
    count = config.count(*names)
    if not count or count == 1:
        return None
    used = config.positive("num_experts_per_tok", "num_experts_per_token", "moe_top_k", "top_k_experts") or 1
    width = config.positive("moe_intermediate_size", "expert_ffn_hidden_size") or intermediate_size(config)
    return Experts(count, min(used, count), width or 0)


def _is_encoder(config: Config) -> bool:
    """Whether a model that pools is an encoder.

    Examples:
        >>> _is_encoder(Config({"architectures": ["BertModel"]}))
        True
        >>> _is_encoder(Config({"architectures": ["LlamaModel"]}))
        False
        >>> _is_encoder(Config({"architectures": ["LlamaModel"], "is_causal": False}))
        True
    """
    return config.architecture.startswith(ENCODERS) or not config.flag("is_causal", default=True)
