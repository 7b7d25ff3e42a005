"""Architectures of vLLM: those with an implementation of its own, and those it runs through Transformers' one.

`python -m e2e.architectures` writes the table inside the engine's image, from vLLM's registry and its own check
(0.32.0, `model_executor/models/registry.py`, `_try_resolve_transformers`).
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files

from inference_operator.engines.model_access import Support
from inference_operator.engines.vllm.cli_args import value_of
from inference_operator.engines.vllm.memory import version_of
from inference_operator.engines.vllm.options import VERSION

MODEL_IMPL = "--model-impl"
THROUGH_TRANSFORMERS = "transformers"
"""The value of `--model-impl` for the implementation of Transformers."""

_TABLE = files(__package__).joinpath(f"architectures-{VERSION}.txt").read_text(encoding="utf-8")
_IMPLEMENTATIONS: dict[str, str] = dict(line.split() for line in _TABLE.splitlines())


def support(architecture: str, version: str) -> Support:
    """Whether a version of vLLM runs models of an architecture, and by which implementation.

    Nothing is known about other versions than that of the table: they may have more. An image that does not tell its
    version is taken for this one.

    Args:
        architecture: the name in the model's config; empty if it is unknown.
        version: that of the image; empty if it does not tell.

    Examples:
        >>> support("LlamaForCausalLM", "0.32.0"), support("", "0.32.0").obstacle
        (Support(obstacle='', implementation='', lost=''), '')
        >>> support("HeliumForCausalLM", "0.32.0").implementation
        'transformers'
        >>> support("GPTNeoForCausalLM", "0.32.0").obstacle
        'vLLM 0.32.0 has no implementation of `GPTNeoForCausalLM`, and cannot use that of Transformers.'
    """
    found = _IMPLEMENTATIONS.get(architecture)
    if not architecture or found == "native" or version_of(version or VERSION) != version_of(VERSION):
        return Support()
    if found == THROUGH_TRANSFORMERS:
        lost = f"vLLM {VERSION} has no `{architecture}` of its own and uses that of Transformers, which is slower."
        return Support(implementation=THROUGH_TRANSFORMERS, lost=lost)
    return Support(f"vLLM {VERSION} has no implementation of `{architecture}`, and cannot use that of Transformers.")


def implementation_arguments(args: Sequence[str], implementation: str) -> Iterator[str]:
    """The argument for an implementation, unless the user names one; none without one.

    Examples:
        >>> list(implementation_arguments([], "transformers")), list(implementation_arguments([], ""))
        (['--model-impl=transformers'], [])
    """
    if implementation and value_of(args, MODEL_IMPL) is None:
        yield f"{MODEL_IMPL}={implementation}"
