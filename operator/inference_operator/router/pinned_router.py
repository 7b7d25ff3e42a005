"""The pinned router: pod template and configuration that running routers keep when the operator is upgraded.

They are stored together, in one annotation of the router Deployment.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from pydantic import TypeAdapter

from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.manifest import Manifest
from inference_operator.objects.pinned import PinAnnotation, Pinned
from inference_operator.router.affinity import AFFINITY_FILE
from inference_operator.router.entry import ROOM_FILE
from inference_operator.router.inputs import RouterInputs, Upstream
from inference_operator.router.waiting import COLD_START_STEPS, cold_start_seconds
from inference_operator.views.raw import annotations, mapping

_OTHER_OBJECTS = {"replicas", "service", "ingress", "http_route"}
"""Fields of `spec.router` that change neither the pod template nor the configuration."""
SLOTS_ANNOTATION = "inference-operator.dev/slots"
"""Server slots of the configuration. It is read back, so that scaling down does not change the configuration."""

_COUNT = re.compile("[0-9]{1,4}")
"""Four digits are enough for the largest number of replicas; a longer number is a mistake of somebody who edited it."""
MAX_BYTES = 192 * 1024
"""Longest annotation: pod templates with many additions have large ones of their own."""


@dataclass(frozen=True, slots=True)
class RouterContent:
    slots: int
    template: Manifest
    files: Mapping[str, str]
    """Files of the configuration folder by name."""
    cold_start_seconds: int

    @property
    def hashed(self) -> object:
        return [self.slots, self.template, self.files]


PinnedRouter: TypeAlias = Pinned[RouterContent]

ROUTER_PIN = PinAnnotation("inference-operator.dev/router-template", TypeAdapter(RouterContent), MAX_BYTES)
"""Annotation of the Deployment. Where it is too long, there is none, and these routers are not kept at an upgrade."""


def live_slots(deployment: Manifest | None, config: Manifest | None) -> int:
    """Server slots of the pinned router, else of the live configuration; 0 where there is none, or it was edited."""
    if pinned := ROUTER_PIN.read(deployment):
        return pinned.content.slots
    text = annotations(config).get(SLOTS_ANNOTATION, "")
    return int(text) if _COUNT.fullmatch(text) else 0


def live_room(config: Manifest | None) -> str:
    return str(mapping(config or {}, "data").get(ROOM_FILE, ""))


def has_live_affinity(deployment: Manifest | None) -> bool:
    pinned = ROUTER_PIN.read(deployment)
    return pinned is not None and AFFINITY_FILE in pinned.content.files


def live_cold_start_seconds(deployment: Manifest | None) -> int:
    pinned = ROUTER_PIN.read(deployment)
    return pinned.content.cold_start_seconds if pinned else 0


def router_inputs(inputs: RouterInputs) -> Manifest:
    """Everything that template and configuration are built from, release and the operator's image aside.

    They are `spec.router` over the administrator's defaults, and what the engines are: their name, port, limits and
    slots. Values that are the default or empty are left out. So a field of a later release changes nothing for those
    who do not use it. Paths of the API come from the release and are no input. Nor is the key of engines, where the
    specification calls for it: routers of an earlier release go on without it, and so do their engines.
    """
    defaults = inputs.settings.router_defaults.model_dump(mode="json", exclude_defaults=True)
    hosts = {upstream.host for upstream in inputs.upstreams}
    host = {"engines_host": hosts.pop()} if len(hosts) == 1 else {}
    forwarded = {"forwarded_headers": headers} if (headers := [*inputs.settings.forwarded_headers]) else {}
    return {**host, **forwarded, **_own(inputs, {}), "spec": _section(inputs, inputs.spec), "defaults": defaults}


def own_inputs(inputs: RouterInputs) -> Manifest:
    """The same without the administrator's settings: the defaults of routers and the DNS domain of the cluster."""
    return {**_own(inputs, {"host": ""}), "spec": _section(inputs, inputs.stated)}


def _own(inputs: RouterInputs, replaced: Manifest) -> Manifest:
    """Facts about engines and the time that requests wait; some facts of the upstreams are replaced."""
    facts: Manifest = {
        **_engines(inputs.upstreams, replaced),
        "prefill": {**_facts(inputs.prefill), **replaced} if inputs.prefill else {},
        "model_names": list(inputs.model_names),
        "has_adapters": inputs.has_adapters,
        "router_lists_models": not inputs.lists_models,
        "slots": inputs.slots,
        "cold_start_seconds": held if (held := cold_start_seconds(inputs)) != COLD_START_STEPS[0] else 0,
        "drain_seconds": inputs.drain_seconds,
        "engine_key": inputs.engine_key if inputs.keeps_engine_key else "",
    }
    return {name: value for name, value in facts.items() if value}


def _engines(upstreams: Sequence[Upstream], replaced: Manifest) -> Manifest:
    if len(upstreams) > 1:
        return {"upstreams": [{**_facts(upstream), **replaced} for upstream in upstreams]}
    names = ("port", "health_path", "max_concurrency")
    return {f"engine_{name}": getattr(upstream, name) for upstream in upstreams for name in names}


def _section(inputs: RouterInputs, spec: RouterSpec) -> Manifest:
    """What differs from the defaults. A strategy by default is no input: more replicas, and upgrades, keep routers.

    `LeastOutstanding` was the default once, so it is an input only where it ends an affinity by default.
    """
    section: Manifest = spec.model_dump(mode="json", exclude=_OTHER_OBJECTS, exclude_defaults=True)
    if spec.strategy is RouterStrategy.LEAST_OUTSTANDING and not inputs.has_live_affinity:
        del section["strategy"]
    return section


def _facts(upstream: Upstream) -> Manifest:
    usual = {"has_adapters": False, "lists_models": True}
    fields = asdict(upstream).items()
    return {name: value for name, value in fields if name not in ("api_paths", "room") and usual.get(name) is not value}
