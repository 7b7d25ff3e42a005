"""Parse the JSON of an InferenceDeployment into a typed `Resource`; no input raises an error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from inference_operator.api.conditions import Condition
from inference_operator.api.field_errors import causes, field_error
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.refusal import Refusal, all_of
from inference_operator.api.spec import MAX_NAME_LENGTH, Spec
from inference_operator.api.status import Status
from inference_operator.manifest import Key, Manifest, Owner

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
RESERVED_NAME = "vllm"
"""A Service `vllm` makes Kubernetes set `VLLM_PORT` in pods, which vLLM reads as its own (vLLM docs, env_vars)."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One InferenceDeployment as last observed: its spec (or why that is invalid) and the status written before."""

    key: Key
    uid: str
    version: str
    """The resourceVersion: a status is written only to the version that it was computed from."""
    generation: int
    deleting: bool
    spec: Spec | Refusal
    status: Status
    """The status that this operator wrote before, without the conditions of other writers."""

    @property
    def owner(self) -> Owner:
        return Owner(self.key, self.uid)

    def current_condition(self, kind: ConditionType) -> Condition | None:
        """A condition, if it is about the last edit."""
        condition = self.status.condition(kind)
        return condition if condition and condition.observed_generation == self.generation else None


def resource(raw: Manifest) -> Resource:
    """Parse an InferenceDeployment.

    A spec that violates the schema becomes a `Refusal`: it may have been stored before a rule existed, or come from
    a file. A status that cannot be parsed counts as never written.

    Examples:
        >>> raw = {"metadata": {"namespace": "default", "name": "qwen"}, "spec": {"model": {"source": 7}}}
        >>> resource(raw).spec.message
        'spec.model.source: must be a string. Put the value in quotes.'
    """
    meta = _mapping(raw.get("metadata"))
    key = Key(str(meta.get("namespace") or "default"), str(meta.get("name") or ""))
    generation = meta.get("generation")
    return Resource(
        key=key,
        uid=str(meta.get("uid", "")),
        version=str(meta.get("resourceVersion", "")),
        generation=generation if isinstance(generation, int) else 0,
        deleting="deletionTimestamp" in meta,
        spec=_checked(_name_problem(key.name), _spec(raw.get("spec"))),
        status=_status(raw.get("status")),
    )


def _checked(name: Refusal | None, spec: Spec | Refusal) -> Spec | Refusal:
    """The spec, or all mistakes of it and of the name."""
    if name is None:
        return spec
    return all_of([name, *spec.mistakes]) if isinstance(spec, Refusal) else name


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _name_problem(name: str) -> Refusal | None:
    if NAME.fullmatch(name) and len(name) <= MAX_NAME_LENGTH and name != RESERVED_NAME:
        return None
    return Refusal(
        Reason.INVALID_SPEC,
        "metadata.name",
        f"must be a DNS-1035 label (lower-case letters, digits and `-`, starting with a letter) of at most"
        f" {MAX_NAME_LENGTH} characters, and not `{RESERVED_NAME}`.",
        "Create the resource with another name, for example `qwen3-8b`.",
    )


def _spec(raw: object) -> Spec | Refusal:
    try:
        return Spec.model_validate(raw if raw is not None else {})
    except ValidationError as error:
        return all_of([field_error(cause) for cause in causes(error.errors(include_url=False))])


def _status(stored: object) -> Status:
    try:
        status = Status.model_validate(_mapping(stored))
    except ValidationError:
        return Status()
    ours = tuple(c for c in status.conditions if c.type in set(ConditionType))
    return status.model_copy(update={"conditions": ours})
