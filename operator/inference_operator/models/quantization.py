"""The quantization of a checkpoint, from its `quantization_config`."""

import re
from collections.abc import Sequence
from dataclasses import replace

from inference_operator.models.compressed_tensors import (
    BLOCK,
    EIGHT,
    LARGEST_BLOCK,
    METHOD,
    MXFP4_GROUP,
    Scheme,
    schemes,
)
from inference_operator.models.config import Config, whole_number
from inference_operator.models.facts import EVERY_PART, Kernel, MatrixPart, Quantization

UNQUANTISED = Quantization(Kernel.NONE, 16)
GROUP = 128
"""Inputs that share a scale if a 4-bit checkpoint does not state it: the default of AutoAWQ and GPTQModel."""
SCALE_BITS, ZERO_BITS = 16, 4
"""Each group has a float16 scale, and with AWQ and GPTQ a 4-bit zero point."""
MICROSCALE_BITS = 8
"""Each group has one 8-bit scale: MXFP4 of 32 elements (OCP Microscaling Formats 1.0, 5.1), NVFP4 of 16."""
NVFP4_GROUP = 16
NF4_BITS = 4.5
"""bitsandbytes keeps a float32 scale for 64 elements (bitsandbytes 0.49, `functional.quantize_4bit`)."""

_METHODS: dict[str, Kernel] = {
    **dict.fromkeys(("fp8", "fbgemm_fp8", "fp8_per_channel", "fp8_per_tensor", "mxfp8", "float-quantized"), Kernel.FP8),
    **dict.fromkeys(("int8", "w8a8", "int-quantized", "experts_int8", "int8_per_channel_weight_only"), Kernel.INT8),
    **dict.fromkeys(("awq", "awq_marlin", "moe_wna16"), Kernel.AWQ),
    **dict.fromkeys(("gptq", "gptq_marlin", "auto-round", "auto_round", "pack-quantized", "int4"), Kernel.GPTQ),
    **dict.fromkeys(("mxfp4", "mxfp4-pack-quantized"), Kernel.MXFP4),
    **dict.fromkeys(("nvfp4", "nvfp4_per_token", "nvfp4-pack-quantized"), Kernel.NVFP4),
    "bitsandbytes": Kernel.BITSANDBYTES,
}

_PARTS: dict[Kernel, tuple[MatrixPart, ...]] = {
    Kernel.MXFP4: (MatrixPart.EXPERTS,),
    Kernel.NVFP4: (MatrixPart.MLP, MatrixPart.EXPERTS),
}
"""Kernels with which only some parts are quantised: gpt-oss: the experts; NVFP4: usually not attention."""
_OF_EXPERTS = ("experts_int8", "int8_per_channel_weight_only", "nvfp4_per_token")
"""Methods that quantize only experts while they load them (vLLM 0.32.0, `config/quantization.py`)."""


def quantization(config: Config) -> Quantization:
    """The quantization of a checkpoint.

    Examples:
        >>> quantization(Config({})).bits
        16
        >>> quantization(Config({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}})).bits
        4.15625
        >>> quantization(Config({"quantization_config": {"quant_method": "fp8", "weight_block_size": [64, 64]}})).group
        64
        >>> mixed = {"expert_dtype": "fp4", "quantization_config": {"quant_method": "fp8"}}
        >>> quantization(Config(mixed)).bits, quantization(Config(mixed)).bits_of(MatrixPart.EXPERTS)
        (8.0, 4.25)
    """
    if not isinstance(config.fields.get("quantization_config"), dict):
        return UNQUANTISED
    section = config.section("quantization_config")
    if section.text("quant_method") == METHOD:
        layers = config.positive("num_hidden_layers") or 1
        return replace(_of_schemes(schemes(section, layers), section), method=METHOD)
    weights = _weights(section)
    bits = weights.positive("num_bits", "bits") or section.positive("bits", "w_bit")
    kernel = _kernel(section, bits)
    block = section.fields.get("weight_block_size")
    if kernel is Kernel.FP8 and isinstance(block, list) and block:
        kernel, group = Kernel.FP8_BLOCK, whole_number(block[-1], LARGEST_BLOCK)
    else:
        group = weights.positive("group_size") or _group_size(section)
    quantization = _of(kernel, bits, group, kv_cache_fp8=_has_fp8_kv_cache(section))
    of_experts = _expert_bits(config, section)
    part_bits = ((MatrixPart.EXPERTS, of_experts),) if of_experts else ()
    return replace(quantization, method=_method(section), part_bits=part_bits)


