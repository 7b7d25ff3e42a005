"""Models that vLLM runs: by architecture, and by their methods of quantization and of attention. Tables of its image.

1. Architectures have an implementation of its own, or run through Transformers' one.
   `python -m e2e.engines.architectures` writes their table inside the engine's image, from vLLM's registry and
   its own check (0.32.0, `model_executor/models/registry.py`, `_try_resolve_transformers`).
2. `python -m e2e.engines.vllm_options` writes the tables of methods, of models that must not run in float16, of kernels
   for attention, and of encoders. A test there compares them.
3. Sparse latent attention is chosen by a model's `index_topk`. Its kernels are those of the backends that the table's
   row is made from; DeepSeek V4 takes its own classes, which need the same GPUs (0.32.0,
   `models/deepseek_v4/nvidia/model.py`, `_select_dsv4_attn_cls`; `v1/attention/ops/flashmla.py`,
   `is_flashmla_sparse_supported`).
"""

from collections.abc import Iterator, Sequence

from inference_operator.engines.model_access import Support
from inference_operator.engines.vllm.memory import version_of
from inference_operator.engines.vllm.options import VERSION, value_of
from inference_operator.engines.vllm_image import version_of_image
from inference_operator.sizing.gpu_support import AttentionKind, GpuSupport, Method
from inference_operator.sizing.paged import EncoderDivision
from inference_operator.text_tables import rows, text_of

MODEL_IMPL = "--model-impl"
THROUGH_TRANSFORMERS = "transformers"
"""The value of `--model-impl` for the implementation of Transformers."""
_IMPLEMENTATIONS: dict[str, str] = dict(rows(__package__, f"architectures-{VERSION}.txt"))
_TENS = 10
"""vLLM writes a compute capability of 8.9 as 89."""
_FLASHINFER_HEADS = frozenset({64, 128, 256, 512})
"""Elements of heads that FlashInfer computes, which has an FP8 KV cache on Ampere (0.32.0,
`v1/attention/backends/flashinfer.py`, `get_supported_head_sizes`)."""
_WITHOUT_FLASHINFER = (
    *("GptOss", "MiMoV2", "Laguna"),
    *("Gemma3ForConditionalGeneration", "gemma3", "Molmo2", "PaliGemma", "Bagel", "Moondream3"),
)
"""Beginnings of architectures with attention sinks, or with attention to all tokens of an image, which it lacks on GPUs
before Hopper (0.32.0, `model_executor/models`: `sinks=`; `transformers_utils/model_arch_config_convertor.py`,
`MM_PREFIX_LM_MODELS`)."""


def _gpu_support() -> GpuSupport:
    named: dict[str, list[list[str]]] = {}
    for kind, *row in rows(__package__, f"methods-{VERSION}.txt"):
        named.setdefault(kind, []).append(row)
    return GpuSupport(
        {
            name: Method(divmod(int(capability), _TENS), frozenset(types))
            for name, capability, *types in named["method"]
        },
        without_float16=frozenset(name for name, *_ in named["no-float16"]),
        sparse_mla=tuple(int(major) for majors in named["sparse-mla"] for major in majors),
        aliases={("mxfp4", "gpt_oss"): "gpt_oss_mxfp4"},
        online=frozenset(name for name, *_ in named["online"]),
        attention={
            (AttentionKind(kind), kept): frozenset(
                (int(major), int(minor)) for major, minor in (c.split(".") for c in able)
            )
            for kind, kept, *able in rows(__package__, f"attention-{VERSION}.txt")
            if kind in set(AttentionKind)
        },
        usual_heads=_FLASHINFER_HEADS,
        with_sinks=_WITHOUT_FLASHINFER,
    )


SUPPORT = _gpu_support()


ENCODER_MODE, DATA = "--mm-encoder-tp-mode", "data"

_DIVIDED = (
    *("Aria", "Bee", "Blip2", "Cohere2Vision", "Gemma3For", "GLM4V", "Idefics3", "Keye", "Lfm2Vl"),
    *("LightOnOCR", "Llava", "MiMoV2Omni", "Mistral3", "Molmo", "OpenPanguVL", "PaddleOCRVL", "PaliGemma", "Pixtral"),
    *("Qwen3OmniMoe", "SmolVLM", "Whisper"),
)
"""Beginnings of architectures whose layers vLLM divides in every case (0.32.0, `model_executor/models`: those that use
`siglip.py`, `clip.py`, `idefics2_vision_model.py`, `pixtral.py`, or parallel layers of their own)."""
ENCODERS = EncoderDivision(frozenset(text_of(__package__, f"encoders-{VERSION}.txt").split()), _DIVIDED)
"""Encoders of images: which of them each tensor rank can have as a whole (0.32.0, `supports_encoder_tp_data` of the
classes in `model_executor/models`), and which are always divided. vLLM divides an encoder unless the mode is set; it
ends at the start if the tensor parallel size does not divide its heads."""


def whole_encoder(args: Sequence[str]) -> bool | None:
    """Whether arguments ask for the whole encoder on each rank; None if they leave it open.

    Examples:
        >>> whole_encoder(["--mm-encoder-tp-mode=data"]), whole_encoder(["--mm-encoder-tp-mode", "weights"])
        (True, False)
        >>> whole_encoder([]) is None
        True
    """
    mode = value_of(args, ENCODER_MODE)
    return None if mode is None else mode == DATA


def support(architecture: str, *, image: str) -> Support:
    """Whether the vLLM of an image runs models of an architecture, and by which implementation.

    Nothing is known about other versions than that of the table: they may have more. An image that does not tell its
    version is taken for this one.

    Examples:
        >>> support("LlamaForCausalLM", image=""), support("", image="").obstacle
        (Support(obstacle='', implementation='', lost=''), '')
        >>> support("HeliumForCausalLM", image="").implementation
        'transformers'
        >>> support("GPTNeoForCausalLM", image="").obstacle
        'vLLM 0.32.0 has no implementation of `GPTNeoForCausalLM`, and cannot use that of Transformers.'
    """
    implementation, version = _IMPLEMENTATIONS.get(architecture), version_of_image(image) or VERSION
    if not architecture or implementation == "native" or version_of(version) != version_of(VERSION):
        return Support()
    if implementation == THROUGH_TRANSFORMERS:
        lost = f"vLLM {VERSION} has no `{architecture}` of its own and uses that of Transformers, which is slower."
        return Support(implementation=THROUGH_TRANSFORMERS, lost=lost)
    return Support(f"vLLM {VERSION} has no implementation of `{architecture}`, and cannot use that of Transformers.")


def implementation_arguments(args: Sequence[str], implementation: str) -> Iterator[str]:
    """The argument for an implementation, unless the user names one; none without one.

    Examples:
        >>> list(implementation_arguments([], "transformers")), list(implementation_arguments([], ""))
        (['--model-impl=transformers'], [])
    """
    if implementation and value_of(args, MODEL_IMPL) is None:
        yield f"{MODEL_IMPL}={implementation}"
