"""`infd fit`: does a model fit on these GPUs, and how; the arithmetic of one GPU, without a cluster."""

import argparse
import json
import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from inference_operator.cli.fit_answer import Answer, answer_of_misfit, answer_of_plan, answer_of_shape, report
from inference_operator.cli.gpus import add_gpus, named_gpus
from inference_operator.cli.mistake import MistakeError
from inference_operator.cli.output import add_output, dumped
from inference_operator.engines.vllm import memory_flags
from inference_operator.engines.vllm.arguments import refusal_of_args
from inference_operator.engines.vllm.memory import vllm_memory
from inference_operator.models.catalogue import entry, names
from inference_operator.models.checkpoint import Weights
from inference_operator.models.facts import Kernel, ModelFacts, Quantization
from inference_operator.models.inspected import Failure, inspection
from inference_operator.models.model import ELEMENT_BYTES, model_facts
from inference_operator.models.not_understood import NotUnderstood
from inference_operator.models.quantization import named_quantization
from inference_operator.models.source import HubModel
from inference_operator.planning.gpu_offers import HINTED_PER_NODE
from inference_operator.planning.known_model import known_model, with_draft
from inference_operator.sizing.budget import Gpu
from inference_operator.sizing.choice import choose
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.gpu_plan import GpuWishes, Misfit
from inference_operator.sizing.shape import KV_BYTES, Shape

GIB = 2**30
LARGEST_CONFIG = 4 * 2**20
"""Bytes of a `config.json` that are read; none on the hub comes near."""
BOXED = 0.98
"""A whole number of GiB is what a card is called after; CUDA reports this part of it (RTX 4090: 23.5 of 24)."""
USUAL_KINDS = ("T4", "L4", "A10G", "L40S", "RTX-4090", "A100-40GB", "A100-80GB", "H100-80GB", "H200", "B200")
"""What is tried where no GPU is named."""
LINKED_FROM_GIB, LINKED_SMALL_GIB = 70, (38, 41)
"""GPUs of these sizes mostly come with NVLink: A100-40GB, and all from 80 GB."""


