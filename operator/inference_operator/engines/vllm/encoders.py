"""Encoders of images in vLLM: which of them each tensor rank can have as a whole, and which are always divided.

`python -m e2e.engines.vllm_options` writes the table of the former inside the engine's image, and a test there compares
the two (0.32.0, `supports_encoder_tp_data` of the classes in `model_executor/models`). vLLM divides an encoder unless
`--mm-encoder-tp-mode=data` is set; it ends at the start if the tensor parallel size does not divide its heads.
"""

from collections.abc import Iterator, Sequence

from inference_operator.engines.vllm.cli_args import value_of
from inference_operator.engines.vllm.options import VERSION
from inference_operator.sizing.paged import EncoderDivision
from inference_operator.sizing.plan import Plan
from inference_operator.text_tables import text_of

ENCODER_MODE, DATA = "--mm-encoder-tp-mode", "data"

_DIVIDED = (
    *("Aria", "Bee", "Blip2", "Cohere2Vision", "Gemma3For", "GLM4V", "Idefics3", "Keye", "Lfm2Vl"),
    *("LightOnOCR", "Llava", "MiMoV2Omni", "Mistral3", "Molmo", "OpenPanguVL", "PaddleOCRVL", "PaliGemma", "Pixtral"),
    *("Qwen3OmniMoe", "SmolVLM", "Whisper"),
)
"""Beginnings of architectures whose layers vLLM divides in every case (0.32.0, `model_executor/models`: those that use
`siglip.py`, `clip.py`, `idefics2_vision_model.py`, `pixtral.py`, or parallel layers of their own)."""
ENCODERS = EncoderDivision(frozenset(text_of(__package__, f"encoders-{VERSION}.txt").split()), _DIVIDED)


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


def encoder_arguments(args: Sequence[str], plan: Plan) -> Iterator[str]:
    """The argument for a plan in which each rank has the whole encoder, unless the user sets the mode."""
    if plan.whole_encoder and value_of(args, ENCODER_MODE) is None:
        yield f"{ENCODER_MODE}={DATA}"
