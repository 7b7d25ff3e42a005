"""Reads the header of a GGUF file, and writes it as the fields of a `config.json` (ggml, `docs/gguf.md`).

A header has metadata and the list of tensors. The metadata contains the tokenizer, so a header has several MiB.
"""

import math
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from inference_operator.manifest import Manifest
from inference_operator.models.config import UnreadableError

MAX_HEADER_BYTES = 32 * 2**20
"""Largest header that is read. Those of models with 262,144 tokens have about 12 MiB."""
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST_ENTRIES = 2**20
"""Metadata entries or tensors of a file; the largest models have 2,000 tensors."""
_MOST_DIMENSIONS, _DEEPEST = 8, 4
_KEPT_ITEMS = 4096
"""Numbers that are kept in lists, of all lists together: one number for each layer, in a few lists."""
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
"""Types of values (`docs/gguf.md`, `gguf_metadata_value_type`)."""
_PLAIN_BITS = {0: 32, 1: 16, 30: 16}
_PLAIN = {0: "float32", 1: "float16", 30: "bfloat16"}
_BITS = {
    2: 4.5, 3: 5, 6: 5.5, 7: 6, 8: 8.5, 9: 9, 10: 2.625, 11: 3.4375, 12: 4.5,
    13: 5.5, 14: 6.5625, 15: 9.125, 16: 2.0625, 17: 2.3125, 18: 3.0625, 19: 1.5625, 20: 4.5, 21: 3.4375,
    22: 2.5625, 23: 4.25, 29: 1.75, 34: 1.6875, 35: 2.0625, 39: 4.25
}  # fmt: skip
"""Bits of an element by the type of its tensor: a block's bytes over its elements (ggml, `ggml-common.h`, `ggml.h`)."""
_CURE = "Copy the file again, or use another GGUF file."


class ShortHeaderError(Exception):
    """The bytes end before the header does."""


@dataclass(frozen=True, slots=True)
class Items:
    """A list in the metadata whose items are not kept."""

    count: int


Value = bool | int | float | str | tuple[bool | int | float, ...] | Items


@dataclass(frozen=True, slots=True)
class GgufHeader:
    metadata: Mapping[str, Value]
    elements: Mapping[int, int] = field(default_factory=Counter)
    """Number of elements by the number of their type."""
    least_bytes: int = 0
    """Size of the file at least: up to the end of its last tensor of a known type."""
    has_head: bool = False
    """Whether it has a tensor of the output layer. Otherwise the embedding is used for it, or another part has it."""


def gguf_header(content: bytes) -> GgufHeader:
    """The header of a GGUF file.

    Raises:
        ShortHeaderError: the header is longer.
        UnreadableError: it is no header.
    """
    reader = _Reader(content)
    if reader.take(4) != _MAGIC or reader.scalar("<I") not in _VERSIONS:
        raise _unreadable("is no GGUF file of version 2 or 3")
    tensors, entries = reader.count("<Q"), reader.count("<Q")
    metadata = dict(reader.entry() for _ in range(entries))
    elements: Counter[int] = Counter()
    has_head, data = False, 0
    for _ in range(tensors):
        name, kind, size, offset = reader.tensor()
        elements[kind] += size
        has_head = has_head or name == "output.weight"
        data = max(data, offset + math.ceil(size * (_PLAIN_BITS.get(kind) or _BITS.get(kind, 0)) / 8))
    least = reader.at + data if data else 0  # and up to the next multiple of `general.alignment`, which may be 8
    return GgufHeader(metadata, elements, least, has_head)


@dataclass(slots=True)
class _Reader:
    content: bytes
    at: int = 0
    kept: int = 0
    """Numbers of lists so far."""

    def take(self, length: int) -> bytes:
        end = self.at + length
        if end > len(self.content):
            raise ShortHeaderError
        content, self.at = self.content[self.at : end], end
        return content

    def scalar(self, form: str) -> bool | int | float:
        value: bool | int | float = struct.unpack(form, self.take(struct.calcsize(form)))[0]
        return value

    def count(self, form: str) -> int:
        number = int(self.scalar(form))
        if number > _MOST_ENTRIES:
            raise _unreadable(f"has more than {_MOST_ENTRIES:,} entries")
        return number

    def text(self) -> str:
        return self.take(int(self.scalar("<Q"))).decode(errors="replace")

    def entry(self) -> tuple[str, Value]:
        name = self.text()
        return name, self._value(int(self.scalar("<I")), 0)

    def tensor(self) -> tuple[str, int, int, int]:
        name, dimensions, size = self.text(), int(self.scalar("<I")), 1
        if dimensions > _MOST_DIMENSIONS:
            raise _unreadable("has a tensor with too many dimensions")
        for _ in range(dimensions):
            size *= int(self.scalar("<Q"))
        kind = int(self.scalar("<I"))
        return name, kind, size, int(self.scalar("<Q"))

    def _value(self, kind: int, depth: int) -> Value:
        if form := _SCALARS.get(kind):
            return self.scalar(form)
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY or depth == _DEEPEST:
            raise _unreadable("has a value of an unknown type")
        return self._array(depth)

    def _array(self, depth: int) -> Value:
        kind, count = int(self.scalar("<I")), int(self.scalar("<Q"))
        if form := _SCALARS.get(kind):
            content = self.take(count * struct.calcsize(form))
            if self.kept + count > _KEPT_ITEMS:
                return Items(count)
            self.kept += count
            return tuple(item for (item,) in struct.iter_unpack(form, content))
        if kind == _STRING:
            self._skip_texts(count)
        else:
            for _ in range(count):
                self._value(kind, depth + 1)
        return Items(count)

    def _skip_texts(self, count: int) -> None:
        content, at, length = self.content, self.at, struct.Struct("<Q")
        for _ in range(count):
            if at + length.size > len(content):
                raise ShortHeaderError
            at += length.size + length.unpack_from(content, at)[0]
        self.at = at
        self.take(0)


