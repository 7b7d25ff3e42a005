"""Reads typed values from a `config.json` of unknown origin; an error names the wrong field."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from inference_operator.manifest import Manifest
from inference_operator.text_tables import text_of

LARGEST = 2**40
"""Largest count that is accepted; larger ones would only make the arithmetic slow."""
TEXT_CONFIGS = ("text_config", "llm_config", "language_config", "thinker_config")
"""Where multimodal models keep the language model's config (transformers 5.0, `PretrainedConfig.get_text_config`)."""
VISION_CONFIGS = ("vision_config", "vision_tower_config", "visual", "vit_config")
DEPTH = 3
"""Maximum depth of such nested configs (omni models: `thinker_config.text_config`)."""
TRANSFORMERS_DEFAULTS = "transformers_defaults.json"
"""The values that transformers fills in where a `config.json` leaves a field out. Configs of a model's publisher leave
out what equals the default of its `model_type`: that of Gemma 3 states neither its attention heads nor its context.
`bench/transformers_defaults.py` writes the file."""
Value = int | float | bool
USUAL_CURE = "Give the `config.json` of a model that generates text."


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """A field or file that sizing needs and that is missing or wrong, as a message for users."""

    field: str
    problem: str
    cure: str

    @property
    def message(self) -> str:
        return f"{self.field}: {self.problem} {self.cure}"


class UnreadableError(Exception):
    """A field that cannot be used. All that reads a config raises it; `model_facts` turns it into `NotUnderstood`."""

    def __init__(self, field: str, problem: str, cure: str = USUAL_CURE) -> None:
        super().__init__(field, problem)
        self.why = NotUnderstood(field, f"{problem}.", cure)


def whole_number(value: object, most: int = LARGEST) -> int | None:
    """The value, if it is a whole number from 1 on and not more than this; None for any other, also true."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= most else None


@dataclass(frozen=True, slots=True)
class Config:
    """The language model's part of a `config.json`, with typed access.

    Examples:
        >>> config = Config({"n_head": 12, "tie_word_embeddings": False})
        >>> config.count("num_attention_heads", "n_head")
        12
        >>> config.flag("tie_word_embeddings", default=True)
        False
        >>> config.count("hidden_size") is None
        True
    """

    fields: Manifest
    defaults: Mapping[str, int | float | bool] = field(default_factory=dict)
    """Values of fields that the file leaves out. A field that is null has no value."""

    def count(self, *names: str) -> int | None:
        """The first of these fields that exists; None if none does."""
        for name in names:
            value = self.fields.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LARGEST:
                raise UnreadableError(name, "is not a whole number of at least 0")
            return value
        return None if any(name in self.fields for name in names) else self._default(names)

    def _default(self, names: tuple[str, ...]) -> int | None:
        defaults = (self.defaults[name] for name in names if name in self.defaults)
        return next((value for value in defaults if isinstance(value, int) and not isinstance(value, bool)), None)

    def positive(self, *names: str) -> int | None:
        """Like `count`, for fields that must not be 0."""
        value = self.count(*names)
        if value == 0:
            raise UnreadableError(next(name for name in names if self.fields.get(name) is not None), "is 0")
        return value

    def required(self, *names: str) -> int:
        """Like `positive`, for fields that must exist."""
        value = self.positive(*names)
        if value is None:
            raise UnreadableError(names[0], "is missing")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        """A Boolean field; the default of its `model_type`, else this default, if it is missing or not a Boolean."""
        value = self.fields.get(name, self.defaults.get(name))
        return value if isinstance(value, bool) else default

    def text(self, name: str) -> str:
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def section(self, name: str) -> "Config":
        value = self.fields.get(name)
        return Config(value if isinstance(value, dict) else {})

    def tally(self, name: str) -> dict[str, int]:
        """How often each value occurs in a list; the catalogue stores such a list as `{"counts": {value: times}}`.

        Examples:
            >>> Config({"layer_types": ["a", "b", "a"]}).tally("layer_types")
            {'a': 2, 'b': 1}
            >>> Config({"layer_types": {"counts": {"a": 2}}}).tally("layer_types")
            {'a': 2}
        """
        value = self.fields.get(name)
        if value is None:
            return {}
        if isinstance(value, list | str):
            return dict(Counter(map(str, value)))
        counts = value.get("counts") if isinstance(value, dict) else None
        if not isinstance(counts, dict):
            raise UnreadableError(name, "is not a list")
        if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= LARGEST for n in counts.values()):
            raise UnreadableError(name, "has counts that are not whole numbers of at least 0")
        return {str(key): int(times) for key, times in counts.items()}

    @property
    def architecture(self) -> str:
        return next(iter(self.architectures), "")

    @property
    def architectures(self) -> tuple[str, ...]:
        """The entries of `architectures`; an entry that is no text is empty."""
        named = self.fields.get("architectures")
        return tuple(name if isinstance(name, str) else "" for name in named) if isinstance(named, list) else ()


def language_model(document: object) -> tuple[Config, bool]:
    """The language model's config, and whether the model has a vision encoder.

    Examples:
        >>> document = {"text_config": {"hidden_size": 8}, "vision_config": {}, "dtype": "float16"}
        >>> config, has_vision = language_model(document)
        >>> config.count("hidden_size"), config.text("dtype"), has_vision
        (8, 'float16', True)
    """
    if not isinstance(document, dict):
        raise UnreadableError("config.json", "is not a JSON object")
    fields: Manifest = document
    has_vision = False
    for _ in range(DEPTH):
        has_vision = has_vision or any(isinstance(fields.get(name), dict) for name in VISION_CONFIGS)
        inner = next((fields[name] for name in TEXT_CONFIGS if isinstance(fields.get(name), dict)), None)
        if inner is None:
            break
        outer = {name: value for name, value in fields.items() if name not in TEXT_CONFIGS}
        fields = {**outer, **_given(inner, outer), "architectures": document.get("architectures")}
    model_type = fields.get("model_type")
    named = Config(fields, transformers_defaults(model_type) if isinstance(model_type, str) else {})
    return named, has_vision or named.architecture.endswith("ForConditionalGeneration")


def _given(inner: Mapping[str, object], outer: Manifest) -> Manifest:
    """The inner fields, without a null that would hide an outer value."""
    return {str(name): value for name, value in inner.items() if value is not None or name not in outer}


def transformers_defaults(model_type: str) -> Mapping[str, Value]:
    """The default of each field of this `model_type`; those of the text part for a model of several parts.

    Examples:
        >>> transformers_defaults("gemma3")["max_position_embeddings"]
        131072
        >>> transformers_defaults("gemma3_text")["num_attention_heads"]
        8
        >>> transformers_defaults("unheard-of")
        {}
    """
    types = _stored_defaults()
    defaults = types.get(model_type, {})
    part = defaults.get("text")
    return types.get(part, {}) if isinstance(part, str) else defaults  # type: ignore[return-value]  # as the script writes


@cache
def _stored_defaults() -> Mapping[str, Mapping[str, Value | str]]:
    document = json.loads(text_of(__package__, TRANSFORMERS_DEFAULTS))
    types: Mapping[str, Mapping[str, Value | str]] = document["types"]
    return types
