"""Facts of a model's small files: tokenizer, sentence-transformers, chat template, generation."""

from dataclasses import dataclass, fields

from inference_operator.manifest import Manifest


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
"""No file says anything."""


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
