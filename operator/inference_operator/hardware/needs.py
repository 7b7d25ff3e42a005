"""The needs of an engine image: capability of the GPUs, and their driver."""

from collections.abc import Mapping
from dataclasses import dataclass

DRIVER_MAJOR = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
"""Labels with the driver's major version, the second one by older releases (NVIDIA/k8s-device-plugin 0.17,
docs/gpu-feature-discovery/README.md)."""


@dataclass(frozen=True, slots=True)
class GpuNeeds:
    """The least GPU and driver of an image; the defaults mean that nothing is known."""

    capability: tuple[int, int] = (0, 0)
    driver: int = 0
    """Least major version of NVIDIA's driver."""
    cuda: str = ""
    older_gpus: str = ""
    """The cure for GPUs below that capability, in a sentence."""
    older_drivers: str = ""
    """The cure on nodes with an older driver, in a sentence."""

    def too_old(self, labels: Mapping[str, str]) -> int:
        """The major version of a node's driver, if it is too old; 0 if it is not, or unknown."""
        text = next((labels[name] for name in DRIVER_MAJOR if name in labels), "")
        major = int(text) if text.isascii() and text.isdecimal() and len(text) <= 4 else 0  # noqa: PLR2004 - three today
        return major if 0 < major < self.driver else 0

    def can_run_on(self, capability: tuple[int, int]) -> bool:
        """Whether the image has code for GPUs of this compute capability; True if that is unknown."""
        return capability == (0, 0) or capability >= self.capability