def _of_schemes(schemes: Sequence[Scheme], section: Config) -> Quantization:
    """The quantization of all groups together: the strictest rule for parallel sizes, and the mean bits of each part.

    Examples:
        >>> experts = Scheme(Kernel.GPTQ, 4, 128, shares={MatrixPart.EXPERTS: 1.0})
        >>> mixed = _of_schemes((Scheme(Kernel.FP8, 8, None, shares={MatrixPart.MLP: 0.5}), experts), Config({}))
        >>> mixed.kernel.value, mixed.group, [mixed.bits_of(part) for part in mixed.parts]
        ('gptq', 128, [12.0, 4.15625])
    """
    kv_cache_fp8 = _has_fp8_kv_cache(section)
    stored = [_of_scheme(scheme, kv_cache_fp8=kv_cache_fp8) for scheme in schemes]
    if not stored:
        return replace(UNQUANTISED, kv_cache_fp8=kv_cache_fp8)
    strictest = max(stored, key=lambda each: (each.kernel is Kernel.FP8_BLOCK, each.kernel is Kernel.GPTQ, each.group))
    bits = dict[MatrixPart, float]()
    for part in EVERY_PART:
        shares = [scheme.shares.get(part, 0.0) for scheme in schemes]
        if whole := sum(shares):
            plain = UNQUANTISED.bits * (1 - whole)
            bits[part] = plain + sum(share * each.bits for share, each in zip(shares, stored, strict=True))
    return replace(strictest, bits=max(bits.values()), parts=tuple(bits), part_bits=tuple(bits.items()))


def _of_scheme(scheme: Scheme, *, kv_cache_fp8: bool) -> Quantization:
    stored = _of(scheme.kernel, scheme.bits, scheme.group, kv_cache_fp8=kv_cache_fp8)
    grouped = scheme.symmetric and scheme.kernel is Kernel.GPTQ
    return replace(stored, bits=stored.bits - ZERO_BITS / stored.group) if grouped else stored


def _method(section: Config) -> str:
    """The engine's name of the method. ModelOpt's checkpoints name their algorithm beside it, or only that.

    Examples:
        >>> _method(Config({"quant_method": "modelopt", "quant_algo": "NVFP4"})), _method(Config({"quant_algo": "FP8"}))
        ('modelopt_fp4', 'modelopt')
        >>> _method(Config({"quant_method": "awq"}))
        'awq'
    """
    name, algorithm = section.text("quant_method").lower(), section.text("quant_algo").upper()
    if algorithm and name in ("", "modelopt"):
        return _OF_MODELOPT.get(algorithm, "modelopt")
    return name


_OF_MODELOPT = {"NVFP4": "modelopt_fp4", "MXFP8": "modelopt_mxfp8", "MIXED_PRECISION": "modelopt_mixed"}
"""Methods by the algorithm of a ModelOpt checkpoint; FP8 is `modelopt` itself (vLLM 0.32.0, `quantization/modelopt.py`,
`override_quantization_method`)."""


def _expert_bits(config: Config, section: Config) -> float:
    """Bits of the experts of a checkpoint whose other parts have 8 bits, as DeepSeek-V4's; 0 if nothing says so.

    vLLM 0.32.0 reads both fields (`models/deepseek_v41/quant_config.py`).
    """
    if section.text("moe_quant_algo").upper() == "NVFP4":
        return 4 + MICROSCALE_BITS / NVFP4_GROUP
    return 4 + MICROSCALE_BITS / MXFP4_GROUP if config.text("expert_dtype") == "fp4" else 0.0


