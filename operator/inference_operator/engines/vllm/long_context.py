"""Contexts beyond a model's own: YaRN, through the fields of its config that vLLM reads.

vLLM takes `max_position_embeddings` for the context of a YaRN model, and replaces `rope_parameters` as a whole (0.32.0,
`config/model.py`, `_apply_dict_overrides`, `_get_and_verify_max_len`). So all of them are set.
"""

import json
from dataclasses import replace

from inference_operator.api.engine import MAX_TOKENS, EngineSpec, RopeScalingSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.engines.vllm.options import is_given
from inference_operator.models.context import PER_LAYER
from inference_operator.models.facts import ModelFacts

FIELD, HF_OVERRIDES = "spec.engine.ropeScaling", "--hf-overrides"
YARN = "yarn"
_REPLACED = ("default", YARN)
"""Types of rotary positions that YaRN replaces."""
_ORIGINAL = "original_max_position_embeddings"
_PER_LAYER = ("Gemma3", "Gemma4", "Rnj1", "Olmo3")
"""Beginnings of architectures that read parameters for each kind of layer (0.32.0, `model_executor/models`:
`rope_parameters[layer_type]`; transformers 5.19.0, `models/olmo3`), also where a config in an earlier form does
not show it."""


def extended_facts(facts: ModelFacts, scaling: RopeScalingSpec | None) -> ModelFacts:
    if scaling is None:
        return facts
    longest = int(scaling.factor * _original(facts, scaling))
    return replace(facts, context=longest, longest_context=longest, context_stated=True)


def _original(facts: ModelFacts, scaling: RopeScalingSpec) -> int:
    """The positions that the factor multiplies. A model with YaRN has a longer context than these."""
    stated = dict(facts.rope).get(_ORIGINAL)
    own = int(stated) if isinstance(stated, int | float) and 0 < stated <= MAX_TOKENS else facts.context
    return scaling.original_max_position_embeddings or own


def config_overrides(facts: ModelFacts, spec: EngineSpec) -> str:
    """A JSON object of the config's fields that vLLM must read in another way, from facts without the scaling."""
    if (scaling := spec.rope_scaling) is None:
        return ""
    parameters: dict[str, float | str] = {**dict(facts.rope), "rope_type": YARN, "factor": scaling.factor}
    parameters[_ORIGINAL] = _original(facts, scaling)
    if scaling.theta:
        parameters["rope_theta"] = scaling.theta
    longest = int(scaling.factor * _original(facts, scaling))
    fields = {"max_position_embeddings": longest, "rope_parameters": parameters}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def refusal_of_scaling(spec: EngineSpec, facts: ModelFacts) -> Refusal | None:
    scaling, parameters = spec.rope_scaling, dict(facts.rope)
    if scaling is None:
        return None
    if is_given(spec.args, HF_OVERRIDES):
        return _refusal(f"`{HF_OVERRIDES}` in `spec.engine.args` replaces it.", "Use one of them.")
    if facts.has_vision or facts.uses_mla or facts.is_pooling:
        return _refusal("Only models that read and write text, without latent attention, have it.", "Remove it.")
    kind = parameters.get("rope_type", "default")
    if kind == PER_LAYER or facts.architecture.startswith(_PER_LAYER):
        return _refusal("The kinds of layers of this model have rotary positions of their own.", "Remove it.")
    if kind not in _REPLACED:
        shown = f"`{kind}`" if isinstance(kind, str) and kind.isidentifier() else "another way"
        return _refusal(f"The positions of this model are scaled by {shown} already.", "Remove it.")
    if "rope_theta" not in parameters and scaling.theta is None:
        return _refusal(
            "The base of the model's rotary positions is not known.", f"Set `{FIELD}.theta` to its `rope_theta`."
        )
    own = parameters.get("factor")
    if scaling.original_max_position_embeddings is None and isinstance(own, int | float) and scaling.factor < own:
        problem = f"The model's own factor is {own:g}, so its context would be shorter."
        return _refusal(problem, f"Set `{FIELD}.factor` to more than it, or remove it.")
    return None


def _refusal(problem: str, cure: str) -> Refusal:
    return Refusal(Reason.INVALID_SPEC, FIELD, problem, cure)
