"""vLLM's parsers of tool calls and of reasoning: which ones each family of models needs, and their arguments.

Without them, vLLM refuses requests that leave the choice of tools to the model, and thoughts are part of the answer.
The pairs are those of vLLM's documentation (0.32.0, `docs/features/tool_calling.md`, `reasoning_outputs.md`) and of
its registries (`vllm/tool_parsers/__init__.py`, `vllm/reasoning/__init__.py`), and of vLLM's recipes
(https://github.com/vllm-project/recipes at the commit in `bench/data/recipes.json`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files

from inference_operator.api.engine import EngineSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.process import Parsers
from inference_operator.engines.vllm.arguments import has_known_options
from inference_operator.engines.vllm.cli_args import given_options
from inference_operator.engines.vllm.options import VERSION

AUTO, NONE = "Auto", "None"
AUTO_TOOL_CHOICE = "--enable-auto-tool-choice"
TOOL_CALL_PARSER = "--tool-call-parser"
REASONING_PARSER = "--reasoning-parser"

_TABLE = [
    line.split() for line in files(__package__).joinpath(f"parsers-{VERSION}.txt").read_text("utf-8").splitlines()
]
TOOL_PARSERS = frozenset(name for kind, name in _TABLE if kind == "tool")
REASONING_PARSERS = frozenset(name for kind, name in _TABLE if kind == "reasoning")
"""Names in vLLM's registries; `python -m e2e.engines.vllm_options` writes the table."""


@dataclass(frozen=True, slots=True)
class _Family:
    """Models with the same parsers."""

    name: str
    """A regular expression for the last part of a repository or path."""
    tool_call: str = ""
    reasoning: str = ""
    architecture: str = ""
    """An architecture that only this family has; it counts if no name matches."""


WITHOUT_CHAT = re.compile(r"(?i)[-_.](base|embedding|reranker|reward|rm)\b|-pt$")
"""Names of models that do not chat."""

