"""GPUs as extended resources of nodes (NVIDIA/k8s-device-plugin 0.18, README): those of another vendor come here."""

import re

from inference_operator.manifest import Manifest

VENDOR = "nvidia.com/"
"""The domain. Network devices of the same vendor have it too (`nvidia.com/hostdev`)."""
GPU_RESOURCE = f"{VENDOR}gpu"
SHARED_RESOURCE = f"{GPU_RESOURCE}.shared"
MIG_RESOURCE = re.compile(r"nvidia\.com/mig-(?P<profile>(?P<parts>\d)g\.(?P<memory>\d+)gb(?:\.me)?)")
"""One resource for each profile under the strategy `mixed`."""
GPU_TOLERATION: Manifest = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
"""GPU nodes are often tainted with their resource's name (NVIDIA GPU operator, GKE, EKS)."""


def is_gpu(resource: str) -> bool:
    """Whether a resource is of GPUs: whole ones, shared ones, or MIG slices.

    Examples:
        >>> [is_gpu(name) for name in ("nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "nvidia.com/hostdev")]
        [True, True, False]
    """
    return resource == GPU_RESOURCE or resource.startswith((f"{GPU_RESOURCE}.", f"{VENDOR}mig-"))


def mig_resource(profile: str) -> str:
    return f"{VENDOR}mig-{profile.lower()}"
