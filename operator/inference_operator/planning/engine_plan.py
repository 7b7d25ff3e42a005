"""Makes the plan of one engine from its spec, or refuses it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from inference_operator.api.engine import SpeculativeSpec
from inference_operator.api.engine_kind import EngineProfile, SpeculativeMethod
from inference_operator.api.hardware import Device, GpuSpec, ParallelismSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.api.validation import SpecModel
from inference_operator.engines.base import Engine
from inference_operator.hardware.offers import GpuOffer, offer_named
from inference_operator.hardware.resources import GPU_RESOURCE
from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import WeightFormat, format_of
from inference_operator.models.config import NotUnderstood
from inference_operator.models.facts import ModelFacts
from inference_operator.models.source import HUB_SCHEME, BucketModel, HubModel, ImageModel, ModelSource, model_source
from inference_operator.non_defaults import non_defaults
from inference_operator.objects.volumes import model_argument
from inference_operator.planning.gpu_offers import GpuOffers
from inference_operator.planning.known_model import KnownModel, with_draft
from inference_operator.roles.engine_choice import NO_CHOICE, EngineChoice
from inference_operator.sentences import sentences
from inference_operator.settings import Settings
from inference_operator.sizing.choice import OFFLOAD, OFFLOAD_CURE, choose, may_be_used
from inference_operator.sizing.fitting import least_context
from inference_operator.sizing.gpu_plan import GpuPlan, Infeasible
from inference_operator.sizing.impossible_division import unequal
from inference_operator.sizing.infeasible import unknown_kinds, wrong_on_any_device
from inference_operator.sizing.learned import Learned, most_sequences, on_the_same_gpus, shorter_context
from inference_operator.sizing.lora_and_speculative import adapters_gib
from inference_operator.sizing.plan import DIGITS, Plan, checked_plan, cpu_plan, unchecked_plan
from inference_operator.sizing.ranking import CLEAR_GAIN
from inference_operator.sizing.serving import gain_of_guesses
from inference_operator.sizing.shape import Objective, Shape, SizingInputs

TENSOR, SOURCE = "spec.parallelism.tensor", "spec.model.source"
REFUSED_BY_HUB = frozenset({Reason.MODEL_GATED, Reason.MODEL_NOT_FOUND})
"""Reasons for which an engine would fail too, on any device."""
NO_FACTS_CURE = "This engine starts only with a model whose files the operator could read."
ANY_GPU = GpuOffer(kind="", memory_gib=0.0)
"""Which sizes a model allows depends on no GPU."""
UNCHECKED_CURE = f"Set `{TENSOR}` to start engines without a check."


@dataclass(frozen=True, slots=True)
class ModelFindings:
    known: KnownModel | None
    unavailable: Refusal | None
    """Why its own files are not known; None where no inspection failed."""

    @property
    def architecture(self) -> str:
        return self.known.architecture if self.known else ""

    @property
    def facts(self) -> ModelFacts | NotUnderstood | None:
        return self.known.facts if self.known else None


@dataclass(frozen=True, slots=True)
class PlanInputs:
    spec: Spec
    source: ModelSource
    model: ModelFindings
    offers: GpuOffers
    image: str
    previous_kind: str = ""
    learned: Learned | None = None
    choice: EngineChoice = NO_CHOICE
    pinned_cache: str | None = None
    """The type of the KV cache in the plan that is decided once more, which stays; None: that of this release."""


def engine_plan(inputs: PlanInputs, engine: Engine) -> Plan | Refusal:
    asked, itself, stated, inputs = inputs, inputs.model.facts, inputs.spec.engine, _as_served(inputs, engine)
    facts = inputs.model.facts
    resolved = engine.resolved(stated, facts if isinstance(facts, ModelFacts) else None, _name(inputs.source))
    if isinstance(resolved, Refusal):
        return resolved
    inputs = replace(inputs, spec=inputs.spec.model_copy(update={"engine": resolved}))
    sizes = _sizes(inputs, engine)
    if isinstance(sizes, Refusal):
        return sizes
    plan = _with_parsers(_with_slots(sizes, inputs, engine), inputs, engine)
    if small := _small_gain(plan, asked.spec):
        stated = stated.model_copy(update={"speculative": SpeculativeSpec()})
        without = engine_plan(replace(asked, spec=asked.spec.model_copy(update={"engine": stated})), engine)
        if isinstance(without, Refusal):
            return without
        return replace(without, engine_choice=sentences(without.engine_choice, small))
    choice = inputs.choice
    served = engine.remark(facts, stated, _name(inputs.source)) if isinstance(facts, ModelFacts) else ""
    return replace(
        plan,
        learned=inputs.learned,
        implementation=choice.implementation,
        model_file=_model_file(facts),
        config_overrides=engine.config_overrides(itself, inputs.spec.engine) if isinstance(itself, ModelFacts) else "",
        engine_choice=sentences(choice.why, served),
        drafting=engine.drafting(resolved),
    )


def _small_gain(plan: Plan, spec: Spec) -> str:
    """That guesses which `Auto` found would gain too little for the profile `Latency`; empty if they gain enough.

    What cannot be predicted stays: the speed of the GPUs or the part of accepted guesses is unknown.
    """
    engine, limits = spec.engine, spec.autoscaling
    if engine.speculative.method is not SpeculativeMethod.AUTO or engine.profile is not EngineProfile.LATENCY:
        return ""
    requested = limits.target_concurrency if limits else None
    found = gain_of_guesses(plan, Objective.requested(limits), requested)
    if found is None or found[0] >= CLEAR_GAIN:
        return ""
    gain, requests = found
    return (
        f"`spec.engine.speculative` guesses no tokens: with {requests:.0f} requests at once a token would come"
        f" {gain:.2f} times as fast, and {CLEAR_GAIN:g} is the least that pays; name a `method` to have it guess."
    )


def _as_served(inputs: PlanInputs, engine: Engine) -> PlanInputs:
    known = inputs.model.known
    if known is None or not isinstance(known.facts, ModelFacts):
        return inputs
    facts = engine.as_served(known.facts, inputs.spec.engine, _name(inputs.source))
    if inputs.pinned_cache is not None:
        facts = replace(facts, recipe_cache=inputs.pinned_cache)
    return replace(inputs, model=replace(inputs.model, known=replace(known, facts=facts)))


def _model_file(facts: ModelFacts | NotUnderstood | None) -> str:
    if isinstance(facts, ModelFacts) and format_of(facts.weights_from) is WeightFormat.GGUF:
        return facts.weights_from
    return ""


def _with_slots(plan: Plan, inputs: PlanInputs, engine: Engine) -> Plan:
    """The plan with the slots for adapters, which stay when the list of adapters changes."""
    spec, facts = inputs.spec.engine, inputs.model.facts
    if not spec.adapter_slots:
        return plan
    shape = replace(engine.shape(spec), parallel=plan.parallel)
    slots_gib = adapters_gib(facts, shape) if isinstance(facts, ModelFacts) else 0.0
    return replace(
        plan,
        adapter_slots=spec.adapter_slots,
        adapter_rank=spec.max_adapter_rank or 0,
        adapter_slot_gib=round(slots_gib / spec.adapter_slots, DIGITS + 1),
    )


def _with_parsers(plan: Plan, inputs: PlanInputs, engine: Engine) -> Plan:
    facts = inputs.model.facts
    architecture = facts.architecture if isinstance(facts, ModelFacts) else ""
    parsers = engine.parsers(inputs.image, model=_name(inputs.source), architecture=architecture)
    return replace(plan, tool_call_parser=parsers.tool_call, reasoning_parser=parsers.reasoning)


def _name(source: ModelSource) -> str:
    return source.reference.partition(":")[0] if isinstance(source, ImageModel) else model_argument(source)


def _sizes(inputs: PlanInputs, engine: Engine) -> Plan | Refusal:
    """The sizes of one engine, or why there are none.

    - On CPUs: count the memory and never refuse it. Nodes are not checked. A model that the hub refuses is refused.
    - On GPUs, with facts of the model and at least one possible GPU: count the memory and choose the sizes.
    - On GPUs, with less information: use the tensor parallel size of the spec without a check of memory. The plan says
      so. Refuse a spec that sets none.
    - Whatever is known of the model refuses requests that are impossible on any GPUs or CPUs.
    """
    if inputs.model.known is None:
        why = inputs.model.unavailable
        needs_consent = why is not None and why.reason is Reason.PICKLE_WEIGHTS
        if needs_consent or isinstance(inputs.source, BucketModel):  # whose path contains the revision
            return why or _unknown(None, inputs)
    facts = inputs.model.facts
    if engine.requires_facts and not isinstance(facts, ModelFacts):
        return inputs.model.unavailable or replace(_unknown(facts, inputs), cure=NO_FACTS_CURE)
    if refused := _of_model(inputs, facts, engine) or _unequal(inputs.spec, engine):
        return refused
    if inputs.spec.hardware.device is Device.CPU:
        return _impossible(inputs, facts, engine) or _on_cpus(inputs, engine)
    if isinstance(facts, ModelFacts) and inputs.offers.possible:
        return _counted(inputs, facts, engine)
    if inputs.offers.excluded and not inputs.offers.possible and not inputs.offers.unknown_nodes:
        return Refusal(Reason.NO_SUITABLE_GPU, "spec.hardware.gpu", inputs.offers.excluded[0], "")
    unknown = _unknown(facts, inputs)
    if inputs.spec.parallelism.tensor is None:
        return unknown
    return _impossible(inputs, facts, engine) or _unchecked(inputs, engine, unknown.problem)


def _impossible(inputs: PlanInputs, facts: ModelFacts | NotUnderstood | None, engine: Engine) -> Infeasible | None:
    """Why the model allows the request on no device; None if nothing of it is known."""
    if not isinstance(facts, ModelFacts):
        return None
    return wrong_on_any_device(facts, engine.on_gpus(inputs.image, ANY_GPU), sizing_inputs(inputs.spec, engine))


def _of_model(inputs: PlanInputs, facts: ModelFacts | NotUnderstood | None, engine: Engine) -> Refusal | None:
    if not isinstance(facts, ModelFacts):
        return None
    spec = inputs.spec.engine
    return (
        engine.check_format(facts)
        or engine.check_facts(facts)
        or engine.check_request(spec, facts, with_draft(engine.shape(spec)), image=inputs.image)
    )


def doubt_of(plan: Plan, spec: Spec, facts: ModelFacts, engine: Engine, image: str) -> str:
    """Why this release would not make a plan that stays, in a sentence; empty if it would.

    It looks at no node: whatever serves is decided all the time.
    """
    facts, source = engine.as_served(facts, spec.engine), model_source(spec.model.source)
    resolved = engine.resolved(spec.engine, facts, "" if isinstance(source, Refusal) else _name(source))
    stated = spec.engine if isinstance(resolved, Refusal) else resolved
    shape = with_draft(engine.shape(stated))
    failed = resolved if isinstance(resolved, Refusal) else None
    refused = failed or engine.check_request(stated, facts, shape, image=image)
    why, offer = f"{refused.field}: {refused.problem}" if refused else "", offer_named(plan.gpu) if plan.gpu else None
    if not why and offer and plan.per_gpu:
        why = engine.on_gpus(image, offer).unable(facts, shape) or ""
    return f"The plan stays, but would be refused for a new specification: {why}" if why else ""


def sizing_inputs(spec: Spec, engine: Engine) -> SizingInputs:
    gpu = spec.hardware.gpu
    return SizingInputs(
        tensor=spec.parallelism.tensor,
        pipeline=spec.parallelism.pipeline,
        nodes=spec.parallelism.nodes,
        data=spec.parallelism.data or 1,
        kinds=gpu.products,
        least_memory_gib=float(gpu.memory.removesuffix("Gi")) if gpu.memory else 0.0,
        resource=gpu.resource_name or GPU_RESOURCE,
        profile=spec.engine.profile,
        objective=Objective.requested(spec.autoscaling),
        shape=with_draft(engine.shape(spec.engine), spec.model.source.removeprefix(HUB_SCHEME)),
    )


def _unequal(spec: Spec, engine: Engine) -> Refusal | None:
    """The refusal of ranks that cannot be divided equally over the requested nodes; on CPUs one rank is the default."""
    sizes = sizing_inputs(spec, engine)
    on_cpus = spec.hardware.device is Device.CPU
    return unequal(replace(sizes, tensor=sizes.tensor or 1) if on_cpus else sizes)


_NOT_SIZED: Mapping[str, bool | set[str]] = {
    **dict.fromkeys(("image", "args", "env", "resources", "tool_call_parser", "reasoning_parser", "generation"), True),
    "multimodal": {"allowed_domains"},
}
"""Fields of `spec.engine` that sizes do not depend on."""
_PLACING = {"node_selector", "tolerations", "affinity", "topology_key"}
"""Fields of `spec.scheduling` that decide on which nodes engines may run."""


def requested_of_sizes(spec: Spec, engine: Engine) -> Manifest:
    """The fields of a spec that sizes depend on, as JSON-like data.

    Defaults are left out. So a field that a later release adds changes nothing for specs that do not use it.
    """
    shape = engine.shape(spec.engine)
    stated = {
        "engine": _stated(spec.engine, exclude=_NOT_SIZED),
        "hardware": _stated(spec.hardware, exclude={"network": {"interface", "ipc_lock"}}),
        "parallelism": _stated_parallelism(spec.parallelism),
        "scheduling": _stated(spec.scheduling, include=_PLACING),
        "cache": shape.kv_cache_bytes,
        "claim": spec.cache is not None,
        "offloaded": shape.kv_offload_gib,
        "adapters": non_defaults(shape.adapters),
        "speculation": non_defaults(shape.speculation),
    }
    return {name: value for name, value in stated.items() if value}


def _stated(
    part: SpecModel, *, include: set[str] | None = None, exclude: Mapping[str, bool | set[str]] | None = None
) -> Manifest:
    fields = part.model_dump(mode="json", include=include, exclude=exclude, exclude_defaults=True)
    return {name: value for name, value in fields.items() if value != {}}


def _stated_parallelism(part: ParallelismSpec) -> Manifest:
    """The stated sizes. One stage is left out without `nodes`: it was the default before there were several nodes."""
    fields = _stated(part)
    return fields if "nodes" in fields or fields.get("pipeline") != 1 else _stated(part, exclude={"pipeline": True})


def _on_cpus(inputs: PlanInputs, engine: Engine) -> Plan | Refusal:
    unavailable = inputs.model.unavailable
    if inputs.model.known is None and unavailable and unavailable.reason in REFUSED_BY_HUB:
        return unavailable
    facts = inputs.model.facts if isinstance(inputs.model.facts, ModelFacts) else None
    sizes = sizing_inputs(inputs.spec, engine)
    sizes = replace(sizes, shape=_uncounted_shape(sizes, inputs.learned))
    needs = engine.cpu_needs(facts, sizes.requested_shape)
    return cpu_plan(sizes, needs, facts, downloads=_downloads(inputs))


def _uncounted_shape(sizes: SizingInputs, learned: Learned | None) -> Shape:
    """The shape where memory is not computed: what an engine reported, with the KV cache that it had."""
    return replace(
        sizes.shape,
        context=shorter_context(sizes.context, learned),
        kv_cache_bytes=sizes.shape.kv_cache_bytes or (learned.kv_cache_bytes if learned else None),
        max_num_seqs=sizes.shape.max_num_seqs or most_sequences(learned),
    )


def _unchecked(inputs: PlanInputs, engine: Engine, why: str) -> Plan | Refusal:
    """The sizes that the spec sets, on the GPUs that it selects as far as nodes' labels show them."""
    sizes = sizing_inputs(inputs.spec, engine)
    sizes = replace(sizes, shape=_uncounted_shape(sizes, inputs.learned))
    if sizes.shape.kv_offload_auto:
        problem = f"`Auto` needs sizes that are computed. {why}"
        return Refusal(Reason.NO_SUITABLE_GPU, OFFLOAD, problem, OFFLOAD_CURE)
    plan = unchecked_plan(sizes, why)
    if not sizes.kinds and not sizes.least_memory_gib:
        return plan
    selected = (offer for offer in inputs.offers.possible if offer.product or offer.labels_of_kind)
    for offer in (offer for offer in selected if may_be_used(offer, sizes)):
        holds = offer.most_in_a_group >= plan.gpus_per_pod and offer.can_span(plan.parallel.nodes)
        if offer.resource == plan.resource and holds:
            selector = {offer.label: offer.product} if offer.product else {}
            return replace(plan, gpu=offer.kind, node_selector=selector, labels_of_kind=offer.labels_of_kind)
    return replace(plan, avoided_products=inputs.offers.products())


