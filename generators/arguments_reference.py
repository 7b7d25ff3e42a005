"""Generates docs/reference/arguments.md: who may set each argument and variable of vLLM."""

from collections.abc import Iterable, Iterator, Mapping

from inference_operator.engines.classified import Class, Classified
from inference_operator.engines.closed_options import ClosedOptions
from inference_operator.engines.environment import NO_FIELD
from inference_operator.engines.llama_cpp.image import VERSION as LLAMA_CPP_VERSION
from inference_operator.engines.llama_cpp.options import OPTIONS as LLAMA_CPP_OPTIONS
from inference_operator.engines.sglang.image import VERSION as SGLANG_VERSION
from inference_operator.engines.sglang.options import OPTIONS as SGLANG_OPTIONS
from inference_operator.engines.transformers.architectures import VERSION as TRANSFORMERS_VERSION
from inference_operator.engines.transformers.transformers import OPTIONS as TRANSFORMERS_OPTIONS
from inference_operator.engines.vllm.flags import (
    DANGEROUS_FLAGS,
    DANGEROUS_VARIABLES,
    MANAGED_FLAGS,
    MANAGED_VARIABLES,
    REMOVED_FLAGS,
)
from inference_operator.engines.vllm.named_code import CODE_VALUES
from inference_operator.engines.vllm.option_classes import (
    LEVELS,
    OPTION_CLASSES,
    SECRET_CURES,
    SECRET_VARIABLES,
    VARIABLE_CLASSES,
    spellings,
)
from inference_operator.engines.vllm.options import VERSION

INTRODUCTION = f"""\
# Arguments and variables of the engine
`spec.engine.args` are arguments of `vllm serve`; `spec.engine.env` are environment variables. The operator reads
arguments as vLLM's parser does: `--name=value` or two list items, dashes or underscores, unambiguous abbreviations,
`--no-name`, short forms, and keys of a JSON value after a dot (`--compilation-config.mode=3`).

If the tag of the engine's image is vLLM {VERSION}, an argument that this version does not have is rejected with similar
names (`UnknownArgument`). Other images may have other arguments, so they are passed to the engine.

This page is generated from `flags.py` and the tables of classes in `operator/inference_operator/engines/vllm`.

## Who may set what
Every option of vLLM {VERSION} has one class, and so has every variable:

- **Managed**: the operator sets it. It is rejected for everybody (`ManagedArgument`, `SecretInSpec`).
- **Must be allowed**: the administrator allows it by name in a setting. The user also needs the right to create pods.
- **Needs the right to create pods**: it reaches beyond the model. What has no class needs the right too.
- **Safe**: whoever may write the resource may set it.

The right is needed unless an argument is written in one of these ways, since an admission policy compares exact names:

- `--name`, `--no-name`, `--name=value`, or `--name` and its value as two items, with a safe name from this page. A
  short spelling must be one of those here. An abbreviation, or a name with underscores, needs the right.
- `--name.key=value` or two items, with a safe key from this page.
- The value does not begin with `{{` or `[`. A policy cannot read JSON, so write single keys after a dot.
"""

LEAVE = """
They can load code, read files or open endpoints, which gives users rights that they may not have otherwise. An
administrator allows them by name, in the chart's values `settings.allowedArguments` and `settings.allowedEnvironment`.
An engine image is code too: see who may set `spec.engine.image`.
"""
NAMED = """
Other values of these arguments need no permission. The setting names the argument without the key.
"""
RIGHT = """
A key after a dot that is safe alone is in the list of keys below.
"""
FOR_SECRETS = ", ".join(f"`{name}`" for name in sorted(SECRET_VARIABLES))
LIBRARIES = f"""
These are variables of vLLM and of the libraries that it uses. Any other variable needs the right too. A value from a
Secret needs it as well, unless the variable is made for a secret: {FOR_SECRETS}.
"""

CLOSED = f"""
All other arguments are refused (`UnknownArgument`). A value is written behind `=`. Variables are those of the libraries
above, without those of vLLM. With `kind: Auto`, an argument or a variable needs no right only if it needs none for each
engine. This table is of transformers {TRANSFORMERS_VERSION}.
"""
_KIND, _WHO = " (`engine.kind: {}`)", "who may set it"
CLOSED_BY_LLAMA_CPP = f"""
Write long names, and a value behind `=`. All other options are refused: the operator sets them, or they read or write
files, reach other hosts, run tools, or load other models. Variables that begin with `LLAMA_` stand for options and are
refused too. This table is of llama.cpp {LLAMA_CPP_VERSION}.
"""
CLOSED_BY_SGLANG = f"""
Write long names, and a value behind `=`. All other options are refused: the operator sets them, or they are for several
nodes, training, tests, adapters, images and sound, load plugins, open ports, or read and write files. With `Auto` these
names do not count, since it never takes SGLang. This table is of SGLang {SGLANG_VERSION}.
"""


