"""The stored form of a plan: JSON with flat keys, in the plan annotation and in status.

Earlier releases wrote the same keys. `to_json` and `StoredPlan` are the only places that know them.
"""

from dataclasses import asdict
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from inference_operator.manifest import Manifest
from inference_operator.non_defaults import non_defaults
from inference_operator.sizing.plan import Plan

_SUFFIX = "_parallel_size"
"""Suffix of the keys of the parallel sizes: `tensor_parallel_size`, `pipeline_parallel_size`."""


_ADDED = frozenset(
    {"labels_of_kind", "learned", "left_to_engine", "video_refused", "tool_call_parser", "reasoning_parser"}
)
"""Fields that earlier releases did not write. They are left out while they have their default, so that a plan of an
earlier release keeps its text."""


def to_json(plan: Plan) -> Manifest:
    """The fields of a plan under their stored keys."""
    fields = {name: value for name, value in asdict(plan).items() if value or name not in _ADDED}
    sizes = fields.pop("parallel")
    return {**fields, **_flat(sizes)}


def stored_non_defaults(plan: Plan) -> Manifest:
    """The fields of a plan that differ from their defaults, under their stored keys; the tensor parallel size always.

    A hash of it does not change when a later release adds a field with a default.
    """
    fields = non_defaults(plan)
    del fields["parallel"]
    return {**fields, **_flat(non_defaults(plan.parallel))}


def _flat(sizes: Manifest) -> Manifest:
    return {f"{name}{_SUFFIX}": size for name, size in sizes.items()}


def _nested(fields: object) -> object:
    """The fields of `Plan` from the stored keys; any other value unchanged, for the validation to refuse."""
    if not isinstance(fields, dict):
        return fields
    sizes = {key.removesuffix(_SUFFIX): size for key, size in fields.items() if key.endswith(_SUFFIX)}
    return {**fields, "parallel": sizes}


StoredPlan: TypeAlias = Annotated[Plan, BeforeValidator(_nested)]
"""A plan that pydantic reads from its stored keys."""
