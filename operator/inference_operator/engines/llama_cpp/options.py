"""llama.cpp's images, and the options of `llama-server`: their classes, and the form in which it reads them.

The table is `llama-server --help` of llama.cpp 0.7.0. Options of the class `managed` are those that the operator sets,
and those that read or write files, reach other hosts, run tools, or load other models. Of those that users may set, the
table of flags has those without a value: the parser would read a value of theirs as an option.

Its parser takes `_` for `-`, knows short names, and reads a value from the next argument only.

`python -m e2e.engines.architectures` writes the table of architectures, by GGUF's names of them: it asks the server of
the engine's image which names it knows, and leaves out encoders, draft models, diffusion and speech.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.hardware import Device
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.environment import DANGEROUS, LOADS_LIBRARIES, MANAGED, NO_FIELD
from inference_operator.engines.model_access import Support
from inference_operator.engines.options import ClosedOptions
from inference_operator.text_tables import text_of

VERSION = "0.7.0"
"""The version that options, architectures and memory describe."""
BUILD = "b11669"
"""The build with that version, as in the tags of the project's images (ggml-org/llama.cpp, docs/docker.md)."""
IMAGES: Mapping[Device, str] = {
    Device.GPU: f"ghcr.io/ggml-org/llama.cpp:server-cuda-{BUILD}",
    Device.CPU: f"ghcr.io/ggml-org/llama.cpp:server-{BUILD}",
}
_NAMES = frozenset(text_of(__package__, f"architectures-{VERSION}.txt").splitlines())
_LOST = "llama.cpp has no adapters, reads text only, and computes a fixed number of requests at once."


def is_another_version(image: str) -> bool:
    """Whether the tag of an image names another build. One without a build number is taken for this version.

    Examples:
        >>> is_another_version("registry.example/llama.cpp:server-b11669@sha256:12"), is_another_version("a:own")
        (False, False)
        >>> is_another_version("ghcr.io/ggml-org/llama.cpp:server-cuda-b12000")
        True
    """
    match = re.search(r"-(b\d+)$", image.partition("@")[0])
    return match is not None and match[1] != BUILD


def support(architecture: str, *, image: str) -> Support:
    """Whether llama.cpp generates text with models of an architecture.

    Nothing is known about other versions than that of the table: they may have more.
    """
    if architecture and architecture not in _NAMES and not is_another_version(image):
        return Support(f"llama.cpp {VERSION} generates no text with models of the architecture `{architecture}`.")
    return Support(lost=_LOST)


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
