"""Errors in the administrator's defaults that only the pods show: names and keys that are reserved for the operator.

The operator checks them at its start, since no user can correct a setting.
"""

from collections.abc import Iterator
from dataclasses import replace

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device
from inference_operator.api.pod_defaults import EngineDefaults, PodDefaults
from inference_operator.api.refusal import Refusal
from inference_operator.engines.registry import EngineRegistry
from inference_operator.models.source import ClaimModel
from inference_operator.objects.compute_resources import refusal_of_network_devices
from inference_operator.objects.engine_key import key_mount
from inference_operator.objects.names import ENGINE
from inference_operator.objects.pod_additions import ReservedPodParts, refusal_of_additions, refusal_of_keys
from inference_operator.objects.volumes import engine_mounts
from inference_operator.router.deployment import reserved_pod_parts
from inference_operator.router.process import METRICS_PORT_VARIABLE, POD_IPS_VARIABLE
from inference_operator.router.resources import refusal_of_router_resources
from inference_operator.settings import PREFIX, Settings

_TEMPLATE = "podTemplate"


def default_errors(settings: Settings, engines: EngineRegistry) -> Iterator[str]:
    access = engines[engines.default].access(EngineSpec())
    engine = ReservedPodParts(
        _TEMPLATE, {ENGINE}, [*engine_mounts(ClaimModel("any", ""), access.writable), key_mount()]
    )
    yield from _line("COMMON_LABELS", refusal_of_keys(settings.common_labels, "labels"))
    yield from _line("ENGINE_DEFAULTS", refusal_of_additions(settings.engine_defaults.pod_template, engine))
    yield from _line("ENGINE_DEFAULTS", _refusal_of_engine_env(settings, engines))
    yield from _line("ENGINE_DEFAULTS", _refusal_of_network(settings.engine_defaults))
    yield from _line(
        "ROUTER_DEFAULTS", refusal_of_additions(settings.router_defaults.pod_template, reserved_pod_parts(_TEMPLATE))
    )
    yield from _line("ROUTER_DEFAULTS", refusal_of_router_resources(settings.router_defaults.resources, "resources"))
    for name in sorted({METRICS_PORT_VARIABLE, POD_IPS_VARIABLE} & _names(settings.router_defaults)):
        yield f"{PREFIX}ROUTER_DEFAULTS: env[{name}]: it is reserved for the operator. Remove it."


def _refusal_of_engine_env(settings: Settings, engines: EngineRegistry) -> Refusal | None:
    """The refusal of a variable that the engine reserves for the operator. The administrator may set any other."""
    defaults, engine = settings.engine_defaults, engines[engines.default]
    trusted = settings.model_copy(update={"allowed_environment": tuple(_names(defaults))})
    refusal = engine.check(EngineSpec(env=defaults.env), image=engine.image(Device.GPU, settings), settings=trusted)
    return replace(refusal, field=refusal.field.removeprefix("spec.engine.")) if refusal else None


def _refusal_of_network(defaults: EngineDefaults) -> Refusal | None:
    refusal = refusal_of_network_devices(ResourcesSpec(), defaults.network)
    return replace(refusal, field=refusal.field.removeprefix("spec.hardware.")) if refusal else None


def _line(name: str, refusal: Refusal | None) -> Iterator[str]:
    if refusal:
        yield f"{PREFIX}{name}: {refusal.field}: {refusal.problem} {refusal.cure}"


def _names(defaults: PodDefaults) -> set[str]:
    return {variable.name for variable in defaults.env}
