"""Why a valid specification, or the administrator's defaults, cannot be served.

Names and keys in the defaults that are reserved for the operator show only in pods. The operator checks them at its
start, since no user can correct a setting.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from inference_operator.api.container import ResourcesSpec
from inference_operator.api.disaggregation import DisaggregationSpec
from inference_operator.api.engine import EngineSpec
from inference_operator.api.hardware import Device, NetworkSpec
from inference_operator.api.pod_defaults import PodDefaults
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.engines.base import Engine
from inference_operator.engines.group.network import INTERFACE_VARIABLES, UCX_DEVICES
from inference_operator.engines.registry import EngineRegistry
from inference_operator.models.source import ClaimModel
from inference_operator.objects.adapter_list import list_mount
from inference_operator.objects.cache_volume import CacheVolume
from inference_operator.objects.compute_resources import refusal_of_network_devices, refusal_of_resources
from inference_operator.objects.engine_key import key_mount
from inference_operator.objects.names import ENGINE
from inference_operator.objects.pod_additions import ReservedPodParts, refusal_of_additions, refusal_of_keys
from inference_operator.objects.volumes import engine_mounts
from inference_operator.pipeline.disaggregation import refusal_of_disaggregation
from inference_operator.planning.capacity import group_fields
from inference_operator.planning.role_plan import PlanState
from inference_operator.router.deployment import reserved_pod_parts
from inference_operator.router.exposure import refusal_of_exposure
from inference_operator.router.process import METRICS_PORT_VARIABLE, POD_IPS_VARIABLE
from inference_operator.router.resources import refusal_of_router_resources
from inference_operator.router.waiting import refusal_of_queue
from inference_operator.sentences import sentences
from inference_operator.settings import PREFIX, Settings
from inference_operator.views.pod import ADAPTERS_PORT


def refusal_of_role(state: PlanState) -> Refusal | None:
    context = state.context
    engine, stated, effective = context.engine, context.spec.stated, context.spec.effective
    apart = stated.disaggregation or DisaggregationSpec()
    access = engine.access(stated.engine, stated.model)
    has_slots = bool(stated.engine.adapter_slots)
    claim = CacheVolume("any", "any", adapters=has_slots) if stated.cache else None
    mounts = engine_mounts(context.source, access.writable, claim, access.compiled)
    of_adapters = ({ADAPTERS_PORT}, [list_mount()]) if has_slots else (set[str](), [])
    parts = [*mounts, *of_adapters[1], *([key_mount()] if engine.can_ask_for_key else [])]
    own = ReservedPodParts("spec.podTemplate", {context.spec.name, *of_adapters[0]}, parts)
    refusal = (
        _of_adapters(engine, stated)
        or _of_device(engine, stated)
        or _of_parallelism(engine, stated)
        or _of_groups(engine, stated)
        or _of_interface(stated, "spec.hardware.network", stated.hardware.network, INTERFACE_VARIABLES)
        or _of_interface(stated, "spec.disaggregation.network", apart.network, (UCX_DEVICES,))
        or refusal_of_disaggregation(engine, stated, context.settings, image=state.image)
        or engine.check_fields(stated.engine)
        or engine.check(stated.engine, image=state.image, settings=context.settings)
        or engine.check_model(stated.engine, stated.model, cached=stated.cache is not None)
        or _of_defaults(engine.check_model(effective.engine, stated.model, cached=stated.cache is not None))
        or refusal_of_resources(stated.engine.resources)
        or refusal_of_network_devices(stated.engine.resources, effective.network)
        or refusal_of_network_devices(stated.engine.resources, apart.network, "spec.disaggregation.network")
        or refusal_of_router_resources(effective.router.resources)
        or refusal_of_exposure(stated.router)
        or refusal_of_queue(effective.router)
        or refusal_of_additions(stated.pod_template, own)
        or refusal_of_additions(stated.router.pod_template, reserved_pod_parts("spec.router.podTemplate"))
    )
    return replace(refusal, problem=sentences(refusal.problem, context.choice.why)) if refusal else None


def _of_adapters(engine: Engine, stated: Spec) -> Refusal | None:
    if not stated.model.adapters or "adapterSlots" not in engine.unsupported_fields:
        return None
    cure = "Remove them, or set `spec.engine.kind` to an engine that does, such as `VLLM`."
    return Refusal(Reason.INVALID_SPEC, "spec.model.adapters", "This engine serves no LoRA adapters.", cure)


def _of_device(engine: Engine, stated: Spec) -> Refusal | None:
    device = stated.hardware.device
    if stated.engine.kv_offload and device is Device.CPU:
        problem = "On CPUs the KV cache is in the host's memory already."
        return Refusal(Reason.INVALID_SPEC, "spec.engine.kvOffload", problem, "Remove it.")
    if device in engine.devices:
        return None
    field, cure = "spec.hardware.device", "Remove it, or set `spec.engine.kind` to an engine that does, such as `VLLM`."
    return Refusal(Reason.INVALID_SPEC, field, f"This engine does not run on a {device}.", cure)


def _of_parallelism(engine: Engine, stated: Spec) -> Refusal | None:
    asked = stated.parallelism
    if (asked.nodes or 1) > 1 and not engine.runs_over_nodes:
        problem, cure = "This engine runs on one node.", "Remove it, or set `spec.engine.kind: VLLM`."
        return Refusal(Reason.INVALID_PARALLEL_SIZE, "spec.parallelism.nodes", problem, cure)
    if asked.data is not None and asked.data > 1 and (refused := _of_data(engine, stated)):
        return refused
    sizes = {"tensor": asked.tensor or 1, "pipeline": asked.pipeline or 1}
    name = next((name for name, size in sizes.items() if size > 1), None)
    if name is None or engine.divides_models:
        return None
    problem, cure = "This engine divides no model over several GPUs.", "Remove it, or set `spec.engine.kind: VLLM`."
    return Refusal(Reason.INVALID_PARALLEL_SIZE, f"spec.parallelism.{name}", problem, cure)


def _of_data(engine: Engine, stated: Spec) -> Refusal | None:
    """Data parallel ranks of an engine that has none, or on CPUs, where ranks exchange nothing with experts."""
    if stated.hardware.device is Device.CPU:
        problem = "Data parallel ranks need GPUs."
        return Refusal(Reason.INVALID_PARALLEL_SIZE, "spec.parallelism.data", problem, "Remove it.")
    return engine.check_data_parallel(stated.engine)


def _of_groups(engine: Engine, stated: Spec) -> Refusal | None:
    """Fields of engines over several nodes, for one that runs on one node."""
    field = next(group_fields(stated), "")
    if not field or (engine.runs_over_nodes and stated.parallelism.nodes != 1):
        return None
    more = "`spec.parallelism.nodes` to 2 or more" if engine.runs_over_nodes else "`spec.engine.kind: VLLM`"
    problem = "It is for engines over several nodes, and this one runs on one."
    return Refusal(Reason.INVALID_SPEC, field, problem, f"Remove it, or set {more}.")


def _of_interface(stated: Spec, field: str, network: NetworkSpec, variables: Sequence[str]) -> Refusal | None:
    """The interface and a variable that it sets, both stated."""
    if not network.interface:
        return None
    twice = next((variable.name for variable in stated.engine.env if variable.name in variables), "")
    if not twice:
        return None
    problem = f"`{twice}` and `{field}.interface` are both set."
    return Refusal(Reason.MANAGED_ARGUMENT, f"spec.engine.env[{twice}]", problem, "Remove one of them.")


def _of_defaults(refusal: Refusal | None) -> Refusal | None:
    """The refusal of what the specification has from the administrator's defaults."""
    origin = "It comes from the operator's setting `engineDefaults`."
    return replace(refusal, problem=f"{refusal.problem} {origin}") if refusal else None


