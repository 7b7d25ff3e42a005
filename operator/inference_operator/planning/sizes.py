"""What sizing makes of a specification: a plan, or why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from inference_operator.api.part import Part
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Device, Spec
from inference_operator.engines.engine import Engine
from inference_operator.hardware.offers import GPU_RESOURCE
from inference_operator.manifest import Manifest
from inference_operator.models.facts import ModelFacts
from inference_operator.models.inspected import Cause, Failure
from inference_operator.models.not_understood import NotUnderstood
from inference_operator.models.source import HubModel, ModelSource
from inference_operator.planning.gpu_offers import GpuOffers
from inference_operator.planning.known_model import KnownModel, with_draft
from inference_operator.sizing.choice import choose, may_be_used
from inference_operator.sizing.cpu import cpu_needs
from inference_operator.sizing.gpu_plan import GpuWishes, Misfit
from inference_operator.sizing.plan import Plan, Wishes, checked_plan, cpu_plan, plan
from inference_operator.sizing.shape import Shape
from inference_operator.sizing.unusual import unusual

TENSOR, SOURCE = "spec.parallelism.tensor", "spec.model.source"
UNCHECKED_CURE = f"Set `{TENSOR}` to start engines without a check."


@dataclass(frozen=True, slots=True)
class Question:
    """What a plan is asked for."""

    spec: Spec
    source: ModelSource
    model: KnownModel | None
    failure: Failure | None
    """Why nothing is known of the model."""
    offers: GpuOffers
    image: str
    """The engine's image."""
    previous_kind: str = ""
    """The kind of GPU in force."""


def engine_plan(asked: Question, engine: Engine) -> Plan | Refusal:
    """The sizes of one engine.

    On CPUs its memory is counted, and never refused: nodes are not looked at. On GPUs all is counted; where too little
    is known for that, a size that the user gave is taken without a check, and the plan says so.
    """
    if asked.spec.hardware.device is Device.CPU:
        return _on_cpus(asked, engine)
    facts = asked.model.facts if asked.model else None
    if isinstance(facts, ModelFacts) and asked.offers.possible:
        return _counted(asked, facts, engine)
    unknown = _unknown(facts, asked)
    if asked.spec.parallelism.tensor is None:
        return unknown
    return _unchecked(asked, engine, unknown.problem)


def wishes(spec: Spec, engine: Engine) -> GpuWishes:
    """What the user asked of the size."""
    gpu, shape = spec.hardware.gpu, _shape(spec, engine)
    return GpuWishes(
        tensor=spec.parallelism.tensor,
        context=shape.context,
        kinds=gpu.products,
        least_memory_gib=float(gpu.memory.removesuffix("Gi")) if gpu.memory else 0.0,
        shape=shape,
    )


def _shape(spec: Spec, engine: Engine) -> Shape:
    """What the user asked of one engine, but for its tensor size; a draft model that is known with its facts."""
    return replace(with_draft(engine.shape(spec.engine)), pipeline=spec.parallelism.pipeline)


def asked_of_sizes(spec: Spec, engine: Engine) -> Manifest:
    """Everything asked that sizes depend on, in the user's own words, as JSON-like data.

    What is not asked is left out, so that a field which a later release adds changes nothing for those who do not use
    it.
    """
    shape = engine.shape(spec.engine)
    stated = {
        "engine": _stated(spec.engine, exclude={"image", "args", "env", "resources"}),
        "hardware": _stated(spec.hardware),
        "parallelism": _stated(spec.parallelism),
        "scheduling": _stated(spec.scheduling, include={"node_selector", "tolerations", "affinity"}),
        "cache": shape.kv_cache_bytes,
        "offloaded": shape.kv_offload_gib,
        "adapters": unusual(shape.adapters),
        "speculation": unusual(shape.speculation),
    }
    return {name: value for name, value in stated.items() if value}


def _stated(part: Part, *, include: set[str] | None = None, exclude: set[str] | None = None) -> Manifest:
    return part.model_dump(mode="json", include=include, exclude=exclude, exclude_defaults=True)


def _on_cpus(asked: Question, engine: Engine) -> Plan:
    found = asked.model.facts if asked.model else None
    facts = found if isinstance(found, ModelFacts) else None
    sizes = _as_asked(asked, engine)
    memory = engine.cpu_memory(latent=facts is not None and facts.is_latent)
    needs = cpu_needs(facts, memory, replace(sizes.shape, tensor=sizes.tensor_parallel_size))
    return cpu_plan(sizes, needs, facts, downloads=isinstance(asked.source, HubModel))


