"""Support of an engine by compute capability of the GPU: quantization, attention, and data types."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from inference_operator.models.facts import Attention, Kernel, ModelFacts
from inference_operator.sizing.shape import Shape

BFLOAT16_SINCE = (8, 0)
"""Compute capability with bfloat16 (Ampere). A bfloat16 model runs in another type on earlier GPUs."""
KERNELS_SINCE: Mapping[Kernel, tuple[int, int]] = {
    Kernel.FP8: (7, 5),
    Kernel.FP8_BLOCK: (7, 5),
    Kernel.AWQ: (7, 5),
    Kernel.GPTQ: (6, 0),
    Kernel.INT8: (7, 5),
    Kernel.MXFP4: (7, 5),
    Kernel.NVFP4: (7, 5),
}
"""Least capability of the kernels that a method without a table entry has, by Marlin kernels where the GPU has no such
arithmetic (vLLM 0.32.0, `layers/quantization/`)."""
FLOAT16, BFLOAT16, FLOAT32 = "float16", "bfloat16", "float32"
FLOAT32_BYTES, SHORT_BYTES = 4, 2
TYPES = {"half": FLOAT16, "float": FLOAT32}
ONLINE = "online"
"""The method of all that quantize while they load."""
AUTO, FP8, FP8_STORED = "auto", "fp8", "fp8_e4m3"
OWN_CACHE = "DeepseekV4"
"""Beginning of the architectures that take FP8 of their own for `auto` (`models/deepseek_v4/attention.py`)."""


@dataclass(frozen=True, slots=True)
class Method:
    capability: tuple[int, int]
    """Least compute capability."""
    types: frozenset[str]


class AttentionKind(StrEnum):
    PLAIN = "plain"
    SINKS = "sinks"
    """With a learned sink, or another property that only some kernels have."""
    MLA = "mla"
    SPARSE_MLA = "sparse-mla"


@dataclass(frozen=True, slots=True)
class GpuSupport:
    methods: Mapping[str, Method] = field(default_factory=dict)
    """By the name in a checkpoint's config."""
    online: frozenset[str] = frozenset()
    """Methods that quantize plain weights while they load them."""
    without_float16: frozenset[str] = frozenset()
    sparse_mla: tuple[int, ...] = ()
    """Major compute capabilities with a kernel for sparse latent attention; empty: any."""
    aliases: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """The engine's own name of a checkpoint's method, by that and the type of the model."""
    attention: Mapping[tuple[AttentionKind, str], frozenset[tuple[int, int]]] = field(default_factory=dict)
    """Compute capabilities with a kernel, by kind of attention and type of the KV cache; empty: any from 8.0."""
    usual_heads: frozenset[int] = frozenset()
    """Elements of attention heads that have the kernels of `PLAIN`; others have those of `SINKS`."""
    with_sinks: tuple[str, ...] = ()
    """Beginnings of architectures, and of types of models with images, that have the kernels of `SINKS`."""

    def as_run(self, facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> Shape:
        """The shape with the data types that the engine takes by itself, and of the KV cache that a recipe sets.

        A checkpoint in float32 is computed in 16 bits. Float32 is taken where no 16-bit type is possible (vLLM 0.32.0,
        `config/model.py`, `_resolve_auto_dtype`).

        Examples:
            >>> from inference_operator.models.catalogue import entry
            >>> from inference_operator.models.model import model_facts
            >>> facts = model_facts(entry("Qwen/Qwen3-8B").config)
            >>> gemma = replace(facts, model_type="gemma2")
            >>> support = GpuSupport(without_float16=frozenset({"gemma2"}))
            >>> [support.as_run(model, Shape(), (7, 5)).element_bytes for model in (facts, gemma)]
            [None, 4]
        """
        if kept := self._recipe_cache(facts, shape, capability):
            shape = replace(shape, kv_cache_dtype=kept)
        if shape.element_bytes is not None:
            return shape
        taken = FLOAT32_BYTES if self._type(facts, shape, capability) == FLOAT32 else SHORT_BYTES
        return shape if taken == facts.element_bytes else replace(shape, element_bytes=taken)

    def unable(self, facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> str | None:
        own = facts.quantization
        stored = own if own.kernel is not Kernel.NONE or shape.quantization is None else shape.quantization
        method = self.method(stored.method, facts)
        least = max(KERNELS_SINCE.get(stored.kernel, (0, 0)), method.capability if method else (0, 0))
        if capability < least:
            name = f"`{stored.method}`" if method else stored.kernel.value
            return f"{name} weights need compute capability {_dotted(least)}; this GPU has {_dotted(capability)}."
        if facts.uses_sparse_mla and self.sparse_mla and capability[0] not in self.sparse_mla:
            *others, last = (f"{major}.x" for major in self.sparse_mla)
            majors = f"{', '.join(others)}, or {last}" if others else last
            return f"Sparse latent attention needs compute capability {majors}; this GPU has {_dotted(capability)}."
        used = self._type(facts, shape, capability)
        if method and used not in method.types:
            return f"`{stored.method}` weights cannot be computed in {used}, which this GPU needs for the model."
        if self.attention and facts.uses_mla and used == FLOAT32:
            return "No kernel computes latent attention in float32."
        if BFLOAT16 in (used, shape.kv_cache_dtype) and capability < BFLOAT16_SINCE:
            return f"bfloat16 needs compute capability {_dotted(BFLOAT16_SINCE)}; this GPU has {_dotted(capability)}."
        return self._without_cache(facts, shape, used, capability)

    def method(self, name: str, facts: ModelFacts) -> Method | None:
        """A checkpoint's method, or one that quantizes plain weights while they are loaded; None if it is not known."""
        loading = facts.quantization.kernel is Kernel.NONE and name in self.online
        return self.methods.get(ONLINE if loading else self.aliases.get((name, facts.model_type), name))

    def _without_cache(self, facts: ModelFacts, shape: Shape, used: str, capability: tuple[int, int]) -> str | None:
        """Why no kernel on this GPU has the KV cache that is requested, or that the checkpoint states."""
        stated = _stored_cache(facts) if self.attention else ""
        kept = stated if stated and shape.kv_cache_dtype == AUTO else shape.kv_cache_dtype
        if not kept.startswith("fp8"):
            return None
        able = self.attention.get((self._kind(facts, used), kept), frozenset())
        if capability in able or (not self.attention and capability >= BFLOAT16_SINCE):
            return None
        least = min((each for each in able if each > capability), default=BFLOAT16_SINCE)
        needs = (
            f"needs compute capability {_dotted(least)} for this model" if able else "is not possible for this model"
        )
        other = BFLOAT16 if capability >= BFLOAT16_SINCE else FLOAT16
        asks = f"The checkpoint asks for it; `spec.engine.kvCacheDtype: {other}` does not."
        cure = f" {asks}" if stated else " It is possible without `spec.engine.kvCacheDtype`."
        return f"An FP8 KV cache (`{kept}`) {needs}; this GPU has {_dotted(capability)}.{cure}"

    def _recipe_cache(self, facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> str:
        """The type of the KV cache that the model's recipe sets, or plain FP8 in its place; empty without a kernel.

        A recipe names `fp8_e4m3` for GLM-5.2, and `fp8` on Hopper, whose sparse attention has no other.
        """
        own = facts.architecture.startswith(OWN_CACHE) or _stored_cache(facts)
        if shape.kv_cache_dtype != AUTO or not facts.recipe_cache or own:
            return ""
        kind = self._kind(facts, self._type(facts, shape, capability))
        able = (kept for kept in (facts.recipe_cache, FP8) if capability in self.attention.get((kind, kept), ()))
        return next(able, "")

    def _kind(self, facts: ModelFacts, used: str) -> AttentionKind:
        if facts.uses_mla:
            return AttentionKind.SPARSE_MLA if facts.uses_sparse_mla else AttentionKind.MLA
        named = (facts.architecture, facts.model_type if facts.has_vision else "")
        cached = [group for group in facts.groups if group.attention is not Attention.STATE]
        usual = used != FLOAT32 and all(group.elements / 2 in self.usual_heads for group in cached)
        if not usual or any(name.startswith(self.with_sinks) for name in named):
            return AttentionKind.SINKS
        return AttentionKind.PLAIN

    def _type(self, facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> str:
        if shape.dtype:
            return TYPES.get(shape.dtype, shape.dtype)
        if shape.element_bytes == FLOAT32_BYTES:
            return FLOAT32
        if capability >= BFLOAT16_SINCE:
            return BFLOAT16
        return FLOAT32 if facts.model_type in self.without_float16 else FLOAT16


def _stored_cache(facts: ModelFacts) -> str:
    """The type of the KV cache that a checkpoint states; empty for none. DeepSeek V4's kernels have one of their own.

    vLLM 0.32.0, `utils/torch_utils.py` (`get_kv_cache_quant_algo_string`) and `layers/attention/attention.py`.
    """
    stored = facts.quantization
    if not stored.kv_cache_fp8 or facts.architecture.startswith(OWN_CACHE):
        return ""
    if stored.method.startswith("modelopt"):
        return FP8_STORED
    return FP8 if stored.method == "compressed-tensors" and not facts.uses_mla else ""


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
