"""The decision about a ModelGateway: its pods, which are routers whose engines are routers, and the list of models."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeAlias

from pydantic import TypeAdapter

from inference_operator.api.effective_spec import effective_router
from inference_operator.api.model_gateway import ModelGatewaySpec, ModelGatewayStatus
from inference_operator.api.refusal import Refusal
from inference_operator.api.resource import Resource
from inference_operator.api.router import ProxySpec, RouterSpec
from inference_operator.engines.registry import API_PATHS
from inference_operator.fleet.rollout_slots import TurnInputs
from inference_operator.gateway.models import Model, model
from inference_operator.gateway.names import NO_NAMES, Names, is_alias, listed, names
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, INFERENCE_DEPLOYMENT, SECRET, SERVICE, Manifest, Ref
from inference_operator.objects.adapter_list import ADVERTISED, TELL_AFTER, text_hash
from inference_operator.objects.annotation import JsonAnnotation, UtcTime
from inference_operator.objects.child import child
from inference_operator.objects.gateway_key import GATEWAY_KEY_SECRET, GATEWAY_KEY_TYPE
from inference_operator.objects.names import GATEWAY, model_list_name, service_name, workload_name
from inference_operator.objects.pod_patch import PodPatch
from inference_operator.pipeline.budgets import FEWEST_REPLICAS, disruption_budget
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.part import ResourceDecision
from inference_operator.router.children import RouterObjects, children
from inference_operator.router.exposure import refusal_of_exposure
from inference_operator.router.inputs import RouterInputs, Upstream
from inference_operator.router.process import HEALTH_PATH
from inference_operator.router.resources import refusal_of_router_resources
from inference_operator.views.pod import ADAPTERS_ANNOTATION
from inference_operator.views.raw import mapping
from inference_operator.views.workload import DEFAULT_PROGRESS_DEADLINE

CHANGED_ANNOTATION = JsonAnnotation("inference-operator.dev/changed-at", TypeAdapter(UtcTime))
"""Annotation of the list: when its content was last changed."""

GatewayInputs: TypeAlias = Inputs[Resource[ModelGatewaySpec, ModelGatewayStatus]]

LEAST_INTERVAL = timedelta(seconds=1)
"""Between two writes of the list: changes of many models come together."""
_SLOTS = 2
"""Server slots of the configuration, which names no engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDecision(ResourceDecision):
    refusal: Refusal | None = None
    """Why nothing is decided; None if something is."""
    models: Mapping[str, Model]
    """The models of the namespace by name."""
    names: Names = NO_NAMES
    router: RouterSpec | None = None
    """Its specification as that of routers."""
    due: datetime | None = None
    """When to decide again if no event comes before."""


def decide(inputs: GatewayInputs) -> GatewayDecision:
    """The objects of a gateway. After a mistake in its specification, those that there are, with a list of now."""
    spec, decision = inputs.resource.spec, _with_list(inputs)
    kept = {**inputs.children, **decision.desired}
    if isinstance(spec, Refusal):
        return replace(decision, desired=kept, refusal=spec)
    stated = router_spec(spec)
    effective = effective_router(stated, inputs.settings.router_defaults)
    if refusal := refusal_of(stated, effective):
        return replace(decision, desired=kept, refusal=refusal)
    routers = router_objects(inputs, spec, stated, effective)
    name = workload_name(inputs.owner.key.name, GATEWAY)
    budget = [disruption_budget(name, GATEWAY, owner=inputs.owner)] if spec.replicas >= FEWEST_REPLICAS else []
    objects = {Ref.of(manifest): manifest for manifest in (*routers.objects.values(), *budget)}
    # Of the second hop, without its key. Of several gateways, the first one has made it.
    key = child(SECRET, GATEWAY_KEY_SECRET, owner=inputs.owner, component=GATEWAY, content={"type": GATEWAY_KEY_TYPE})
    return replace(
        decision,
        desired={**decision.desired, **objects},
        engine_key=key if inputs.settings.engine_keys else None,
        router=stated,
    )


