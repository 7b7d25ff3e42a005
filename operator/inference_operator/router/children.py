"""All objects of the router, built from one RouterRequest."""

from inference_operator.manifest import Manifest, Ref
from inference_operator.objects.disruption_budget import FEWEST_REPLICAS, disruption_budget
from inference_operator.objects.names import ROUTER, router_name
from inference_operator.objects.network_policy import metrics_readers, network_policy, rule
from inference_operator.router.config_map import router_config
from inference_operator.router.deployment import router_deployment
from inference_operator.router.haproxy import METRICS_PORTS, PORT, RouterRequest, config_files
from inference_operator.router.service import router_service


def children(request: RouterRequest) -> dict[Ref, Manifest]:
    """All objects of the router by reference, in the order in which they are applied."""
    config = config_files(request)
    built = [
        router_config(config, slots=request.slots, owner=request.owner),
        router_service(owner=request.owner),
        router_deployment(request, config),
    ]
    if request.settings.network_policies:
        built.append(_network_policy(request))
    if request.spec.replicas >= FEWEST_REPLICAS:
        built.append(disruption_budget(router_name(request.name), ROUTER, owner=request.owner))
    return {Ref.of(manifest): manifest for manifest in built}


def _network_policy(request: RouterRequest) -> Manifest:
    """Routers accept everybody on the port of the API, and the readers of metrics on the metrics ports."""
    rules = [rule([], PORT), rule(metrics_readers(request.settings), *METRICS_PORTS)]
    return network_policy(router_name(request.name), ROUTER, rules, owner=request.owner)
