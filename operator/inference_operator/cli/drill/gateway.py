"""The gateway before a service: one of its namespace that answers for its model."""

from inference_operator.api.model_gateway import MODEL_GATEWAY_API
from inference_operator.cli.gateway.command import Gateway, values_of
from inference_operator.controller.cluster import ForbiddenError, NotFoundError
from inference_operator.gateway.names import holder_of
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import MODEL_GATEWAY, Key


class NoGatewayError(Exception):
    """No gateway is before a service; the message says why."""


async def gateway_before(cluster: KubeCluster, service: Key, model: str) -> Gateway:
    """The first gateway by name whose requests for a model all go to a service; raises `NoGatewayError`."""
    try:
        found = [MODEL_GATEWAY_API.parse(one) async for one in cluster.each(MODEL_GATEWAY, namespace=service.namespace)]
        for gateway in sorted(found, key=lambda one: one.key.name):
            values = await values_of(cluster, service.namespace, gateway.key.name)
            if holder_of(values.get(model, "")) == service.name:
                return gateway
    except NotFoundError as error:
        raise NoGatewayError("this cluster has no ModelGateways.") from error
    except ForbiddenError as error:
        rights = "you need the rights to list modelgateways and to get configmaps"
        raise NoGatewayError(f"{rights} in the namespace `{service.namespace}`.") from error
    raise NoGatewayError(f"no ModelGateway sends all requests for `{model}` to {service.name}.")
