"""The options of `infd fit`."""

import argparse
import re
import shlex

from inference_operator.api.engine_kind import EngineKind, EngineProfile, SpeculativeMethod
from inference_operator.cli.options import FORMATS, add_gpus, amount, number, seconds
from inference_operator.cli.parser import examples

WHOLE, TOKENS, GIB = number(1, 2**31), number(1, 10_000_000), amount(2**20)
"""No model reads more tokens, no machine has more memory."""
SECONDS = {"s": 1, "min": 60, "h": 3600}


def add_arguments(fit: argparse.ArgumentParser) -> None:
    fit.description = (
        "Use it to choose GPUs before there is a file. "
        "Without --gpu-memory-gib: find the sizes that serve best on each kind of GPU; with --rate: engines, GPUs and "
        "cost for a rate of requests. With --gpu-memory-gib: check whether the engine would start with exactly the "
        "given options."
    )
    fit.add_argument("model", nargs="?", help="name of a model on the hub or in the catalogue: Qwen/Qwen3-8B")
    add_gpus(fit)
    kinds = [str(kind) for kind in EngineKind if kind is not EngineKind.AUTO]
    fit.add_argument("--engine", choices=kinds, default="", help="kind of the engine; default: VLLM")
    fit.add_argument(_flag("max_model_len"), dest="context", type=WHOLE, help="maximum context length in tokens")
    fit.add_argument("--concurrency", type=WHOLE, help="concurrent requests of 2,048 tokens to plan for")
    profiles = [str(profile) for profile in EngineProfile]
    fit.add_argument("--profile", choices=profiles, default=profiles[0], help="as in spec.engine.profile")
    fit.add_argument("--config", help="config.json of a model, or output of `infd inspect -o json`")
    fit.add_argument("--weights-gib", type=GIB, help="size of the checkpoint in GiB")
    fit.add_argument("--gpu-memory-gib", type=GIB, help="memory of one GPU in GiB, as CUDA reports it")
    fit.add_argument("--tensor", type=WHOLE, help="tensor parallel size")
    fit.add_argument("--pipeline", type=WHOLE, help="pipeline parallel size")
    fit.add_argument("--data", type=WHOLE, default=1, help="data parallel size, for models with routed experts")
    fit.add_argument("--nodes", type=WHOLE, help="nodes of one engine; default: the fewest that hold the model")
    part = amount(1, is_positive=True)
    fit.add_argument(_flag("gpu_memory_utilization"), type=part, help="fraction of GPU memory to use")
    fit.add_argument(_flag("max_num_seqs"), type=WHOLE, help="maximum sequences per scheduler iteration")
    fit.add_argument(_flag("max_num_batched_tokens"), type=WHOLE, help="maximum tokens per iteration")
    fit.add_argument(_flag("quantization"), default="", help="quantization method: fp8, awq, gptq, bitsandbytes …")
    fit.add_argument(_flag("kv_cache_dtype"), default="auto", help="data type of the KV cache: auto, fp8, bfloat16 …")
    fit.add_argument("--dtype", default="auto", help="data type of weights: auto, bfloat16, float16, float32")
    _add_speculation_and_offload(fit)
    fit.add_argument("--engine-version", type=_version, help="version of the engine; default: the operator's release")
    more = "more engine arguments, as in spec.engine.args, for example --engine-args='--enable-lora --max-loras 4'"
    fit.add_argument("--engine-args", type=_arguments, default=[], metavar="ARGS", help=more)
    fit.add_argument("--enforce-eager", action="store_true", help="no CUDA graphs")
    add_rate(fit)
    fit.add_argument("-v", "--verbose", action="store_true", help="show the memory of one GPU, with sources")
    fit.epilog = examples("infd fit Qwen/Qwen3-8B --gpu L4:4", "infd fit Qwen/Qwen3-32B --rate 20/s --ttft 2s")
    fit.set_defaults(run="fit.command:run")


def _add_speculation_and_offload(fit: argparse.ArgumentParser) -> None:
    fit.add_argument("--cpu-offload-gib", type=GIB, default=0.0, help="GiB of each GPU's weights in host memory")
    methods = [str(method) for method in SpeculativeMethod]
    fit.add_argument("--speculative", choices=methods, default=methods[0], help="as in spec.engine.speculative.method")
    fit.add_argument("--draft", metavar="SOURCE", help="as in spec.engine.speculative.model: hf://org/name")
    fit.add_argument("--draft-tokens", type=WHOLE, help="as in spec.engine.speculative.tokens")
    fit.add_argument("--kv-offload", metavar="MEMORY", help="as in spec.engine.kvOffload.memory: 64Gi")


def _flag(field: str) -> str:
    """The option for a field of `spec.engine`, which has the engine's own name."""
    return f"--{field.replace('_', '-')}"


def _arguments(text: str) -> list[str]:
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


def add_rate(fit: argparse.ArgumentParser) -> None:
    rate = fit.add_argument_group("for a rate of requests")
    rate.add_argument("--rate", type=_rate, help="requests to carry: 20/s, 600/min; prints engines, GPUs and cost")
    rate.add_argument("--prompt", type=TOKENS, help="mean tokens of a prompt")
    rate.add_argument("--answer", type=TOKENS, help="mean tokens of an answer")
    words = "output format: table, json or yaml; default table. A number is that of --answer"
    fit.add_argument("-o", "--output", action=_FormatOrTokens, default=FORMATS[0], metavar="FORMAT", help=words)
    rate.add_argument("--cached", type=amount(1), default=0.0, help="part of prompts that the prefix cache has: 0 to 1")
    rate.add_argument("--ttft", type=seconds, help="time to first token: 500ms")
    rate.add_argument("--tpot", type=seconds, help="time of each further token, in the mean of a request: 30ms")
    rate.add_argument("--percentile", type=WHOLE, help="percentage of requests that keep both, 50 to 99; default 95")
    words = "price of one GPU for an hour; repeatable"
    rate.add_argument("--price", action="append", default=[], metavar="KIND=PRICE", help=words)
    words = "Gbit/s between engines for prompts and answers; default 10"
    rate.add_argument("--network", type=WHOLE, metavar="GBIT", help=words)
    rate.add_argument("--plot", action="store_true", help="draw the latencies of one engine over its load")


class _FormatOrTokens(argparse.Action):
    """`--output json` is the format; `--output 300` are tokens, beside `--prompt 2000`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,  # noqa: ARG002 - argparse's signature
    ) -> None:
        text = str(values)
        if text in FORMATS:
            namespace.output = text
            return
        try:
            namespace.answer = TOKENS(text)
        except argparse.ArgumentTypeError:
            parser.error(f"argument -o/--output: {text!r} is neither {', '.join(FORMATS)} nor a number of tokens")


def _rate(text: str) -> float:
    """Requests in a second.

    Examples:
        >>> _rate("20/s"), _rate("600/min"), _rate("3.5")
        (20.0, 10.0, 3.5)
    """
    number, _, unit = text.partition("/")
    if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", number, re.ASCII) or unit not in ("", *SECONDS) or not float(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate such as 20/s or 600/min")
    return float(number) / SECONDS[unit or "s"]
