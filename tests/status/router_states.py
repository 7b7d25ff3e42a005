"""States of resources whose routers this release would build otherwise."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.manifest import Manifest
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from inference_operator.views.pod import pod_template_hash
from tests.status.situations import observed, view
from tests.testing.builders import ROUTERS, SETTINGS, deployment_status, ready_pod

LATER = SETTINGS.model_copy(update={"router_image": "example.com/router:later"})
"""Settings of an operator that would build other routers."""


def with_routers(status: Manifest | None = None) -> Inputs:
    """A service with router pods that have the template of their Deployment, and answer."""
    found = observed(engines=deployment_status(1), routers=status or deployment_status(2))
    template = pod_template_hash(found.children[ROUTERS]["spec"]["template"]["metadata"])
    pods = [view(ready_pod(), name=f"qwen-router-{name}", component=ROUTER, template=template) for name in "ab"]
    return replace(found, pods=tuple(pods))


ROUTER_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "serving, routers of an earlier release": (
        replace(with_routers(), settings=LATER),
        [],
        ("True Serving", "False Settled", "False NotStalled"),
    ),
}
