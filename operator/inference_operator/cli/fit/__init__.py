"""The options of `infd fit`."""

import argparse
import re
import shlex

from inference_operator.api.duration import duration
from inference_operator.api.engine_kind import EngineKind, EngineProfile
from inference_operator.api.speculative_method import SpeculativeMethod
from inference_operator.cli.options import FORMATS, add_gpus
from inference_operator.cli.parser import examples


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
    fit.add_argument("--context", _flag("max_model_len"), type=_positive, help="maximum context length in tokens")
    fit.add_argument("--concurrency", type=_positive, help="concurrent requests of 2,048 tokens to plan for")
    profiles = [str(profile) for profile in EngineProfile]
    fit.add_argument("--profile", choices=profiles, default=profiles[0], help="as in spec.engine.profile")
    fit.add_argument("--config", help="config.json of a model, or output of `infd inspect -o json`")
    fit.add_argument("--weights-gib", type=_amount, help="size of the checkpoint in GiB")
    fit.add_argument("--gpu-memory-gib", type=_amount, help="memory of one GPU in GiB, as CUDA reports it")
    fit.add_argument("--tensor", type=_positive, help="tensor parallel size")
    fit.add_argument("--pipeline", type=_positive, help="pipeline parallel size")
    fit.add_argument("--data", type=_positive, default=1, help="data parallel size, for models with routed experts")
    fit.add_argument("--nodes", type=_positive, help="nodes of one engine; default: the fewest that hold the model")
    fit.add_argument(_flag("gpu_memory_utilization"), type=_fraction, help="fraction of GPU memory to use")
    fit.add_argument(_flag("max_num_seqs"), type=_positive, help="maximum sequences per scheduler iteration")
    fit.add_argument(_flag("max_num_batched_tokens"), type=_positive, help="maximum tokens per iteration")
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
    fit.add_argument("--cpu-offload-gib", type=_amount, default=0.0, help="GiB of each GPU's weights in host memory")
    methods = [str(method) for method in SpeculativeMethod]
    fit.add_argument("--speculative", choices=methods, default=methods[0], help="as in spec.engine.speculative.method")
    fit.add_argument("--draft", metavar="SOURCE", help="as in spec.engine.speculative.model: hf://org/name")
    fit.add_argument("--draft-tokens", type=_positive, help="as in spec.engine.speculative.tokens")
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


SECONDS = {"s": 1, "min": 60, "h": 3600}


def add_rate(fit: argparse.ArgumentParser) -> None:
    rate = fit.add_argument_group("for a rate of requests")
    rate.add_argument("--rate", type=_rate, help="requests to carry: 20/s, 600/min; prints engines, GPUs and cost")
    rate.add_argument("--prompt", type=_tokens, help="mean tokens of a prompt")
    rate.add_argument("--answer", type=_tokens, help="mean tokens of an answer")
    fit.add_argument(
        "-o",
        "--output",
        action=_FormatOrTokens,
        default=FORMATS[0],
        metavar="FORMAT",
        help="output format: table, json or yaml; default table. A number is that of --answer",
    )
    rate.add_argument("--cached", type=_part, default=0.0, help="part of prompts that the prefix cache has: 0 to 1")
    rate.add_argument("--ttft", type=_seconds, help="time to first token: 500ms")
    rate.add_argument("--tpot", type=_seconds, help="time of each further token, in the mean of a request: 30ms")
    rate.add_argument(
        "--percentile", type=_positive, help="percentage of requests that keep both, 50 to 99; default 95"
    )
    rate.add_argument(
        "--price", action="append", default=[], metavar="KIND=PRICE", help="price of one GPU for an hour; repeatable"
    )
    rate.add_argument(
        "--network", type=_positive, metavar="GBIT", help="Gbit/s between engines for prompts and answers; default 10"
    )
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
            namespace.answer = _tokens(text)
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


def _seconds(text: str) -> float:
    try:
        found = duration(text).total_seconds()
    except ValueError:
        found = 0.0
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 500ms or 2s")
    return found


def _tokens(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) <= MILLION_TOKENS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens")
    return int(text)


MILLION_TOKENS = 10_000_000
"""No model reads more."""


def _part(text: str) -> float:
    if not re.fullmatch(r"0?\.\d{1,4}|0|1|1\.0", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part between 0 and 1")
    return float(text)