def named_quantization(name: str) -> Quantization | None:
    """The quantization that the engine knows by this name; None if the name does not determine sizes.

    Examples:
        >>> named_quantization("fp8").bits
        8.0
        >>> named_quantization("fp8_per_block").group
        128
        >>> named_quantization("experts_int8").parts
        (<MatrixPart.EXPERTS: 'experts'>,)
        >>> named_quantization("none").kernel is Kernel.NONE
        True
    """
    words = re.split(r"[^a-z0-9_-]+", name.lower().strip())
    if words[0] in ("none", "auto", ""):
        return UNQUANTISED
    if words[0] in ("fp8_per_block", "deepseek_fp8"):
        return replace(_of(Kernel.FP8_BLOCK, EIGHT, BLOCK), method=words[0])
    bits = EIGHT if "int8" in words[1:] else None
    kernel = next((_METHODS[word] for word in words if word in _METHODS), None)
    if kernel is None:
        return None
    found = replace(_of(kernel, bits, None), method=words[0])
    if words[0] in _OF_EXPERTS:
        return replace(found, parts=(MatrixPart.EXPERTS,))
    return replace(found, parts=EVERY_PART) if words[0] == "mxfp4" else found


def _of(kernel: Kernel, bits: int | None, group: int | None, *, kv_cache_fp8: bool = False) -> Quantization:
    match kernel:
        case Kernel.FP8 | Kernel.INT8:
            stored, size = float(EIGHT), 0
        case Kernel.FP8_BLOCK:
            size = group or BLOCK
            stored = EIGHT + 32 / size**2
        case Kernel.AWQ | Kernel.GPTQ:
            size = group or GROUP
            stored = (bits or 4) + (SCALE_BITS + ZERO_BITS) / size
        case Kernel.MXFP4:
            stored, size = 4 + MICROSCALE_BITS / MXFP4_GROUP, MXFP4_GROUP
        case Kernel.NVFP4:
            stored, size = 4 + MICROSCALE_BITS / NVFP4_GROUP, NVFP4_GROUP
        case Kernel.BITSANDBYTES:
            stored, size = (NF4_BITS if (bits or 4) == 4 else float(EIGHT)), 0  # noqa: PLR2004 - bits of its default
        case _:
            stored, size = float(bits or 16), 0
    return Quantization(kernel, stored, size, parts=_PARTS.get(kernel, EVERY_PART), kv_cache_fp8=kv_cache_fp8)


def _kernel(section: Config, bits: int | None) -> Kernel:
    method = " ".join(
        (section.text("quant_algo") or section.text("format") or section.text("quant_method")).lower().split()
    )
    if section.text("quant_method") == "bitsandbytes" and section.flag("load_in_8bit", default=False):
        return Kernel.INT8
    if method in ("mixed-precision", "compressed-tensors"):
        return Kernel.FP8 if (bits or EIGHT) == EIGHT else Kernel.GPTQ
    if method == "mixed_precision":
        return Kernel.FP8 if section.text("quant_method") == "fp8" or bits == EIGHT else Kernel.NVFP4
    first = method.replace("/", " ").split()[0] if method else ""
    return _METHODS.get(method) or _METHODS.get(first) or (Kernel.FP8 if "fp8" in method else Kernel.OTHER)


def _weights(section: Config) -> Config:
    groups = section.fields.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    return Config(first).section("weights") if isinstance(first, dict) else section.section("weights")


def _group_size(section: Config) -> int | None:
    """Inputs that share a scale. None for -1 too (one scale for each column): it does not restrict parallel sizes."""
    return whole_number(section.fields.get("group_size", section.fields.get("q_group_size")), LARGEST_BLOCK)


def _has_fp8_kv_cache(section: Config) -> bool:
    scheme = section.fields.get("kv_cache_scheme", section.fields.get("kv_cache_quant_algo"))
    return scheme == "FP8" or (isinstance(scheme, dict) and scheme.get("num_bits") == EIGHT)
