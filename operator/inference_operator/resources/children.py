"""All children of an InferenceDeployment that can be served."""

from inference_operator.api.spec import Spec
from inference_operator.engines.engine import EngineProcess
from inference_operator.manifest import Manifest, Owner, Ref
from inference_operator.resources.disruption_budget import FEWEST_REPLICAS, disruption_budget
from inference_operator.resources.engine_deployment import ENGINE_PORT, progress_deadline_seconds
from inference_operator.resources.engine_service import engine_service, engines_host
from inference_operator.resources.names import ENGINE, ROUTER, engine_name, router_name
from inference_operator.resources.network_policy import engine_policy, router_policy
from inference_operator.resources.router_config import router_config
from inference_operator.resources.router_deployment import router_deployment
from inference_operator.resources.router_service import router_service
from inference_operator.router.haproxy import haproxy_cfg
from inference_operator.settings import Settings


def children(
    spec: Spec,
    engines: Manifest,
    process: EngineProcess,
    *,
    slots: int,
    owner: Owner,
    settings: Settings,
) -> dict[Ref, Manifest]:
    """Every child by its address, in the order in which they are applied: what others need comes first.

    Args:
        spec: what is asked.
        engines: the Deployment of the engines.
        process: how an engine is run.
        slots: server slots of the routers.
        owner: whose they are.
        settings: the operator's settings.
    """
    config = haproxy_cfg(
        engines_host=engines_host(owner, cluster_domain=settings.cluster_domain),
        engine_port=ENGINE_PORT,
        engine_health_path=process.health_path,
        slots=slots,
        drain_seconds=int(spec.drain_timeout.total_seconds()),
    )
    deadline = progress_deadline_seconds(spec, process)
    name = owner.key.name
    built = [
        router_config(config, slots=slots, owner=owner),
        engine_service(owner=owner),
        router_service(owner=owner),
        engines,
        router_deployment(spec, config, progress_deadline_seconds=deadline, owner=owner, settings=settings),
    ]
    if settings.network_policies:
        built += [engine_policy(owner=owner, settings=settings), router_policy(owner=owner, settings=settings)]
    if spec.replicas >= FEWEST_REPLICAS:
        built.append(disruption_budget(engine_name(name), ENGINE, owner=owner))
    if spec.router.replicas >= FEWEST_REPLICAS:
        built.append(disruption_budget(router_name(name), ROUTER, owner=owner))
    return {Ref.of(manifest): manifest for manifest in built}
