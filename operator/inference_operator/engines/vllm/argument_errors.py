"""Known errors of vLLM about arguments, variables and its configuration: they name what is refused, never its value.

A value may come from a Secret or hold a password, and status, Events and logs have other readers than the resource.
"""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.engines.known_error import KnownError, known_error

_PARSER = r"\bvllm(?: serve)?: error: "
_OPTION = r"--?[A-Za-z][\w-]{0,63}"
_NAME = rf"(?:{_OPTION}(?:/{_OPTION}){{0,4}}|[a-z_]{{1,40}})"
"""An argument as the parser itself calls it: all spellings of an option, or a positional argument."""
_WRITTEN = r"(?:--[A-Za-z][\w.-]{0,63}|-[A-Za-z])(?![\w.-])"
"""An option as it is written, without a value that follows a short one directly."""
_CORRECT = "Correct it in `spec.engine.args`"


def _of_parser(wording: str, cause: str) -> KnownError:
    return known_error(Reason.INVALID_ARGUMENT, _PARSER + wording, f"{cause}. {_CORRECT}")


ARGUMENT_ERRORS: Sequence[KnownError] = (
    # Python 3.13, Lib/argparse.py; messages that vLLM's own types raise follow the argument's name (0.32.0,
    # vllm/utils/argparse_utils.py, vllm/engine/arg_utils.py)
    _of_parser(rf"argument (?P<what>{_NAME}): expected (?:\w+ ){{1,4}}argument", "the argument `{what}` needs a value"),
    _of_parser(rf"argument (?P<what>{_NAME}): ignored explicit argument ", "the argument `{what}` takes no value"),
    _of_parser(
        rf"argument (?P<what>{_NAME}): not allowed with argument (?P<other>{_NAME})(?![\w-])",
        "the argument `{what}` is not allowed with `{other}`",
    ),
    _of_parser(rf"argument (?P<what>{_NAME}): ", "vLLM does not accept the value of `{what}`"),
    _of_parser(rf"unrecognized arguments: (?P<what>{_WRITTEN})", "vLLM has no argument `{what}`"),
    _of_parser(
        rf"ambiguous option: (?P<what>{_WRITTEN})",
        "`{what}` abbreviates several arguments of vLLM, so it must be whole",
    ),
    _of_parser(
        rf"the following arguments are required: (?P<what>{_NAME})(?![\w/-])", "the argument `{what}` is required"
    ),
    _of_parser("", "vLLM does not accept its arguments; the engine's log says which"),
    # vllm/envs.py, env_with_choices, env_list_with_choices
    known_error(
        Reason.INVALID_ARGUMENT,
        r" (?:for|in) (?P<what>[A-Z][A-Z0-9_]{0,63})\. Valid options: \[",
        "vLLM does not accept the value of the variable `{what}`. Correct it in `spec.engine.env`",
    ),
)
"""Errors of the parser and of variables. What follows in their line may be a value, so they come before all others."""

_CLASS, _FIELD = r"[A-Za-z_]\w{0,63}", r"[A-Za-z_]\w{0,63}(?:\.\w{1,64}){0,7}"

CONFIGURATION_ERRORS: Sequence[KnownError] = (
    # pydantic_core 2, src/errors/validation_exception.rs: the class, then the field and why in a line each
    known_error(
        Reason.INVALID_ARGUMENT,
        rf"validation errors? for (?P<part>{_CLASS})\n(?P<field>{_FIELD})\n",
        "vLLM does not accept `{field}` in its configuration `{part}`; the engine's log says why",
    ),
    known_error(
        Reason.INVALID_ARGUMENT,
        rf"validation errors? for (?P<part>{_CLASS})(?!\w)",
        "vLLM does not accept its configuration `{part}`; the engine's log says why",
    ),
)
"""Errors of the configuration that vLLM makes of its arguments. More specific errors are worded in the same form."""
