"""The images of llama.cpp: the default of each device, and the user and paths of their processes."""

import re
from collections.abc import Mapping

from inference_operator.api.hardware import Device

VERSION = "0.7.0"
"""The version that options, architectures and memory describe."""
BUILD = "b11669"
"""The build with that version, as in the tags of the project's images (ggml-org/llama.cpp, docs/docker.md)."""
IMAGES: Mapping[Device, str] = {
    Device.GPU: f"ghcr.io/ggml-org/llama.cpp:server-cuda-{BUILD}",
    Device.CPU: f"ghcr.io/ggml-org/llama.cpp:server-{BUILD}",
}
USER, GROUP = 2000, 0
"""Any user that may read the model will do; it is the one of the other engines, whose claims it shares."""
TEMPORARY = "/tmp"  # noqa: S108 - an emptyDir of the pod's own
WRITABLE = (TEMPORARY,)


def is_another_version(image: str) -> bool:
    """Whether the tag of an image names another build. One without a build number is taken for this version.

    Examples:
        >>> is_another_version("registry.example/llama.cpp:server-b11669@sha256:12"), is_another_version("a:own")
        (False, False)
        >>> is_another_version("ghcr.io/ggml-org/llama.cpp:server-cuda-b12000")
        True
    """
    found = re.search(r"-(b\d+)$", image.partition("@")[0])
    return found is not None and found[1] != BUILD
