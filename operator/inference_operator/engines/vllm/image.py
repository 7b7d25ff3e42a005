"""vLLM's image, in which vLLM and Transformers run: its user, the paths that it may write, and the default."""

from inference_operator.api.hardware import Device
from inference_operator.settings import Settings

USER, GROUP = 2000, 0
"""The user that vLLM's images prepare since 0.22 (vllm-project/vllm v0.32.0, docker/Dockerfile)."""

HOME, TEMPORARY = "/home/vllm", "/tmp"  # noqa: S108 - an emptyDir of the pod's own
"""Home of that user, and the folder of sockets."""

WRITABLE = (HOME, TEMPORARY)
"""All paths to which the engines write."""


def default_image(device: Device, settings: Settings) -> str:
    """The setting `gpuEngineImage` or `cpuEngineImage`.

    Examples:
        >>> default_image(Device.GPU, Settings(gpu_engine_image="example.com/vllm:1"))
        'example.com/vllm:1'
    """
    return {Device.GPU: settings.gpu_engine_image, Device.CPU: settings.cpu_engine_image}[device]
