"""Everything that the objects of a router are built from, and the upstreams to which it sends requests."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.fleet.rollout_slots import TurnInputs
from inference_operator.manifest import Kind, Owner
from inference_operator.objects.names import (
    GATEWAY,
    ROUTER,
    adapter_list_name,
    headless_service_name,
    model_list_name,
    workload_name,
)
from inference_operator.settings import Settings

AFFINITY_ENGINES = 4
"""Engines from which `PrefixAffinity` is the default: from here on, no workload of `bench.affinity` answers later with
it (ADR 15)."""

MIN_SLOTS = 32
"""Smallest number of server slots: scaling up to it never changes the configuration."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Equal engines behind one DNS name. A router balances requests over the engines of all its upstreams."""

    name: str
    """Name of the role."""
    host: str
    """DNS name of the headless Service of the engines."""
    port: int
    health_path: str
    max_concurrency: int
    """Requests that one HAProxy process sends to one engine at a time; more requests wait in its queue."""
    model_names: tuple[str, ...]
    """Names of the base model in the OpenAI API; any other name is an adapter."""
    api_paths: tuple[str, ...]
    """Paths that the engines serve to clients, each with all paths below it."""
    has_adapters: bool = False
    """Whether its engines load adapters, which routers then advertise. Otherwise routers pass on any name."""
    lists_models: bool = True
    """Whether its engines answer which models they have. Otherwise routers always do."""
    room: float | None = None
    """Requests of the measured length that one engine has room for, of all processes together; None until it is
    measured, and 0 if no cache limits them."""
    weight: int = 1
    """Weight of each of its engines, relative to the engines of the other upstreams."""


@dataclass(frozen=True, slots=True)
class RouterInputs:
    upstreams: tuple[Upstream, ...]
    """Where requests are sent: at least one."""
    slots: int
    """HAProxy server slots of each upstream: the largest number of its engines that the router can know."""
    spec: RouterSpec
    """The router section over the operator's defaults of router pods."""
    stated: RouterSpec
    drain_seconds: int
    progress_deadline_seconds: int
    owner: Owner
    settings: Settings
    turn: TurnInputs
    """Whether a change of the administrator's settings may begin or has ended."""
    prefill: Upstream | None = None
    """Where engines send prompts, to get their KV cache; None where each engine computes its own."""
    measured_start_seconds: float = 0.0
    """An engine's start as measured; 0 before."""
    most_engines: int = 1
    """The largest number of engines that the specification can lead to."""
    has_live_affinity: bool = False
    """Whether live routers are pinned with `PrefixAffinity`."""
    live_cold_start_seconds: int = 0
    """How long live routers hold a request while no engine is up; 0 without any."""
    live_room: str = ""
    """What enters engines, as live routers read it."""
    engines_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the engines that take requests."""
    bypasses_routers: bool = False
    """Whether the main Service selects the engines instead of the routers."""
    adapter_names: tuple[str, ...] = ()
    """Names of the requested adapters, which an HTTPRoute may match."""
    engine_key: str = ""
    """Name of the Secret with the key that engines ask of these routers; empty: they ask for none."""
    keeps_engine_key: bool = False
    """Whether it is sent only because engines that run still ask for it."""
    unavailable_kinds: Collection[Kind] = ()
    component: str = ROUTER
    """`router`, or `gateway`: its engines are the routers of models."""
    temporary: int = 0
    """Routers above the wanted number, while the only one moves to another node."""
    move_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the Deployment by which the next decision knows of the move."""

    @property
    def name(self) -> str:
        return self.owner.key.name

    @property
    def is_gateway(self) -> bool:
        return self.component == GATEWAY

    @property
    def workload_name(self) -> str:
        """Name of the Deployment, its configuration and its NetworkPolicy."""
        return workload_name(self.name, self.component)

    @property
    def peers_name(self) -> str:
        """Name of the Service by which its pods find each other."""
        return f"{self.name}-peers" if self.is_gateway else headless_service_name(self.name, ROUTER)

    @property
    def list_name(self) -> str:
        """Name of the ConfigMap with the names that it reads again while it serves."""
        return model_list_name(self.name) if self.is_gateway else adapter_list_name(self.name)

    @property
    def strategy(self) -> RouterStrategy:
        """As asked for, or the default, which the specification decides and never the live number of engines."""
        if self.spec.strategy is not None:
            return self.spec.strategy
        has_many = self.most_engines >= AFFINITY_ENGINES
        return RouterStrategy.PREFIX_AFFINITY if has_many else RouterStrategy.LEAST_OUTSTANDING

    @property
    def model_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for upstream in self.upstreams for name in upstream.model_names))

    @property
    def has_adapters(self) -> bool:
        return all(upstream.has_adapters for upstream in self.upstreams)

    @property
    def lists_models(self) -> bool:
        """Whether engines of all upstreams answer which models they have."""
        return all(upstream.lists_models for upstream in self.upstreams)

    @property
    def api_paths(self) -> tuple[str, ...]:
        """Paths that are forwarded: those that every upstream serves, since a request may reach any of them.

        A path of one engine's API can be another engine's control, which has no authentication.
        """
        first, *others = (upstream.api_paths for upstream in self.upstreams)
        return tuple(path for path in first if all(path in paths for paths in others))


def slots(replicas: int, live: int) -> int:
    """Number of server slots: a power of two, at least twice the replicas; or the live number while all engines fit.

    Scaling within the live number never changes the configuration, and so never restarts routers. One slot is for the
    engine that a rolling update adds.
    """
    if live > replicas:
        return live
    return 1 << (max(MIN_SLOTS, 2 * replicas) - 1).bit_length()
