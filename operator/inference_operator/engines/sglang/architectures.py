"""Architectures of text models that SGLang implements itself.

`python -m e2e.sglang_tables` writes the table from SGLang's own source. It leaves out models that read images or sound:
SGLang opens any `file:` URL that a request names, so that clients could read files of the pod (0.5.23,
`srt/utils/common.py`, `load_image`). Drafts, encoders and diffusion are left out too.
"""

from importlib.resources import files

from inference_operator.engines.model_access import Support
from inference_operator.engines.sglang.image import VERSION, is_another_version

_NAMES = frozenset(files(__package__).joinpath(f"architectures-{VERSION}.txt").read_text(encoding="utf-8").splitlines())
_LOST = "SGLang has no adapters here, reads text only, and no release of the operator was tested with it on a GPU."


def support(architecture: str, image: str) -> Support:
    """Whether SGLang generates text with models of an architecture.

    Nothing is known about other versions than that of the table: they may have more.

    Examples:
        >>> from inference_operator.engines.sglang.image import IMAGE
        >>> support("Qwen3ForCausalLM", IMAGE).obstacle
        ''
        >>> support("Qwen2VLForConditionalGeneration", IMAGE).obstacle
        'SGLang 0.5.23 serves no models of the architecture `Qwen2VLForConditionalGeneration` here.'
        >>> support("X", "docker.io/lmsysorg/sglang:v0.6.0").obstacle
        ''
    """
    if architecture and architecture not in _NAMES and not is_another_version(image):
        return Support(f"SGLang {VERSION} serves no models of the architecture `{architecture}` here.")
    return Support(lost=_LOST)
