"""SGLang's image, and the options of `sglang.launch_server`, their classes, and what they say about sizes.

The table has every option of SGLang 0.5.23 (`srt/server_args.py`, `ServerArgs.add_cli_args`). Those of the class
`managed` are set by the operator, or they are for several nodes, training, tests, adapters, images and sound, load
plugins, open ports, or read and write files. `e2e/engines/sglang_tables.py` compares the names with its own parser.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine import EngineSpec, KvCacheDType
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.environment import MANAGED, NO_FIELD, not_allowed
from inference_operator.engines.options import ClosedOptions
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.text_tables import rows, text_of

VERSION = "0.5.23"
"""The version that options, parsers, architectures and memory describe."""
IMAGE = f"docker.io/lmsysorg/sglang:v{VERSION}"
"""The image with this version (sgl-project/sglang v0.5.23, docs/get-started/install.mdx)."""
HOME = "/home/sglang"
COMPILED = f"{HOME}/.cache"
"""Folder of all that SGLang and its libraries compile (0.5.23, `srt/environ.py`, `SGLANG_CACHE_DIR`)."""
NEEDS = GpuNeeds(
    capability=(7, 5),
    driver=580,
    cuda="13.0",
    older_gpus="Use newer GPUs, or an image that has code for these ones, in `spec.engine.image`.",
    older_drivers="Install a newer driver. `docker.io/lmsysorg/sglang:v0.5.19-cu129` is the last image for older ones.",
)
"""The needs of the image: the least GPU (0.5.23, `srt/model_executor/model_runner_components/load_model_utils.py`), and
CUDA 13 with its driver (docs/get-started/install.mdx; NVIDIA, CUDA 13.0 release notes)."""
_OWN = re.compile(r"(?:^|/)lmsysorg/sglang:v(\d+(?:\.\d+)*)$")


def gpu_needs(image: str) -> GpuNeeds:
    match = _OWN.search(image.partition("@")[0])
    return NEEDS if match and match[1] == VERSION else GpuNeeds()


_ATTENTION_GROUPS = ("--attn-dp-size", "--attention-data-parallel-size")
_EXPERT_RANKS = ("--ep-size", "--expert-parallel-size", "--ep")
_SPECULATIVE = "--speculative-algorithm"
_COUNT = re.compile(r"[1-9]\d{0,3}", re.ASCII)
LARGEST_PAGE = 256
"""Largest page that a backend of attention needs (0.5.23, `srt/arg_groups`); a batch must have whole pages
(`validation_hook.py`, `check_server_args`)."""

OPTIONS = ClosedOptions.of(
    __package__,
    VERSION,
    command="sglang.launch_server",
    others="Write the long name of an option, such as `--schedule-policy=lpm`.",
    flags=text_of(__package__, f"flags-{VERSION}.txt").split(),
)

OWN_VARIABLES = "SGLANG_"
_SET = (
    *("SGLANG_TIMEOUT_KEEP_ALIVE", "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "SGLANG_GRPC_PORT"),
    *("SGLANG_ENABLE_POST_CAPTURE_KV_SIZING", "SGLANG_CACHE_DIR", "PROMETHEUS_MULTIPROC_DIR"),
)
MANAGED_VARIABLES: Mapping[str, str] = {**MANAGED, **dict.fromkeys(_SET, NO_FIELD)}
"""Variables on which the operator's probes, sizes, metrics and caches rely."""
CLASSES = OPTIONS.classes(MANAGED_VARIABLES, own_prefix=OWN_VARIABLES)

PARSERS: Mapping[str, frozenset[str]] = {
    kind: frozenset(name for word, name in rows(__package__, f"parsers-{VERSION}.txt") if word == kind)
    for kind in ("tool", "reasoning", "quantization")
}
_KV_DTYPES: Mapping[KvCacheDType, str] = {
    KvCacheDType.BFLOAT16: "bfloat16",
    KvCacheDType.FP8: "fp8_e4m3",
    KvCacheDType.FP8_E4M3: "fp8_e4m3",
    KvCacheDType.FP8_E5M2: "fp8_e5m2",
}
AUTO, NONE = "Auto", "None"


def refusal_of_own_variables(env: Sequence[EnvironmentVariable], allowed: Collection[str]) -> Refusal | None:
    """The refusal of the first variable of SGLang's own, or None.

    Some of its 400 name code, files, plugins, another hub or another server (`srt/environ.py`). An administrator may
    allow one by its name.
    """
    for variable in env:
        if variable.name.startswith(OWN_VARIABLES) and variable.name not in {*allowed, *MANAGED_VARIABLES}:
            what = "can change which code and files SGLang uses"
            return not_allowed(f"spec.engine.env[{variable.name}]", variable.name, what, "allowedEnvironment")
    return None


