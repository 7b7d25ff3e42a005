"""States of a resource whose number of engines follows the requests; one engine is ready in each."""

from dataclasses import replace

from inference_operator.autoscaling.decision import Bound, Decision, Terms
from inference_operator.autoscaling.inputs import ScalingResult
from inference_operator.objects.names import ENGINE
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from tests.status.situations import NO_GPU, observed, view
from tests.testing.builders import deployment_status, inference_deployment

_RAW = inference_deployment(autoscaling={"maxReplicas": 4})
_READY = ("True Serving", "False Settled", "False NotStalled")
_BEFORE = observed(_RAW, live=_RAW, engines=deployment_status(1), routers=deployment_status(2))


def _decided(replicas: int, *missing: str) -> Inputs:
    decision = Decision(replicas, Bound.DEMAND, Terms(8, 6, 0), target_concurrency=8)
    return replace(_BEFORE, scaling={ENGINE: ScalingResult(decision, missing)})


SCALING_STATES: dict[str, tuple[Inputs, list[WriteResult], tuple[str, str, str]]] = {
    "autoscaling before the first sample": (_BEFORE, [], _READY),
    "autoscaling that follows the demand": (_decided(1), [], _READY),
    "autoscaling without a pod's metrics": (_decided(1, "qwen-engine-a"), [], _READY),
    "autoscaling that lacks GPUs": (replace(_decided(2), pods=[view(NO_GPU)]), [], _READY),
}
