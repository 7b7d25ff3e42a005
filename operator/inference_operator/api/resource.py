"""From the API server's JSON to a typed InferenceDeployment; nothing that is shown here raises."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from inference_operator.api.mistakes import mistake
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import MAX_NAME_LENGTH, Spec
from inference_operator.api.status import Status
from inference_operator.manifest import Key, Manifest, Owner

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
RESERVED_NAME = "vllm"
"""A Service `vllm` makes Kubernetes set `VLLM_PORT` in pods, which vLLM reads as its own (vLLM docs, env_vars)."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One InferenceDeployment as it was last seen: what is asked (or why that cannot be read) and what was told."""

    key: Key
    uid: str
    version: str
    """Its resourceVersion: a status is written only to the very state that it is about."""
    generation: int
    deleting: bool
    spec: Spec | Refusal
    status: Status
    """What this operator told before; conditions that others added are theirs and not in it."""

    @property
    def owner(self) -> Owner:
        """Whose the children are."""
        return Owner(self.key, self.uid)


def resource(raw: Manifest) -> Resource:
    """Read an InferenceDeployment.

    A spec that breaks the schema (written before a rule existed, or by a client that went round it) becomes a
    `Refusal`; a status that cannot be read counts as never written.

    Examples:
        >>> raw = {"metadata": {"namespace": "default", "name": "qwen"}, "spec": {"model": {"source": 7}}}
        >>> resource(raw).spec.message
        'spec.model.source: must be text. Write it in quotes: "…".'
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
        spec=_name_problem(key.name) or _spec(raw.get("spec")),
        status=_status(raw.get("status")),
    )


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _name_problem(name: str) -> Refusal | None:
    if NAME.fullmatch(name) and len(name) <= MAX_NAME_LENGTH and name != RESERVED_NAME:
        return None
    return Refusal(
        Reason.INVALID_SPEC,
        "metadata.name",
        f"must be a DNS-1035 label (lower-case letters, digits and `-`, a letter first) of at most {MAX_NAME_LENGTH}"
        f" characters, and not `{RESERVED_NAME}`.",
        "Create it under another name, for example `qwen3-8b`.",
    )


def _spec(raw: object) -> Spec | Refusal:
    try:
        return Spec.model_validate(raw if raw is not None else {})
    except ValidationError as error:
        return mistake(error.errors(include_url=False)[0])


def _status(stored: object) -> Status:
    try:
        told = Status.model_validate(_mapping(stored))
    except ValidationError:
        return Status()
    ours = tuple(c for c in told.conditions if c.type in set(ConditionType))
    return told.model_copy(update={"conditions": ours})
