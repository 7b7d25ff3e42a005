"""Memory of vLLM by version and device, and the time of its own program in each step: the constants of sizing.

"Measured" constants are fitted to vLLM's own logs (`bench/data/startups.csv`, by `python -m bench.sizing`). The others
are from vLLM's source or its pull requests, which are named.
"""

import re
from dataclasses import replace

from inference_operator.api.hardware import Device
from inference_operator.sizing.budget import SPARE
from inference_operator.sizing.engine_memory import LARGEST_GRAPH, EngineMemory, GraphMemory
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.steptime import Overhead

LATEST = (0, 32)
"""The version that the operator ships. Unknown versions are assumed to behave like it."""
V1_DEFAULT = (0, 8)
"""V1 became the default engine (vllm-project/vllm#13726)."""
LEAN_SAMPLER = (0, 17)
"""Measured: Qwen3-14B peaks at 5.64 GiB in 0.15 and 0.16, and at 2.23 from 0.17."""
LARGER_CONTEXT = (0, 18)
"""Measured: 0.13 GiB outside PyTorch up to 0.17, 0.25 from 0.18."""
SECOND_RUNNER = (0, 29)
"""The second model runner became the default (`config/vllm.py`, `use_v2_model_runner`). Its profiling run makes no
copies of the logits, and it keeps the state of each request (`v1/worker/gpu/states.py`, `sample/penalties.py`)."""
GRAPHS_IN_BUDGET = (0, 21)
"""CUDA graphs are subtracted before the KV cache is sized, and 0.92 replaces 0.9 (vllm-project/vllm#38284)."""
HYBRID_CACHE = (0, 10)
"""Separate groups of layers with a sliding window (vllm-project/vllm#20661)."""
TOKENS_BY_CONCURRENCY = (0, 21)
"""Changes what "GPU KV cache size" counts for models with several groups (vllm-project/vllm#43308, #51041)."""
CHECKPOINT_KV_DTYPE = (0, 12)
"""`auto` means the type in a ModelOpt checkpoint (`utils/torch_utils.py`, `resolve_kv_cache_dtype_string`)."""
ALIGNED_STATES = (0, 32)
"""A sequence keeps its own state and the one at the end of its cached prefix; Mamba 2 keeps another one for the prompt.
Sliding windows keep two batches, which overlap (0.32.0, `v1/kv_cache_interface.py`, `MambaSpec`;
`model_executor/layers/mamba/mamba_mixer2.py`; `config/vllm.py`, `max_in_flight_tokens`). 0.23 kept one each."""
PADDED_BELOW, EARLIER_PADDED_BELOW = 1.5, 1.25
"""Groups have the largest kind's number of layers if it is less than this factor times the smallest kind's
(`v1/core/kv_cache_utils.py`, `_get_kv_cache_groups_uniform_page_size`: 0.32.0, 0.19.0)."""
CPU_BLOCK_TOKENS, CPU_LATENT_BLOCK_TOKENS = 128, 16
"""Tokens of a block on CPUs. Without AMX, latent attention has a kernel for 16 only (0.32.0,
`platforms/cpu.py`, `check_and_update_config`)."""
CPU_SEQUENCES, CPU_BATCH = 128, 2048
"""Defaults of `vllm serve` on CPUs (0.32.0, `engine/arg_utils.py`)."""
CPU_STATE_BYTES = 4
"""Recurrent states are float32 on CPUs that have AVX-512 BF16 (0.32.0, `platforms/cpu.py`)."""
BLOCK_PER_SEQUENCE = (0, 20)
"""An engine does not start with fewer blocks of states than sequences (vllm-project/vllm#38270). Earlier versions
capture fewer CUDA graphs then."""
WIDER_BATCHES = (0, 27)
"""GPUs from 160 GiB get 16,384 batched tokens (vllm-project/vllm#51726)."""
LARGE_SEQUENCES = 1024
"""The default of `max_num_seqs` on large GPUs since V1 (0.32.0, `engine/arg_utils.py`)."""
LARGE_GPU_GIB, LARGEST_GPU_GIB = 70, 160
"""GPU memory from which larger default batches apply (v0.9.2, `engine/arg_utils.py`; A100 counts as small)."""
SAMPLER_BYTES, LEAN_SAMPLER_BYTES = 36.0, 12.4
"""Measured, for each logit and besides the logits themselves: float32 logits, sorted copies, indices and cumulative
probabilities; since 0.17 float32 logits, probabilities and random exponentials."""
ACTIVATION_GIB = 0.07
HIDDEN_TENSORS, RUNNER_HIDDEN_TENSORS = 4, 1
"""Residual, input, output, and attention output; the second runner's profiling run skips attention."""
VISION_GIB = 0.1
"""Measured on gemma-3, Kimi-VL, Mistral-Small-3.1 and granite-vision: 0.04 to 0.2 GiB."""
CONTEXT_GIB, EARLIER_CONTEXT_GIB = 0.25, 0.13
GROUPS_GIB: tuple[tuple[tuple[int, int], float, float], ...] = (
    ((0, 12), 2.08, 2.17),
    ((0, 9), 0.55, 2.04),
    ((0, 0), 0.5, 0.5),
)
"""First version, then GiB for two ranks and for more, with NVLink. Measured on H100: 2.06-2.11 and 2.13-2.21 in 0.19,
0.55 for two in 0.11; H200: 2.04 for four in 0.10 (vllm-project/vllm#21429); A100: 0.43 for four in 0.8 (#16570)."""
UNLINKED_GROUP_GIB = 0.3
"""Two to sixteen GPUs on PCIe: 0.20-0.25 GiB (vllm-project/vllm#13061, #7553)."""
STAGE_GIB = 0.07
GRAPHS = GraphMemory(0.32, 0.17, layer_gib=0.018, expert_layer_gib=0.02, in_budget=True)
"""Measured on H100: 28 layers 0.87 GiB, 32 layers 0.91, 46 layers 1.23, 80 layers in pairs 1.61; MoE models more."""
RUNNER_GRAPH_GIB = 0.0435
"""Of each layer, for the 102 graphs of 512 sequences. Measured: the median of three start-ups of 0.32 on one H100
(gt-290, gt-291, gt-292), with all other terms from vLLM's source: 0.045, 0.029 (experts), 0.044."""
FEW_STARTUPS = ", fitted to 3 start-ups"
RUNNER_SPARE = 0.04
"""In place of the usual spare memory, until the graphs are fitted to ten start-ups (`python -m bench.sizing`)."""
BLACKWELL_GRAPH = 1024
"""Largest captured batch on compute capability 10.x (0.32.0, `config/vllm.py`)."""
FLASHINFER_GIB, BLACKWELL, FLASH_ATTENTION = 0.385, 10, (8, 0)
"""Workspace of FlashInfer's attention (0.32.0, `envs.py`, `VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE`). It comes first on
compute capability 10.x, and below 8.0, where FlashAttention has no kernels (`platforms/cuda.py`)."""
GRAPHS_OUTSIDE = GraphMemory(0.32, 0.17, layer_gib=0.018, expert_layer_gib=0.02, in_budget=False)
GRAPHS_V0 = GraphMemory(0.05, 0.1, layer_gib=0.006, expert_layer_gib=0.0, in_budget=False)
"""V0 captured decode only: 28 layers 0.18 GiB."""
UNPROFILED_MXFP4_BYTES = 393_216
"""For each token of a batch. gpt-oss-20b with 8,192 tokens starts at 0.90; at 0.95 it fails in the warm-up, although
2.4 GiB are free after its peak and its graphs. Taken as 3 GiB."""
LATENT_CACHE = (0, 7)
"""Earlier versions kept keys and values of all heads for latent attention (vllm-project/vllm#10927)."""
BLOCK_TOKENS = 16
LONGEST_UNCHUNKED, CHUNK_TOKENS, NEVER_CHUNKED = 32768, 2048, 2**31
"""V0 computes only longer prompts in chunks (v0.6.4, `engine/arg_utils.py`)."""
CHUNKS = (0, 6)
"""Earlier versions never divided a prompt into chunks."""
V0_OVERHEAD = Overhead(step=7.5e-3, sequence=33e-6)
"""Fitted to published measurements of 0.5.4 (`bench/data/throughput.csv`)."""
OVERHEAD = Overhead(step=1e-3, sequence=5e-6)
"""Fitted to those of 0.10 and 0.11. None of a later version is known here, so it stands for those too."""


