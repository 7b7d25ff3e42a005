"""What guesses tokens, as arguments of `vllm serve` ask for it (0.32.0, `config/speculative.py`)."""

import json
from collections.abc import Mapping, Sequence

from inference_operator.engines.vllm.given import MOST_DIGITS, given, value_of
from inference_operator.sizing.shape import Speculation

CONFIG = "--speculative-config"
SHORT = {"method": "--spec-method", "model": "--spec-model", "num_speculative_tokens": "--spec-tokens"}
"""Keys of the configuration that have an option of their own."""
BY_TEXT = ("ngram", "[ngram]", "suffix")
"""Methods that look up text on the CPU, and keep nothing on the GPU."""
OF_THE_MODEL = "mtp"
"""The end of the methods by which a layer of the model's own guesses: vLLM takes `deepseek_mtp` and the like for it."""
MOST_CHARACTERS = 65_536
"""Of a configuration that is read."""


def speculation_of(args: Sequence[str]) -> Speculation | None:
    """What guesses tokens; None where nothing does, or where vLLM would refuse what is asked.

    Examples:
        >>> speculation_of(['--speculative-config={"model": "org/draft", "num_speculative_tokens": 4}']).draft
        'org/draft'
        >>> speculation_of(["--spec-method", "mtp", "--spec-tokens=2"])
        Speculation(tokens=2, own_layer=True, draft='', draft_revision=None, draft_facts=None, unknown='')
        >>> speculation_of(["-sc.method=ngram", "--speculative-config.num_speculative_tokens=5"]).tokens
        5
        >>> speculation_of(["--seed=1"]) is None
        True
    """
    asked = _configuration(args)
    method, model = _text(asked, "method"), _text(asked, "model")
    method = method or ("ngram" if model in BY_TEXT else "draft_model" if model else "")
    tokens = _tokens(asked.get("num_speculative_tokens"))
    if not method:
        return None
    if method in BY_TEXT:
        return Speculation(tokens)
    if method.endswith(OF_THE_MODEL):
        return Speculation(tokens, own_layer=True)
    if model and method != "custom_class":
        return Speculation(tokens, draft=model, draft_revision=_text(asked, "revision") or None)
    return Speculation(tokens, unknown=f"what guesses tokens by `{method[:MOST_SHOWN]}`")


MOST_SHOWN = 40
"""Characters of a method's name that a message repeats."""


def _configuration(args: Sequence[str]) -> Mapping[str, object]:
    """The configuration, whole or by its keys."""
    found: dict[str, object] = {}
    for one in given(args, CONFIG):
        parsed = _parsed(one.value or "")
        if one.key:
            found[one.key] = one.value if parsed is None else parsed
        elif isinstance(parsed, dict):
            found = {str(key).replace("-", "_"): value for key, value in parsed.items()}
    short = {key: value for key, option in SHORT.items() if (value := value_of(args, option)) is not None}
    return {**found, **short}


def _parsed(text: str) -> object:
    try:
        return json.loads(text) if len(text) <= MOST_CHARACTERS else None
    except (ValueError, RecursionError):
        return None


def _text(asked: Mapping[str, object], key: str) -> str:
    value = asked.get(key)
    return value if isinstance(value, str) and value.isprintable() else ""


def _tokens(value: object) -> int:
    """One where the draft model's own config says how many: those that do say one to three."""
    text = str(value)
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else 1
