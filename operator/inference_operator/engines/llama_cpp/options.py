"""The options of `llama-server`, their classes, the refusal of others, and the form in which it reads them.

The table is `llama-server --help` of llama.cpp 0.7.0. Options of the class `managed` are those that the operator sets,
and those that read or write files, reach other hosts, run tools, or load other models. Of those that users may set, the
table of flags has those without a value: the parser would read a value of theirs as an option.

Its parser takes `_` for `-`, knows short names, and reads a value from the next argument only.
"""

from collections.abc import Iterator, Mapping, Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.closed_options import ClosedOptions
from inference_operator.engines.environment import DANGEROUS, LOADS_LIBRARIES, MANAGED, NO_FIELD
from inference_operator.engines.llama_cpp.image import VERSION
from inference_operator.text_tables import text_of

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

OPTIONS = ClosedOptions.of(
    __package__,
    VERSION,
    command="llama-server",
    others="Write the long name of an option, such as `--threads=8`.",
    flags=text_of(__package__, f"flags-{VERSION}.txt").split(),
)
CLASSES = OPTIONS.classes(MANAGED_VARIABLES, own_prefix=OWN_VARIABLES)


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