def vllm_memory(
    version: str = "", *, memory_gib: float, product: str = "", capability: tuple[int, int] = (0, 0)
) -> EngineMemory:
    """The memory behaviour of a version on a device.

    Args:
        version: as vLLM prints it. If it is empty or unreadable, `LATEST` applies.
        capability: CUDA's compute capability, which decides the kernels of attention and the captured batches.
    """
    memory = _of_first_runner(version, memory_gib, product)
    return _of_second_runner(memory, capability) if (version_of(version) or LATEST) >= SECOND_RUNNER else memory


def _of_first_runner(version: str, memory_gib: float, product: str) -> EngineMemory:
    known = version_of(version)
    at = known or LATEST
    pair, group = next((pair, group) for since, pair, group in GROUPS_GIB if at >= since)
    sequences, batched = _batches(at, memory_gib, product)
    context = CONTEXT_GIB if at >= LARGER_CONTEXT else EARLIER_CONTEXT_GIB
    outside = GRAPHS_OUTSIDE if at >= V1_DEFAULT else GRAPHS_V0
    origin = f"vLLM {version.removeprefix('v')}" if known else f"vLLM {'.'.join(map(str, LATEST))}"
    return EngineMemory(
        origin=origin if known or not version else f"{origin}, for the unknown `{version[:40]}`",
        utilization=0.92 if at >= GRAPHS_IN_BUDGET else 0.9,
        max_num_seqs=sequences,
        max_num_batched_tokens=batched,
        longest_unchunked=LONGEST_UNCHUNKED if at >= CHUNKS else NEVER_CHUNKED,
        chunk_tokens=CHUNK_TOKENS,
        block_tokens=BLOCK_TOKENS,
        logit_bytes=LEAN_SAMPLER_BYTES if at >= LEAN_SAMPLER else SAMPLER_BYTES,
        activation_gib=ACTIVATION_GIB,
        hidden_tensors=HIDDEN_TENSORS,
        request_state=False,
        spare=SPARE,
        vision_gib=VISION_GIB,
        group_gib=((1, context), (2, pair), (3, group)),
        unlinked_group_gib=UNLINKED_GROUP_GIB,
        stage_gib=STAGE_GIB,
        graphs=GRAPHS if at >= GRAPHS_IN_BUDGET else outside,
        hybrid_cache=at >= HYBRID_CACHE,
        latent_cache=at >= LATENT_CACHE,
        checkpoint_kv_dtype=at >= CHECKPOINT_KV_DTYPE,
        tokens_by_concurrency=at >= TOKENS_BY_CONCURRENCY,
        state_blocks=2 if at >= ALIGNED_STATES else 1,
        scan_blocks=1 if at >= ALIGNED_STATES else 0,
        state_bytes=None,
        batches_in_flight=2 if at >= ALIGNED_STATES else 1,
        nearly_equal=PADDED_BELOW if at >= ALIGNED_STATES else EARLIER_PADDED_BELOW,
        unprofiled_mxfp4_bytes=UNPROFILED_MXFP4_BYTES,
        block_per_sequence=at >= BLOCK_PER_SEQUENCE,
    )


