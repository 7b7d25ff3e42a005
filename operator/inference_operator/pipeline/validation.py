"""Why a valid specification cannot be served as its user wrote it, or with the administrator's defaults."""

from dataclasses import replace

from inference_operator.api.refusal import Refusal
from inference_operator.engines.validation import refusal_of_fields
from inference_operator.objects.adapter_list import list_mount
from inference_operator.objects.cache_volume import CacheVolume
from inference_operator.objects.compute_resources import refusal_of_resources
from inference_operator.objects.pod_additions import ReservedPodParts, refusal_of_additions
from inference_operator.objects.volumes import engine_mounts
from inference_operator.planning.role_plan import PlanState
from inference_operator.router.deployment import reserved_pod_parts as router_parts
from inference_operator.router.exposure import refusal_of_exposure
from inference_operator.router.resources import refusal_of_router_resources
from inference_operator.router.waiting import refusal_of_queue
from inference_operator.views.pod import ADAPTERS_PORT


def refusal_of_role(state: PlanState) -> Refusal | None:
    """Why the engine of a role, or the router, cannot run as specified; None if both can."""
    context = state.context
    engine, stated, effective = context.engine, context.spec.stated, context.spec.effective
    access = engine.access(stated.engine, stated.model)
    has_slots = bool(stated.engine.adapter_slots)
    claim = CacheVolume("any", "any", adapters=has_slots) if stated.cache else None
    mounts = engine_mounts(context.source, access.writable, claim, access.compiled)
    of_adapters = ({ADAPTERS_PORT}, [list_mount()]) if has_slots else (set[str](), [])
    own = ReservedPodParts("spec.podTemplate", {context.spec.name, *of_adapters[0]}, [*mounts, *of_adapters[1]])
    return (
        refusal_of_fields(engine, stated.engine)
        or engine.check(stated.engine, image=state.image, settings=context.settings)
        or engine.check_model(stated.engine, stated.model, cached=stated.cache is not None)
        or _of_defaults(engine.check_model(effective.engine, stated.model, cached=stated.cache is not None))
        or refusal_of_resources(stated.engine.resources)
        or refusal_of_router_resources(effective.router.resources)
        or refusal_of_exposure(stated.router)
        or refusal_of_queue(effective.router)
        or refusal_of_additions(stated.pod_template, own)
        or refusal_of_additions(stated.router.pod_template, router_parts("spec.router.podTemplate"))
    )


def _of_defaults(refusal: Refusal | None) -> Refusal | None:
    """The refusal of what the specification has from the administrator's defaults."""
    origin = "It comes from the operator's setting `engineDefaults`."
    return replace(refusal, problem=f"{refusal.problem} {origin}") if refusal else None
