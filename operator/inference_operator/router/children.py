"""All objects of the router, built from one RouterRequest."""

from collections.abc import Iterator

from inference_operator.api.router import RouterStrategy
from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.disruption_budget import FEWEST_REPLICAS, disruption_budget
from inference_operator.objects.names import ROUTER, router_name
from inference_operator.objects.network_policy import metrics_readers, network_policy, rule
from inference_operator.router.config_map import router_config
from inference_operator.router.deployment import router_deployment
from inference_operator.router.haproxy import METRICS_PORTS, PORT, TLS_PORT, RouterRequest, config_files
from inference_operator.router.http_route import http_route
from inference_operator.router.ingress import ingress
from inference_operator.router.service import main_service


def children(request: RouterRequest) -> dict[Ref, Manifest]:
    """All objects of the router by reference, in the order in which they are applied.

    With `External` these are the main Service alone: something else routes.
    """
    built = [main_service(request)]
    if request.spec.strategy is not RouterStrategy.EXTERNAL:
        built = [*_router(request), *built, *_exposure(request)]
    return {Ref.of(manifest): manifest for manifest in built}


def _router(request: RouterRequest) -> Iterator[Manifest]:
    config = config_files(request)
    yield router_config(config, slots=request.slots, owner=request.owner)
    yield router_deployment(request, config)
    if request.settings.network_policies:
        yield _network_policy(request)
    if request.spec.replicas >= FEWEST_REPLICAS:
        yield disruption_budget(router_name(request.name), ROUTER, owner=request.owner)


def _exposure(request: RouterRequest) -> Iterator[Manifest]:
    if request.spec.ingress:
        yield ingress(request.spec.ingress, request)
    if request.spec.http_route and request.has_http_routes:
        yield http_route(request.spec.http_route, request)


def _network_policy(request: RouterRequest) -> Manifest:
    """Routers accept everybody on the ports of the API, and the readers of metrics on the metrics ports."""
    ports = (PORT, TLS_PORT) if request.spec.tls else (PORT,)
    rules = [rule([], *ports), rule(metrics_readers(request.settings), *METRICS_PORTS)]
    return network_policy(router_name(request.name), ROUTER, rules, owner=request.owner)
