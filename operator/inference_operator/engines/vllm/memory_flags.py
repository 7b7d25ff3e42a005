"""Options of `vllm serve` that decide how much memory it takes (vLLM 0.32.0): from the fields that ask for them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import DType, EngineSpec, KvCacheDType
from inference_operator.engines.vllm.given import given, is_on, value_of, whole_of
from inference_operator.engines.vllm.speculation import speculation_of
from inference_operator.models.model import ELEMENT_BYTES
from inference_operator.models.quantization import named_quantization
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Adapters, Shape

MAX_MODEL_LEN = "--max-model-len"
UTILIZATION = "--gpu-memory-utilization"
MAX_NUM_SEQS = "--max-num-seqs"
MAX_NUM_BATCHED_TOKENS = "--max-num-batched-tokens"
QUANTIZATION = "--quantization"
KV_CACHE_DTYPE = "--kv-cache-dtype"
ENFORCE_EAGER = "--enforce-eager"
KV_CACHE_BYTES = "--kv-cache-memory-bytes"
KV_OFFLOADING = "--kv-offloading-size"
USUAL_RANK, LARGEST_RANK = 16, 512
"""Of adapters (0.32.0, `config/lora.py`, `MaxLoRARanks`)."""
MOST_ADAPTERS = 65_536
"""More are a mistake, which vLLM notices."""
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([kmgtKMGT]?)", re.ASCII)
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""How vLLM reads amounts (0.32.0, `engine/arg_utils.py`, `human_readable_int`); no machine has more digits of them."""
MOST_BYTES = 2**50
"""A cache of a PiB is a mistake, which is refused; more would not fit into a status."""
_GIBIBYTES = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)
"""A size in GiB, as a plain number."""


def shape_of(asked: EngineSpec) -> Shape:
    """What is asked, in the words of sizing.

    `--enforce-eager` among the arguments is not read: without CUDA graphs an engine takes less than is counted.

    Examples:
        >>> shape_of(EngineSpec(kvCacheDtype="fp8", maxModelLen=4096)).context
        4096
    """
    named = named_quantization(asked.quantization) if asked.quantization else None
    shape = Shape(
        context=asked.max_model_len,
        utilization=asked.gpu_memory_utilization,
        max_num_seqs=asked.max_num_seqs,
        max_num_batched_tokens=asked.max_num_batched_tokens,
        kv_cache_dtype=asked.kv_cache_dtype,
        element_bytes=ELEMENT_BYTES.get(asked.dtype),
        quantization=named,
        cpu_offload_gib=float(asked.cpu_offload_gib),
    )
    return with_arguments(shape, asked.args)


def with_arguments(shape: Shape, args: Sequence[str]) -> Shape:
    """The same, with what further arguments say about memory.

    Examples:
        >>> found = with_arguments(Shape(), ["--enable-lora", "--max-loras=4", "--max-lora-rank", "64"])
        >>> found.adapters.rank, found.adapters.active, found.adapters.kept
        (64, 4, 4)
        >>> with_arguments(Shape(), ["--kv-offloading-size", "64"]).kv_offload_gib
        64.0
    """
    return replace(
        shape,
        kv_cache_bytes=given_cache_bytes(args),
        kv_offload_gib=_offloaded_gib(args),
        adapters=_adapters(args),
        speculation=speculation_of(args),
    )


def _adapters(args: Sequence[str]) -> Adapters | None:
    """Room for adapters; restrictions to some layers are not read: an engine then takes less than is counted."""
    if not is_on(args, "--enable-lora"):
        return None
    active = min(MOST_ADAPTERS, max(1, whole_of(args, "--max-loras") or 1))
    return Adapters(
        rank=min(LARGEST_RANK, whole_of(args, "--max-lora-rank") or USUAL_RANK),
        active=active,
        kept=min(MOST_ADAPTERS, max(active, whole_of(args, "--max-cpu-loras") or 0)),
        divided=is_on(args, "--fully-sharded-loras"),
        element_bytes=ELEMENT_BYTES.get(value_of(args, "--lora-dtype") or ""),
        graph_sets=1 + (_captured_counts(active) if is_on(args, "--specialize-active-lora") else 1),
        tower=is_on(args, "--enable-tower-connector-lora"),
    )


