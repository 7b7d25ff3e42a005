"""vLLM's parsers of tool calls and of reasoning: which ones each family of models needs, and their arguments.

Without them, vLLM refuses requests that leave the choice of tools to the model, and thoughts are part of the answer.
The pairs are those of vLLM's documentation (0.32.0, `docs/features/tool_calling.md`, `reasoning_outputs.md`) and of
its registries (`vllm/tool_parsers/__init__.py`, `vllm/reasoning/__init__.py`), and of vLLM's recipes
(https://github.com/vllm-project/recipes at the commit in `bench/data/recipes.json`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.process import Parsers
from inference_operator.engines.vllm.arguments import has_known_options
from inference_operator.engines.vllm.options import VERSION, is_given
from inference_operator.text_tables import rows

AUTO, NONE = "Auto", "None"
AUTO_TOOL_CHOICE = "--enable-auto-tool-choice"
TOOL_CALL_PARSER = "--tool-call-parser"
REASONING_PARSER = "--reasoning-parser"
_TABLE = rows(__package__, f"parsers-{VERSION}.txt")
TOOL_PARSERS = frozenset(name for kind, name in _TABLE if kind == "tool")
REASONING_PARSERS = frozenset(name for kind, name in _TABLE if kind == "reasoning")
"""Names in vLLM's registries; `python -m e2e.engines.vllm_options` writes the table."""


@dataclass(frozen=True, slots=True)
class _Family:
    name: str
    """A regular expression for the last part of a repository or path."""
    tool_call: str = ""
    reasoning: str = ""
    architecture: str = ""
    """An architecture that only this family has; it counts if no name matches."""


WITHOUT_CHAT = re.compile(r"(?i)[-_.](base|embedding|reranker|reward|rm)\b|-pt$")

FAMILIES = tuple(
    _Family(name, *("" if word == "-" else word for word in words))
    for name, *words in rows(__package__, "families.txt")
)
"""The first family whose name matches applies. A reasoning parser treats an answer without marks as thoughts, so
only models that think by default have one."""


def parsers_of(image: str, *, model: str, architecture: str) -> Parsers:
    """The parsers of a model's family; none if it has no family here, or if the image's parsers are not known.

    Args:
        image: the engine's image. Only that of the tables' version surely has these parsers.
    """
    name = model.rstrip("/").rpartition("/")[2]
    if not has_known_options(image) or WITHOUT_CHAT.search(name):
        return Parsers()
    by_name = (family for family in FAMILIES if re.search(family.name, name, re.IGNORECASE))
    by_architecture = (family for family in FAMILIES if family.architecture and family.architecture == architecture)
    family = next(by_name, None) or next(by_architecture, None)
    return Parsers(family.tool_call, family.reasoning) if family else Parsers()


def parser_arguments(engine: EngineSpec, auto: Parsers) -> Iterator[str]:
    """The arguments for the parsers of the spec, or those of the model's family. Arguments of the user come first."""
    tool_call = _chosen(engine.tool_call_parser, auto.tool_call)
    reasoning = _chosen(engine.reasoning_parser, auto.reasoning)
    if tool_call and not is_given(engine.args, TOOL_CALL_PARSER):
        if not is_given(engine.args, AUTO_TOOL_CHOICE):
            yield AUTO_TOOL_CHOICE
        yield f"{TOOL_CALL_PARSER}={tool_call}"
    if reasoning and not is_given(engine.args, REASONING_PARSER):
        yield f"{REASONING_PARSER}={reasoning}"


def refusal_of_parsers(engine: EngineSpec, *, image: str) -> Refusal | None:
    fields = (
        ("toolCallParser", engine.tool_call_parser, TOOL_CALL_PARSER, TOOL_PARSERS),
        ("reasoningParser", engine.reasoning_parser, REASONING_PARSER, REASONING_PARSERS),
    )
    for name, value, flag, known in fields:
        field = f"spec.engine.{name}"
        if value != AUTO and is_given(engine.args, flag):
            problem = f"`{flag}` in `spec.engine.args` sets the same."
            return Refusal(Reason.MANAGED_ARGUMENT, field, problem, f"Remove `{flag}` from the arguments.")
        if value not in (AUTO, NONE) and has_known_options(image) and value not in known:
            problem = f"vLLM {VERSION} has no parser `{value}`."
            return Refusal(Reason.UNKNOWN_ARGUMENT, field, problem, f"Use one of: {', '.join(sorted(known))}.")
    return None


def _chosen(field: str, auto: str) -> str:
    return {AUTO: auto, NONE: ""}.get(field, field)
