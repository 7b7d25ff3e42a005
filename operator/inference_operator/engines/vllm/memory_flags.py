"""Options of `vllm serve` that decide how much memory it takes (vLLM 0.32.0): from spec to sizing and to arguments."""

import re
from collections.abc import Iterator, Sequence

from inference_operator.api.engine import ADAPTER_RANKS, DEFAULT_ADAPTER_RANK, DType, EngineSpec, KvCacheDType
from inference_operator.api.engine_kind import EngineProfile
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.options import Memory
from inference_operator.engines.vllm.adapters import MODULES
from inference_operator.engines.vllm.architectures import whole_encoder
from inference_operator.engines.vllm.memory import LATEST, version_of
from inference_operator.engines.vllm.option_classes import OPTION_CLASSES
from inference_operator.engines.vllm.options import (
    configuration,
    given_options,
    int_value,
    is_given,
    is_on,
    resolve_option,
    value_of,
    written_option,
)
from inference_operator.engines.vllm.speculation import speculation_of
from inference_operator.engines.vllm_image import version_of_image
from inference_operator.models.config import whole_number
from inference_operator.models.facts import ModelFacts
from inference_operator.models.model import ELEMENT_BYTES
from inference_operator.models.quantization import named_quantization
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import BATCHED_TOKENS, CONTEXT, SEQUENCES, Adapters, CacheOptions, Shape

MAX_MODEL_LEN = "--max-model-len"
UTILIZATION = "--gpu-memory-utilization"
MAX_NUM_SEQS = "--max-num-seqs"
MAX_NUM_BATCHED_TOKENS = "--max-num-batched-tokens"
QUANTIZATION = "--quantization"
KV_CACHE_DTYPE = "--kv-cache-dtype"
KV_CACHE_BYTES = "--kv-cache-memory-bytes"
LIMITS = "--limit-mm-per-prompt"
PREFIX_CACHING = "--enable-prefix-caching"
KV_OFFLOADING, TRANSFER = "--kv-offloading-size", "--kv-transfer-config"
EXPERT_PARALLEL = "--enable-expert-parallel"
ENABLE_EPLB, ONE_CACHE_KIND = "--enable-eplb", "--disable-hybrid-kv-cache-manager"
MOST_COPIES, MOST_RANKS = 4096, 1024
BLOCK_SIZE, BLOCK_STEP = "--block-size", 16
"""Tokens of a block of the KV cache are a multiple of it (0.32.0, `v1/attention/backends`)."""
_WITH_DEFAULT_EXPERTS = ("nemotron_h",)
"""Types of models whose configuration names experts also where a model has none."""
UNCOUNTED = frozenset(
    {
        *("--additional-config", "--ec-transfer-config", "--hf-overrides", TRANSFER),
        *(option.name for option in OPTION_CLASSES if option.memory is Memory.UNCOUNTED),
    }
)
"""Options that change memory in a way that sizing does not know, beside the classes of rights of all options."""
ENFORCE_EAGER, GRAPH_FLAGS = "--enforce-eager", ("--compilation-config", "--optimization-level")
"""Arguments with which vLLM captures no CUDA graphs of whole steps, and with which it may capture none."""
PERFORMANCE_MODE, THROUGHPUT_MODE = "--performance-mode", "throughput"
PERFORMANCE_MODE_SINCE = (0, 32)
"""The first version that is known to have it. `throughput` doubles the default batches that no argument sets (0.32.0,
`config/vllm.py`, `engine/arg_utils.py`)."""
_MODES = {EngineProfile.THROUGHPUT: THROUGHPUT_MODE, EngineProfile.LATENCY: "interactivity"}
ENABLE_LORA, MAX_LORAS, MAX_LORA_RANK = "--enable-lora", "--max-loras", "--max-lora-rank"
MAX_CPU_LORAS = "--max-cpu-loras"
KEPT_PER_SLOT = 4
"""Adapters in host memory for each slot. Those beyond them are read from the claim again when they are used."""
MAX_ADAPTERS = 65_536
"""vLLM refuses more; they are a mistake."""
_AMOUNT = re.compile(r"(\d{1,15}(?:\.\d{1,6}(?=[kmgt]))?)([kmgtKMGT]?)", re.ASCII)
_BINARY_FRACTION = re.compile(r"\d{1,15}\.\d{1,6}[KMGT]", re.ASCII)
"""The form that vLLM refuses: it takes decimals with the units k, m, g and t only."""
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
"""Units of amounts (0.32.0, `utils/argparse_utils.py`, `human_readable_int`). No machine needs more digits."""
MAX_CACHE_BYTES = 2**50
"""A larger cache is a mistake and is refused. Its size would not fit into the status."""


