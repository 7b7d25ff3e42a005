"""States of resources whose number of engines a HorizontalPodAutoscaler or KEDA sets."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.manifest import HORIZONTAL_POD_AUTOSCALER, Manifest, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from inference_operator.views.lookups import ForeignAutoscaler, ForeignAutoscalers, ForeignAutoscalersLookup
from tests.status.situations import observed
from tests.testing.builders import deployment_status, inference_deployment

HPA = Ref(HORIZONTAL_POD_AUTOSCALER, "default", "qwen")
BY_HPA = inference_deployment(autoscaling={"backend": "HPA", "maxReplicas": 4})
BUILT_IN = inference_deployment(autoscaling={"maxReplicas": 4})
BY_KEDA = inference_deployment(autoscaling={"backend": "KEDA", "maxReplicas": 4})
_SERVING = ("True Serving", "False Settled", "False NotStalled")


def _serving(raw: Manifest) -> Inputs:
    return observed(raw, live=raw, engines=deployment_status(1), routers=deployment_status(2))


def _with_condition(status: str, reason: str) -> Inputs:
    """The HorizontalPodAutoscaler with its own condition ScalingActive."""
    found = _serving(BY_HPA)
    condition = {"type": "ScalingActive", "status": status, "reason": reason, "message": "in its own words"}
    live = {**found.children[HPA], "status": {"conditions": [condition], "desiredReplicas": 1}}
    return replace(found, children={**found.children, HPA: live})


def _beside(kind: str, name: str) -> Inputs:
    """The operator decides, while a HorizontalPodAutoscaler acts on this object."""
    other = ForeignAutoscaler("HorizontalPodAutoscaler", "cpu", kind, name)
    return replace(
        _serving(BUILT_IN), lookups={ForeignAutoscalersLookup("default", "qwen"): ForeignAutoscalers("1", (other,))}
    )


AUTOSCALER_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "scaled by an HPA": (_with_condition("True", "ValidMetricFound"), [], _SERVING),
    "with an HPA that has not acted": (_serving(BY_HPA), [], _SERVING),
    "with an HPA that has no metric": (_with_condition("False", "FailedGetExternalMetric"), [], _SERVING),
    "with an HPA on the Deployment of its engines": (_beside("Deployment", "qwen-engine"), [], _SERVING),
    "with an HPA on its scale, beside the operator": (_beside("InferenceDeployment", "qwen"), [], _SERVING),
    "scaled by KEDA without an address of Prometheus": (_serving(BY_KEDA), [], _SERVING),
}
