"""The way of requests: through the routers, or from another load balancer straight to the engines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference_operator.api.effective_spec import EffectiveSpec
from inference_operator.api.router import RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.inputs import measured_load
from inference_operator.autoscaling.latency import measured_lengths, measured_spread
from inference_operator.autoscaling.target import room
from inference_operator.objects.names import PREFILL, ROUTER, headless_service_name, service_host
from inference_operator.pipeline.engine_key import engines_ask, is_wanted, key_to_send
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.role import Role
from inference_operator.pipeline.turn_inputs import turn_inputs
from inference_operator.router.children import RouterObjects
from inference_operator.router.children import children as router_children
from inference_operator.router.inputs import RouterInputs, Upstream, slots
from inference_operator.router.pinned_router import has_live_affinity, live_cold_start_seconds, live_room
from inference_operator.sizing.serving import TYPICAL_LOAD
from inference_operator.workload.children import engines_selector
from inference_operator.workload.deployment import progress_deadline_seconds
from inference_operator.workload.eviction.drain import Move


@dataclass(frozen=True, slots=True)
class Routing:
    """Whether the main Service selects engines, so that requests bypass the routers."""

    live: bool
    """Whether the live one does."""
    desired: bool
    """Whether it should: with `External`, once no engine asks for a key, and after it until a router is ready."""

    @property
    def open_to_all(self) -> bool:
        """Whether something else than the routers may send requests to engines."""
        return self.live or self.desired


def routing(inputs: Inputs, spec: Spec) -> Routing:
    live = inputs.bypasses_routers
    is_external = spec.router.strategy is RouterStrategy.EXTERNAL and (live or not engines_ask(inputs))
    return Routing(live=live, desired=is_external or (live and not inputs.routers.ready))


def router_objects(
    inputs: Inputs, spec: EffectiveSpec, routed: Routing, roles: Sequence[Role], move: Move
) -> RouterObjects:
    owner, settings = inputs.owner, inputs.settings
    served = [role for role in roles if role.context.spec.weight]
    engines = [role.context.engine for role in roles]
    key = key_to_send(inputs, spec.stated, [role.template for role in roles], engines)
    most_engines = max(role.context.spec.stated.most_replicas for role in served)
    router_inputs = RouterInputs(
        upstreams=tuple(_upstream(inputs, role) for role in served),
        prefill=next((_upstream(inputs, role) for role in roles if key and role.name == PREFILL), None),
        slots=slots(max(role.context.spec.stated.most_replicas for role in roles), inputs.router_slots),
        most_engines=most_engines,
        has_live_affinity=has_live_affinity(inputs.router_deployment),
        spec=spec.router,
        stated=spec.stated.router,
        measured_start_seconds=_longest_start(served),
        live_cold_start_seconds=live_cold_start_seconds(inputs.router_deployment),
        live_room=live_room(inputs.router_config),
        drain_seconds=int(spec.stated.drain_timeout.total_seconds()),
        progress_deadline_seconds=max(
            progress_deadline_seconds(role.context.spec.stated, role.process) for role in roles
        ),
        owner=owner,
        settings=settings,
        turn=turn_inputs(inputs),
        engines_selector=engines_selector(
            {ref: manifest for role in served for ref, manifest in role.objects.items()},
            owner,
            [role.name for role in served],
        ),
        bypasses_routers=routed.desired,
        adapter_names=tuple(adapter.name for adapter in spec.stated.model.adapters),
        engine_key=key,
        keeps_engine_key=not any(is_wanted(spec.stated, engine, settings) for engine in engines),
        unavailable_kinds=frozenset(inputs.unavailable_kinds),
        temporary=move.temporary,
        move_annotations=move.annotations(spec.router.replicas + move.temporary),
    )
    return router_children(router_inputs, inputs.router_deployment, inputs.pods_of(ROUTER))


def _longest_start(roles: Sequence[Role]) -> float:
    """Seconds, as measured; 0 before."""
    starts = (role.scaling.recorded.start_seconds for role in roles if role.scaling.recorded)
    return max(filter(None, starts), default=0.0)


def _upstream(inputs: Inputs, role: Role) -> Upstream:
    key, domain = inputs.owner.key, inputs.settings.cluster_domain
    host = service_host(headless_service_name(key.name, role.name), key.namespace, cluster_domain=domain)
    return Upstream(
        name=role.name,
        host=host,
        port=role.process.port,
        health_path=role.process.health_path,
        max_concurrency=role.process.max_concurrency,
        model_names=tuple(role.process.model_names),
        api_paths=tuple(role.process.api_paths),
        has_adapters=role.process.adapter_loader is not None,
        lists_models=role.process.lists_models,
        weight=role.context.spec.weight,
        room=_room(inputs, role),
    )


def _room(inputs: Inputs, role: Role) -> float | None:
    """Requests of the measured lengths that one engine has room for; 0: no cache limits them; None: unknown."""
    load = measured_load(role.scaling.recorded, role.scaling.result)
    activities = (inputs.samples.engines.get(engine.uid) for engine in role.context.live.engines)
    samples = [activity.sample for activity in activities if activity]
    measured = load if load != TYPICAL_LOAD else measured_lengths([sample.tokens for sample in samples])
    reported = min((sample.kv_cache_tokens for sample in samples if sample.kv_cache_tokens), default=None)
    spread = measured_spread([sample.answers for sample in samples])
    held = room(role.plan.plan, replace(measured or TYPICAL_LOAD, answer_spread=spread), reported)
    if not held:
        return held
    return max(1.0, min(float(role.process.max_concurrency), held)) if measured and samples else None