def _as_asked(asked: Question, engine: Engine) -> Wishes:
    spec = asked.spec
    return Wishes(
        tensor_parallel_size=spec.parallelism.tensor or 1,
        shape=_shape(spec, engine),
        resource=spec.hardware.gpu.resource_name or GPU_RESOURCE,
    )


def _unchecked(asked: Question, engine: Engine, why: str) -> Plan:
    """Sizes as asked, on the GPUs that are asked for as far as nodes' labels tell them."""
    found = plan(replace(_as_asked(asked, engine), unchecked=why))
    limits = wishes(asked.spec, engine)
    if not limits.kinds and not limits.least_memory_gib:
        return found
    fitting = [one for one in asked.offers.possible if one.product and may_be_used(one, limits)]
    alike = (one for one in fitting if one.resource == found.resource and one.most_in_a_group >= found.gpus_per_replica)
    if (one := next(alike, None)) is not None:
        return replace(found, gpu=one.kind, node_selector={one.label: one.product})
    return replace(found, avoided_products=tuple(sorted(asked.offers.products)))


def _counted(asked: Question, facts: ModelFacts, engine: Engine) -> Plan | Refusal:
    chosen = choose(
        facts,
        asked.offers.possible,
        lambda offer: engine.memory(asked.image, offer),
        wishes(asked.spec, engine),
        asked.previous_kind,
    )
    if isinstance(chosen, Misfit):
        return Refusal(Reason(chosen.why), chosen.field, chosen.problem, chosen.cure)
    others = {one.product for one in asked.offers.live if one.product and one.kind != chosen.offer.kind}
    downloads = isinstance(asked.source, HubModel)
    return checked_plan(chosen, facts, downloads=downloads, avoided=tuple(sorted(others)))


_CAUSES: Mapping[Cause, Reason] = {
    Cause.GATED: Reason.MODEL_GATED,
    Cause.NOT_FOUND: Reason.MODEL_NOT_FOUND,
    Cause.UNREACHABLE: Reason.HUB_UNREACHABLE,
    Cause.TIMED_OUT: Reason.INSPECTION_FAILED,
    Cause.UNUSABLE: Reason.MODEL_NOT_UNDERSTOOD,
}


def _unread(failure: Failure) -> Refusal:
    """Why the model's files did not tell."""
    why = failure.why
    cure = f"{why.cure} It is read again, at least every 10 minutes. {UNCHECKED_CURE}"
    return Refusal(_CAUSES[failure.cause], SOURCE, f"{why.field}: {why.problem}", cure)


def _unknown(facts: ModelFacts | NotUnderstood | None, asked: Question) -> Refusal:
    """What is not known that counting needs."""
    match facts:
        case None if asked.failure:
            return _unread(asked.failure)
        case None:
            problem = "The model is not in the catalogue, so its size is not known."
            return Refusal(Reason.MODEL_UNKNOWN, SOURCE, problem, UNCHECKED_CURE)
        case NotUnderstood(field, problem):
            return Refusal(Reason.MODEL_NOT_UNDERSTOOD, SOURCE, f"`{field}` {problem}", UNCHECKED_CURE)
        case _:
            return _no_offer(asked.offers, asked.spec.hardware.gpu.resource_name)


def _no_offer(offers: GpuOffers, resource: str | None) -> Refusal:
    if not offers.visible:
        problem = "No GPU is known: this operator cannot see nodes."
        cure = "Name one in `spec.hardware.gpu.products`, or have `gpuOffers` set for the operator."
    elif offers.unknown_nodes:
        problem = "No node's label tells the kind of its GPUs."
        cure = (
            "Install NVIDIA's GPU feature discovery, or name the kind in `spec.hardware.gpu.products`,"
            " for example `L4`."
        )
    else:
        problem = f"There is no node with {f'`{resource}`' if resource else 'GPUs'} that engines may be on."
        cure = (
            "Add one, name a kind that a node autoscaler can add in `spec.hardware.gpu.products`, or have `gpuOffers`"
            " set for the operator."
        )
    return Refusal(Reason.NO_SUITABLE_GPU, "spec.hardware.gpu", problem, f"{cure} {UNCHECKED_CURE}")