def shape_of(engine: EngineSpec) -> Shape:
    """The request of a spec, in the types of sizing.

    The memory of CUDA graphs is counted with `--enforce-eager` too: an engine then takes less than is counted.
    """
    args = engine.args
    return Shape(
        context=engine.max_model_len,
        utilization=engine.gpu_memory_utilization,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        kv_cache_dtype=engine.kv_cache_dtype,
        dtype="" if engine.dtype is DType.AUTO else engine.dtype,
        element_bytes=ELEMENT_BYTES.get(engine.dtype),
        quantization=named_quantization(engine.quantization) if engine.quantization else None,
        cpu_offload_gib=float(engine.cpu_offload_gib),
        video=engine.multimodal.video or is_given(args, LIMITS),  # they may allow it
        kv_offload_gib=float(engine.kv_offload.gib) if engine.kv_offload else 0.0,
        kv_offload_auto=engine.kv_offload is not None and not engine.kv_offload.gib,
        kv_cache_bytes=given_cache_bytes(args),
        cache=_cache_options(args),
        adapters=adapters_of(engine) if engine.adapter_slots else _adapters(args),
        speculation=speculation_of(engine.speculative),
        doubled_batches=performance_mode(engine) == THROUGHPUT_MODE,
        whole_graphs=not (is_on(args, ENFORCE_EAGER) or any(value_of(args, flag) for flag in GRAPH_FLAGS)),
        whole_encoder=whole_encoder(args),
        expert_parallel=is_on(args, EXPERT_PARALLEL),
        redundant_experts=_redundant_experts(args),
        uncounted=_uncounted(args),
    )


def performance_mode(engine: EngineSpec) -> str:
    """The value of `--performance-mode` for the profile; empty for vLLM's own, and for images that do not have it.

    Of an image without a version in its tag nothing is known; the operator's default has it.
    """
    version = version_of(version_of_image(engine.image)) if engine.image else LATEST
    return _MODES.get(engine.profile, "") if version and version >= PERFORMANCE_MODE_SINCE else ""


def _redundant_experts(args: Sequence[str]) -> int:
    """Copies of experts (0.32.0, `config/parallel.py`, `EPLBConfig`).

    Examples:
        >>> _redundant_experts(["--enable-eplb", "--eplb-config.num_redundant_experts=32"])
        32
        >>> _redundant_experts(['--eplb-config={"num_redundant_experts":32}'])
        0
    """
    copies = configuration(args, "--eplb-config").get("num_redundant_experts")
    return whole_number(copies, MOST_COPIES) or 0 if is_on(args, ENABLE_EPLB) else 0


def _cache_options(args: Sequence[str]) -> CacheOptions:
    of_states = ELEMENT_BYTES.get(value_of(args, "--mamba-cache-dtype") or "")
    return CacheOptions(
        one_kind=is_on(args, ONE_CACHE_KIND),
        ranks=min(MOST_RANKS, max(1, int_value(args, "--decode-context-parallel-size") or 1)),
        keeps_prefixes=caches_prefixes(args),
        convolution_bytes=of_states,
        recurrent_bytes=ELEMENT_BYTES.get(value_of(args, "--mamba-ssm-cache-dtype") or "") or of_states,
    )


def caches_prefixes(args: Sequence[str]) -> bool:
    """Whether prefix caching is on, as it is by default for most models."""
    return is_on([PREFIX_CACHING, *args], PREFIX_CACHING)


def _uncounted(args: Sequence[str]) -> tuple[str, ...]:
    """The options whose effect on memory is not counted, each once.

    Examples:
        >>> _uncounted(["--enable-dbo", "--seed=8", "--max-cudagraph-capture-size", "64", "--enable-dbo"])
        ('--enable-dbo', '--max-cudagraph-capture-size')
    """
    options = [option for argument in args if (option := written_option(argument))]
    names = (spellings[0] for option in options if len(spellings := list(resolve_option(option))) == 1)
    return tuple(dict.fromkeys(name for name in names if name in UNCOUNTED))


