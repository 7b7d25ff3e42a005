"""The options of `transformers serve` (transformers 5.19.0, `cli/serve.py`), their classes, and the refusal of others.

Its parser knows no abbreviations. Users write a value behind `=`, so that each argument can be judged alone.
"""

from collections.abc import Mapping, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.classified import (
    LIBRARY_SECRETS,
    LIBRARY_VARIABLES,
    REASONS,
    Class,
    Classified,
    from_reasons,
)
from inference_operator.engines.environment import MANAGED, NO_FIELD
from inference_operator.engines.validation import OptionClasses

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

OPTIONS: tuple[Classified, ...] = (
    *from_reasons(MANAGED_OPTIONS, Class.MANAGED),
    *from_reasons(PODS_OPTIONS, Class.PODS),
    *(Classified(name, Class.SAFE) for name in sorted(SAFE_OPTIONS)),
)
"""The class of every option."""

CLASSES = OptionClasses(
    safe=SAFE_OPTIONS,
    managed=frozenset(MANAGED_OPTIONS),
    safe_variables=frozenset(one.name for one in LIBRARY_VARIABLES if one.kind is Class.SAFE),
    managed_variables=frozenset(MANAGED),
    secret_variables=LIBRARY_SECRETS,
    unsafe=frozenset(PODS_OPTIONS),
)
"""The names for which nobody needs the right to create pods."""


def refusal_of_args(args: Sequence[str]) -> Refusal | None:
    """The refusal of the first argument that users may not set, or None.

    Examples:
        >>> refusal_of_args(["--default-seed=7"]) is None
        True
        >>> print(refusal_of_args(["--max-num-seqs=8"]).message)
        spec.engine.args[0]: `transformers serve` takes no such option here. \
Use one of `--chat-template-kwargs`, `--default-seed`, `--reasoning`, or `spec.engine.kind: VLLM`.
    """
    for index, argument in enumerate(args):
        field, (name, equals, _) = f"spec.engine.args[{index}]", argument.partition("=")
        if cure := MANAGED_OPTIONS.get(name):
            return Refusal(Reason.MANAGED_ARGUMENT, field, f"`{name}` is managed by the operator.", cure)
        if name not in SAFE_OPTIONS | PODS_OPTIONS.keys():
            known = ", ".join(f"`{one}`" for one in sorted(SAFE_OPTIONS | PODS_OPTIONS.keys()))
            cure = f"Use one of {known}, or `spec.engine.kind: VLLM`."
            return Refusal(Reason.UNKNOWN_ARGUMENT, field, "`transformers serve` takes no such option here.", cure)
        if not equals:
            return Refusal(Reason.INVALID_SPEC, field, f"`{name}` has no value.", f"Write `{name}=VALUE`.")
    return None
