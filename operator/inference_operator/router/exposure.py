"""The addresses of a router outside the cluster, as the live Service, Ingress and HTTPRoute show them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.router import RouterSpec
from inference_operator.api.router_exposure import HttpRouteSpec, IngressSpec, ServiceType
from inference_operator.manifest import HTTP_ROUTE, INFERENCE_POOL, INGRESS, Kind, Manifest, Ref
from inference_operator.objects.names import COMPONENT_LABEL, ROUTER, is_role
from inference_operator.objects.pod_additions import refusal_of_keys
from inference_operator.views.pod import TRAFFIC_LABEL
from inference_operator.views.raw import mapping, objects
from inference_operator.views.untrusted_text import one_line

_OF_GATEWAY_API = frozenset({"Accepted", "ResolvedRefs", "Programmed"})
"""Conditions that say whether a Gateway serves an object (Gateway API 1.2, apis/v1/shared_types.go, gateway_types.go).
A controller may add its own ones, whose False can mean anything."""


@dataclass(frozen=True, slots=True)
class Exposure:
    ref: Ref
    urls: Sequence[str]
    """URLs of the OpenAI API; none if it has no address yet, or an address that the object does not name."""
    reason: Reason
    """`Exposed`, or why there is no address."""
    message: str
    """The object's state, or its fault and the cure, in sentences."""


def refusal_of_exposure(spec: RouterSpec) -> Refusal | None:
    maps = {
        "spec.router.service.annotations": spec.service.annotations,
        "spec.router.service.labels": spec.service.labels,
        "spec.router.ingress.annotations": spec.ingress.annotations if spec.ingress else {},
    }
    refusals = (refusal_of_keys(keys, path) for path, keys in maps.items())
    return next((refusal for refusal in refusals if refusal), None)


def selects_engines(service: Manifest | None) -> bool:
    selector = mapping(service or {}, "spec", "selector")
    return is_role(str(selector.get(COMPONENT_LABEL, ROUTER))) or TRAFFIC_LABEL in selector


def exposures(
    spec: RouterSpec, service: Ref, children: Mapping[Ref, Manifest], unavailable: Mapping[Kind, str]
) -> Iterator[Exposure]:
    """The exposure by each requested object; none if only clients inside the cluster are to reach it.

    Ingress and HTTPRoute have the namespace and the name of the main Service.
    """
    if spec.http_route:
        route = Ref(HTTP_ROUTE, service.namespace, service.name)
        yield _of_route(spec.http_route, route, children.get(route), unavailable.get(HTTP_ROUTE, ""))
    if spec.inference_pool:
        pool = Ref(INFERENCE_POOL, service.namespace, service.name)
        yield _of_pool(pool, children.get(pool), unavailable.get(INFERENCE_POOL, ""))
    if spec.ingress:
        ingress = Ref(INGRESS, service.namespace, service.name)
        yield _of_ingress(spec.ingress, ingress, children.get(ingress))
    if spec.service.type is ServiceType.LOAD_BALANCER:
        yield _of_balancer(spec, service, children.get(service))
    if spec.service.type is ServiceType.NODE_PORT:
        yield _of_node_port(service, children.get(service))


def _of_balancer(spec: RouterSpec, ref: Ref, live: Manifest | None) -> Exposure:
    addresses = _addresses(live)
    if not addresses:
        message = f"{ref} has no address yet. The cluster's load balancer assigns it; see the Events of the Service."
        return Exposure(ref, (), Reason.ADDRESS_PENDING, message)
    scheme = "https" if spec.tls else "http"
    urls = [f"{scheme}://{address}/v1" for address in addresses]
    return Exposure(ref, urls, Reason.EXPOSED, f"{ref} has the address {addresses[0]}.")


def _of_node_port(ref: Ref, live: Manifest | None) -> Exposure:
    ports = [str(port["nodePort"]) for port in objects(mapping(live or {}, "spec"), "ports") if port.get("nodePort")]
    if not ports:
        return Exposure(ref, (), Reason.ADDRESS_PENDING, f"{ref} has no node port yet.")
    return Exposure(ref, (), Reason.EXPOSED, f"{ref} has port {' and '.join(ports)} of every node.")


def _of_ingress(wanted: IngressSpec, ref: Ref, live: Manifest | None) -> Exposure:
    if not _addresses(live):
        message = (
            f"{ref} has no address yet. An Ingress controller assigns it: check that one serves"
            f" {f'the class `{wanted.class_name}`' if wanted.class_name else 'the default class'}."
        )
        return Exposure(ref, (), Reason.ADDRESS_PENDING, message)
    scheme = "https" if wanted.tls_secret_ref else "http"
    message = f"{ref} serves {wanted.host}.{_patterns([wanted.host])}"
    return Exposure(ref, _urls(scheme, [wanted.host]), Reason.EXPOSED, message)


