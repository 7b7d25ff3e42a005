"""Requested precision against the model's own files, as vLLM compares them at its start.

Sources: vLLM 0.32.0, `config/model.py` (`_verify_quantization`, `_check_valid_dtype`), `config/vllm.py`
(`_get_quantization_config`), `model_loader/weight_utils.py` (`get_quant_config`), `config/quantization.py` (methods
that quantize while they load), `layers/attention/attention.py` and `v1/attention/backends/mla` (`fp8_e5m2`). What only
some GPUs lack is in `sizing/gpu_support.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from inference_operator.api.engine import DType, EngineSpec, KvCacheDType
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.architectures import SUPPORT
from inference_operator.engines.vllm.arguments import has_known_options
from inference_operator.engines.vllm.options import VERSION, is_on, value_of
from inference_operator.models.facts import Kernel, ModelFacts
from inference_operator.text_tables import rows

QUANTIZATION, DTYPE, KV_CACHE = "spec.engine.quantization", "spec.engine.dtype", "spec.engine.kvCacheDtype"
ALLOW_DEPRECATED = "--allow-deprecated-quantization"
DEPRECATED = ("fbgemm_fp8", "fp_quant")
"""Methods that need that option (`layers/quantization/__init__.py`)."""
FAMILIES = {
    "awq": ("awq", "awq_marlin", "auto_awq", "marlin", "moe_wna16"),
    "gptq": ("gptq", "gptq_marlin", "auto_gptq", "marlin", "moe_wna16"),
}
"""Names that vLLM accepts for a checkpoint's method (`override_quantization_method` of the methods)."""
OVERRIDING = ("modelopt", "auto-round", "auto_round", "inc")
"""Beginnings of checkpoints' methods that replace whatever is requested."""
E5M2 = "fp8_e5m2"
FP8_KEPT = ("fp8", "modelopt", "modelopt_fp4", "modelopt_mxfp8", "quark")
"""The methods with scales for the KV cache, which refuse `fp8_e5m2`; of `compressed-tensors` only
checkpoints that state such scales."""
_UNSTATED = ("", "none", "auto")
RECIPE_CACHES: Mapping[str, str] = dict(rows(__package__, "recipe-caches.txt"))
"""The type of the KV cache that vLLM's recipe for a repository sets on GPUs of every kind (vllm-project/recipes at the
commit in `bench/data/recipes.json`, `base_args` and `extra_args` of variants)."""


def refusal_of_precision(spec: EngineSpec, facts: ModelFacts, *, image: str) -> Refusal | None:
    """Why vLLM does not start with the types and the quantization that are requested for this model; None if it does.

    Args:
        image: the engine's image. Names of methods are refused only if its version is that of the tables.
    """
    of_method = _of_method(spec, facts, known=has_known_options(image))
    return next(chain(of_method, _of_dtype(spec, facts), _of_cache(spec, facts)), None)


def _refusal(field: str, problem: str, cure: str) -> Refusal:
    return Refusal(Reason.UNSUPPORTED_PRECISION, field, problem, cure)


def _requested(spec: EngineSpec) -> str:
    name = (spec.quantization or "").strip().lower()
    return "" if name in _UNSTATED else name


def _of_method(spec: EngineSpec, facts: ModelFacts, *, known: bool) -> Iterator[Refusal]:
    requested, stored = _requested(spec), facts.quantization.method
    used = requested or stored
    if stored and requested and not _accepted(requested, facts):
        problem = f"the model is quantized with `{stored}`, not `{requested}`."
        yield _refusal(QUANTIZATION, problem, "Remove it; vLLM reads the method from the model.")
    if known and used in DEPRECATED and not is_on(spec.args, ALLOW_DEPRECATED):
        field = QUANTIZATION if requested else "spec.model.source"
        cure = f"Use another checkpoint, or add `{ALLOW_DEPRECATED}` to `spec.engine.args`."
        yield _refusal(field, f"vLLM gives up the quantization `{used}`.", cure)
    if known and requested and not stored and requested not in SUPPORT.methods:
        cure = f"Use one of {', '.join(sorted(SUPPORT.online))}, or remove it."
        yield _refusal(QUANTIZATION, f"vLLM {VERSION} has no quantization `{requested}`.", cure)
    plain = facts.quantization.kernel is Kernel.NONE and not stored
    needs_checkpoint = requested in SUPPORT.methods and requested not in SUPPORT.online
    if plain and needs_checkpoint and not _configured(requested, spec.args):
        problem = f"the model's weights are not quantized, and `{requested}` cannot do it while vLLM loads them."
        cure = "Use `fp8_per_tensor`, a checkpoint that is quantized so, or remove it."
        yield _refusal(QUANTIZATION, problem, cure)


def _configured(requested: str, args: Sequence[str]) -> bool:
    """Whether arguments say how to quantize: by vLLM's own configuration, or that of a model's method."""
    given = value_of(args, "--quantization-config") is not None
    return given if requested == "online" else value_of(args, "--hf-overrides") is not None


def _accepted(requested: str, facts: ModelFacts) -> bool:
    stored = facts.quantization.method
    if stored.startswith(OVERRIDING) or (stored == "mxfp4" and facts.model_type == "gpt_oss"):
        return True
    return requested in ("humming", *FAMILIES.get(stored, (stored,)))


def _of_dtype(spec: EngineSpec, facts: ModelFacts) -> Iterator[Refusal]:
    dtype = spec.dtype
    if dtype is DType.AUTO:
        return
    if dtype is DType.FLOAT16 and facts.model_type in SUPPORT.without_float16:
        problem = f"Models of the type `{facts.model_type}` do not run in float16: their values grow too large for it."
        yield _refusal(DTYPE, problem, "Remove it, or use `bfloat16` or `float32`.")
    stored = facts.quantization.method or _requested(spec)
    if (method := SUPPORT.method(stored, facts)) and dtype not in method.types:
        types = " or ".join(f"`{name}`" for name in sorted(method.types & set(DType)))
        yield _refusal(DTYPE, f"`{stored}` weights cannot be computed in {dtype}.", f"Remove it, or use {types}.")


def _of_cache(spec: EngineSpec, facts: ModelFacts) -> Iterator[Refusal]:
    if spec.kv_cache_dtype is not KvCacheDType.FP8_E5M2:
        return
    stored, cure = facts.quantization, "Use `fp8`, or remove it."
    if facts.uses_mla:
        yield _refusal(KV_CACHE, f"Latent attention has no KV cache of `{E5M2}`.", cure)
    if stored.method in FP8_KEPT or (stored.method == "compressed-tensors" and stored.kv_cache_fp8):
        yield _refusal(KV_CACHE, f"`{E5M2}` is not possible with the `{stored.method}` weights of this model.", cure)
