"""The path of requests to the engines, by the live objects."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.manifest import CONFIG_MAP, SERVICE, Manifest, Ref
from inference_operator.objects.names import headless_service_name, router_name
from inference_operator.pipeline.inputs import Inputs
from inference_operator.roles.context import LiveRole
from inference_operator.router.exposure import Exposure, exposures
from inference_operator.views.raw import mapping, objects


@dataclass(frozen=True, slots=True)
class RequestPath:
    """The path of requests to the engines."""

    connected: bool
    """Whether the Services and the router's configuration exist, which requests need."""
    external: bool
    """Whether something else than our routers is to send the requests."""
    bypasses_routers: bool
    """Whether the Service selects the engines themselves, so that requests need no router."""
    exposures: Sequence[Exposure]
    """Exposures of the router outside the cluster."""
    engines_selector: str
    """Labels of the engines that take requests, as text."""
    engine_ports: str
    """Port of the engines' API; 0 while their Service does not exist. With several roles those of each."""


def request_path(inputs: Inputs, roles: Sequence[LiveRole]) -> RequestPath:
    spec, key, main = inputs.resource.spec, inputs.resource.key, inputs.main_service
    bypasses_routers = inputs.bypasses_routers
    engines = [Ref(SERVICE, key.namespace, headless_service_name(key.name, role.name)) for role in roles]
    config = Ref(CONFIG_MAP, key.namespace, router_name(key.name))
    router = spec.router if isinstance(spec, Spec) else RouterSpec()
    external = router.strategy is RouterStrategy.EXTERNAL if isinstance(spec, Spec) else bypasses_routers
    services = [mapping(role.service or {}, "spec") for role in roles]
    needed = (main, *engines) if bypasses_routers else (main, config, *engines)
    return RequestPath(
        connected=all(ref in inputs.children for ref in needed),
        external=external,
        bypasses_routers=bypasses_routers,
        exposures=exposures(router, main, inputs.children, inputs.unavailable_kinds),
        engines_selector=" or ".join(_as_text(mapping(service, "selector")) for service in services),
        engine_ports=" or ".join(_port(service) for service in services),
    )


def _port(service: Manifest) -> str:
    return next((str(port["port"]) for port in objects(service, "ports")), "0")


def _as_text(selector: Manifest) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(selector.items()))