def _counted(inputs: PlanInputs, facts: ModelFacts, engine: Engine) -> Plan | Refusal:
    chosen = _chosen(inputs, facts, engine)
    if isinstance(chosen, Infeasible):
        return chosen
    others = inputs.offers.products(besides=chosen.offer.kind)
    return checked_plan(chosen, facts, downloads=_downloads(inputs), avoided=others)


def _downloads(inputs: PlanInputs) -> bool:
    return isinstance(inputs.source, HubModel) and inputs.spec.cache is None


def _chosen(inputs: PlanInputs, facts: ModelFacts, engine: Engine) -> GpuPlan | Infeasible:
    """The choice of sizes. After a correction a shorter context on the same GPUs comes before any other GPUs.

    An engine that lacked memory gets no more nodes than it had: users see its error, and decide.
    """
    sizes, learned = sizing_inputs(inputs.spec, engine), inputs.learned
    sizes = replace(sizes, most_sequences=most_sequences(learned))
    sizes = replace(sizes, nodes=sizes.nodes or learned.nodes) if learned else sizes
    reported = learned.memory_gib if learned else 0.0
    same = on_the_same_gpus(sizes, learned, least=least_context(facts, sizes)) if learned else None

    def choice(requested: SizingInputs) -> GpuPlan | Infeasible:
        return choose(
            facts,
            inputs.offers.possible,
            lambda offer: engine.on_gpus(inputs.image, offer, reported_gib=reported),
            requested,
            inputs.previous_kind,
        )

    kept = choice(same) if same else None
    return choice(sizes) if kept is None or isinstance(kept, Infeasible) else kept


