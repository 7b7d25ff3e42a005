"""`infd fit`: whether a model fits on GPUs, with which parallel sizes, and the memory of one GPU; needs no cluster."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace

from pydantic import ValidationError

from inference_operator.api.engine import DType, EngineSpec, KvCacheDType
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.api.hardware import Device
from inference_operator.api.refusal import Refusal
from inference_operator.cli.arguments import hub_model, named_gpus
from inference_operator.cli.fit import rate
from inference_operator.cli.fit.answer import Answer, answer_of_plan, answer_of_shape, report
from inference_operator.cli.options import file_text
from inference_operator.cli.output import print_found
from inference_operator.cli.parser import UsageError
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import ENGINES
from inference_operator.hardware.offers import GpuOffer
from inference_operator.jobs.inspection_result import parsed_result
from inference_operator.jobs.result import Failure
from inference_operator.models.catalogue import entry, siblings, similar_model
from inference_operator.models.checkpoint import Weights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.models.facts import Kernel, ModelFacts, Quantization
from inference_operator.models.model import ELEMENT_BYTES, model_facts
from inference_operator.models.quantization import named_quantization
from inference_operator.models.side_files import NO_SIDE_FILES, SideFiles
from inference_operator.models.source import HubModel
from inference_operator.planning.gpu_offers import LINKED_PER_NODE
from inference_operator.planning.known_model import known_model, with_draft
from inference_operator.settings import Settings
from inference_operator.sizing.choice import choose
from inference_operator.sizing.fitting import CONTEXT_STEP, OnGpus, aimed_context
from inference_operator.sizing.fleet import by_cost, fleet_plan
from inference_operator.sizing.gpu_plan import Infeasible
from inference_operator.sizing.shape import KV_BYTES, Shape, SizingInputs
from inference_operator.units import GIB

USABLE_FRACTION = 0.98
"""CUDA reports this fraction of a nominal size, which is a whole number of GiB (RTX 4090: 23.5 of 24)."""
USUAL_KINDS = ("T4", "L4", "A10G", "L40S", "RTX-4090", "A100-40GB", "A100-80GB", "H100-80GB", "H200", "B200")
NVLINK_FROM_GIB, NVLINK_40GB = 70, (38, 41)
"""GPUs of these sizes mostly have NVLink: A100-40GB, and all with 80 GB or more."""


def run(options: argparse.Namespace) -> int:
    """Print whether and how the model fits; 1 if it fits nowhere, or if no GPUs carry the rate."""
    engines = options.engines or ENGINES
    engine = engines[options.engine or engines.default]
    if (options.nodes or 1) > 1 and not engine.runs_over_nodes:
        raise UsageError(f"--nodes: {options.engine} runs on one node. Remove it, or use `--engine VLLM`.")
    if options.data > 1 and (refused := engine.check_data_parallel(EngineSpec(args=options.engine_args))):
        raise UsageError(f"--data: {refused.problem}")
    if (asked := rate.asked_rate(options)) is not None:
        return _for_rate(options, asked, engine)
    answers = list(_answers(options, engine))
    documents = [answer.document() for answer in answers]
    found = documents if options.gpu_memory_gib is None else documents[0]
    print_found(found, options.output, report(answers, verbose=options.verbose))
    return int(not any(answer.fits for answer in answers))


def _for_rate(options: argparse.Namespace, asked: rate.Asked, engine: Engine) -> int:
    on_gpus = _on_gpus(options, engine)
    facts, shape = _served_model(options, engine)
    longer = asked.longest > aimed_context(facts, SizingInputs(shape=shape))
    if longer and shape.context is None:
        shape = replace(shape, context=-(-asked.longest // CONTEXT_STEP) * CONTEXT_STEP)
    profile = EngineProfile(options.profile)
    inputs = replace(_requested(options, shape), objective=asked.objective, profile=profile)
    plans, refused = [], []
    for offer in _offers(options):
        plan = choose(facts, [offer], on_gpus, inputs)
        if isinstance(plan, Infeasible):
            refused.append(f"{offer.kind}: the model does not fit; `infd fit` without --rate says why.")
        elif plan.budget.context < asked.longest:
            refused.append(f"{offer.kind}: engines have a context of {plan.budget.context:,} tokens.")
        elif (found := fleet_plan(plan, asked.load, asked.objective, asked.rate)) is None:
            refused.append(f"{offer.kind}: its engine keeps the latencies not even with one request at a time.")
        else:
            plans.append(found)
    plans = by_cost(plans)
    sending = plans if engine.can_transfer and not (shape.speculation or shape.kv_offload_gib or shape.adapters) else []
    others = {one.gpu: one for plan in sending if (one := rate.apart(facts, plan, asked, on_gpus, inputs))}
    lines = rate.report(plans, asked, refused, plot=options.plot)
    apart_of = {kind: {"disaggregation": one.document(asked)} for kind, one in others.items()}
    documents = [rate.document(plan, asked) | apart_of.get(plan.engine.offer.kind, {}) for plan in plans]
    print_found(documents, options.output, (*lines, *rate.apart_lines([*others.values()], asked, facts)))
    return int(not plans)


def _offers(options: argparse.Namespace) -> Iterator[GpuOffer]:
    by_kind = {named_gpus(name).kind: price for name, price in rate.prices(options.price).items()}
    for text in options.gpu or [f"{kind}:{LINKED_PER_NODE}" for kind in USUAL_KINDS]:
        offer = named_gpus(text)
        yield replace(offer, price=by_kind.get(offer.kind, offer.price))


def _answers(options: argparse.Namespace, engine: Engine) -> Iterator[Answer]:
    facts, shape = _served_model(options, engine)
    on_gpus = _on_gpus(options, engine)
    wishes = _requested(options, shape)
    if options.gpu_memory_gib is not None:
        offer = _exact_offer(options)
        yield answer_of_shape(facts, offer.kind, on_gpus(offer), wishes)
        return
    wishes = replace(wishes, concurrency=options.concurrency, profile=EngineProfile(options.profile))
    others = dict(_siblings(options, engine))
    for offer in _offers(options):
        answer = answer_of_plan(choose(facts, [offer], on_gpus, wishes), offer)
        fits = {name: choose(other, [offer], on_gpus, wishes) for name, other in others.items()}
        sizes = {name: fit.gpus_per_replica for name, fit in fits.items() if not isinstance(fit, Infeasible)}
        yield replace(answer, siblings=sizes)


def _siblings(options: argparse.Namespace, engine: Engine) -> Iterator[tuple[str, ModelFacts]]:
    """The quantized checkpoints of the model that the catalogue knows, as the engine serves them."""
    spec = _engine_spec(options, engine)
    for name in siblings(_name(options)) if options.model else ():
        known = known_model(HubModel(name))
        if known and isinstance(known.facts, ModelFacts):
            yield name, engine.as_served(known.facts, spec, name)


def _name(options: argparse.Namespace) -> str:
    return (options.model or "").removeprefix("hf://")


def _requested(options: argparse.Namespace, shape: Shape) -> SizingInputs:
    return SizingInputs(options.tensor, options.pipeline, options.nodes, options.data, shape=shape)


def _on_gpus(options: argparse.Namespace, engine: Engine) -> OnGpus:
    return lambda offer: engine.on_gpus(f"engine:{options.engine_version}" if options.engine_version else "", offer)


def _check_types(options: argparse.Namespace) -> None:
    cache, weights = ("--kv-cache-dtype", options.kv_cache_dtype, KV_BYTES), ("--dtype", options.dtype, ELEMENT_BYTES)
    for option, given, allowed in (cache, weights):
        if given not in ("auto", *allowed):
            raise UsageError(f"{option}: `{given}` is not allowed. Use auto, {', '.join(allowed)}.")


def _shape(options: argparse.Namespace, engine: Engine, spec: EngineSpec) -> Shape:
    shape = replace(
        engine.shape(spec),
        context=options.context,
        utilization=options.gpu_memory_utilization,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        kv_cache_dtype=options.kv_cache_dtype,
        dtype="" if options.dtype == "auto" else options.dtype,
        element_bytes=ELEMENT_BYTES.get(options.dtype),
        quantization=_quantization(options.quantization),
        eager=options.enforce_eager,
        cpu_offload_gib=options.cpu_offload_gib,
    )
    return with_draft(shape, _name(options))


def _engine_spec(options: argparse.Namespace, engine: Engine) -> EngineSpec:
    """`spec.engine` with only these options; raises `UsageError` if the operator would reject them."""
    speculative = {"method": options.speculative, "model": options.draft, "tokens": options.draft_tokens}
    offload = {"memory": options.kv_offload} if options.kv_offload else None
    try:
        spec = EngineSpec.model_validate(
            {"args": options.engine_args, "speculative": speculative, "kvOffload": offload}
        )
    except ValidationError as error:
        field, why = error.errors()[0]["loc"][0], error.errors()[0]["msg"]
        option = {"speculative": "--speculative, --draft, --draft-tokens", "kvOffload": "--kv-offload"}.get(str(field))
        raise UsageError(
            f"{option}: {why}." if option else "--engine-args: has an empty, too long or too many arguments."
        ) from error
    if refusal := engine.check_fields(spec) or engine.check(spec, image="", settings=Settings()):
        raise UsageError(f"--engine-args: {refusal.problem} {refusal.cure}")
    return spec


def _quantization(name: str) -> Quantization | None:
    if not name:
        return None
    found = named_quantization(name)
    if found is None and not name.startswith(("compressed", "modelopt", "torchao", "quark", "gguf", "inc")):
        raise UsageError(
            f"--quantization: {name} is not known. Remove the option if config.json has a `quantization_config`."
        )
    return None if found is None or found.kernel is Kernel.NONE else found


def _exact_offer(options: argparse.Namespace) -> GpuOffer:
    memory = options.gpu_memory_gib
    memory *= USABLE_FRACTION if memory == int(memory) else 1.0
    if options.gpu:
        return replace(named_gpus(options.gpu[0]), memory_gib=memory)
    low, high = NVLINK_40GB
    linked = memory >= NVLINK_FROM_GIB or low <= memory <= high
    return replace(named_gpus(USUAL_KINDS[0]), kind="GPU", memory_gib=memory, linked=linked)


MAX_CONFIG_CHARACTERS = 4 * 2**20
"""Maximum size of a `config.json`; none on the hub comes near."""


def asked_model(options: argparse.Namespace) -> ModelFacts:
    if bool(options.config) is bool(options.model):
        raise UsageError("Give either the name of a model on the hub or --config FILE.")
    size = None if options.weights_gib is None else Weights(round(options.weights_gib * GIB), "--weights-gib")
    if options.config:
        document, weights, side = _of_file(options.config)
        weights = size or weights
    else:
        known = _named(options.model.removeprefix("hf://"))
        document, weights, side = known.config, size or known.weights, known.side
        if size is None and not options.quantization and not known.commit:
            catalogued = known_model(HubModel(known.name))
            if catalogued and isinstance(catalogued.facts, NotUnderstood):
                raise UsageError(f"{catalogued.facts.message} Or give --weights-gib.")
    if weights and options.quantization:
        weights = replace(weights, exact=False)  # of weights in the stated form, not in the config's
    facts = model_facts(document, weights, side)
    if isinstance(facts, NotUnderstood):
        raise UsageError(facts.message)
    return facts


def _served_model(options: argparse.Namespace, engine: Engine) -> tuple[ModelFacts, Shape]:
    """The model as the engine serves it, and what is asked; raises `UsageError` if the engine refuses these options."""
    given: dict[str, object] = {}  # its quantization is that of the stored weights, and not a request
    if options.dtype in set(DType):
        given["dtype"] = DType(options.dtype)
    if options.kv_cache_dtype in set(KvCacheDType):
        given["kv_cache_dtype"] = KvCacheDType(options.kv_cache_dtype)
    spec = _engine_spec(options, engine).model_copy(update=given)
    _check_types(options)
    model = _name(options)
    facts = engine.as_served(asked_model(options), spec, model)
    resolved = engine.resolved(spec, facts, model)
    if isinstance(resolved, Refusal):
        raise UsageError(resolved.message)
    shape = _shape(options, engine, resolved)
    image = f"engine:v{options.engine_version}" if options.engine_version else engine.image(Device.GPU, Settings())
    if refusal := engine.check_facts(facts) or engine.check_request(resolved, facts, shape, image=image):
        raise UsageError(refusal.message)
    return facts, shape


def _named(name: str) -> Entry:
    """A model by its name: its files on the hub, else its entry in the catalogue. Says which one on stderr."""
    found, known = hub_model(f"hf://{name}", None, Settings()), entry(name)
    if isinstance(found, Entry):
        return found
    if isinstance(found, Failure) and not found.was_unanswered:
        raise UsageError(found.message)
    if known is None:
        near = similar_model(name)
        suggestion = f" Did you mean `{near}`?" if near else ""
        why = f" {found.message}" if found else ""
        cure = "Give --config FILE; `infd inspect -o json` writes such a file."
        raise UsageError(f"{name}: is not in the catalogue.{suggestion} {cure}{why}")
    if found:
        print(f"{found.message} The facts are those of the catalogue ({known.source}).", file=sys.stderr)
    return known


def _of_file(path: str) -> tuple[object, Weights | None, SideFiles]:
    """A `config.json`, or the output of `infd inspect -o json`, which has the checkpoint size too."""
    text = file_text(path, MAX_CONFIG_CHARACTERS)
    if len(text) > MAX_CONFIG_CHARACTERS:
        raise UsageError(f"{path}: is larger than {MAX_CONFIG_CHARACTERS // 2**20} MiB, so it is not a config.json.")
    try:
        document: object = json.loads(text.removeprefix("\ufeff"))  # as `json.loads` reads bytes
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid JSON.") from error
    result = parsed_result(json.dumps(document))
    if isinstance(result, Failure):
        raise UsageError(result.message)
    return (result.config, result.weights, result.side) if result else (document, None, NO_SIDE_FILES)
