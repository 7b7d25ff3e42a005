"""Speculative decoding, from arguments of `vllm serve` (0.32.0, `config/speculative.py`)."""

import re
from collections.abc import Mapping, Sequence

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.cli_args import MAX_DIGITS, configuration, value_of
from inference_operator.engines.vllm.traits import only_pools, predicts
from inference_operator.models.facts import ModelFacts
from inference_operator.sizing.shape import Speculation

CONFIG = "--speculative-config"
KEY_OPTIONS = {"method": "--spec-method", "model": "--spec-model", "num_speculative_tokens": "--spec-tokens"}
"""Options that set one key of the configuration each."""
TEXT_METHODS = ("ngram", "[ngram]", "suffix")
"""Methods that search the text on the CPU. They take no GPU memory."""
OWN_LAYER_SUFFIX = "mtp"
"""Suffix of the methods that use a layer of the model itself. vLLM treats `deepseek_mtp` and the like as `mtp`."""
_OTHER_DRAFTS = re.compile("eagle|medusa|dflash|dspark|mlp.speculator|-mtp")
"""Names by which vLLM takes a draft for another method than that of a whole model."""
_STATING = ("nemotron_h",)
"""Types of models that predict several tokens only if their config says so."""
_METHOD = re.compile(r"[a-z][a-z0-9_]{0,39}")
"""The form of methods' names, which messages repeat."""


def speculation_of(args: Sequence[str]) -> Speculation | None:
    """The speculative decoding that arguments enable; None if they enable none or vLLM refuses them."""
    config = _configuration(args)
    method, model = _text(config, "method"), _text(config, "model")
    method = method or ("ngram" if model in TEXT_METHODS else "draft_model" if model else "")
    tokens = _tokens(config.get("num_speculative_tokens"))
    if not method:
        return None
    if method in TEXT_METHODS:
        return Speculation(tokens)
    if method.endswith(OWN_LAYER_SUFFIX):
        return Speculation(tokens, own_layer=True)
    if model and method != "custom_class":
        return Speculation(tokens, draft=model, draft_revision=_text(config, "revision") or None)
    shown = f"method `{method}`" if _METHOD.fullmatch(method) else "method of the arguments"
    return Speculation(tokens, unknown=f"the speculative decoding {shown}")


def refusal_of_speculation(facts: ModelFacts, args: Sequence[str], draft: ModelFacts | None) -> Refusal | None:
    """Why vLLM does not start with this speculative decoding (0.32.0, `config/speculative.py`); None if it does.

    Args:
        draft: the facts of the draft model; None if they are not known, or if there is none.
    """
    config = _configuration(args)
    method, model = _text(config, "method"), _text(config, "model")
    if method.endswith(OWN_LAYER_SUFFIX) and not model:
        return _without_layers(facts, config)
    drafts = bool(model) and method in ("", "draft_model") and model not in TEXT_METHODS
    if not drafts or _OTHER_DRAFTS.search(model.lower()):
        return None
    if config.get("num_speculative_tokens") is None:
        return _refusal("A draft model is named without a number of tokens.", "Add `--spec-tokens=4`, for example.")
    if draft is not None and only_pools(draft):
        return _refusal("The draft model does not generate text.", "Use one that does, or the method `ngram`.")
    if draft is not None and predicts(draft) and draft.hidden_size != facts.hidden_size:
        problem = (
            "vLLM takes layers that predict several tokens from this draft model, and they are"
            f" {draft.hidden_size:,} wide, not {facts.hidden_size:,} as the model."
        )
        return _refusal(problem, "Use a draft model without such layers, or `--spec-method=mtp` without one.")
    if draft is None or config.get("use_heterogeneous_vocab") or draft.vocabulary == facts.vocabulary:
        return None
    if _is_assumed(draft) or _is_assumed(facts):
        return None
    problem = f"The draft model's vocabulary of {draft.vocabulary:,} is not the model's of {facts.vocabulary:,}."
    return _refusal(problem, f"Use a draft model with the same one, or `{CONFIG}.use_heterogeneous_vocab=true`.")


def _without_layers(facts: ModelFacts, config: Mapping[str, object]) -> Refusal | None:
    """The refusal of multi-token prediction by a model that has no layers for it, or of a number of tokens."""
    layers, tokens = facts.predicting_layers, _tokens(config.get("num_speculative_tokens"))
    whole = bool(facts.commit) and facts.model_type in _STATING  # entries of the catalogue lack the field
    absent = layers == 0 or (layers is None and whole)
    if (facts.architecture and not predicts(facts)) or absent:
        return _refusal(
            "The model has no layers that predict several tokens.", "Use a draft model, or the method `ngram`."
        )
    if layers and tokens > layers and tokens % layers:
        problem = f"{tokens} speculative tokens are not divisible by the {layers} layers that predict them."
        return _refusal(problem, f"Use a multiple of {layers}.")
    return None


def _is_assumed(facts: ModelFacts) -> bool:
    return any(text.startswith("a vocabulary") for text in facts.assumptions)


def _refusal(problem: str, cure: str) -> Refusal:
    return Refusal(Reason.INVALID_SPEC, "spec.engine.args", problem, cure)


def _configuration(args: Sequence[str]) -> Mapping[str, object]:
    """The configuration, from a JSON object and from options for single keys."""
    by_option = {key: value for key, option in KEY_OPTIONS.items() if (value := value_of(args, option)) is not None}
    return {**configuration(args, CONFIG), **by_option}


def _text(config: Mapping[str, object], key: str) -> str:
    value = config.get(key)
    return value if isinstance(value, str) and value.isprintable() else ""


def _tokens(value: object) -> int:
    """Speculative tokens. 1 if the draft model's config decides; known configs state one to three."""
    text = str(value)
    return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else 1