FAMILIES = (
    _Family(r"DeepSeek-R1-(0528-)?Distill|DeepSeek-R1-0528-Qwen3|QwQ-", "", "deepseek_r1"),
    _Family(r"DeepSeek-R1", "deepseek_v3", "deepseek_r1"),
    _Family(r"DeepSeek-V3\.1", "deepseek_v31", "deepseek_v3"),
    _Family(r"DeepSeek-V3\.2", "deepseek_v32", "deepseek_v3", "DeepseekV32ForCausalLM"),
    _Family(r"DeepSeek-V4", "deepseek_v4", "deepseek_v4", "DeepseekV4ForCausalLM"),
    _Family(r"DeepSeek-V3", "deepseek_v3"),
    _Family(r"Qwen3-Coder", "qwen3_coder"),
    _Family(r"Qwen3\.[5-9]", "qwen3_coder", "qwen3"),
    _Family(r"Qwen3-.*(Instruct|Omni)", "hermes"),
    _Family(r"Qwen3-.*Thinking|Qwen3-(\d+(\.\d+)?B|\d+B-A\d+B)", "hermes", "qwen3"),
    _Family(r"Qwen2\.5-.*Instruct|Qwen2-.*Instruct", "hermes"),
    _Family(r"Hermes-(2-Pro|3)", "hermes"),
    _Family(r"Llama-3\.[1-3].*Instruct", "llama3_json"),
    _Family(r"Llama-4-", "llama4_pythonic", "", "Llama4ForConditionalGeneration"),
    _Family(r"Magistral|Ministral-3-.*Reasoning|Mistral-(Medium-3\.5|Small-4)", "mistral", "mistral"),
    _Family(r"Mistral-(Nemo|Small|Medium|Large|7B-Instruct-v0\.3)|Ministral|Devstral|Codestral", "mistral"),
    _Family(r"gpt-oss", "openai", "openai_gptoss", "GptOssForCausalLM"),
    _Family(r"Kimi-K2-Thinking|Kimi-K2\.[5-9]", "kimi_k2", "kimi_k2"),
    _Family(r"Kimi-K2", "kimi_k2"),
    _Family(r"Kimi-K3", "kimi_k3", "kimi_k3"),
    _Family(r"GLM-4\.[56]", "glm45", "glm45"),
    _Family(r"GLM-(4\.7|5)|Macaron-V1", "glm47", "glm47"),
    _Family(r"GLM-GA|Glyph", "", "glm45"),
    _Family(r"MiniMax-M2", "minimax_m2", "minimax_m2", "MiniMaxM2ForCausalLM"),
    _Family(r"MiniMax-M3", "minimax_m3", "minimax_m3"),
    _Family(r"Seed-OSS", "seed_oss", "seed_oss", "SeedOssForCausalLM"),
    _Family(r"step3\b|Step3\b", "step3", "step3"),
    _Family(r"Step-3\.[5-9]", "step3p5", "step3p5"),
    _Family(r"ERNIE-4\.5-.*Thinking", "ernie45", "ernie45"),
    _Family(r"Hunyuan-A13B", "hunyuan_a13b", "hunyuan_a13b"),
    _Family(r"granite-4", "granite4"),
    _Family(r"granite-3\..*instruct", "granite"),
    _Family(r"Phi-4-mini-instruct", "phi4_mini_json"),
    _Family(r"Olmo-3-.*Think", "olmo3", "olmo3"),
    _Family(r"Olmo-3-.*Instruct", "olmo3"),
    _Family(r"functiongemma", "functiongemma"),
    _Family(r"gemma-4-|diffusiongemma", "gemma4", "gemma4"),
    _Family(r"Nemotron-3", "qwen3_coder", "nemotron_v3"),
    _Family(r"command-a", "cohere_command3"),
    _Family(r"LFM2\.5-(.*Thinking|8B-A1B)", "lfm2", "qwen3"),
    _Family(r"LFM2", "lfm2"),
    _Family(r"Jamba", "jamba"),
    _Family(r"internlm(2_5|3)", "internlm"),
    _Family(r"Intern-S1", "internlm", "deepseek_r1"),
    _Family(r"Intern-S2", "qwen3_coder", "qwen3"),
    _Family(r"xLAM", "xlam"),
    _Family(r"Apertus-.*Instruct", "apertus"),
    _Family(r"MiMo-V2", "mimo", "mimo"),
    _Family(r"LongCat-Flash", "longcat"),
    _Family(r"Laguna", "poolside_v1", "poolside_v1"),
    _Family(r"Muse-Glimmer", "muse_glimmer", "muse_glimmer"),
    _Family(r"Hy3\b", "hy_v3", "hy_v3"),
    _Family(r"Ling-3", "ling3", "ling3"),
    _Family(r"Inkling", "inkling", "inkling"),
    _Family(r"Trinity-.*Thinking", "qwen3_coder", "deepseek_r1"),
    _Family(r"dots3", "dots", "qwen3"),
    _Family(r"Mellum2-.*Thinking", "hermes", "qwen3"),
    _Family(r"Mellum2-.*Instruct", "hermes"),
    _Family(r"MiniCPM-V-4\.6", "qwen3_coder"),
)
"""The first family whose name matches applies. A reasoning parser treats an answer without marks as thoughts, so
only models that think by default have one."""


def parsers_of(model: str, architecture: str, *, image: str) -> Parsers:
    """The parsers of a model's family; none if it has no family here, or if the image's parsers are not known.

    Args:
        architecture: the first of its `architectures`; empty if unknown.
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
    if tool_call and not _given(engine.args, TOOL_CALL_PARSER):
        if not _given(engine.args, AUTO_TOOL_CHOICE):
            yield AUTO_TOOL_CHOICE
        yield f"{TOOL_CALL_PARSER}={tool_call}"
    if reasoning and not _given(engine.args, REASONING_PARSER):
        yield f"{REASONING_PARSER}={reasoning}"


def refusal_of_parsers(engine: EngineSpec, *, image: str) -> Refusal | None:
    fields = (
        ("toolCallParser", engine.tool_call_parser, TOOL_CALL_PARSER, TOOL_PARSERS),
        ("reasoningParser", engine.reasoning_parser, REASONING_PARSER, REASONING_PARSERS),
    )
    for name, value, flag, known in fields:
        field = f"spec.engine.{name}"
        if value != AUTO and _given(engine.args, flag):
            problem = f"`{flag}` in `spec.engine.args` sets the same."
            return Refusal(Reason.MANAGED_ARGUMENT, field, problem, f"Remove `{flag}` from the arguments.")
        if value not in (AUTO, NONE) and has_known_options(image) and value not in known:
            problem = f"vLLM {VERSION} has no parser `{value}`."
            return Refusal(Reason.UNKNOWN_ARGUMENT, field, problem, f"Use one of: {', '.join(sorted(known))}.")
    return None


def _chosen(field: str, auto: str) -> str:
    return {AUTO: auto, NONE: ""}.get(field, field)


def _given(args: Sequence[str], flag: str) -> bool:
    return any(True for _ in given_options(args, flag))