def _of_route(wanted: HttpRouteSpec, ref: Ref, live: Manifest | None, unavailable: str) -> Exposure:
    names = ", ".join(f"`{parent.name}`" for parent in wanted.parent_refs)
    waits = f"No Gateway has accepted {ref} yet. Check that {names} exists and admits routes of this namespace."
    if fault := _gateway_fault("httpRoute", ref, live, unavailable, waits):
        return fault
    # The operator reads no Gateways, so it cannot ask the listener: its name says it.
    is_https = any((parent.section_name or "").startswith("https") for parent in wanted.parent_refs)
    scheme = "https" if is_https else "http"
    message = f"A Gateway has accepted {ref}.{_patterns(wanted.hostnames)}"
    urls = list(_urls(scheme, wanted.hostnames, wanted.path)) if wanted.path else []
    if wanted.model_header or not wanted.path:
        urls += _urls(scheme, wanted.hostnames)
    return Exposure(ref, urls, Reason.EXPOSED, message)


def _of_pool(ref: Ref, live: Manifest | None, unavailable: str) -> Exposure:
    waits = f"No Gateway uses {ref} yet. Name it in `backendRefs` of an HTTPRoute of a Gateway that knows the kind."
    message = f"A Gateway sends requests to the engines of {ref}. No router holds them, repeats them or asks for keys."
    return _gateway_fault("inferencePool", ref, live, unavailable, waits) or Exposure(ref, (), Reason.EXPOSED, message)


def _gateway_fault(field: str, ref: Ref, live: Manifest | None, unavailable: str, waits: str) -> Exposure | None:
    """Why no Gateway serves an object of a field of `spec.router`; None if one does."""
    if unavailable:
        message = f"`spec.router.{field}` has no effect: {unavailable}"
        return Exposure(ref, (), Reason.GATEWAY_API_MISSING, message)
    conditions = _current_conditions(live or {})
    refused = next((c for c in conditions if c.get("status") == "False"), None)
    if refused:
        message = f"A Gateway refuses {ref}: {refused.get('type')} is False ({refused.get('reason')}):"
        return Exposure(ref, (), Reason.ROUTE_NOT_ACCEPTED, f"{message} {one_line(refused.get('message'))}".strip())
    if not any(c.get("type") == "Accepted" and c.get("status") == "True" for c in conditions):
        return Exposure(ref, (), Reason.ADDRESS_PENDING, waits)
    return None


def _current_conditions(route: Manifest) -> Sequence[Manifest]:
    """The conditions of Gateways about the route as it is now; one about an earlier generation may be over."""
    now = mapping(route, "metadata").get("generation")
    return [
        condition
        for parent in objects(mapping(route, "status"), "parents")
        for condition in objects(parent, "conditions")
        if condition.get("type") in _OF_GATEWAY_API and condition.get("observedGeneration", now) == now
    ]


def _urls(scheme: str, hosts: Iterable[str], path: str = "") -> Sequence[str]:
    """URLs of the OpenAI API at host names; a pattern such as `*.example.com` is no address."""
    return [f"{scheme}://{host}{path}/v1" for host in hosts if not _is_pattern(host)]


def _patterns(hosts: Iterable[str]) -> str:
    """A sentence that patterns have no URL; empty without one.

    Examples:
        >>> _patterns(["llm.example.com", "*.example.com"]), _patterns(["llm.example.com"])
        (' `*.example.com` stands for many names, so `status.externalURLs` leaves it out.', '')
    """
    patterns = [f"`{host}`" for host in hosts if _is_pattern(host)]
    many = "stands for many names, so `status.externalURLs` leaves it out"
    return f" {', '.join(patterns)} {many}." if patterns else ""


def _is_pattern(host: str) -> bool:
    return host.startswith("*")


def _addresses(live: Manifest | None) -> Sequence[str]:
    """Names or IP addresses that a load balancer or Ingress controller has assigned, as they stand in a URL."""
    balancer = mapping(live or {}, "status", "loadBalancer")
    addresses = (ingress.get("hostname") or ingress.get("ip") for ingress in objects(balancer, "ingress"))
    return [_in_url(address) for address in addresses if isinstance(address, str)]


def _in_url(address: str) -> str:
    """An address as it stands in a URL.

    Examples:
        >>> _in_url("192.0.2.1"), _in_url("2001:db8::1"), _in_url("lb.example.com")
        ('192.0.2.1', '[2001:db8::1]', 'lb.example.com')
    """
    try:
        return f"[{address}]" if isinstance(ip_address(address), IPv6Address) else address
    except ValueError:
        return address