def _unknown(facts: ModelFacts | NotUnderstood | None, inputs: PlanInputs) -> Refusal:
    match facts:
        case None if inputs.model.unavailable:
            return replace(inputs.model.unavailable, cure=f"{inputs.model.unavailable.cure} {UNCHECKED_CURE}")
        case None:
            problem = "The model is not in the catalogue, so its size is not known."
            return Refusal(Reason.MODEL_UNKNOWN, SOURCE, problem, UNCHECKED_CURE)
        case NotUnderstood(field, problem):
            return Refusal(Reason.MODEL_NOT_UNDERSTOOD, SOURCE, f"`{field}` {problem}", UNCHECKED_CURE)
        case _:
            return _no_offer(inputs.offers, inputs.spec.hardware.gpu)


def _no_offer(offers: GpuOffers, asked: GpuSpec) -> Refusal:
    resource = asked.resource_name
    if problem := unknown_kinds(asked.products):
        cure = "Change `spec.hardware.gpu.products`, or name the value of a node's label `nvidia.com/gpu.product`."
    elif not offers.visible:
        problem = "No GPU is known: this operator cannot see nodes."
        cure = "Name one in `spec.hardware.gpu.products`, or have `gpuOffers` set for the operator."
    elif offers.unknown_nodes:
        problem = "No node has a label that names its kind of GPU."
        cure = (
            "Install NVIDIA's GPU feature discovery, or name the kind in `spec.hardware.gpu.products`,"
            " for example `L4`."
        )
    else:
        problem = f"No node has {f'`{resource}`' if resource else 'a GPU'} that this engine may use."
        cure = (
            "Add a node, name a kind that a node autoscaler can add in `spec.hardware.gpu.products`, or have"
            " `gpuOffers` set for the operator. If nodes have GPUs, check that NVIDIA's device plugin runs on them. To"
            " run on CPUs, set `spec.hardware.device: CPU`."
        )
    return Refusal(Reason.NO_SUITABLE_GPU, "spec.hardware.gpu", problem, f"{cure} {UNCHECKED_CURE}")


def older_image(pinned: str, spec: Spec, engine: Engine, settings: Settings) -> str:
    """A sentence that says that the pinned image is not the default any more; empty if it is."""
    default = engine.desired_image(spec, settings)
    if pinned == default:
        return ""
    return f"The engine stays on `{pinned}`; this operator's default is `{default}`."