def refusal_of_cache_options(facts: ModelFacts, args: Sequence[str]) -> Refusal | None:
    """The refusal of options without which, or with which, vLLM does not start this model; or None.

    Layers with states and layers with keys have no cache in common (0.32.0, `v1/core/kv_cache_utils.py`,
    `unify_hybrid_kv_cache_specs`). Copies of experts need ranks with whole experts (`config/parallel.py`).
    """
    if is_on(args, ONE_CACHE_KIND) and facts.has_states:
        problem, cure = f"`{ONE_CACHE_KIND}` is not possible for a model whose layers keep states.", "Remove it."
    elif (size := int_value(args, BLOCK_SIZE)) and size % BLOCK_STEP:
        problem = f"No attention has blocks of {size} tokens."
        cure = f"Set `{BLOCK_SIZE}` to a multiple of {BLOCK_STEP}."
    elif is_on(args, EXPERT_PARALLEL) and facts.experts is None and facts.model_type not in _WITH_DEFAULT_EXPERTS:
        problem, cure = f"`{EXPERT_PARALLEL}` is not possible for a model without experts.", "Remove it."
    elif is_on(args, ENABLE_EPLB) and not is_on(args, EXPERT_PARALLEL):
        problem, cure = f"`{ENABLE_EPLB}` needs whole experts on each rank.", f"Add `{EXPERT_PARALLEL}`, or remove it."
    else:
        return None
    return Refusal(Reason.INVALID_SPEC, "spec.engine.args", problem, cure)


def adapters_of(engine: EngineSpec) -> Adapters:
    """The slots for `model.adapters`.

    Examples:
        >>> slots = adapters_of(EngineSpec(adapterSlots=4, maxAdapterRank=32))
        >>> slots.rank, slots.active, slots.kept
        (32, 4, 16)
    """
    slots, rank = engine.adapter_slots or 0, engine.max_adapter_rank or DEFAULT_ADAPTER_RANK
    return _slots(engine.args, rank=rank, active=slots, kept=KEPT_PER_SLOT * slots)


def _adapters(args: Sequence[str]) -> Adapters | None:
    if not is_on(args, ENABLE_LORA):
        return None
    active = min(MAX_ADAPTERS, max(1, int_value(args, MAX_LORAS) or 1))
    return _slots(
        args,
        rank=min(ADAPTER_RANKS[-1], int_value(args, MAX_LORA_RANK) or DEFAULT_ADAPTER_RANK),
        active=active,
        kept=min(MAX_ADAPTERS, max(active, int_value(args, MAX_CPU_LORAS) or 0)),
    )


def _slots(args: Sequence[str], *, rank: int, active: int, kept: int) -> Adapters:
    """Slots. Restrictions to some layers are not read: an engine then takes less memory than is counted."""
    return Adapters(
        rank=rank,
        active=active,
        kept=kept,
        divided=is_on(args, "--fully-sharded-loras"),
        element_bytes=ELEMENT_BYTES.get(value_of(args, "--lora-dtype") or ""),
        graph_sets=1 + (_captured_counts(active) if is_on(args, "--specialize-active-lora") else 1),
        tower=is_on(args, "--enable-tower-connector-lora"),
    )


def _captured_counts(active: int) -> int:
    """How many numbers of active adapters get CUDA graphs: powers of two, and all (0.32.0, `lora/utils.py`).

    Examples:
        >>> _captured_counts(1), _captured_counts(4), _captured_counts(5)
        (2, 4, 4)
    """
    most = active + 1
    return len({most, *(2**power for power in range(most.bit_length()) if 2**power <= most)})


def given_cache_bytes(args: Sequence[str]) -> int | None:
    """The size of the KV cache in the arguments, in bytes; None if there is none or vLLM refuses it.

    Examples:
        >>> given_cache_bytes(["--kv_cache_memory_bytes=64M"]), given_cache_bytes(["--kv-cache-memory", "1g"])
        (67108864, 1000000000)
        >>> given_cache_bytes(["--kv-cache-memory-bytes=57.2g"])
        57200000000
        >>> given_cache_bytes(["--seed=8"]) is None
        True
    """
    amount = _AMOUNT.fullmatch(value_of(args, KV_CACHE_BYTES) or "")
    return int(float(amount[1]) * _UNITS[amount[2]]) if amount else None


def refusal_of_cache_bytes(args: Sequence[str]) -> Refusal | None:
    """The refusal of a KV cache larger than any machine's memory, or of an amount that vLLM cannot read; or None."""
    amount, size = value_of(args, KV_CACHE_BYTES) or "", given_cache_bytes(args)
    if _BINARY_FRACTION.fullmatch(amount):
        problem = f"vLLM takes no decimals with the unit `{amount[-1]}`, as in `{amount}`."
        cure = f"Write `{int(float(amount[:-1]) * _UNITS[amount[-1]])}`, which is the same number of bytes."
    elif size is not None and size > MAX_CACHE_BYTES:
        problem = f"`{KV_CACHE_BYTES}` asks for a KV cache of {size // 2**40:,} TiB on each GPU, which none has."
        cure = "Give the bytes of one GPU's cache, for example `64G`, or remove it to use all free memory."
    else:
        return None
    given = list(given_options(args, KV_CACHE_BYTES))
    return Refusal(Reason.INVALID_SPEC, f"spec.engine.args[{given[-1].index}]", problem, cure)


