"""The images of llama.cpp: the default of each device, and architectures they run.

`python -m e2e.engines.architectures` writes the table of architectures, by GGUF's names of them: it asks the server of
the engine's image which names it knows, and leaves out encoders, draft models, diffusion and speech.
"""

import re
from collections.abc import Mapping

from inference_operator.api.hardware import Device
from inference_operator.engines.model_access import Support
from inference_operator.text_tables import text_of

VERSION = "0.7.0"
"""The version that options, architectures and memory describe."""
BUILD = "b11669"
"""The build with that version, as in the tags of the project's images (ggml-org/llama.cpp, docs/docker.md)."""
IMAGES: Mapping[Device, str] = {
    Device.GPU: f"ghcr.io/ggml-org/llama.cpp:server-cuda-{BUILD}",
    Device.CPU: f"ghcr.io/ggml-org/llama.cpp:server-{BUILD}",
}
_NAMES = frozenset(text_of(__package__, f"architectures-{VERSION}.txt").splitlines())
_LOST = "llama.cpp has no adapters, reads text only, and computes a fixed number of requests at once."


def is_another_version(image: str) -> bool:
    """Whether the tag of an image names another build. One without a build number is taken for this version.

    Examples:
        >>> is_another_version("registry.example/llama.cpp:server-b11669@sha256:12"), is_another_version("a:own")
        (False, False)
        >>> is_another_version("ghcr.io/ggml-org/llama.cpp:server-cuda-b12000")
        True
    """
    match = re.search(r"-(b\d+)$", image.partition("@")[0])
    return match is not None and match[1] != BUILD


def support(architecture: str, *, image: str) -> Support:
    """Whether llama.cpp generates text with models of an architecture.

    Nothing is known about other versions than that of the table: they may have more.
    """
    if architecture and architecture not in _NAMES and not is_another_version(image):
        return Support(f"llama.cpp {VERSION} generates no text with models of the architecture `{architecture}`.")
    return Support(lost=_LOST)
