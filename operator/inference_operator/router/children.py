"""All objects of the router, built from one RouterInputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.router import RouterStrategy
from inference_operator.fleet.rollout_slots import Turn, next_turn
from inference_operator.manifest import CONFIG_MAP, HTTP_ROUTE, INFERENCE_POOL, Manifest, Ref
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.engine_key import asked_key
from inference_operator.objects.names import ENGINE, selector_labels
from inference_operator.objects.network_policy import metrics_readers, network_policy, rule
from inference_operator.objects.pinned import Pinned, PinUse
from inference_operator.router.deployment import router_deployment, router_template
from inference_operator.router.entry import ENTRY_SCRIPT, PEERS_SCRIPT, ROOM_FILE, room_text
from inference_operator.router.haproxy import config_files
from inference_operator.router.inputs import RouterInputs
from inference_operator.router.pinned_router import (
    ROUTER_PIN,
    SLOTS_ANNOTATION,
    PinnedRouter,
    RouterContent,
    own_inputs,
    router_inputs,
)
from inference_operator.router.process import METRICS_PORTS, PORT, PREFILL_PORT, TLS_PORT
from inference_operator.router.service import (
    http_route,
    inference_pool,
    ingress,
    main_service,
    peers_service,
    prompts_service,
)
from inference_operator.router.waiting import cold_start_seconds
from inference_operator.views.pod import PodView, has_answered


@dataclass(frozen=True, slots=True)
class RouterObjects:
    objects: dict[Ref, Manifest]
    """All its objects by reference, in the order in which they are applied."""
    latest_template: str = ""
    """Hash of the pod template as this release builds it, which routers that serve may not have; empty without routers.

    The template has a checksum of the configuration, so the hash tells both."""
    use: PinUse = PinUse.KEPT
    engine_key: str = ""
    """Name of the Secret with the key that these routers send to engines; empty: they send none."""


def children(inputs: RouterInputs, live: Manifest | None = None, pods: Sequence[PodView] = ()) -> RouterObjects:
    """All objects of the router. Pod template and configuration change together, or not at all.

    With `External` these are the main Service and the InferencePool alone: something else routes.
    """
    service = main_service(inputs)
    if inputs.spec.strategy is RouterStrategy.EXTERNAL:
        return RouterObjects({Ref.of(manifest): manifest for manifest in (service, *_exposure(inputs))})
    now = _built(inputs)
    serving = [pod.template for pod in pods if has_answered(pod)]
    used, why = ROUTER_PIN.use(now, live, serving, may_begin=inputs.turn.may_begin)
    turn = next_turn(inputs.turn, why, used.template_hash, [live] if live else [])
    built = [*_router(inputs, used, turn), service, *_exposure(inputs)]
    key = asked_key(used.content.template)
    return RouterObjects({Ref.of(manifest): manifest for manifest in built}, now.template_hash, why, key)


def _built(inputs: RouterInputs) -> PinnedRouter:
    config = config_files(inputs)
    content = RouterContent(inputs.slots, router_template(inputs, config), config, cold_start_seconds(inputs))
    return Pinned(content_hash(router_inputs(inputs)), content, own_hash=content_hash(own_inputs(inputs)))


def _router(inputs: RouterInputs, used: PinnedRouter, turn: Turn | None) -> Iterator[Manifest]:
    yield _config(used.content, inputs)
    yield router_deployment(inputs, used, turn)
    # Routers of an earlier release ask each other where users had limits.
    if asks := not {PEERS_SCRIPT, "limits.lua"}.isdisjoint(used.content.files):
        yield peers_service(inputs)
    if inputs.prefill:
        yield prompts_service(inputs)
    if inputs.settings.network_policies or (inputs.prefill and inputs.settings.uses_network_policies):
        yield _network_policy(inputs, ask_each_other=asks)


def _config(content: RouterContent, inputs: RouterInputs) -> Manifest:
    """Only routers that read the rooms of engines get them."""
    room = room_text(inputs, inputs.live_room) if ENTRY_SCRIPT in content.files else ""
    return child(
        CONFIG_MAP,
        inputs.workload_name,
        owner=inputs.owner,
        component=inputs.component,
        content={"data": {**content.files, **({ROOM_FILE: room} if room else {})}},
        annotations={SLOTS_ANNOTATION: str(content.slots)},
    )


def _exposure(inputs: RouterInputs) -> Iterator[Manifest]:
    if inputs.spec.ingress:
        yield ingress(inputs.spec.ingress, inputs)
    if inputs.spec.http_route and HTTP_ROUTE not in inputs.unavailable_kinds:
        yield http_route(inputs.spec.http_route, inputs)
    if inputs.spec.inference_pool and INFERENCE_POOL not in inputs.unavailable_kinds:
        yield inference_pool(inputs.spec.inference_pool, inputs)


def _network_policy(inputs: RouterInputs, *, ask_each_other: bool) -> Manifest:
    """Routers accept everybody on the ports of the API, and the readers of metrics on the metrics ports.

    Only engines of the service send prompts on. For that alone there is a policy that leaves metrics open to everybody.
    """
    routers: Manifest = {"podSelector": {"matchLabels": selector_labels(inputs.name, inputs.component)}}
    peers = [*metrics_readers(inputs.settings), *([routers] if ask_each_other else [])]
    ports = (PORT, TLS_PORT) if inputs.spec.tls else (PORT,)
    rules = [rule([], *ports), rule(peers if inputs.settings.network_policies else [], *METRICS_PORTS)]
    if inputs.prefill:
        engines: Manifest = {"podSelector": {"matchLabels": selector_labels(inputs.name, ENGINE)}}
        rules.append(rule([engines], PREFILL_PORT))
    return network_policy(inputs.workload_name, inputs.component, rules, owner=inputs.owner)