def _unreadable(problem: str) -> UnreadableError:
    return UnreadableError("header", problem, _CURE)


def config_of(header: GgufHeader) -> Manifest:
    """The header as the fields of a `config.json`. The architecture is GGUF's own name of it, such as `llama`.

    Layers with sliding windows or a compressed cache count as layers with the keys and values of all tokens: llama.cpp
    allocates at most as much for them.
    """
    numbers = _Numbers(header.metadata)
    heads = numbers.largest("attention.head_count")
    hidden = numbers.required("embedding_length")
    if not heads:
        raise UnreadableError(f"header.{numbers.name('attention.head_count')}", "is missing or 0", _CURE)
    key = numbers.largest("attention.key_length") or hidden // heads
    config = {
        "architectures": [numbers.architecture],
        "num_hidden_layers": numbers.required("block_count"),
        "hidden_size": hidden,
        "intermediate_size": numbers.largest("feed_forward_length"),
        "moe_intermediate_size": numbers.largest("expert_feed_forward_length"),
        "num_experts": numbers.largest("expert_count"),
        "num_experts_per_tok": numbers.largest("expert_used_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": numbers.largest("attention.head_count_kv") or heads,
        "head_dim": key,
        "v_head_dim": numbers.largest("attention.value_length") or key,
        "max_position_embeddings": numbers.largest("context_length"),
        "vocab_size": numbers.largest("vocab_size") or _tokens(header.metadata),
        "tie_word_embeddings": not header.has_head,
        **_storage(header.elements),
    }
    return {name: value for name, value in config.items() if value is not None}


def damage(header: GgufHeader, parts: int, size: int) -> UnreadableError | None:
    """Why the file is not one that llama.cpp loads: joined from parts, renamed, or cut off; None if it is."""
    stated = header.metadata.get("split.count")
    if isinstance(stated, int) and stated > 1 and stated != parts:
        problem = f"says that the model has {stated:,} parts, and by its name it has {parts:,}"
        cure = "Copy the parts under their own names. `cat` does not join them; `llama-gguf-split --merge` does."
        return UnreadableError("header", problem, cure)
    if size < header.least_bytes:
        return UnreadableError("file", f"has {size:,} bytes of at least {header.least_bytes:,}", "Copy the file again.")
    return None


def has_chat_template(header: GgufHeader) -> bool:
    return bool(header.metadata.get("tokenizer.chat_template"))


def _tokens(metadata: Mapping[str, Value]) -> int | None:
    tokens = metadata.get("tokenizer.ggml.tokens")
    return tokens.count if isinstance(tokens, Items) and tokens.count else None


def _storage(elements: Mapping[int, int]) -> Manifest:
    kind = max(elements, key=lambda number: elements[number], default=1)
    if kind in _PLAIN:
        return {"dtype": _PLAIN[kind]}
    return {"quantization_config": {"quant_method": "gguf", "bits": max(1, round(_BITS.get(kind, 8)))}}


@dataclass(frozen=True, slots=True)
class _Numbers:
    metadata: Mapping[str, Value]

    @property
    def architecture(self) -> str:
        architecture = self.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture.isprintable() or not 0 < len(architecture) <= 64:  # noqa: PLR2004 - any name
            raise UnreadableError("header.general.architecture", "is missing", _CURE)
        return architecture

    def name(self, name: str) -> str:
        return f"{self.architecture}.{name}"

    def largest(self, name: str) -> int | None:
        """The number, or the largest one of all layers; None if there is none, or only 0."""
        value = self.metadata.get(self.name(name))
        each = value if isinstance(value, tuple) else (value,)
        return max((int(number) for number in each if isinstance(number, int)), default=0) or None

    def required(self, name: str) -> int:
        number = self.largest(name)
        if number is None or number < 0:
            raise UnreadableError(f"header.{self.name(name)}", "is missing or 0", _CURE)
        return number
