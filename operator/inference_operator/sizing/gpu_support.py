"""Support of an engine by compute capability of the GPU: quantization, attention, and data types."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from inference_operator.models.facts import Kernel, ModelFacts
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


@dataclass(frozen=True, slots=True)
class Method:
    """A method of quantization, as the engine's source states it."""

    capability: tuple[int, int]
    """Least compute capability."""
    types: frozenset[str]
    """Data types of activations."""


@dataclass(frozen=True, slots=True)
class GpuSupport:
    """The engine's tables."""

    methods: Mapping[str, Method] = field(default_factory=dict)
    """By the name in a checkpoint's config."""
    without_float16: frozenset[str] = frozenset()
    """Types of models that must not run in float16."""
    sparse_mla: tuple[int, ...] = ()
    """Major compute capabilities with a kernel for sparse latent attention; empty: any."""

    def as_run(self, facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> Shape:
        """The shape with the data type that the engine takes by itself.

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
        if shape.element_bytes is not None:
            return shape
        taken = FLOAT32_BYTES if self._type(facts, shape, capability) == FLOAT32 else SHORT_BYTES
        return shape if taken == facts.element_bytes else replace(shape, element_bytes=taken)

    def unable(self, facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> str | None:
        """Why a GPU of this compute capability cannot compute the model; None if it can."""
        own = facts.quantization
        stored = own if own.kernel is not Kernel.NONE or shape.quantization is None else shape.quantization
        method = self.methods.get(stored.method)
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
        if shape.kv_cache_dtype.startswith("fp8") and capability < BFLOAT16_SINCE:
            return f"An FP8 KV cache needs compute capability 8.0; this GPU has {_dotted(capability)}."
        return None

    def _type(self, facts: ModelFacts, shape: Shape, capability: tuple[int, int]) -> str:
        """The data type of activations that the engine takes if none is requested."""
        if shape.element_bytes == FLOAT32_BYTES:
            return FLOAT32
        if capability >= BFLOAT16_SINCE:
            return BFLOAT16
        return FLOAT32 if facts.model_type in self.without_float16 else FLOAT16


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
