"""Builders of nodes and pods with GPUs, as the API server returns them."""

from inference_operator.manifest import Manifest

GPU = "nvidia.com/gpu"
H100_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


def node(
    name: str,
    *,
    gpus: int = 0,
    ready: bool = True,
    labels: dict[str, str] | None = None,
    taints: list[Manifest] | None = None,
    cordoned: bool = False,
) -> Manifest:
    """A node, of H100s if nothing else is said; its taints have the API's own names."""
    told = {**(H100_LABELS if gpus else {}), **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "namespace": "", "labels": told},
        "spec": {"taints": taints or [], **({"unschedulable": True} if cordoned else {})},
        "status": {
            "allocatable": {"cpu": "192", **({GPU: str(gpus)} if gpus else {})},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def container(gpus: int, **more: str) -> Manifest:
    return {"name": f"c{gpus}", "resources": {"limits": {GPU: str(gpus)}} if gpus else {}, **more}


def gpu_pod(
    name: str,
    gpus: int,
    *,
    on: str = "",
    phase: str = "Running",
    labels: dict[str, str] | None = None,
    steps: list[Manifest] | None = None,
) -> Manifest:
    """A pod on a node, or on none yet."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels or {}},
        "spec": {
            "containers": [container(gpus)],
            **({"nodeName": on} if on else {}),
            **({"initContainers": steps} if steps else {}),
        },
        "status": {"phase": phase},
    }
