"""`infd gateway list` and `status`: the gateways of a namespace or of the cluster, and the names of one."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from inference_operator.api.model_gateway import MODEL_GATEWAY_API, ModelGatewaySpec, ModelGatewayStatus
from inference_operator.api.reasons import ConditionType
from inference_operator.api.resource import Resource
from inference_operator.cli.cluster_command import ClusterCommand, list_objects, none_of
from inference_operator.cli.output import Columns, print_found, table, table_of
from inference_operator.cli.parser import EXIT_REFUSED
from inference_operator.controller.cluster import ForbiddenError, NotFoundError
from inference_operator.gateway.names import holder_of, listed
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import CONFIG_MAP, MODEL_GATEWAY, Key, Manifest, Ref
from inference_operator.objects.adapter_list import ADVERTISED
from inference_operator.objects.names import model_list_name
from inference_operator.views.raw import mapping

Gateway = Resource[ModelGatewaySpec, ModelGatewayStatus]


def list_gateways(options: argparse.Namespace) -> int:
    namespace = None if options.all_namespaces else options.namespace
    found = ClusterCommand(options).run(partial(gateways_of, namespace=namespace))
    lines = _lines(found, with_namespace=options.all_namespaces) if found else [none_of(MODEL_GATEWAY, options)]
    print_found([_fields(one) for one in found], options.output, lines)
    return 0


def _lines(found: Sequence[Gateway], *, with_namespace: bool) -> Iterator[str]:
    yield from table_of({**(OF_ALL if with_namespace else {}), **COLUMNS}, found)
    said = [one for one in found if not _is_well(one)]
    yield from ("",) if said else ()
    yield from (
        f"{f'{one.key.namespace}/' if with_namespace else ''}{one.key.name}: {one.status.message}" for one in said
    )


OF_ALL: Columns[Gateway] = {"NAMESPACE": lambda one: one.key.namespace}
COLUMNS: Columns[Gateway] = {
    "NAME": lambda one: one.key.name,
    "READY": lambda one: str(one.is_true(ConditionType.READY)),
    "REASON": lambda one: one.status.reason or "-",
    "MODELS": lambda one: one.status.models_ready or "-",
    "PODS": lambda one: str(one.status.ready_replicas),
    "NAMES": lambda one: str(one.status.names),
}


def show(options: argparse.Namespace) -> int:
    async def read(cluster: KubeCluster, live: Manifest) -> tuple[Gateway, Mapping[str, str]]:
        return MODEL_GATEWAY_API.parse(live), await values_of(cluster, options.namespace, options.name)

    found, values = ClusterCommand(options).run_for(options.name, read, MODEL_GATEWAY)
    names = {name: answerers(value) for name, value in values.items()}
    head = f"{found.key.name}: {found.status.reason or 'Unknown'}. {found.status.message or ''}".rstrip()
    urls = [one for one in (found.status.url, *found.status.external_urls) if one]
    lines = [head, *urls, "", *table([("MODEL", "ANSWERED BY"), *names.items()])]
    print_found({**_fields(found), "answeredBy": names}, options.output, lines)
    return 0 if found.is_true(ConditionType.READY) else EXIT_REFUSED


async def gateways_of(cluster: KubeCluster, namespace: str | None) -> list[Gateway]:
    found = [MODEL_GATEWAY_API.parse(live) for live in await list_objects(cluster, MODEL_GATEWAY, namespace)]
    return sorted(found, key=lambda one: (one.key.namespace, one.key.name))


async def values_of(cluster: KubeCluster, namespace: str, gateway: str) -> Mapping[str, str]:
    held = await cluster.get(Ref(CONFIG_MAP, namespace, model_list_name(gateway)))
    return listed(str(mapping(held or {}, "data").get(ADVERTISED, "")))


async def gateway_before(cluster: KubeCluster, service: Key, model: str) -> tuple[Gateway | None, str]:
    """The first gateway by name whose requests for a model all go to a service, or why there is none."""
    try:
        for gateway in await gateways_of(cluster, service.namespace):
            values = await values_of(cluster, service.namespace, gateway.key.name)
            if holder_of(values.get(model, "")) == service.name:
                return gateway, ""
    except NotFoundError:
        return None, "this cluster has no ModelGateways."
    except ForbiddenError:
        rights = "you need the rights to list modelgateways and to get configmaps"
        return None, f"{rights} in the namespace `{service.namespace}`."
    return None, f"no ModelGateway sends all requests for `{model}` to {service.name}."


def answerers(value: str) -> str:
    """Which InferenceDeployments answer for a name, by its line of the list of models.

    Examples:
        >>> answerers("10.0.0.7|80|qwen"), answerers("-|Paused|qwen"), answerers("-|Stalled|")
        ('qwen', 'nobody: qwen says Paused', 'nobody: Stalled')
        >>> answerers("-|edited"), answerers("-|by|hand|too")
        ('nobody: edited', 'nobody: hand|too says by')
        >>> answerers("*9|10.0.0.7|80|qwen;1|10.0.0.8|80|next;f|10.0.0.9|80|small")
        'qwen (9), next (1), else small'
    """
    if value.startswith("-|"):
        reason, _, name = value.removeprefix("-|").partition("|")
        return f"nobody: {name} says {reason}" if name else f"nobody: {reason}"
    if not value.startswith("*"):
        return value.rpartition("|")[2]
    targets = [(target.partition("|")[0], target.rpartition("|")[2]) for target in value[1:].split(";")]
    return ", ".join(f"else {name}" if weight == "f" else f"{name} ({weight})" for weight, name in targets)


def _fields(one: Gateway) -> Manifest:
    status = one.status.model_dump(mode="json", by_alias=True, exclude={"conditions"})
    return {"namespace": one.key.namespace, "name": one.key.name, "ready": one.is_true(ConditionType.READY), **status}


def _is_well(one: Gateway) -> bool:
    ready = one.current_condition(ConditionType.READY)
    return ready is not None and ready.status == "True" and one.status.reason == ready.reason
