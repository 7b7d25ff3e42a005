"""GPUs that exist in the node's status only, so that the scheduler counts them: engines there compute on the CPU."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.cluster.handle import LocalCluster
from e2e.waiting import eventually

NODE, GPU, PRODUCT = "node-0", "nvidia.com/gpu", "nvidia.com/gpu.product"
OFFER_SECONDS = 60
"""The kubelet computes what can be allocated every 10 s."""


def offer_gpus(cluster: LocalCluster, gpus: int) -> None:
    """Let the node say that it has so many GPUs."""
    patch = json.dumps({"status": {"capacity": {GPU: str(gpus)}}})
    cluster.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", f"--patch={patch}")
    eventually(
        lambda: _allocatable(cluster).get(GPU) == str(gpus),
        seconds=OFFER_SECONDS,
        what=lambda: f"the kubelet offers {gpus} GPUs: {_allocatable(cluster)}",
    )


@contextmanager
def gpus_of_kind(cluster: LocalCluster, gpus: int, product: str) -> Iterator[None]:
    """Let it say too what they are, for as long as that is needed."""
    cluster.kubectl("label", "node", NODE, f"{PRODUCT}={product}")
    try:
        offer_gpus(cluster, gpus)
        yield
    finally:
        offer_gpus(cluster, 0)
        cluster.kubectl("label", "node", NODE, f"{PRODUCT}-")


def _allocatable(cluster: LocalCluster) -> dict[str, str]:
    found: dict[str, str] = json.loads(cluster.kubectl("get", "node", NODE, "--output=json"))["status"]["allocatable"]
    return found
