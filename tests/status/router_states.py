"""States of resources whose routers this release would build otherwise."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from inference_operator.api.pod_defaults import RouterDefaults
from inference_operator.fleet.rollout_slots import TURN_ANNOTATION, Fleet, Turn
from inference_operator.manifest import Manifest
from inference_operator.objects.names import ROUTER
from inference_operator.pipeline.inputs import Inputs, Shared
from inference_operator.status.write_results import WriteResult
from inference_operator.views.pod import pod_template_hash
from tests.status.situations import observed, view
from tests.testing.builders import ROUTERS, SETTINGS, deployment_status, ready_pod

LATER = SETTINGS.model_copy(update={"router_image": "example.com/router:later"})
"""Settings of an operator that would build other routers."""
OTHER_DEFAULTS = SETTINGS.model_copy(
    update={"router_defaults": RouterDefaults.model_validate({"podTemplate": {"annotations": {"example.com/a": "b"}}})}
)
"""Settings by which routers have to be replaced."""


def with_routers(status: Manifest | None = None) -> Inputs:
    """A service with router pods that have the template of their Deployment, and answer."""
    found = observed(engines=deployment_status(1), routers=status or deployment_status(2))
    template = pod_template_hash(found.children[ROUTERS]["spec"]["template"]["metadata"])
    pods = [view(ready_pod(), name=f"qwen-router-{name}", component=ROUTER, template=template) for name in "ab"]
    return replace(found, pods=tuple(pods))


def _in_turn(found: Inputs) -> Inputs:
    """The same in its turn, which began a day ago."""
    routers = found.children[ROUTERS]
    template = pod_template_hash(routers["spec"]["template"]["metadata"]) or ""
    turn = Turn(template, found.now - timedelta(days=1), healthy=True)
    meta = {**routers["metadata"], "annotations": {**routers["metadata"]["annotations"], **TURN_ANNOTATION.entry(turn)}}
    return replace(found, children={**found.children, ROUTERS: {**routers, "metadata": meta}})


ROUTER_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "serving, routers of an earlier release": (
        replace(with_routers(), settings=LATER),
        [],
        ("True Serving", "False Settled", "False NotStalled"),
    ),
    "serving, a change of the owner's settings waits": (
        replace(with_routers(), settings=OTHER_DEFAULTS, shared=Shared(Fleet(is_stopped=True))),
        [],
        ("True Serving", "False Settled", "False NotStalled"),
    ),
    "serving, a change of the owner's settings ends in routers that do not start": (
        _in_turn(with_routers(deployment_status(2, updated=1))),
        [],
        ("True Serving", "True RollingOut", "False NotStalled"),
    ),
}
