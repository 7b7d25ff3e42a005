"""Values of options that name code: a module, or a file of Python.

Other values of the same options are harmless, so the options themselves are not among the dangerous flags.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.options import GivenOption, given_options

_MODULE = re.compile(r"[^/]*\.[^/]*")
"""A name in a module. A module that vLLM imports has a dot in its name, and a path in a hub a slash."""
_FILE = re.compile(r".+", re.DOTALL)
_QUOTED = re.compile(r'("(?:[^"\\]|\\.)*")')
_SHORT_NUMBER = re.compile(r"\b\d+(?:\.\d+)?[kKmMgGtT]\b")
"""A number such as `80m`, which vLLM reads in JSON (0.32.0, engine/arg_utils.py)."""


@dataclass(frozen=True, slots=True)
class CodeValue:
    option: str
    key: str
    """Empty for the whole value."""
    names_code: re.Pattern[str]
    meaning: str = "a name in a module"

    @property
    def name(self) -> str:
        return f"{self.option}.{self.key}" if self.key else self.option


CODE_VALUES = (
    CodeValue("--distributed-executor-backend", "", _MODULE),  # v1/executor/abstract.py
    CodeValue("--compilation-config", "backend", _MODULE),  # config/compilation.py
    CodeValue("--compilation-config", "inductor_passes", _MODULE),
    # v1/structured_output/__init__.py
    CodeValue("--structured-outputs-config", "reasoning_parser_plugin", _FILE, "a file of Python"),
)
"""Values that vLLM 0.32.0 imports."""


def refusal_of_named_code(args: Sequence[str], *, allowed: Collection[str] = ()) -> Refusal | None:
    """The refusal of the first value that names code, unless the operator's settings allow its option; or None."""
    for value in CODE_VALUES:
        for given in given_options(args, value.option):
            if value.option not in allowed and any(map(value.names_code.fullmatch, _texts(given, value.key))):
                problem = f"`{value.name}` loads code that its value names, which is not allowed here."
                cure = (
                    f"Remove it, or ask the operator's administrator to add `{value.option}` to the setting"
                    " `allowedArguments`."
                )
                field = f"spec.engine.args[{given.index}]"
                return Refusal(Reason.ARGUMENT_NOT_ALLOWED, field, problem, cure)
    return None


def _texts(given: GivenOption, key: str) -> Iterator[str]:
    value = _parsed(given.value or "")
    if not key or given.key.partition(".")[0].rstrip("+") == key:
        yield from _leaves(value)
    elif not given.key and isinstance(value, dict):
        yield from _leaves(value.get(key))


def _parsed(text: str) -> object:
    parts = (part if part.startswith('"') else _SHORT_NUMBER.sub("0", part) for part in _QUOTED.split(text))
    try:
        return json.loads("".join(parts))
    except (ValueError, RecursionError):
        return text


def _leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif isinstance(value, str):
        yield value