_TEMPLATE = "podTemplate"


def default_errors(settings: Settings, engines: EngineRegistry) -> Iterator[str]:
    access = engines[engines.default].access(EngineSpec())
    engine = ReservedPodParts(
        _TEMPLATE, {ENGINE}, [*engine_mounts(ClaimModel("any", ""), access.writable), key_mount()]
    )
    yield from _line("COMMON_LABELS", refusal_of_keys(settings.common_labels, "labels"))
    yield from _line("ENGINE_DEFAULTS", refusal_of_additions(settings.engine_defaults.pod_template, engine))
    yield from _line("ENGINE_DEFAULTS", _refusal_of_engine_env(settings, engines), "spec.engine.")
    network = settings.engine_defaults.network
    yield from _line("ENGINE_DEFAULTS", refusal_of_network_devices(ResourcesSpec(), network), "spec.hardware.")
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
    return engine.check(EngineSpec(env=defaults.env), image=engine.image(Device.GPU, settings), settings=trusted)


def _line(name: str, refusal: Refusal | None, section: str = "") -> Iterator[str]:
    """The refusal of a setting, whose fields are those of a section of the specification."""
    if refusal:
        yield f"{PREFIX}{name}: {refusal.field.removeprefix(section)}: {refusal.problem} {refusal.cure}"


def _names(defaults: PodDefaults) -> set[str]:
    return {variable.name for variable in defaults.env}
