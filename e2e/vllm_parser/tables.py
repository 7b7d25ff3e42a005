# noqa: INP001 (a module for scripts in the image, no module of this package)
"""vLLM's own answers about methods, architectures and attention, for the tables that the operator has of a version."""

# vLLM and its kind are in the engine's image, not in the environment that checks this file:
# mypy: disable-error-code="import-not-found, misc"

import contextlib
import inspect
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import stand_ins
from start import parameters, started
from transformers import PretrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES
from vllm.config.model import iter_architecture_defaults, try_match_architecture_defaults
from vllm.config.speculative import MTPModelTypes, SpeculativeConfig
from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, get_quantization_config
from vllm.model_executor.models import registry
from vllm.platforms.cuda import _get_backend_priorities
from vllm.platforms.interface import DeviceCapability
from vllm.transformers_utils.config import _CONFIG_REGISTRY

CAPABILITIES = ((7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (11, 0), (12, 0), (12, 1))
"""Compute capabilities of GPUs for which vLLM 0.32's image has code."""
KV_TYPES = ("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")
"""Types of the KV cache that the operator's API has."""
GPU = {"name": "GPU", "memory_bytes": 180 << 30, "count": 8, "linked": True}
_TEXT: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}
_EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 8}
_LATENT: dict[str, Any] = {
    "kv_lora_rank": 512,
    "q_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 512,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.0,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
}
_SPARSE = {"index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128}
ATTENTION: dict[str, dict[str, Any]] = {
    "plain": {**_TEXT, "architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "window": {**_TEXT, "architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 1024},
    "sinks": {
        **_TEXT,
        **_EXPERTS,
        "architectures": ["GptOssForCausalLM"],
        "model_type": "gpt_oss",
        "head_dim": 64,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "mla": {**_TEXT, **_LATENT, "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"},
    "sparse-mla": {
        **_TEXT,
        **_LATENT,
        **_SPARSE,
        "architectures": ["DeepseekV32ForCausalLM"],
        "model_type": "deepseek_v32",
    },
}
"""Configurations of two layers, by the kind of their attention."""
EXPERTS = {**_TEXT, **_EXPERTS, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral"}


def methods() -> dict[str, dict[str, Any]]:
    """Least compute capability and data types of activations of each quantization method."""
    found = {}
    for name in sorted(QUANTIZATION_METHODS):
        config = get_quantization_config(name)
        # An instance method in one class, and a class method in the others.
        listed = inspect.unwrap(getattr(config, "get_supported_act_dtypes"))  # noqa: B009
        types = sorted(
            str(one).removeprefix("torch.") for one in (listed() if inspect.ismethod(listed) else listed(config))
        )
        found[name] = {"capability": config.get_min_capability(), "types": types}
    return found


def sparse_mla() -> list[int]:
    """Major compute capabilities for which one of vLLM's backends of sparse latent attention has kernels.

    As in vLLM, a backend that cannot be imported is none.
    """
    found = set()
    for capability in (DeviceCapability(*one) for one in CAPABILITIES):
        named = _get_backend_priorities(use_mla=True, device_capability=capability)
        for backend in (one for one in named if "SPARSE" in one.name):
            with contextlib.suppress(ImportError):
                made = backend.get_class()
                if made.is_sparse() and made.supports_compute_capability(capability):
                    found.add(capability.major)
    return sorted(found)


def _classes() -> Iterator[tuple[str, Any]]:
    """Each architecture of the registry with what vLLM knows of its class, if that can be imported."""
    own = registry._VLLM_MODELS  # noqa: SLF001
    for name in sorted(set(own) - set(registry._SPECULATIVE_DECODING_MODELS)):  # noqa: SLF001
        with contextlib.suppress(ImportError):
            yield name, registry._ModelInfo.from_model_cls(registry.ModelRegistry.models[name].load_model_cls())  # noqa: SLF001


def traits() -> dict[str, list[str]]:
    """Architectures with states, without stages, and what `--runner=auto` becomes where their name does not tell."""
    found = defaultdict(list)
    for name, info in _classes():
        suffix = try_match_architecture_defaults(name)
        by_name = suffix[1][0] if suffix else "generate"
        runner = "pooling" if info.is_pooling_model else "generate" if info.is_text_generation_model else by_name
        for trait, has in (
            ("hybrid", info.is_hybrid),
            ("states", info.is_attention_free),
            ("pooling", runner == "pooling"),
            ("generate", runner == "generate" != by_name),
            ("whole-encoder", info.supports_multimodal_encoder_tp_data),
            ("one-stage", not info.supports_pp),
        ):
            if has:
                found[trait].append(name)
    found["pooling-suffix"] = sorted(name for name, (runner, _) in iter_architecture_defaults() if runner == "pooling")
    found["mtp"] = next_tokens()
    return dict(sorted(found.items()))


def next_tokens() -> list[str]:
    """Types of models, and architectures, in which vLLM looks for layers that predict further tokens (MTP)."""
    types = {(name, "") for name in {*CONFIG_MAPPING_NAMES, *_CONFIG_REGISTRY}}
    found = []
    for kind, architecture in sorted(types | {("", name) for name, _ in _classes()}):
        config = PretrainedConfig(architectures=[architecture or "None"], num_nextn_predict_layers=1)
        config.model_type = kind or "none"
        with contextlib.suppress(Exception):
            if SpeculativeConfig.hf_config_override(config).model_type in get_args(MTPModelTypes):
                found.append(kind or architecture)
    return found


def online(configured: Callable[[list[str]], Any], folder: Path) -> list[str]:
    """Methods of quantization that vLLM applies while it loads: the layers' parameters are as without it."""
    stand_ins.on_gpu({**GPU, "capability": (10, 0)})
    model = _written(EXPERTS, folder)
    plain = parameters(configured([model]))
    found = []
    for name in sorted(QUANTIZATION_METHODS):
        with contextlib.suppress(Exception):
            if parameters(configured([model, f"--quantization={name}"])) == plain:
                found.append(name)
    return found


def attention(configured: Callable[[list[str]], Any], folder: Path) -> dict[str, dict[str, list[str]]]:
    """For each kind of attention and type of the KV cache the compute capabilities where a backend can be made."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for capability in CAPABILITIES:
        stand_ins.on_gpu({**GPU, "capability": capability})
        for kind, model in ATTENTION.items():
            path = _written(model, folder)
            for kv_type in KV_TYPES:
                with contextlib.suppress(Exception):
                    started(configured([path, f"--kv-cache-dtype={kv_type}", "--dtype=auto"]), None)
                    found[kind][kv_type].append(".".join(map(str, capability)))
    return found


def _written(model: dict[str, Any], folder: Path) -> str:
    path = folder / str(model["model_type"])
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(model))
    return str(path)
