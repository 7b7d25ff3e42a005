"""`infd fit`: whether a model fits on GPUs, with which parallel sizes, and the memory of one GPU; needs no cluster."""

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from inference_operator.api.engine_profile import EngineProfile
from inference_operator.api.spec import EngineSpec
from inference_operator.cli.fit_answer import Answer, answer_of_infeasible, answer_of_plan, answer_of_shape, report
from inference_operator.cli.gpus import add_gpus, named_gpus
from inference_operator.cli.hub_model import hub_model
from inference_operator.cli.output import add_output, dumped
from inference_operator.cli.parser import UsageError
from inference_operator.engines.base import Engine
from inference_operator.engines.registry import EngineRegistry
from inference_operator.hardware.offers import GpuOffer
from inference_operator.jobs.inspection_result import parsed_result
from inference_operator.jobs.result import Failure
from inference_operator.models.catalogue import entry, names
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
from inference_operator.sizing.budget import EngineOnGpus
from inference_operator.sizing.choice import choose
from inference_operator.sizing.gpu_plan import Infeasible
from inference_operator.sizing.shape import KV_BYTES, ParallelSizes, Shape, SizingInputs
from inference_operator.units import GIB

MAX_CONFIG_BYTES = 4 * 2**20
"""Maximum size of a `config.json`; none on the hub comes near."""
USABLE_FRACTION = 0.98
"""CUDA reports this fraction of a nominal size, which is a whole number of GiB (RTX 4090: 23.5 of 24)."""
USUAL_KINDS = ("T4", "L4", "A10G", "L40S", "RTX-4090", "A100-40GB", "A100-80GB", "H100-80GB", "H200", "B200")
"""GPUs to try if `--gpu` is not given."""
NVLINK_FROM_GIB, NVLINK_40GB = 70, (38, 41)
"""GPUs of these sizes mostly have NVLink: A100-40GB, and all with 80 GB or more."""


def add_arguments(fit: argparse.ArgumentParser) -> None:
    """Add the description and the arguments of `infd fit`."""
    fit.description = (
        "Without --gpu-memory-gib: find the smallest group of GPUs that the model fits on. With it: check "
        "whether the engine would start with exactly the given options."
    )
    fit.add_argument("model", nargs="?", help="name of a model on the hub or in the catalogue: Qwen/Qwen3-8B")
    add_gpus(fit)
    fit.add_argument("--context", _flag("max_model_len"), type=_positive, help="maximum context length in tokens")
    fit.add_argument("--concurrency", type=_positive, help="concurrent requests of 2,048 tokens to plan for")
    profiles = [str(profile) for profile in EngineProfile]
    fit.add_argument("--profile", choices=profiles, default=profiles[0], help="as in spec.engine.profile")
    fit.add_argument("--config", help="config.json of a model, or output of `infd inspect -o json`")
    fit.add_argument("--weights-gib", type=_amount, help="size of the checkpoint in GiB")
    fit.add_argument("--gpu-memory-gib", type=_amount, help="memory of one GPU in GiB, as CUDA reports it")
    fit.add_argument("--tensor", type=_positive, help="tensor parallel size")
    fit.add_argument("--pipeline", type=_positive, default=1, help="pipeline parallel size; default 1")
    fit.add_argument(_flag("gpu_memory_utilization"), type=_fraction, help="fraction of GPU memory to use")
    fit.add_argument(_flag("max_num_seqs"), type=_positive, help="maximum sequences per scheduler iteration")
    fit.add_argument(_flag("max_num_batched_tokens"), type=_positive, help="maximum tokens per iteration")
    fit.add_argument(_flag("quantization"), default="", help="quantization method: fp8, awq, gptq, bitsandbytes …")
    fit.add_argument(_flag("kv_cache_dtype"), default="auto", help="data type of the KV cache: auto, fp8, bfloat16 …")
    fit.add_argument("--dtype", default="auto", help="data type of weights: auto, bfloat16, float16, float32")
    fit.add_argument("--cpu-offload-gib", type=_amount, default=0.0, help="GiB of each GPU's weights in host memory")
    fit.add_argument("--engine-version", type=_version, help="version of the engine; default: the operator's release")
    fit.add_argument(
        "--engine-args",
        type=_arguments,
        default=[],
        metavar="ARGS",
        help="more engine arguments, as in spec.engine.args, for example --engine-args='--enable-lora --max-loras 4'",
    )
    fit.add_argument("--enforce-eager", action="store_true", help="no CUDA graphs")
    add_output(fit)
    fit.add_argument("-v", "--verbose", action="store_true", help="show the memory of one GPU, with sources")
    fit.set_defaults(run=run_fit)


