"""Arguments of a `vllm serve` that somebody wrote by hand, as fields of an InferenceDeployment."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile

from inference_operator.engines.options import ImportedArguments
from inference_operator.engines.vllm.arguments import refusal_of_args
from inference_operator.engines.vllm.flags import MANAGED_FLAGS, REMOVED_FLAGS, SECRET_FLAGS
from inference_operator.engines.vllm.options import VERSION, resolve_option, written_option

_IMAGE = f"vllm/vllm-openai:v{VERSION}"
"""An image for whose version the tables of options are complete."""
_FIELD = re.compile(r"Use `spec\.([A-Za-z.]+)`\.")
_TEXT = frozenset({"model.servedName", "model.revision", "engine.dtype", "engine.quantization", "engine.kvCacheDtype"})
_NUMBERS = frozenset(
    {
        *("parallelism.tensor", "parallelism.pipeline", "engine.maxModelLen", "engine.maxNumSeqs"),
        *("engine.maxNumBatchedTokens", "engine.gpuMemoryUtilization", "engine.cpuOffloadGiB"),
    }
)
_FIELDS: Mapping[str, str] = {
    **{
        flag: match[1]
        for flag, cure in MANAGED_FLAGS.items()
        if (match := _FIELD.fullmatch(cure)) and match[1] in _TEXT | _NUMBERS
    },
    "--tool-call-parser": "engine.toolCallParser",
    "--reasoning-parser": "engine.reasoningParser",
    "--max-loras": "engine.adapterSlots",
    "--max-lora-rank": "engine.maxAdapterRank",
}


def _by_option(table: Mapping[str, str]) -> Mapping[str, str]:
    return {next(iter(resolve_option(spelling)), spelling): meaning for spelling, meaning in table.items()}


FIELDS = _by_option(_FIELDS)
_SECRETS = _by_option(SECRET_FLAGS)
_WHOLE = _NUMBERS | {"engine.adapterSlots", "engine.maxAdapterRank"}
_BY_OTHER_FIELDS: Mapping[str, str] = {
    "--enable-auto-tool-choice": "The operator sets it with `spec.engine.toolCallParser`.",
    "--enable-lora": "The operator sets it with `spec.model.adapters`.",
    "--lora-modules": "Write each into `spec.model.adapters`, which needs `spec.cache`.",
}
_MANAGED = _by_option({**REMOVED_FLAGS, **MANAGED_FLAGS, **_BY_OTHER_FIELDS})
_LETTERS: Mapping[str, int] = {"k": 1000, "m": 1000**2, "g": 1000**3, "K": 2**10, "M": 2**20, "G": 2**30}
"""Letters after a number of tokens (vLLM 0.32.0, engine/arg_utils.py, `human_readable_int`)."""


def imported_arguments(args: Sequence[str]) -> ImportedArguments:
    imported = ImportedArguments()
    for tokens in _grouped(args):
        _take(imported, tokens)
    return imported


def _grouped(args: Sequence[str]) -> Iterator[list[str]]:
    position = 0
    while position < len(args):
        values = takewhile(lambda token: written_option(token) is None, args[position + 1 :])
        is_option = written_option(args[position]) is not None
        group = [args[position], *(values if is_option and "=" not in args[position] else ())]
        yield group
        position += len(group)


def _take(imported: ImportedArguments, tokens: Sequence[str]) -> None:
    option = written_option(tokens[0])
    if option is None:
        if imported.model:
            imported.left.append(("an argument without an option", "It belongs to no option."))
        imported.model = imported.model or tokens[0]
        return
    names = list(resolve_option(option))
    name = names[0] if len(names) == 1 else option
    inline = tokens[0].partition("=")[2]
    value = inline or " ".join(tokens[1:])
    if name == "--model" and value:
        imported.model = value
    elif name in FIELDS and "." not in tokens[0].partition("=")[0] and _typed(FIELDS[name], value) is not None:
        imported.fields[FIELDS[name]] = _typed(FIELDS[name], value)
    elif why := _why_left(name, tokens):
        imported.left.append((option, why))
    else:
        imported.kept.extend(tokens)


def _why_left(name: str, tokens: Sequence[str]) -> str:
    if name in _SECRETS:
        return f"It is a secret: set {_SECRETS[name]} from a Secret, or use `spec.router.keys`."
    if name in _MANAGED:
        return _MANAGED[name]
    refusal = refusal_of_args(tokens, image=_IMAGE)
    return refusal.cure if refusal else ""


def _typed(path: str, text: str) -> object:
    if path not in _WHOLE:
        return text or None
    if path == "engine.gpuMemoryUtilization":
        return float(text) if re.fullmatch(r"[01]?\.?\d{1,6}", text) else None
    number = re.fullmatch(r"(\d{1,9})(?:\.0+)?([kmgKMG]?)", text)
    return int(number[1]) * _LETTERS.get(number[2], 1) if number else None
