"""States of engines that compute prompts for others."""

from dataclasses import replace
from typing import Any

from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.views.pod import pod_view
from tests.status.sizing_states import Settled
from tests.testing.builders import (
    ENGINES,
    ROUTERS,
    deployment_status,
    inference_deployment,
    inputs,
    model_known,
    pod,
    ready_pod,
)

APART: Manifest = {"disaggregation": {"prefill": {"replicas": 2}}}
ROUTER_WITHOUT_KEY = pod_view(pod(name="r", component=ROUTER, status=ready_pod()), component=ROUTER)
_SERVING = ("True Serving", "False Settled", "False NotStalled")


def apart(spec: Manifest, ready: tuple[int, int], commit: str = "0" * 40, **more: Any) -> Inputs:  # noqa: ANN401 - fields
    """What is observed with so many ready engines of each role."""
    raw = inference_deployment(**spec)

    def given(*children: Manifest) -> Inputs:
        return replace(inputs(raw, children=(model_known(raw, commit=commit), *children)), **more)

    first = outcome(given())
    assert isinstance(first, Planned), first
    live = [
        {**manifest, "metadata": {**manifest["metadata"], "uid": str(number), "generation": 1}}
        for number, manifest in enumerate(first.desired.values())
    ]
    counts = {ENGINES.name: ready[0], "qwen-prefill": ready[1], ROUTERS.name: 2}
    for manifest in live:
        if manifest["kind"] == "Deployment":
            count = counts[Ref.of(manifest).name]
            manifest["status"] = deployment_status(manifest["spec"]["replicas"], ready=count)
    return given(*live)


PREFILL_STATES: dict[str, Settled] = {
    "prompts are computed apart": (apart(APART, (1, 2)), [], _SERVING),
    "no prefill engine is wanted": (apart({"disaggregation": {"prefill": {"replicas": 0}}}, (1, 0)), [], _SERVING),
    "routers do not send the key to engines of two roles": (
        apart(APART, (1, 2), pods=(ROUTER_WITHOUT_KEY,)),
        [],
        _SERVING,
    ),
    "the commit of two roles is not known": (apart(APART, (1, 2), commit=""), [], _SERVING),
}