def refusal_of_offload(engine: EngineSpec) -> Refusal | None:
    """The refusal of a KV cache in host memory beside another connector, which vLLM would replace; or None.

    (0.32.0, `config/vllm.py`, `_post_init_kv_transfer_config`.)
    """
    if engine.kv_offload is None or value_of(engine.args, TRANSFER) is None:
        return None
    problem = f"It would replace the connector of `{TRANSFER}` in `spec.engine.args`."
    return Refusal(Reason.INVALID_SPEC, "spec.engine.kvOffload", problem, "Remove one of the two.")


def refusal_of_slots(engine: EngineSpec) -> Refusal | None:
    """The refusal of arguments about adapters beside the fields, or None.

    Examples:
        >>> print(refusal_of_slots(EngineSpec(adapterSlots=4, args=["--enable-lora"])).message)
        spec.engine.args: `--enable-lora` is managed by the operator with `spec.engine.adapterSlots`. \
Remove it; list adapters in `spec.model.adapters`.
    """
    managed = (ENABLE_LORA, MAX_LORAS, MAX_LORA_RANK, MAX_CPU_LORAS, MODULES)
    flag = next((flag for flag in managed if is_given(engine.args, flag)), None)
    if not engine.adapter_slots or flag is None:
        return None
    problem = f"`{flag}` is managed by the operator with `spec.engine.adapterSlots`."
    cure = "Remove it; list adapters in `spec.model.adapters`."
    return Refusal(Reason.MANAGED_ARGUMENT, "spec.engine.args", problem, cure)


def refusal_of_batches(engine: EngineSpec) -> Refusal | None:
    """The refusal of more sequences than tokens in an iteration, which vLLM does not accept; or None.

    Each sequence needs a token (vLLM 0.32.0, `config/scheduler.py`, `verify_max_model_len`).
    """
    sequences, tokens = engine.max_num_seqs, engine.max_num_batched_tokens
    if sequences is None or tokens is None or sequences <= tokens:
        return None
    problem = f"{tokens:,} tokens of an iteration are fewer than its {sequences:,} sequences (`maxNumSeqs`)."
    cure = f"Use at least {sequences}, or leave one of the two fields out."
    return Refusal(Reason.INVALID_SPEC, "spec.engine.maxNumBatchedTokens", problem, cure)


def memory_arguments(engine: EngineSpec, plan: Plan) -> Iterator[str]:
    """Arguments for what sizing decided and what the spec sets. vLLM's defaults apply to the rest.

    The utilization is always set: the memory was computed with it, and another version may have another default.
    """
    if plan.parallel.pipeline > 1:
        yield f"--pipeline-parallel-size={plan.parallel.pipeline}"
    decided = (
        (CONTEXT, MAX_MODEL_LEN, plan.max_model_len),
        (SEQUENCES, MAX_NUM_SEQS, plan.max_num_seqs),
        (BATCHED_TOKENS, MAX_NUM_BATCHED_TOKENS, plan.max_num_batched_tokens),
    )
    yield from (f"{flag}={value}" for name, flag, value in decided if value and name not in plan.left_to_engine)
    if plan.gpu_memory_utilization:
        yield f"{UTILIZATION}={plan.gpu_memory_utilization:g}"
    if plan.kv_cache_bytes and given_cache_bytes(engine.args) is None:
        yield f"{KV_CACHE_BYTES}={plan.kv_cache_bytes}"
    yield from _type_arguments(engine, plan)
    if mode := performance_mode(engine):
        yield f"{PERFORMANCE_MODE}={mode}"
    if engine.adapter_slots:
        slots = adapters_of(engine)
        yield from (ENABLE_LORA, f"{MAX_LORAS}={slots.active}", f"{MAX_LORA_RANK}={slots.rank}")
        yield f"{MAX_CPU_LORAS}={slots.kept}"
    if plan.video_refused:
        yield f'{LIMITS}={{"video":0}}'
    if engine.kv_offload:
        yield f"{KV_OFFLOADING}={engine.kv_offload.gib or plan.kv_offload_gib}"
    if engine.cpu_offload_gib:
        yield f"--cpu-offload-gb={engine.cpu_offload_gib}"


def _type_arguments(engine: EngineSpec, plan: Plan) -> Iterator[str]:
    if engine.dtype is not DType.AUTO:
        yield f"--dtype={engine.dtype}"
    if engine.quantization:
        yield f"{QUANTIZATION}={engine.quantization}"
    kept = plan.kv_cache_dtype if engine.kv_cache_dtype is KvCacheDType.AUTO else engine.kv_cache_dtype
    if kept:
        yield f"{KV_CACHE_DTYPE}={kept}"