def refusal_of_name(served: str) -> Refusal | None:
    """The refusal of a served name with a colon, which SGLang keeps for adapters; or None."""
    if ":" not in served:
        return None
    return Refusal(Reason.INVALID_SPEC, "spec.model.servedName", "SGLang takes no colon in it.", "Write another name.")


def attention_groups(args: Sequence[str]) -> int:
    """Groups of ranks with attention for requests of their own; 1 without the option."""
    return max(1, _number(args, _ATTENTION_GROUPS))


def divides_experts(args: Sequence[str]) -> bool:
    return _number(args, _EXPERT_RANKS) > 1


def has_drafts(args: Sequence[str]) -> bool:
    return any(argument.partition("=")[0] == _SPECULATIVE for argument in args)


def _number(args: Sequence[str], names: Sequence[str]) -> int:
    values = [value for name, _, value in (argument.partition("=") for argument in args) if name in names]
    return int(values[-1]) if values and _COUNT.fullmatch(values[-1]) else 0


def refusal_of_fields(spec: EngineSpec) -> Refusal | None:
    """The refusal of a value that SGLang has no name for, or None.

    Examples:
        >>> print(refusal_of_fields(EngineSpec(kvCacheDtype="float16")).message)
        spec.engine.kvCacheDtype: SGLang has no such type of KV cache. Use `bfloat16`, `fp8_e4m3` or `fp8_e5m2`.
        >>> print(refusal_of_fields(EngineSpec(toolCallParser="hermess")).cure)
        Use `Auto`, `None`, or one of the names in the documentation of SGLang 0.5.23.
    """
    if spec.kv_cache_dtype is not KvCacheDType.AUTO and spec.kv_cache_dtype not in _KV_DTYPES:
        problem, cure = "SGLang has no such type of KV cache.", "Use `bfloat16`, `fp8_e4m3` or `fp8_e5m2`."
        return Refusal(Reason.INVALID_SPEC, "spec.engine.kvCacheDtype", problem, cure)
    for index, (name, _, count) in enumerate(argument.partition("=") for argument in spec.args):
        if name in (*_ATTENTION_GROUPS, *_EXPERT_RANKS) and not _COUNT.fullmatch(count):
            field, problem = f"spec.engine.args[{index}]", f"`{name}` needs a whole number from 1 on."
            return Refusal(Reason.INVALID_SPEC, field, problem, f"Write it as in `{name}=8`.")
    groups = attention_groups(spec.args)
    if (spec.max_num_batched_tokens or 0) % (LARGEST_PAGE * groups):
        problem = f"SGLang divides a batch into pages of up to {LARGEST_PAGE} tokens, in each of {groups} groups."
        cure = f"Use a multiple of {LARGEST_PAGE * groups}."
        return Refusal(Reason.INVALID_SPEC, "spec.engine.maxNumBatchedTokens", problem, cure)
    named = {
        "toolCallParser": (spec.tool_call_parser, "tool", "`Auto`, `None`, or one of the names"),
        "reasoningParser": (spec.reasoning_parser, "reasoning", "`Auto`, `None`, or one of the names"),
        "quantization": (spec.quantization, "quantization", "one of the names"),
    }
    for field, (value, kind, names) in named.items():
        if value and value not in (AUTO, NONE) and value not in PARSERS[kind]:
            cure = f"Use {names} in the documentation of SGLang {VERSION}."
            return Refusal(Reason.INVALID_SPEC, f"spec.engine.{field}", f"SGLang {VERSION} has no such name.", cure)
    return None


def field_arguments(spec: EngineSpec) -> Iterator[str]:
    """The arguments of the fields that SGLang takes as they are.

    Examples:
        >>> list(field_arguments(EngineSpec(dtype="float16", kvCacheDtype="fp8", toolCallParser="qwen25")))
        ['--dtype=float16', '--kv-cache-dtype=fp8_e4m3', '--tool-call-parser=qwen25', '--reasoning-parser=auto']
    """
    if spec.dtype != "auto":
        yield f"--dtype={spec.dtype}"
    if spec.quantization:
        yield f"--quantization={spec.quantization}"
    if spec.kv_cache_dtype in _KV_DTYPES:
        yield f"--kv-cache-dtype={_KV_DTYPES[spec.kv_cache_dtype]}"
    if spec.cpu_offload_gib:
        yield f"--cpu-offload-gb={int(spec.cpu_offload_gib)}"
    for name, value in (("tool-call", spec.tool_call_parser), ("reasoning", spec.reasoning_parser)):
        if value != NONE:
            yield f"--{name}-parser={'auto' if value == AUTO else value}"