def _with_list(inputs: GatewayInputs) -> GatewayDecision:
    """The list of models, and the pods that are to read it again."""
    spec, models = inputs.resource.spec, _models(inputs)
    live = inputs.child(Ref(CONFIG_MAP, inputs.owner.key.namespace, model_list_name(inputs.owner.key.name)))
    text = str(mapping(live or {}, "data").get(ADVERTISED, ""))
    former = listed(text)
    found = names(models, () if isinstance(spec, Refusal) else spec.aliases, former)
    if isinstance(spec, Refusal):
        kept = {name: value for name, value in former.items() if is_alias(value)}
        found = replace(found, values={**found.values, **kept})
    wanted, due = _list(inputs, live, found.text)
    pods: tuple[PodPatch, ...] = ()
    if live is not None and live.get("data") == wanted["data"]:
        pods = tuple(_list_updates(inputs, text_hash(text)))
    elif due is None:
        due = inputs.now + TELL_AFTER
    return GatewayDecision(desired={Ref.of(wanted): wanted}, pods=pods, models=models, names=found, due=due)


def deployment(inputs: GatewayInputs) -> Manifest | None:
    key = inputs.resource.key
    return inputs.child(Ref(DEPLOYMENT, key.namespace, workload_name(key.name, GATEWAY)))


def router_spec(spec: ModelGatewaySpec) -> RouterSpec:
    """A gateway's own section as that of routers: the fields that both have."""
    shared = spec.model_dump(by_alias=True, exclude_unset=True, include=set(ProxySpec.model_fields))
    return RouterSpec.model_validate(shared)


def refusal_of(stated: RouterSpec, effective: RouterSpec) -> Refusal | None:
    refusal = refusal_of_router_resources(effective.resources, "spec.router.resources") or refusal_of_exposure(stated)
    return replace(refusal, field=refusal.field.replace("spec.router.", "spec.")) if refusal else None


def router_objects(
    inputs: GatewayInputs, spec: ModelGatewaySpec, stated: RouterSpec, effective: RouterSpec
) -> RouterObjects:
    settings = inputs.settings
    models = Upstream(GATEWAY, "", 0, HEALTH_PATH, 1, (), API_PATHS, has_adapters=True)
    made = RouterInputs(
        upstreams=(models,),
        slots=_SLOTS,
        spec=effective,
        stated=stated,
        drain_seconds=int(spec.drain_timeout.total_seconds()),
        progress_deadline_seconds=int(DEFAULT_PROGRESS_DEADLINE.total_seconds()),
        owner=inputs.owner,
        settings=settings,
        turn=TurnInputs(inputs.now),
        engine_key=GATEWAY_KEY_SECRET if settings.engine_keys else "",
        unavailable_kinds=frozenset(inputs.unavailable_kinds),
        component=GATEWAY,
    )
    return children(made, deployment(inputs), inputs.pods_of(GATEWAY))


def _models(inputs: GatewayInputs) -> Mapping[str, Model]:
    found: dict[str, Model] = {}
    for other in inputs.shared.followed:
        key = other.key
        service = inputs.shared.followed_services.get(Ref(SERVICE, key.namespace, service_name(key.name)))
        if key.kind == INFERENCE_DEPLOYMENT and not other.deleting:
            found[key.name] = model(other, service)
    return found


def _list(inputs: GatewayInputs, live: Manifest | None, text: str) -> tuple[Manifest, datetime | None]:
    """The list, and when it is due: a list that was written a moment ago stays until then."""
    changed_at = CHANGED_ANNOTATION.read(live)
    if live is not None and mapping(live, "data").get(ADVERTISED) != text:
        if changed_at and timedelta(0) <= inputs.now - changed_at < LEAST_INTERVAL:
            return live, changed_at + LEAST_INTERVAL
        changed_at = None
    written = child(
        CONFIG_MAP,
        model_list_name(inputs.owner.key.name),
        owner=inputs.owner,
        component=GATEWAY,
        content={"data": {ADVERTISED: text}},
        annotations=CHANGED_ANNOTATION.entry(changed_at or inputs.now),
    )
    return written, None


def _list_updates(inputs: GatewayInputs, wanted: str) -> Iterator[PodPatch]:
    """The pods that are to read the list now: the kubelet brings it when they change."""
    for pod in inputs.pods_of(GATEWAY):
        if pod.adapters != wanted and not pod.terminating:
            yield PodPatch(pod=pod, annotations={ADAPTERS_ANNOTATION: wanted}, why="the list of models has changed")