def _captured_counts(active: int) -> int:
    """Numbers of adapters for which there are CUDA graphs: powers of two, and all (0.32.0, `lora/utils.py`).

    Examples:
        >>> _captured_counts(1), _captured_counts(4), _captured_counts(5)
        (2, 4, 4)
    """
    every = active + 1
    return len({every, *(2**power for power in range(every.bit_length()) if 2**power <= every)})


def _offloaded_gib(args: Sequence[str]) -> float:
    """KV cache in host memory; LMCache keeps it in a process of its own, elsewhere (0.32.0, `config/vllm.py`)."""
    found = _GIBIBYTES.fullmatch(value_of(args, KV_OFFLOADING) or "")
    elsewhere = value_of(args, "--kv-offloading-backend") == "lmcache"
    return float(found[0]) if found and not elsewhere else 0.0


def given_cache_bytes(args: Sequence[str]) -> int | None:
    """The size of the KV cache that arguments ask for; None where they do not, or in words that vLLM would refuse.

    Examples:
        >>> given_cache_bytes(["--kv_cache_memory_bytes=64M"]), given_cache_bytes(["--kv-cache-memory", "1g"])
        (67108864, 1000000000)
        >>> given_cache_bytes(["--seed=8"]) is None
        True
    """
    found = _AMOUNT.fullmatch(value_of(args, KV_CACHE_BYTES) or "")
    return int(float(found[1]) * _UNITS[found[2]]) if found else None


def refusal_of_cache_bytes(args: Sequence[str]) -> Refusal | None:
    """Why no machine has the KV cache that arguments ask for, or None."""
    asked, found = given_cache_bytes(args), list(given(args, KV_CACHE_BYTES))
    if asked is None or asked <= MOST_BYTES:
        return None
    problem = f"`{KV_CACHE_BYTES}` asks for a KV cache of {asked // 2**40:,} TiB on each GPU, which none has."
    cure = "Give the bytes of one GPU's cache, for example `64G`, or leave it out: it is then what is left."
    return Refusal(Reason.INVALID_SPEC, f"spec.engine.args[{found[-1].index}]", problem, cure)


def memory_arguments(asked: EngineSpec, plan: Plan) -> Iterator[str]:
    """The options: what sizing decided, and what it was told; what nobody decided is left to vLLM."""
    if plan.pipeline_parallel_size > 1:
        yield f"--pipeline-parallel-size={plan.pipeline_parallel_size}"
    decided = {
        MAX_MODEL_LEN: plan.max_model_len,
        MAX_NUM_SEQS: plan.max_num_seqs,
        MAX_NUM_BATCHED_TOKENS: plan.max_num_batched_tokens,
        UTILIZATION: plan.gpu_memory_utilization,
    }
    yield from (
        f"{flag}={value:g}" if flag == UTILIZATION else f"{flag}={value}" for flag, value in decided.items() if value
    )
    if plan.kv_cache_bytes and given_cache_bytes(asked.args) is None:
        yield f"{KV_CACHE_BYTES}={plan.kv_cache_bytes}"
    if asked.dtype is not DType.AUTO:
        yield f"--dtype={asked.dtype}"
    if asked.quantization:
        yield f"{QUANTIZATION}={asked.quantization}"
    if asked.kv_cache_dtype is not KvCacheDType.AUTO:
        yield f"{KV_CACHE_DTYPE}={asked.kv_cache_dtype}"
    if asked.cpu_offload_gib:
        yield f"--cpu-offload-gb={asked.cpu_offload_gib}"
