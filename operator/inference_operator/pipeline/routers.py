"""The part of the routers: their objects, and the live ones that stay until something else routes."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from inference_operator.api.router import RouterStrategy
from inference_operator.manifest import HTTP_ROUTE, INFERENCE_POOL, Manifest, Ref
from inference_operator.objects.names import ROUTER, headless_service_name, router_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Part

_SWITCH_RECHECK = timedelta(seconds=1)
"""Time after the main Service was switched until the live one is looked at again. kube-proxy needs about as long."""


def routers(inputs: Inputs, planned: Planned) -> Part:
    """The routers. While they wait for the verification of signatures, the live ones stay."""
    due = _switch_recheck(inputs, planned)
    if planned.hold.holds_others:
        return Part(feature=Feature.ROUTERS, due=due)
    return Part(feature=Feature.ROUTERS, desired=planned.router.objects, kept=kept_routers(inputs, planned), due=due)


def _switch_recheck(inputs: Inputs, planned: Planned) -> datetime | None:
    """When to decide again after the main Service is switched between routers and engines; None if it is not.

    Only then are the old path's objects deleted. The watch event of the operator's own write triggers no reconcile.
    """
    is_switched = inputs.main_service in inputs.children and planned.routing.desired is not planned.routing.live
    return inputs.now + _SWITCH_RECHECK if is_switched else None


def kept_routers(inputs: Inputs, planned: Planned) -> Mapping[Ref, Manifest]:
    """The live objects that stay, so that traffic goes on.

    - All of the router until the live Service selects the engines: that write may fail. Until then routers ask each
      other too, by their own Service.
    - HTTPRoute and InferencePool while their kind cannot be listed: one refused listing must not end the traffic.
    """
    router = planned.shared.stated.router
    if router.strategy is RouterStrategy.EXTERNAL and not planned.routing.live:
        name = inputs.resource.key.name
        names = (router_name(name), headless_service_name(name, ROUTER), inputs.main_service.name)
        return {ref: live for ref, live in inputs.children.items() if ref.name in names}
    wanted = {HTTP_ROUTE: router.http_route, INFERENCE_POOL: router.inference_pool}
    kinds = {kind for kind, field in wanted.items() if field and kind in inputs.unavailable_kinds}
    return {ref: live for ref, live in inputs.children.items() if ref.kind in kinds}
