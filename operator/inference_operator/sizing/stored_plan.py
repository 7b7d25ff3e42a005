"""The stored form of a plan: JSON with flat keys, in the plan annotation.

This is the only place that knows the keys of fields that have another name in the annotation.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from inference_operator.manifest import Manifest
from inference_operator.non_defaults import field_values, non_defaults
from inference_operator.sizing.plan import Plan

_SUFFIX = "_parallel_size"
_NODES = "nodes"
"""The only field of the parallel sizes that is stored under its own name: it is no size of the model's division."""

_ONLY_IF_SET = frozenset(
    {
        *("labels_of_kind", "learned", "left_to_engine", "kv_cache_dtype", "kv_offload_gib", "implementation"),
        *("model_file", "config_overrides", "engine_choice", "model_context", "whole_encoder", "video_refused"),
        *("tool_call_parser", "reasoning_parser", "drafting", "adapter_slots", "adapter_rank", "adapter_slot_gib"),
        *("step", "runner_up", "advice", "data_parallel_size", "nodes"),
    }
)
"""Fields that are not stored while they have their default, so that a plan without them keeps its text."""
_OF_NODES = frozenset({"pipeline", "nodes"})
"""Fields of what was learned that are only stored for an engine over several nodes."""
_LEARNED_IF_SET = frozenset({"sequences"})
"""Fields of what was learned that are only stored if an engine reported them."""

_STORED_KEYS = {
    "revision": "decision",
    "unaccounted": "uncounted",
    "unchecked_reason": "unchecked",
    "requested_gib": "offered_gib",
    "max_concurrency_at_full_context": "longest_requests",
    "max_concurrency_at_2048_tokens": "typical_requests",
}
"""Keys of fields that are stored under another name than they have, of `Plan` and of `PerGpu`."""
_FIELDS = {key: field for field, key in _STORED_KEYS.items()}

_EXPLAINING = frozenset(
    {
        *("per_gpu", "assumptions", "unaccounted", "unchecked_reason", "context_reduced", "model_context"),
        *("engine_choice", "learned", "adapter_slot_gib", "step", "runner_up", "advice"),
    }
)
"""Fields that explain a plan and do not change an engine's pod."""


def to_json(plan: Plan) -> Manifest:
    return _renamed(flat_fields(plan), _STORED_KEYS)


def flat_fields(plan: Plan) -> Manifest:
    fields = {name: value for name, value in field_values(plan).items() if value or name not in _ONLY_IF_SET}
    if plan.step and plan.step.guesses is None:
        fields["step"] = {name: value for name, value in fields["step"].items() if name != "guesses"}
    if plan.learned:
        left_out = _OF_NODES if plan.learned.nodes == 1 else frozenset()
        learned = {name: value for name, value in fields["learned"].items() if name not in left_out}
        fields["learned"] = {name: value for name, value in learned.items() if value or name not in _LEARNED_IF_SET}
    sizes = _flat(fields.pop("parallel"))
    return {**fields, **{name: size for name, size in sizes.items() if size > 1 or name not in _ONLY_IF_SET}}


def stored_pod_sizes(plan: Plan) -> Manifest:
    """The fields that change an engine's pod and differ from their defaults, under their stored keys.

    The tensor parallel size is always there. A hash of it does not change when a later release adds a field with a
    default.
    """
    fields = {name: value for name, value in non_defaults(plan).items() if name not in _EXPLAINING}
    del fields["parallel"]
    if plan.drafting:
        fields["drafting"] = non_defaults(plan.drafting)
    return _renamed({**fields, **_flat(non_defaults(plan.parallel))}, _STORED_KEYS)


def _flat(sizes: Manifest) -> Manifest:
    return {name if name == _NODES else f"{name}{_SUFFIX}": size for name, size in sizes.items()}


def _renamed(fields: Manifest, names: Mapping[str, str]) -> Manifest:
    return {
        names.get(name, name): _renamed(value, names) if name == "per_gpu" and isinstance(value, dict) else value
        for name, value in fields.items()
    }


def _nested(fields: object) -> object:
    """The fields of `Plan` from the stored keys; any other value unchanged, for validation to refuse."""
    if not isinstance(fields, dict):
        return fields
    sizes = {key.removesuffix(_SUFFIX): size for key, size in fields.items() if key.endswith(_SUFFIX) or key == _NODES}
    return {**_renamed(fields, _FIELDS), "parallel": sizes}


StoredPlan: TypeAlias = Annotated[Plan, BeforeValidator(_nested)]
