"""Encoders of images, video and sound: the largest inputs that vLLM profiles, and the memory of one patch.

Token numbers are those of vLLM's processors and of the processors' defaults (vLLM 0.32.0, `model_executor/models`:
`qwen2_vl.py`, `qwen3_vl.py`, `gemma3_mm.py`, `mistral3.py`, `mllama4.py`, `internvl.py`, `kimi_vl.py`, `llava.py`;
transformers 5.19.0, `models/*/image_processing_*.py`).
"""

from dataclasses import dataclass

from inference_operator.models.config import VISION_CONFIGS, Config, whole_number

QWEN_IMAGE_TOKENS = 16_384
"""12,845,056 pixels in patches of 14, four of them in a token; of 16 with 16,777,216 pixels."""
QWEN2_VIDEO_TOKENS = 7 * QWEN_IMAGE_TOKENS
"""14 frames, two of them in a patch (vLLM 0.32.0, `qwen2_vl.py`, `_MAX_FRAMES_PER_VIDEO`)."""
QWEN3_VIDEO_TOKENS = 12_288
"""25,165,824 pixels of all frames together, two frames in a patch (`qwen3_vl.py`, `get_max_video_tokens`)."""
WIDTH = 1280
"""Width of an encoder that the config does not describe: ViT-H."""
RESIDUALS, GATED, PLAIN = 4, 3, 2
"""Tensors of a layer that exist at the same time: residual, queries, keys and values; of an MLP, gate, up and their
product, or only input and result of its activation."""
MOST_WIDTH = 2**16
HEADS = ("num_heads", "num_attention_heads", "vt_num_attention_heads", "encoder_attention_heads")
"""Fields with the number of heads: of Qwen and GLM, of SigLIP, CLIP and Pixtral, of MoonViT, of Whisper."""
MERGED = 4
"""Patches in a token (`spatial_merge_size` 2)."""


@dataclass(frozen=True, slots=True)
class Tower:
    patch_elements: int
    """Elements of the tensors of one patch at the peak of a layer."""
    patches_per_token: int
    image_tokens: int
    """Tokens of the largest image, or of the longest sound."""
    video_tokens: int
    """Tokens of the longest video that vLLM profiles; 0 if the model reads none."""
    known: bool
    """Whether the numbers are those of the family; otherwise they are assumed."""
    heads: int = 0
    """Attention heads of a layer; 0 if the config does not state them."""
    width: int = 0
    """Width of the MLP of a layer; 0 if the config does not state it."""

    def divisible(self, ranks: int) -> bool:
        """Whether each of so many ranks can have its part of all layers; sizes that are not stated are no obstacle."""
        return self.heads % ranks == 0 and self.width % ranks == 0

    @property
    def assumptions(self) -> tuple[str, ...]:
        if self.known:
            return ()
        return (f"{self.image_tokens:,} tokens for the largest image (not known for this architecture)",)


_FAMILIES: tuple[tuple[tuple[str, ...], int, int, int], ...] = (
    (("Qwen2VL", "Qwen2_5_VL", "Qwen2_5OmniModel"), MERGED, QWEN_IMAGE_TOKENS, QWEN2_VIDEO_TOKENS),
    (("Qwen3VL", "Qwen3_5", "Qwen3Omni"), MERGED, QWEN_IMAGE_TOKENS, QWEN3_VIDEO_TOKENS),
    (("Gemma3ForConditional", "Gemma3nFor"), 16, 256, 0),
    (("Gemma4",), 9, 1120, 32 * 256),
    (("Mistral3", "Pixtral"), MERGED, 3025, 0),
    (("Llama4",), MERGED, 17 * 144, 0),
    (("Mllama",), 1, 4 * 1601, 0),
    (("InternVL", "NemotronH_Nano_VL", "Llama_Nemotron_Nano_VL"), MERGED, 13 * 256, 32 * 256),
    (("KimiVL", "KimiK25"), MERGED, 4096, 4096),
    (("LlavaFor",), 1, 576, 0),
    (("LlavaNextFor",), 1, 2880, 0),
    (("LlavaOnevision", "LlavaNextVideo"), 1, 7290, 32 * 196),
    (("Idefics3", "SmolVLM"), 9, 17 * 169, 0),
    (("PaliGemma",), 1, 1024, 0),
    (("Glm4v", "Glm4_1v", "Glm46V"), MERGED, 6144, 6 * 6144),
    (("Qwen2Audio", "Ultravox", "Voxtral", "Whisper"), 1, 1500, 0),
)
"""Beginnings of architectures, patches in a token, tokens of the largest image, and of the longest video."""
UNKNOWN_IMAGE_TOKENS, UNKNOWN_VIDEO_TOKENS = QWEN_IMAGE_TOKENS, 0


def tower_of(config: Config) -> Tower:
    """The encoder of a model with one.

    Examples:
        >>> vision = {"hidden_size": 1280, "intermediate_size": 3420}
        >>> named = {"architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": vision}
        >>> tower = tower_of(Config(named))
        >>> tower.patch_elements, tower.image_tokens, tower.video_tokens
        (15380, 16384, 114688)
        >>> tower_of(Config({"architectures": ["NewForConditionalGeneration"]})).known
        False
    """
    sections = (config.section(name) for name in (*VISION_CONFIGS, "audio_config"))
    vision = next((section for section in sections if section.fields), Config({}))
    width = _size(vision, "embed_dim", "hidden_size", "d_model") or WIDTH
    stated = _size(vision, "intermediate_size", "encoder_ffn_dim") or 0
    inner = stated or 4 * width
    gated = vision.text("hidden_act") in ("", "silu")
    elements = RESIDUALS * width + (GATED if gated else PLAIN) * inner
    family = next((numbers for names, *numbers in _FAMILIES if config.architecture.startswith(names)), None)
    merged, image, video = family or (MERGED, UNKNOWN_IMAGE_TOKENS, UNKNOWN_VIDEO_TOKENS)
    heads = _size(vision, *HEADS) or 0
    return Tower(elements, merged, image, video, known=family is not None, heads=heads, width=stated)


def _size(vision: Config, *names: str) -> int | None:
    return next(filter(None, (whole_number(vision.fields.get(name), MOST_WIDTH) for name in names)), None)
