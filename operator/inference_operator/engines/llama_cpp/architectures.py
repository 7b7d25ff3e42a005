"""Architectures with which llama.cpp generates text, by GGUF's names of them.

`python -m e2e.architectures` writes the table: it asks the server of the engine's image which names it knows, and
leaves out encoders, draft models, diffusion and speech.
"""

from importlib.resources import files

from inference_operator.engines.llama_cpp.image import VERSION, is_another_version
from inference_operator.engines.model_access import Support

_NAMES = frozenset(files(__package__).joinpath(f"architectures-{VERSION}.txt").read_text(encoding="utf-8").splitlines())
_LOST = "llama.cpp has no adapters, reads text only, and computes a fixed number of requests at once."


def support(architecture: str, image: str) -> Support:
    """Whether llama.cpp generates text with models of an architecture.

    Nothing is known about other versions than that of the table: they may have more.

    Examples:
        >>> from inference_operator.engines.llama_cpp.image import IMAGES
        >>> from inference_operator.api.hardware import Device
        >>> support("qwen3", IMAGES[Device.CPU]).obstacle
        ''
        >>> support("bert", IMAGES[Device.CPU]).obstacle
        'llama.cpp 0.7.0 generates no text with models of the architecture `bert`.'
        >>> support("bert", "ghcr.io/ggml-org/llama.cpp:server-b12000").obstacle
        ''
    """
    if architecture and architecture not in _NAMES and not is_another_version(image):
        return Support(f"llama.cpp {VERSION} generates no text with models of the architecture `{architecture}`.")
    return Support(lost=_LOST)