def page() -> str:
    """The page of arguments."""
    needs, variables_need = _needing(OPTION_CLASSES, DANGEROUS_FLAGS), _needing(VARIABLE_CLASSES, DANGEROUS_VARIABLES)
    tables = (
        _table("Arguments that the operator sets itself (`ManagedArgument`)", "instead", MANAGED_FLAGS),
        _table("Variables that the operator sets itself (`ManagedArgument`)", "instead", MANAGED_VARIABLES),
        _table("Secrets (`SecretInSpec`)", "instead", SECRET_CURES),
        _table("Arguments that must be allowed (`ArgumentNotAllowed`)", "what it does", DANGEROUS_FLAGS, LEAVE),
        _table("Values that must be allowed (`ArgumentNotAllowed`)", "if it is", _code_values(), NAMED),
        _table("Variables that must be allowed (`ArgumentNotAllowed`)", "what it does", DANGEROUS_VARIABLES),
        _table("Arguments that need the right to create pods", "what it does", needs, RIGHT),
        _table("Safe keys of these arguments", "keys", _keys()),
        _list("Safe arguments", (*_safe_options(), ", ".join(f"`{level}`" for level in LEVELS))),
        _table("Variables that need the right to create pods", "what it does", variables_need, LIBRARIES),
        _list("Safe variables", (f"`{one.name}`" for one in VARIABLE_CLASSES if one.kind is Class.SAFE)),
        _table("Arguments of earlier versions (`UnknownArgument`)", "instead", REMOVED_FLAGS),
        _table(f"Arguments of Transformers{_KIND.format('Transformers')}", _WHO, _of(TRANSFORMERS_OPTIONS), CLOSED),
        _table(
            f"Arguments of llama.cpp{_KIND.format('LlamaCpp')}",
            _WHO,
            _of(LLAMA_CPP_OPTIONS),
            CLOSED_BY_LLAMA_CPP,
        ),
        _table(f"Arguments of SGLang{_KIND.format('SGLang')}", _WHO, _of(SGLANG_OPTIONS), CLOSED_BY_SGLANG),
    )
    return INTRODUCTION + "".join(line for table in tables for line in table)


def _of(options: ClosedOptions) -> Mapping[str, str]:
    """Who may set each option of an engine, and what to use instead; without those that nothing stands for."""
    words = {Class.SAFE: "whoever may write the resource", Class.PODS: "who may create pods: it"}
    named = (one for one in options.by_name.values() if one.kind is not Class.MANAGED or one.reason != NO_FIELD)
    return {one.name: f"{words.get(one.kind, 'nobody.')} {one.reason}".strip() for one in named}


def _needing(classes: Iterable[Classified], shown: Mapping[str, str]) -> Mapping[str, str]:
    """What each option or variable does that needs the right and no setting."""
    return {one.name: one.reason for one in classes if one.kind is Class.PODS and one.name not in shown}


def _code_values() -> Mapping[str, str]:
    """The values that load code, by the argument."""
    return {value.name: value.meaning for value in CODE_VALUES}


def _keys() -> Mapping[str, str]:
    """The safe keys of options, by the spellings of the option."""
    return {
        "`, `".join(spellings(one.name)): ", ".join(f"`.{key}`" for key in one.keys)
        for one in OPTION_CLASSES
        if one.keys
    }


def _safe_options() -> Iterator[str]:
    """Each safe option with all its spellings."""
    for one in OPTION_CLASSES:
        if one.kind is Class.SAFE:
            yield ", ".join(f"`{spelling}`" for spelling in spellings(one.name))


def _table(title: str, column: str, rows: Mapping[str, str], introduction: str = "") -> Iterator[str]:
    yield f"\n## {title}\n{introduction.lstrip()}"
    yield "\n" if introduction else ""
    yield f"| name | {column} |\n|---|---|\n"
    for name, meaning in rows.items():
        yield f"| `{name}` | {meaning} |\n"


def _list(title: str, items: Iterable[str]) -> Iterator[str]:
    yield f"\n## {title}\n"
    for item in items:
        yield f"- {item}\n"
