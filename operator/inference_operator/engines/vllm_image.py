"""vLLM's image, in which vLLM and Transformers run: its paths, the default, and what it needs of GPUs.

CUDA version, least compute capability and least driver are those of vLLM's own images; other images are not checked.
"""

import re

from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.engines.model_access import TEMPORARY
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.settings import Settings

HOME = "/home/vllm"
WRITABLE = (HOME, TEMPORARY)
COMPATIBILITY = "VLLM_ENABLE_CUDA_COMPATIBILITY"
"""Puts the image's CUDA compatibility libraries first (vLLM 0.32.0, vllm/env_override.py)."""
_OWN_IMAGE = re.compile(r"(?:^|/)vllm/vllm-openai:v?\d")
_CUDA_13_SINCE = (0, 20)
"""Since this version the tag without a suffix has CUDA 13.0, and `-cu129` has CUDA 12.9 (vllm-project/vllm#39878). Its
torch, 2.11, has no code for Volta any more, with either CUDA (pytorch/pytorch#172352)."""
_TURING = (7, 5)
_CUDA_13_DRIVER = 580
"""NVIDIA, CUDA 13.0 release notes, table of CUDA toolkit and driver versions."""
_COMPATIBLE_DRIVER = 535
"""The oldest driver branch that nvidia/cuda's images of 12.9 and 13.0 accept on data-centre GPUs (their variable
NVIDIA_REQUIRE_CUDA)."""
_OLDER_GPUS = (
    "Use newer GPUs, or an image up to vLLM 0.19, such as `docker.io/vllm/vllm-openai:v0.19.1`, in `spec.engine.image`."
)
_TAG = re.compile(r":v?(\d+\.\d+\.\d+)(?:[-+][\w.-]+)?(?:@|$)")


def default_image(device: Device, settings: Settings) -> str:
    return {Device.GPU: settings.gpu_engine_image, Device.CPU: settings.cpu_engine_image}[device]


def version_of_image(image: str) -> str:
    """The version of vLLM in an image's tag; empty if there is none.

    Examples:
        >>> version_of_image("docker.io/vllm/vllm-openai:v0.32.0"), version_of_image("mine:latest")
        ('0.32.0', '')
    """
    tag = _TAG.search(image)
    return tag.group(1) if tag else ""


def gpu_needs(engine: EngineSpec, image: str) -> GpuNeeds:
    """The needs of an image: GPUs and drivers; nothing where it is no release of vLLM's own images."""
    version = version_of_image(image)
    if not _OWN_IMAGE.search(image) or not version:
        return GpuNeeds()
    if tuple(int(part) for part in version.split(".")[:2]) < _CUDA_13_SINCE:
        return GpuNeeds()
    if "-cu129" in image:
        return GpuNeeds(_TURING, _COMPATIBLE_DRIVER, "12.9", _OLDER_GPUS, "Install a newer driver.")
    compatible = any(variable.name == COMPATIBILITY and variable.value in ("1", "true") for variable in engine.env)
    older_image = re.sub(r"(:v?[\d.]+)(?=@|$)", r"\1-cu129", image.partition("@")[0])
    cure = (
        f"Install a newer driver, or use `spec.engine.image: {older_image}`; on data-centre GPUs `{COMPATIBILITY}=1` in"
        " `spec.engine.env` helps too."
    )
    return GpuNeeds(_TURING, _COMPATIBLE_DRIVER if compatible else _CUDA_13_DRIVER, "13.0", _OLDER_GPUS, cure)