def _flag(field: str) -> str:
    """The option for a field of `spec.engine`, which has the engine's own name.

    Examples:
        >>> _flag("max_model_len")
        '--max-model-len'
    """
    return f"--{field.replace('_', '-')}"


def run_fit(options: argparse.Namespace, engines: EngineRegistry) -> int:
    """Print whether and how the model fits; always 0."""
    answers = list(_answers(options, engines[engines.default]))
    if options.output == "table":
        print("\n".join(report(answers, verbose=options.verbose)))
    else:
        print(dumped([answer.document() for answer in answers], options.output))
    return 0


def _answers(options: argparse.Namespace, engine: Engine) -> Iterator[Answer]:
    facts, shape = _facts(options), _shape(options, engine)

    def on_gpus(offer: GpuOffer) -> EngineOnGpus:
        return engine.on_gpus(f"engine:{options.engine_version}" if options.engine_version else "", offer)

    if options.gpu_memory_gib is not None:
        offer = _exact_offer(options)
        yield answer_of_shape(facts, offer.kind, on_gpus(offer), shape)
        return
    profile = EngineProfile(options.profile)
    wishes = SizingInputs(tensor=options.tensor, concurrency=options.concurrency, profile=profile, shape=shape)
    for text in options.gpu or [f"{kind}:{LINKED_PER_NODE}" for kind in USUAL_KINDS]:
        offer = named_gpus(text)
        plan = choose(facts, [offer], on_gpus, wishes)
        yield answer_of_infeasible(offer, plan) if isinstance(plan, Infeasible) else answer_of_plan(plan)


def _facts(options: argparse.Namespace) -> ModelFacts:
    if bool(options.config) is bool(options.model):
        raise UsageError("Give either the name of a model on the hub or --config FILE.")
    size = None if options.weights_gib is None else Weights(round(options.weights_gib * GIB), "--weights-gib")
    if options.config:
        document, weights, side = _of_file(options.config)
        weights = size or weights
    else:
        known = _named(options.model.removeprefix("hf://"))
        document, weights, side = known.config, size or known.weights, known.side
        if size is None and not options.quantization and not known.commit and (why := _not_sized(known.name)):
            raise UsageError(f"{why} Or give --weights-gib.")
    if weights and options.quantization:
        weights = replace(weights, exact=False)  # of weights in the stated form, not in the config's
    facts = model_facts(document, weights, side)
    if isinstance(facts, NotUnderstood):
        raise UsageError(facts.message)
    return facts


def _not_sized(name: str) -> str:
    """Why the operator does not size this model from the catalogue; empty if it does."""
    known = known_model(HubModel(name))
    return known.facts.message if known and isinstance(known.facts, NotUnderstood) else ""


