# noqa: INP001 (a module for scripts in the image, no module of this package)
"""What vLLM's start does after its configuration: layers of one rank on the meta device, and their KV cache.

The layers are vLLM's own, divided by process groups without processes. So each attention backend is selected and
constructed, and each division of columns, rows, heads, vocabulary and blocks is checked as in a real start.
"""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found, misc"

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stand_ins
from stand_ins import PLATFORM
from vllm.config import replace, set_current_vllm_config
from vllm.distributed.kv_transfer.kv_connector.utils import get_current_attn_backends
from vllm.model_executor.model_loader.utils import initialize_model
from vllm.utils.torch_utils import set_default_torch_dtype
from vllm.v1.attention.backends.utils import get_supported_kv_cache_layouts, resolve_kv_cache_layout
from vllm.v1.core.kv_cache_utils import get_kv_cache_configs
from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

FIRST_LAYERS = 8
"""Layers of a model that are made. Of a model with states all are made where the size of its cache is known."""


def parameters(config: Any) -> set[tuple[str, str]]:  # noqa: ANN401 - a type of vLLM
    """The layers' parameters by name, with their data types."""
    with _start(config):
        return {(name, str(one.dtype)) for name, one in initialize_model(config).named_parameters()}


@contextmanager
def _start(config: Any) -> Iterator[None]:  # noqa: ANN401
    with (
        stand_ins.ranks(config.parallel_config),
        set_current_vllm_config(config),
        set_default_torch_dtype(config.model_config.dtype),
    ):
        yield


def started(config: Any, cache_bytes: int | None) -> dict[str, Any]:  # noqa: ANN401 - a type of vLLM
    """Backends of attention, and the KV cache of one rank.

    Args:
        config: vLLM's configuration.
        cache_bytes: what is left for the cache, on each GPU. It decides about models with states alone; None: unknown.
    """
    PLATFORM.check_if_supports_dtype(
        config.model_config.dtype
    )  # as the worker does (0.32.0, `v1/worker/gpu_worker.py`)
    whole = cache_bytes is not None and config.model_config.is_hybrid
    stand_ins.Layers.most = 0 if whole else FIRST_LAYERS
    with _start(config):
        initialize_model(config)
        _initialize_draft(config)
        PLATFORM.update_block_size_for_backend(config)
        specs = get_kv_cache_spec(config)
    layers = config.compilation_config.static_forward_context
    backends = {one.get_attn_backend().get_name() for one in layers.values() if hasattr(one, "get_attn_backend")}
    found: dict[str, Any] = {
        "backends": sorted(backends),
        "layers": dict(sorted(Counter(type(spec).__name__ for spec in specs.values()).items())),
    }
    if whole and cache_bytes is not None:
        layouts = [layout.name for layout in get_supported_kv_cache_layouts(get_current_attn_backends(config))]
        resolve_kv_cache_layout(config, [layouts], specs.values())
        found["blocks"] = _blocks(config, specs, cache_bytes)
    return found


def _initialize_draft(config: Any) -> None:  # noqa: ANN401
    """Make the layers of a draft, if there is one (0.32.0, `v1/worker/gpu/spec_decode`)."""
    speculative = config.speculative_config
    if speculative is None or not (speculative.uses_draft_model() or speculative.method == "mtp"):
        return
    if speculative.method == "mtp":
        initialize_model(speculative.apply_draft_overrides(config), model_config=speculative.draft_model_config)
        return
    parallel = replace(speculative.draft_parallel_config, rank=config.parallel_config.rank)
    own = replace(config, model_config=speculative.draft_model_config, quant_config=None, parallel_config=parallel)
    with stand_ins.ranks(parallel):
        initialize_model(own, prefix="draft_model")


def _blocks(config: Any, specs: dict[str, Any], cache_bytes: int) -> int:  # noqa: ANN401
    """Blocks of the cache; an error where they are too few for a context, or for the states of all sequences."""
    cache = get_kv_cache_configs(config, [specs], [cache_bytes])[0]
    sequences, blocks = config.scheduler_config.max_num_seqs, cache.num_blocks
    full = config.compilation_config.cudagraph_mode.has_full_cudagraphs()
    if full and cache.has_mamba_layers and sequences > blocks:
        raise ValueError(f"max_num_seqs ({sequences}) exceeds available Mamba cache blocks ({blocks}).")
    return int(blocks)
