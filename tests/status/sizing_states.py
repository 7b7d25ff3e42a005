"""States that follow from the memory of the model and the available GPUs."""

from collections.abc import Sequence
from typing import Any

from inference_operator.jobs.result import Cause
from inference_operator.manifest import Manifest
from inference_operator.pipeline.inputs import Inputs
from inference_operator.settings import Settings
from inference_operator.status.write_results import WriteResult
from inference_operator.views.node import node_view
from tests.status.situations import NO_GPU, observed, view
from tests.testing.builders import ENGINES, deployment_status, inference_deployment, inputs, planned
from tests.testing.inspected import MINE, failing
from tests.testing.nodes import node

L4 = {"nvidia.com/gpu.product": "NVIDIA-L4"}
ONE_L4 = [node_view(node("l4-a", gpus=1, labels=L4))]
Settled = tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]


def refused(
    reason: str,
    *,
    gpus: Sequence[Manifest] = (),
    source: str = "hf://Qwen/Qwen3-8B",
    **spec: Any,  # noqa: ANN401 - the API's own fields
) -> Settled:
    nodes = [node_view(one) for one in gpus]
    expected = (f"False {reason}", "False Settled", f"True {reason}")
    return inputs(inference_deployment(source=source, **spec), nodes=nodes), [], expected


def _awaiting() -> Settled:
    """The engine was sized for GPUs that a node autoscaler can add, and has no node."""
    settings = Settings(gpu_offers=("NVIDIA-H100-80GB-HBM3:8",))
    raw = inference_deployment(hardware={"gpu": {"products": ["H100"]}})
    made = planned(raw, settings=settings).desired
    children = {**made, ENGINES: {**made[ENGINES], "status": deployment_status(1, ready=0)}}
    situation = inputs(raw, children=children.values(), pods=[view(NO_GPU)], settings=settings, nodes=ONE_L4)
    return situation, [], ("False WaitingForNode", "True WaitingForNode", "False NotStalled")


CAUSES = {
    Cause.GATED: "ModelGated",
    Cause.NOT_FOUND: "ModelNotFound",
    Cause.UNREACHABLE: "HubUnreachable",
    Cause.TIMED_OUT: "InspectionFailed",
    Cause.PICKLE: "PickleWeights",
    Cause.UNUSABLE: "ModelNotUnderstood",
}


def _uninspected(cause: Cause, reason: str) -> Settled:
    return failing(cause), [], (f"False {reason}", "False Settled", f"True {reason}")


SIZING_STATES: dict[str, Settled] = {
    "a network that no node has": refused(
        "NoSuitableNetwork",
        gpus=[node("h100-a", gpus=8), node("h100-b", gpus=8)],
        hardware={"network": {"resource": "rdma/ib"}},
        parallelism={"tensor": 8, "nodes": 2},
    ),
    "a model that has to be inspected": (
        inputs(inference_deployment(source=MINE, parallelism={"tensor": 2})),
        [],
        ("False InspectingModel", "True InspectingModel", "False NotStalled"),
    ),
    "another model that has to be inspected, old pods serving": (
        observed(
            inference_deployment(source=MINE),
            engines=deployment_status(1),
            routers=deployment_status(2),
        ),
        [],
        ("True Serving", "True InspectingModel", "False NotStalled"),
    ),
    "a model of which nothing depends": (
        inputs(inference_deployment(source=MINE, hardware={"device": "CPU"})),
        [],
        ("False Starting", "True Starting", "False NotStalled"),
    ),
    "too large for what is there": refused(
        "InsufficientGpuMemory", gpus=[node("l4-a", gpus=1, labels=L4)], source="hf://deepseek-ai/DeepSeek-V3"
    ),
    "heads that do not divide": refused(
        "InvalidParallelSize", gpus=[node("h100-a", gpus=8)], parallelism={"tensor": 5}
    ),
    "more than one node holds": refused(
        "NeedsMultiNode",
        gpus=[node("l4-a", gpus=1, labels=L4)],
        source="hf://meta-llama/Meta-Llama-3.1-70B",
        parallelism={"nodes": 1},
    ),
    "no GPU at all": refused("NoSuitableGpu"),
    "a context beyond the model's own": refused(
        "ContextTooLong", gpus=[node("h100-a", gpus=8)], engine={"maxModelLen": 1_000_000}
    ),
    "a shorter context than is aimed at": (
        inputs(inference_deployment(), nodes=ONE_L4),
        [],
        ("False Starting", "True Starting", "False NotStalled"),
    ),
    "a size that nobody can check": (
        failing(Cause.GATED, parallelism={"tensor": 2}),
        [],
        ("False Starting", "True Starting", "False NotStalled"),
    ),
    **{f"a model that cannot be inspected: {cause}": _uninspected(cause, reason) for cause, reason in CAUSES.items()},
    "an edit that cannot be sized, old pods serving": (
        observed(
            inference_deployment(parallelism={"tensor": 5}),
            engines=deployment_status(1),
            routers=deployment_status(2),
        ),
        [],
        ("True Serving", "False Settled", "True InvalidParallelSize"),
    ),
    "waiting for a node that can be added": _awaiting(),
}
