"""Facts of a model's small files: tokenizer, sentence-transformers, chat template, generation."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields

from inference_operator.manifest import Manifest
from inference_operator.models.config import whole_number


@dataclass(frozen=True, slots=True)
class SideFiles:
    """Facts from the small files of a model. Each default means that no file says anything."""

    tokenizer_max_length: int | None = None
    """`model_max_length` of `tokenizer_config.json`, in tokens."""
    sentence_max_length: int | None = None
    """`max_seq_length` of a `sentence_*_config.json` (sentence-transformers), in tokens."""
    has_pooling_module: bool = False
    """Whether `modules.json` (sentence-transformers) has a pooling module."""
    has_chat_template: bool | None = None
    """Whether the tokenizer has a chat template, or needs none. None: the files were not read."""
    max_new_tokens: int | None = None
    """`max_new_tokens` of `generation_config.json`: vLLM then limits every answer to it."""


NO_SIDE_FILES = SideFiles()


def side_files_document(side: SideFiles) -> Manifest:
    """The stored form: only what differs from the default.

    Examples:
        >>> side_files_document(SideFiles(tokenizer_max_length=512, has_chat_template=False))
        {'tokenizer_max_length': 512, 'has_chat_template': False}
    """
    values = {each.name: (getattr(side, each.name), each.default) for each in fields(side)}
    return {name: value for name, (value, default) in values.items() if value is not default}


def side_files_of(stored: object) -> SideFiles:
    """Read the stored form. Unknown names are ignored, since a later release may have written them.

    Examples:
        >>> side_files_of({"tokenizer_max_length": 512, "later": 1}).tokenizer_max_length
        512

    Raises:
        TypeError: a value has the wrong type.
    """
    if not isinstance(stored, dict):
        raise TypeError(stored)
    known = {each.name: stored[each.name] for each in fields(SideFiles) if each.name in stored}
    for name, value in known.items():
        if isinstance(value, bool) != name.startswith("has_") or not isinstance(value, int):
            raise TypeError(name)
    return SideFiles(**known)


TOKENIZER, GENERATION, MODULES = "tokenizer_config.json", "generation_config.json", "modules.json"
CHAT_TEMPLATES = ("chat_template.jinja", "chat_template.json")
"""Files with a chat template beside the tokenizer's config (transformers 5.19.0, `utils/hub.py`)."""
MISTRAL_TOKENIZERS = ("tekken.json", "tokenizer.model.v")
"""Beginnings of the files of Mistral's own tokenizer, which vLLM then uses. It needs no template (vLLM 0.32.0,
`tokenizers/registry.py`)."""
SENTENCE_CONFIGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Files with the longest text of sentence-transformers; the first one counts (vLLM 0.32.0,
`transformers_utils/config.py`, `get_sentence_transformer_tokenizer_config`)."""
POOLING = ".Pooling"
"""Ending of the type of a pooling module (the same file, `_ST_POOLING_MODULE_TYPES`)."""


def side_files(names: Collection[str], parsed: Callable[[str], object]) -> SideFiles:
    tokenizer = _object(names, parsed, TOKENIZER)
    modules = parsed(MODULES) if MODULES in names else None
    sentence = next((_object(names, parsed, name) for name in SENTENCE_CONFIGS if name in names), {})
    return SideFiles(
        # transformers writes a huge number where there is no limit
        tokenizer_max_length=whole_number(tokenizer.get("model_max_length")),
        sentence_max_length=whole_number(sentence.get("max_seq_length")),
        has_pooling_module=isinstance(modules, list) and any(map(_is_pooling, modules)),
        has_chat_template=bool(tokenizer.get("chat_template"))
        or any(name in CHAT_TEMPLATES or name.startswith(MISTRAL_TOKENIZERS) for name in names),
        max_new_tokens=whole_number(_object(names, parsed, GENERATION).get("max_new_tokens")),
    )


def _object(names: Collection[str], parsed: Callable[[str], object], name: str) -> dict[str, object]:
    document = parsed(name) if name in names else None
    return document if isinstance(document, dict) else {}


def _is_pooling(module: object) -> bool:
    return isinstance(module, dict) and str(module.get("type", "")).endswith(POOLING)
