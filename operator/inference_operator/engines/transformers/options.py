"""The options of `transformers serve` (transformers 5.19.0, `cli/serve.py`) and their classes."""

from collections.abc import Mapping

from inference_operator.engines.classified import REASONS, Class, Classified, from_reasons
from inference_operator.engines.closed_options import ClosedOptions
from inference_operator.engines.environment import MANAGED, NO_FIELD

_CODE = "Remove it; this engine runs no code that comes with a model."
MANAGED_OPTIONS: Mapping[str, str] = {
    "--dtype": "Use `spec.engine.dtype`.",
    "--cb-max-batch-tokens": "Use `spec.engine.maxNumBatchedTokens`.",
    "--quantization": "Use a model whose weights are not quantized, or `spec.engine.kind: VLLM`.",
    "--trust-remote-code": _CODE,
    **dict.fromkeys(
        (
            *("--device", "--host", "--port", "--log-level", "--attn-implementation", "--model-timeout"),
            *("--continuous-batching", "--no-continuous-batching", "--non-blocking", "--no-non-blocking"),
            *("--cb-block-size", "--cb-num-blocks", "--cb-max-memory-percent", "--no-trust-remote-code"),
            *("--cb-use-cuda-graph", "--no-cb-use-cuda-graph"),
            *("--enable-cors", "--no-enable-cors", "--compile", "--no-compile", "--help"),
        ),
        NO_FIELD,
    ),
}
"""Options that the operator sets or refuses, with the cure. `--attn-implementation` can name a kernel of the hub, which
is code; `--log-level` can show prompts."""

SAFE_OPTIONS = frozenset({"--default-seed", "--reasoning"})
PODS_OPTIONS: Mapping[str, str] = {"--chat-template-kwargs": REASONS["json"]}
"""Options with a value that need the right to create pods, with their effect."""

_NAMES = ", ".join(f"`{name}`" for name in sorted(SAFE_OPTIONS | PODS_OPTIONS.keys()))
OPTIONS = ClosedOptions.of(
    (
        *from_reasons(MANAGED_OPTIONS, Class.MANAGED),
        *from_reasons(PODS_OPTIONS, Class.PODS),
        *(Classified(name, Class.SAFE) for name in sorted(SAFE_OPTIONS)),
    ),
    command="transformers serve",
    others=f"Use one of {_NAMES}, or `spec.engine.kind: VLLM`.",
)
CLASSES = OPTIONS.classes(MANAGED)
