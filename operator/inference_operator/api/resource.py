"""How a kind of resource looks in the Kubernetes API. Its JSON becomes a typed `Resource`; no input raises an error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from inference_operator.api.conditions import Condition
from inference_operator.api.field_errors import causes, field_error
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.refusal import Refusal, all_of
from inference_operator.api.spec import MAX_NAME_LENGTH, Spec
from inference_operator.api.status import ResourceStatus, Status
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Key, Kind, Manifest, Owner

NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
RESERVED_NAME = "vllm"
"""A Service `vllm` makes Kubernetes set `VLLM_PORT` in pods, which vLLM reads as its own (vLLM docs, env_vars)."""

SpecT = TypeVar("SpecT", bound=BaseModel, default=Spec)
StatusT = TypeVar("StatusT", bound=ResourceStatus, default=Status)


@dataclass(frozen=True, slots=True)
class Resource(Generic[SpecT, StatusT]):
    """A resource as last observed: its spec (or why that is invalid) and the status written before."""

    key: Key
    uid: str
    version: str
    """The resourceVersion: a status is written only to the version that it was computed from."""
    generation: int
    deleting: bool
    spec: SpecT | Refusal
    status: StatusT
    """The status that this operator wrote before, without the conditions of other writers."""
    annotations: Mapping[str, object] = field(default_factory=dict)

    @property
    def owner(self) -> Owner:
        return Owner(self.key, self.uid)

    def current_condition(self, kind: ConditionType) -> Condition | None:
        """A condition, if it is about the last edit."""
        condition = self.status.condition(kind)
        return condition if condition and condition.observed_generation == self.generation else None

    def is_true(self, kind: ConditionType) -> bool:
        """Whether a condition is true for the resource as it is now."""
        condition = self.current_condition(kind)
        return condition is not None and condition.status == "True"


AnyResource: TypeAlias = Resource[Any, Any]


def column(name: str, value_type: str, path: str, description: str, *, is_wide: bool = False) -> Manifest:
    """A column of `kubectl get`; a wide one is only in `--output wide`."""
    wide = {"priority": 1} if is_wide else {}
    return {"name": name, "type": value_type, "jsonPath": path, "description": description, **wide}


@dataclass(frozen=True, slots=True)
class ResourceApi(Generic[SpecT, StatusT]):
    kind: Kind
    spec: type[SpecT]
    status: type[StatusT]
    description: str
    short_names: tuple[str, ...]
    columns: tuple[Manifest, ...]
    conditions: tuple[ConditionType, ...]
    """Those that its status can have, in their order."""
    scales: bool = False
    """Whether it has the subresource `/scale`, with `spec.replicas` and `status.replicas`."""

    def parse(self, raw: Manifest) -> Resource[SpecT, StatusT]:
        """Parse a resource of this kind.

        A spec that violates the schema becomes a `Refusal`: it may have been stored before a rule existed, or come from
        a file. A status that cannot be parsed counts as never written.
        """
        meta = _mapping(raw.get("metadata"))
        key = Key(str(meta.get("namespace") or "default"), str(meta.get("name") or ""), self.kind)
        generation = meta.get("generation")
        return Resource(
            key=key,
            uid=str(meta.get("uid", "")),
            version=str(meta.get("resourceVersion", "")),
            generation=generation if isinstance(generation, int) else 0,
            deleting="deletionTimestamp" in meta,
            spec=_checked(_name_problem(key.name), self._spec(raw.get("spec"))),
            status=self._status(raw.get("status")),
            annotations=_mapping(meta.get("annotations")),
        )

    def _spec(self, raw: object) -> SpecT | Refusal:
        try:
            return self.spec.model_validate(raw if raw is not None else {})
        except ValidationError as error:
            return all_of([field_error(cause) for cause in causes(error.errors(include_url=False))])

    def _status(self, stored: object) -> StatusT:
        try:
            status = self.status.model_validate(_mapping(stored))
        except ValidationError:
            return self.status()
        ours = tuple(c for c in status.conditions if c.type in self.conditions)
        return status.model_copy(update={"conditions": ours})


INFERENCE_DEPLOYMENT_API = ResourceApi(
    INFERENCE_DEPLOYMENT,
    Spec,
    Status,
    "An inference service: engine pods behind a load balancer.",
    ("infd",),
    (
        column("Model", "string", ".status.model", "Name of the model"),
        column(
            "Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether a request would be answered"
        ),
        column("Reason", "string", ".status.reason", "What is wrong, else the reason of the condition Ready"),
        column("Engines", "string", ".status.ready", "Ready and desired engines"),
        column("GPUs", "string", ".status.gpus", "GPUs of one engine"),
        column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
        column("URL", "string", ".status.url", "URL of the OpenAI API inside the cluster", is_wide=True),
        column("Engine", "string", ".status.engine.kind", "Kind of the engine", is_wide=True),
        column("Context", "integer", ".status.plan.maxModelLen", "Maximum context length in tokens", is_wide=True),
        column("Adapters", "string", ".status.adaptersReady", "Ready adapters, and all adapters", is_wide=True),
        column("Message", "string", ".status.message", "The cause, and what helps", is_wide=True),
    ),
    tuple(kind for kind in ConditionType if kind is not ConditionType.NAMES_ACCEPTED),
    scales=True,
)


def resource(raw: Manifest) -> Resource:
    return INFERENCE_DEPLOYMENT_API.parse(raw)


def _checked(name: Refusal | None, spec: SpecT | Refusal) -> SpecT | Refusal:
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
