"""Arguments of vLLM that the operator sets itself."""

from inference_operator.engines.vllm.flags import MANAGED_FLAGS
from inference_operator.engines.vllm.options import SPELLINGS, resolve_option, written_option


def managed_flag(argument: str) -> str | None:
    """The managed flag that an argument sets, in any spelling."""
    option = written_option(argument)
    names = resolve_option(option) if option else ()
    return next((flag for flag in MANAGED_FLAGS if SPELLINGS.get(flag, flag) in names), None)