def _of_second_runner(memory: EngineMemory, capability: tuple[int, int]) -> EngineMemory:
    blackwell = capability[0] == BLACKWELL
    flashinfer = FLASHINFER_GIB if blackwell or (0, 0) < capability < FLASH_ATTENTION else 0.0
    return replace(
        memory,
        logit_bytes=0.0,
        activation_gib=flashinfer,
        hidden_tensors=RUNNER_HIDDEN_TENSORS,
        request_state=True,
        spare=RUNNER_SPARE,
        graphs=GraphMemory(
            0.0,
            0.0,
            layer_gib=RUNNER_GRAPH_GIB,
            expert_layer_gib=0.0,
            in_budget=True,
            largest=BLACKWELL_GRAPH if blackwell else LARGEST_GRAPH,
            whole_steps=True,
            fitted_to=FEW_STARTUPS,
        ),
    )


def vllm_cpu_memory(*, latent: bool) -> EngineMemory:
    """The memory behaviour on CPUs. The operator sets the size of the KV cache there; it is not the remaining memory.

    Without Triton, vLLM runs its first model runner (0.32.0, `config/vllm.py`, `use_v2_model_runner`).

    Examples:
        >>> vllm_cpu_memory(latent=False).block_tokens, vllm_cpu_memory(latent=True).block_tokens
        (128, 16)
    """
    return replace(
        _of_first_runner("", 0.0, ""),
        block_tokens=CPU_LATENT_BLOCK_TOKENS if latent else CPU_BLOCK_TOKENS,
        max_num_seqs=CPU_SEQUENCES,
        max_num_batched_tokens=CPU_BATCH,
        state_bytes=CPU_STATE_BYTES,
        batches_in_flight=1,
    )


def step_overhead(version: str) -> Overhead:
    """The overhead of a version as vLLM prints it; of the latest known one if it is empty or unreadable."""
    return OVERHEAD if (version_of(version) or LATEST) >= V1_DEFAULT else V0_OVERHEAD


def version_of(text: str) -> tuple[int, int] | None:
    """Major and minor version, from a version as vLLM prints it; None if it is unreadable.

    Examples:
        >>> version_of("0.26.1rc1.dev608+g99a10304d"), version_of("v0.9.2"), version_of("nightly")
        ((0, 26), (0, 9), None)
    """
    match = re.match(r"v?([0-9]{1,4})\.([0-9]{1,4})", text.strip())
    return (int(match[1]), int(match[2])) if match else None


def default_sequences(plan: Plan) -> int:
    """VLLM's default of `max_num_seqs` for a plan without one: on CPUs, or on GPUs whose size is unknown.

    For the latter it is the larger default: with the smaller one, routers would keep a large GPU partly idle.
    """
    return CPU_SEQUENCES if plan.device is Device.CPU else LARGE_SEQUENCES


def _batches(at: tuple[int, int], memory_gib: float, product: str) -> tuple[int, int | None]:
    """Defaults of `vllm serve` for sequences and tokens of a batch; None: the version has no default for tokens."""
    if at < V1_DEFAULT:
        return 256, None
    if memory_gib >= LARGEST_GPU_GIB and at >= WIDER_BATCHES:
        return LARGE_SEQUENCES, 16384
    if memory_gib >= LARGE_GPU_GIB and "a100" not in product.lower():
        return LARGE_SEQUENCES, 8192
    return 256, 2048
