"""GPUs that exist in the node's status only: the scheduler counts them, and engines still compute on the CPU."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

NODE, GPU, PRODUCT = "node-0", "nvidia.com/gpu", "nvidia.com/gpu.product"
OFFER_SECONDS = 60
"""The kubelet updates `allocatable` every 10 s."""


def offer_gpus(cluster: LocalCluster, gpus: int) -> None:
    """Set the number of GPUs in the node's status, and wait until they are allocatable."""
    patch = json.dumps({"status": {"capacity": {GPU: str(gpus)}}})
    cluster.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", f"--patch={patch}")
    eventually(
        lambda: _allocatable(cluster).get(GPU) == str(gpus),
        seconds=OFFER_SECONDS,
        what=lambda: f"the kubelet offers {gpus} GPUs: {_allocatable(cluster)}",
    )


@contextmanager
def gpus_of_kind(cluster: LocalCluster, gpus: int, product: str) -> Iterator[None]:
    """Offer GPUs with a label of their product; withdrawn at the end of the block."""
    cluster.kubectl("label", "node", NODE, f"{PRODUCT}={product}")
    try:
        offer_gpus(cluster, gpus)
        yield
    finally:
        offer_gpus(cluster, 0)
        cluster.kubectl("label", "node", NODE, f"{PRODUCT}-")


def _allocatable(cluster: LocalCluster) -> dict[str, str]:
    allocatable: dict[str, str] = json.loads(cluster.kubectl("get", "node", NODE, "--output=json"))["status"][
        "allocatable"
    ]
    return allocatable
