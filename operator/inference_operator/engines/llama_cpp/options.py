"""The options of `llama-server`, their classes, the refusal of others, and the form in which it reads them.

The table is `llama-server --help` of llama.cpp 0.7.0. Options of the class `managed` are those that the operator sets,
and those that read or write files, reach other hosts, run tools, or load other models.

- Its parser takes `_` for `-`, knows short names, and reads the value from the next argument.
- Users write long names with the value behind `=`, so that each argument can be judged alone. A flag with a value, and
  another option without one, are refused: the parser would read the next word as something else.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.classified import LIBRARY_SECRETS, LIBRARY_VARIABLES, Class, Classified, classified
from inference_operator.engines.environment import DANGEROUS, LOADS_LIBRARIES, MANAGED, NO_FIELD
from inference_operator.engines.llama_cpp.image import VERSION
from inference_operator.engines.validation import OptionClasses

_CURES: Mapping[str, str] = {
    "--ctx-size": "Use `spec.engine.maxModelLen`.",
    "--parallel": "Use `spec.engine.maxNumSeqs`.",
    **dict.fromkeys(("--batch-size", "--ubatch-size"), "Use `spec.engine.maxNumBatchedTokens`."),
    "--alias": "Use `spec.model.servedName`.",
    **dict.fromkeys(("--model", "--hf-repo", "--hf-file", "--model-url"), "Use `spec.model.source`."),
    **dict.fromkeys(("--api-key", "--api-key-file"), "Use `spec.router.keys`."),
    **dict.fromkeys(("--gpu-layers", "--n-gpu-layers", "--split-mode"), "Use `spec.parallelism.tensor`."),
}
"""Fields that stand for managed options."""

_TABLE = files(__package__).joinpath(f"option-classes-{VERSION}.txt").read_text(encoding="utf-8")
OPTIONS: tuple[Classified, ...] = tuple(
    replace(one, reason=_CURES.get(one.name, NO_FIELD)) if one.kind is Class.MANAGED else one
    for one in classified(_TABLE)
)
"""The class of every option."""
_BY_NAME = {one.name: one for one in OPTIONS}
FLAGS = frozenset(
    {
        *("--cache-idle-slots", "--no-cache-idle-slots", "--cache-prompt", "--no-cache-prompt", "--check-tensors"),
        *("--context-shift", "--no-context-shift", "--ignore-eos", "--jinja", "--no-jinja", "--perf", "--no-perf"),
        *("--prefill-assistant", "--no-prefill-assistant", "--reasoning-preserve", "--no-reasoning-preserve"),
        *("--repack", "--no-repack", "--skip-chat-parsing", "--no-skip-chat-parsing"),
    }
)
"""The options without a value, of those that users may set. The parser would read a value of theirs as an option."""

OWN_VARIABLES = "LLAMA_"
"""Begins the names of variables that stand for options, such as LLAMA_ARG_PORT."""
PRE_STOP_VARIABLE = "INFERENCE_OPERATOR_PRE_STOP"
"""The variable with the program of the preStop hook."""
MANAGED_VARIABLES: Mapping[str, str] = {**MANAGED, PRE_STOP_VARIABLE: NO_FIELD}
DANGEROUS_VARIABLES: Mapping[str, str] = {
    **DANGEROUS,
    "GGML_BACKEND_PATH": LOADS_LIBRARIES,
    "BASH_ENV": "changes which code bash runs",
}
"""Dangerous variables of all engines, the one with a library of ggml (0.27, `src/ggml-backend-reg.cpp`), and the one
with a program that the bash of the preStop hook would run first."""

CLASSES = OptionClasses(
    safe=frozenset(one.name for one in OPTIONS if one.kind is Class.SAFE),
    managed=frozenset(one.name for one in OPTIONS if one.kind is Class.MANAGED),
    safe_variables=frozenset(one.name for one in LIBRARY_VARIABLES if one.kind is Class.SAFE),
    managed_variables=frozenset(MANAGED_VARIABLES),
    secret_variables=LIBRARY_SECRETS,
    unsafe=frozenset(one.name for one in OPTIONS if one.kind is Class.PODS),
    own_prefix=OWN_VARIABLES,
)
"""The names for which nobody needs the right to create pods."""


def refusal_of_args(args: Sequence[str]) -> Refusal | None:
    """The refusal of the first argument that users may not set, or None.

    Examples:
        >>> refusal_of_args(["--temp=0.5", "--no-cache-prompt"]) is None
        True
        >>> print(refusal_of_args(["--port=80"]).message)
        spec.engine.args[0]: `--port` is managed by the operator. \
Remove it; the operator decides it and has no field for it.
        >>> print(refusal_of_args(["--perf=--agent"]).problem)
        `--perf` takes no value.
        >>> print(refusal_of_args(["-t"]).message)
        spec.engine.args[0]: `llama-server` takes no such option here. \
Write the long name of an option, such as `--threads=8`.
    """
    for index, argument in enumerate(args):
        field, (name, equals, _) = f"spec.engine.args[{index}]", argument.partition("=")
        option = _BY_NAME.get(name)
        if option is None:
            cure = "Write the long name of an option, such as `--threads=8`."
            return Refusal(Reason.UNKNOWN_ARGUMENT, field, "`llama-server` takes no such option here.", cure)
        if option.kind is Class.MANAGED:
            return Refusal(Reason.MANAGED_ARGUMENT, field, f"`{name}` is managed by the operator.", option.reason)
        if equals and name in FLAGS:
            return Refusal(Reason.INVALID_SPEC, field, f"`{name}` takes no value.", f"Write `{name}`.")
        if not equals and name not in FLAGS:
            return Refusal(Reason.INVALID_SPEC, field, f"`{name}` has no value.", f"Write `{name}=VALUE`.")
    return None


def refusal_of_own_variables(env: Sequence[EnvironmentVariable]) -> Refusal | None:
    """The refusal of the first variable that stands for an option, or None.

    Examples:
        >>> print(refusal_of_own_variables([EnvironmentVariable(name="LLAMA_ARG_PORT", value="1")]).problem)
        `LLAMA_ARG_PORT` stands for an option.
    """
    for variable in env:
        if variable.name.startswith(OWN_VARIABLES):
            field, problem = f"spec.engine.env[{variable.name}]", f"`{variable.name}` stands for an option."
            return Refusal(Reason.MANAGED_ARGUMENT, field, problem, "Set the option in `spec.engine.args`.")
    return None


def separated(args: Sequence[str]) -> Iterator[str]:
    """The arguments with each value apart, as the parser reads them.

    Examples:
        >>> list(separated(["--temp=0.5", "--no-cache-prompt", "--chat-template={{a=b}}"]))
        ['--temp', '0.5', '--no-cache-prompt', '--chat-template', '{{a=b}}']
    """
    for argument in args:
        name, equals, value = argument.partition("=")
        yield name
        if equals:
            yield value