def _named(name: str) -> Entry:
    """A model by its name: its files on the hub, else its entry in the catalogue. Says which one on stderr."""
    found, known = hub_model(f"hf://{name}", None, Settings()), entry(name)
    if isinstance(found, Entry):
        return found
    if isinstance(found, Failure) and not found.was_unanswered:
        raise UsageError(found.message)
    if known is None:
        near = get_close_matches(name, names(), n=1)
        suggestion = f" Did you mean `{near[0]}`?" if near else ""
        why = f" {found.message}" if found else ""
        cure = "Give --config FILE; `infd inspect -o json` writes such a file."
        raise UsageError(f"{name}: is not in the catalogue.{suggestion} {cure}{why}")
    if found:
        print(f"{found.message} The facts are those of the catalogue ({known.source}).", file=sys.stderr)
    return known


def _of_file(path: str) -> tuple[object, Weights | None, SideFiles]:
    """A `config.json`, or the output of `infd inspect -o json`, which has the checkpoint size too."""
    document = _document(path)
    result = parsed_result(json.dumps(document))
    if isinstance(result, Failure):
        raise UsageError(result.message)
    return (result.config, result.weights, result.side) if result else (document, None, NO_SIDE_FILES)


def _document(path: str) -> object:
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    if len(content) > MAX_CONFIG_BYTES:
        raise UsageError(f"{path}: is larger than {MAX_CONFIG_BYTES // 2**20} MiB, so it is not a config.json.")
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: is not valid JSON.") from error
    return document


def _shape(options: argparse.Namespace, engine: Engine) -> Shape:
    if options.kv_cache_dtype != "auto" and options.kv_cache_dtype not in KV_BYTES:
        raise UsageError(
            f"--kv-cache-dtype: `{options.kv_cache_dtype}` is not allowed. Use auto, {', '.join(KV_BYTES)}."
        )
    if options.dtype != "auto" and options.dtype not in ELEMENT_BYTES:
        raise UsageError(f"--dtype: `{options.dtype}` is not allowed. Use auto, {', '.join(ELEMENT_BYTES)}.")
    shape = replace(
        engine.shape(_arguments_spec(options.engine_args, engine)),
        parallel=ParallelSizes(options.tensor or 1, options.pipeline),
        context=options.context,
        utilization=options.gpu_memory_utilization,
        max_num_seqs=options.max_num_seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        kv_cache_dtype=options.kv_cache_dtype,
        element_bytes=ELEMENT_BYTES.get(options.dtype),
        quantization=_quantization(options.quantization),
        eager=options.enforce_eager,
        cpu_offload_gib=options.cpu_offload_gib,
    )
    return with_draft(shape)


def _arguments_spec(args: list[str], engine: Engine) -> EngineSpec:
    """`spec.engine` with only these arguments; raises `UsageError` if the operator would reject them."""
    try:
        spec = EngineSpec(args=tuple(args))
    except ValidationError as error:
        raise UsageError("--engine-args: has an empty, too long or too many arguments.") from error
    if refusal := engine.check(spec, image="", settings=Settings()):
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
    """The GPU of `--gpu-memory-gib`, of the kind of `--gpu` if that is given."""
    memory = options.gpu_memory_gib
    memory *= USABLE_FRACTION if memory == int(memory) else 1.0
    if options.gpu:
        return replace(named_gpus(options.gpu[0]), memory_gib=memory)
    low, high = NVLINK_40GB
    linked = memory >= NVLINK_FROM_GIB or low <= memory <= high
    return replace(named_gpus(USUAL_KINDS[0]), kind="GPU", memory_gib=memory, linked=linked)


def _arguments(text: str) -> list[str]:
    """The arguments of a text, split as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} has an unclosed quotation mark") from error


def _version(text: str) -> str:
    """A version as an image tag has it.

    Examples:
        >>> _version("0.19"), _version("v0.32.0")
        ('v0.19.0', 'v0.32.0')
    """
    found = re.fullmatch(r"v?(\d+\.\d+)(\.\d+)?", text, re.ASCII)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a version such as 0.32.0")
    return f"v{found[1]}{found[2] or '.0'}"


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2**20:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value


def _fraction(text: str) -> float:
    value = _amount(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction above 0 and at most 1")
    return value