def add_fit(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The arguments of `infd fit`."""
    fit = commands.add_parser(
        "fit",
        help="whether a model fits on GPUs, and how",
        description="Without --gpu-memory-gib: the smallest group of GPUs that a model fits on. With it: whether "
        "vLLM would start exactly as the other options say.",
    )
    fit.add_argument("model", nargs="?", help="a model of the catalogue, such as Qwen/Qwen3-8B")
    add_gpus(fit)
    fit.add_argument("--context", memory_flags.MAX_MODEL_LEN, type=_whole, help="longest sequence in tokens")
    fit.add_argument("--concurrency", type=_whole, help="typical requests (2,048 tokens) at once")
    fit.add_argument("--config", help="a config.json, or what `infd inspect -o json` says of a model")
    fit.add_argument("--weights-gib", type=_amount, help="size of the whole checkpoint")
    fit.add_argument("--gpu-memory-gib", type=_amount, help="memory of one GPU, as CUDA reports it")
    fit.add_argument("--tensor", type=_whole, help="tensor parallel size")
    fit.add_argument("--pipeline", type=_whole, default=1, help="pipeline parallel size")
    fit.add_argument(memory_flags.UTILIZATION, type=_part, help="part of the GPU that vLLM may use")
    fit.add_argument(memory_flags.MAX_NUM_SEQS, type=_whole, help="sequences at once")
    fit.add_argument(memory_flags.MAX_NUM_BATCHED_TOKENS, type=_whole, help="tokens of a batch")
    fit.add_argument(memory_flags.QUANTIZATION, default="", help="as vLLM is told: fp8, awq, gptq, bitsandbytes …")
    fit.add_argument(memory_flags.KV_CACHE_DTYPE, default="auto", help="auto, fp8, bfloat16 …")
    fit.add_argument("--dtype", default="auto", help="auto, bfloat16, float16, float32")
    fit.add_argument("--cpu-offload-gib", type=_amount, default=0.0, help="weights of each GPU kept by the host")
    fit.add_argument("--engine-version", default="", help="vLLM's version; the operator's own by default")
    fit.add_argument(
        "--engine-args",
        type=_arguments,
        default=[],
        metavar="ARGS",
        help="what else vLLM gets, as in spec.engine.args, for example --engine-args='--enable-lora --max-loras 4'",
    )
    fit.add_argument(memory_flags.ENFORCE_EAGER, action="store_true", help="no CUDA graphs")
    add_output(fit)
    fit.add_argument("-v", "--verbose", action="store_true", help="the arithmetic, with the origin of each number")
    fit.set_defaults(run=run_fit)


def run_fit(options: argparse.Namespace) -> int:
    """Answer, and say so."""
    answers = list(_answers(options))
    if options.output == "table":
        print("\n".join(report(answers, verbose=options.verbose)))
    else:
        print(dumped([one.document() for one in answers], options.output))
    return 0


def _answers(options: argparse.Namespace) -> Iterator[Answer]:
    facts, shape = _facts(options), _shape(options)
    if options.gpu_memory_gib is not None:
        gpu = _exact_gpu(options)
        yield answer_of_shape(facts, gpu, _memory(options, gpu.memory_gib, gpu.name), shape)
        return
    wishes = GpuWishes(tensor=options.tensor, context=options.context, concurrency=options.concurrency, shape=shape)
    for text in options.gpu or [f"{kind}:{HINTED_PER_NODE}" for kind in USUAL_KINDS]:
        offer = named_gpus(text)
        found = choose(facts, [offer], lambda one: _memory(options, one.memory_gib, one.kind), wishes)
        yield answer_of_misfit(offer, found) if isinstance(found, Misfit) else answer_of_plan(found)


def _facts(options: argparse.Namespace) -> ModelFacts:
    if bool(options.config) is bool(options.model):
        raise MistakeError("Name a model of the catalogue, or give --config FILE.")
    size = None if options.weights_gib is None else Weights(round(options.weights_gib * GIB), "--weights-gib")
    if options.config:
        document, weights = _of_file(options.config)
        weights = size or weights
    else:
        known = entry(options.model.removeprefix("hf://"))
        if known is None:
            near = get_close_matches(options.model, names(), n=1)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            raise MistakeError(
                f"{options.model}: is not in the catalogue.{meant} Give --config FILE; `infd inspect -o json` writes"
                " one."
            )
        document, weights = known.config, size or known.weights
        if size is None and not options.quantization and (why := _untold(known.name)):
            raise MistakeError(f"{why} Or give --weights-gib.")
    found = model_facts(document, weights)
    if isinstance(found, NotUnderstood):
        raise MistakeError(found.message)
    return found


def _untold(name: str) -> str:
    """Why the operator does not size this model of the catalogue by what it holds; empty if it does."""
    known = known_model(HubModel(name))
    return known.facts.message if known and isinstance(known.facts, NotUnderstood) else ""


def _of_file(path: str) -> tuple[object, Weights | None]:
    """A `config.json`, or what `infd inspect -o json` says, which knows the size of the checkpoint too."""
    document = _document(path)
    found = inspection(json.dumps(document))
    if isinstance(found, Failure):
        raise MistakeError(found.message)
    return (found.config, found.weights) if found else (document, None)


def _document(path: str) -> object:
    try:
        with Path(path).open("rb") as file:
            content = file.read(LARGEST_CONFIG + 1)
    except OSError as error:
        raise MistakeError(f"{path}: {error.strerror}.") from error
    if len(content) > LARGEST_CONFIG:
        raise MistakeError(f"{path}: is larger than {LARGEST_CONFIG // 2**20} MiB, so it is no config.json.")
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise MistakeError(f"{path}: is no JSON.") from error
    return document


def _shape(options: argparse.Namespace) -> Shape:
    if options.kv_cache_dtype != "auto" and options.kv_cache_dtype not in KV_BYTES:
        raise MistakeError(f"--kv-cache-dtype: {options.kv_cache_dtype} is none of auto, {', '.join(KV_BYTES)}.")
    if options.dtype != "auto" and options.dtype not in ELEMENT_BYTES:
        raise MistakeError(f"--dtype: {options.dtype} is none of auto, {', '.join(ELEMENT_BYTES)}.")
    shape = Shape(
        tensor=options.tensor or 1,
        pipeline=options.pipeline,
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
    args = options.engine_args
    if refusal := refusal_of_args(args, image="") or memory_flags.refusal_of_cache_bytes(args):
        raise MistakeError(f"--engine-args: {refusal.problem} {refusal.cure}")
    return with_draft(memory_flags.with_arguments(shape, args))


def _quantization(name: str) -> Quantization | None:
    if not name:
        return None
    found = named_quantization(name)
    if found is None and not name.startswith(("compressed", "modelopt", "torchao", "quark", "gguf", "inc")):
        raise MistakeError(
            f"--quantization: {name} is not known. Leave it out where config.json says how weights are stored."
        )
    return None if found is None or found.kernel is Kernel.NONE else found


def _exact_gpu(options: argparse.Namespace) -> Gpu:
    memory = options.gpu_memory_gib
    memory *= BOXED if memory == int(memory) else 1.0
    if options.gpu:
        offer = named_gpus(options.gpu[0])
        return Gpu(offer.kind, memory, offer.linked)
    low, high = LINKED_SMALL_GIB
    return Gpu("GPU", memory, linked=memory >= LINKED_FROM_GIB or low <= memory <= high)


def _memory(options: argparse.Namespace, memory_gib: float, product: str) -> EngineMemory:
    return vllm_memory(options.engine_version, memory_gib=memory_gib, product=product)


def _arguments(text: str) -> list[str]:
    """As a shell would divide them."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} has a quotation mark that is not closed") from error


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= 2**31:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def _amount(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 2**20:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount from 0")
    return value


def _part(text: str) -> float:
    value = _amount(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no part above 0 and up to 1")
    return value
