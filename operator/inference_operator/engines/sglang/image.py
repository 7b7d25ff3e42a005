"""SGLang's image: the default, its needs, and the paths of its processes."""

import re

from inference_operator.hardware.needs import GpuNeeds

VERSION = "0.5.23"
"""The version that options, parsers, architectures and memory describe."""
IMAGE = f"docker.io/lmsysorg/sglang:v{VERSION}"
"""The image with this version (sgl-project/sglang v0.5.23, docs/get-started/install.mdx)."""
HOME = "/home/sglang"
COMPILED = f"{HOME}/.cache"
"""Folder of all that SGLang and its libraries compile (0.5.23, `srt/environ.py`, `SGLANG_CACHE_DIR`)."""
NEEDS = GpuNeeds(
    capability=(7, 5),
    driver=580,
    cuda="13.0",
    older_gpus="Use newer GPUs, or an image that has code for these ones, in `spec.engine.image`.",
    older_drivers="Install a newer driver. `docker.io/lmsysorg/sglang:v0.5.19-cu129` is the last image for older ones.",
)
"""The needs of the image: the least GPU (0.5.23, `srt/model_executor/model_runner_components/load_model_utils.py`), and
CUDA 13 with its driver (docs/get-started/install.mdx; NVIDIA, CUDA 13.0 release notes)."""
_OWN = re.compile(r"(?:^|/)lmsysorg/sglang:v(\d+(?:\.\d+)*)$")


def gpu_needs(image: str) -> GpuNeeds:
    match = _OWN.search(image.partition("@")[0])
    return NEEDS if match and match[1] == VERSION else GpuNeeds()
