"""An engine's access to its model: identity, variables and folders with which its process and the Jobs read it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.engine import EngineSpec
from inference_operator.api.model import ModelSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.models.checkpoint import WeightFormat, format_of
from inference_operator.models.facts import ModelFacts


@dataclass(frozen=True, slots=True)
class SecretVariable:
    """An environment variable whose value is the key of the same name in a Secret."""

    name: str
    secret: str
    """Name of the Secret."""
    optional: bool = False
    """Whether the container starts without it if the Secret has no such key."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """An engine's access to model files. The inspection Job uses the same access."""

    user: int
    """User id of the engine's processes."""
    group: int
    """Group id of the engine's processes."""
    env: Sequence[EnvironmentVariable]
    """Environment variables for mirror, token, cache, proxies and certificates."""
    writable: Sequence[str]
    """Paths that must be writable."""
    revision: str | None
    """Branch, tag or commit of the hub repository; None is the default branch."""
    compiled: str = ""
    """Folder of all compiled kernels; empty if the engine keeps none."""
    keys: Sequence[SecretVariable] = ()
    """Keys of the model's store, which only the Jobs get."""


@dataclass(frozen=True, slots=True)
class Support:
    """Whether an engine runs models of an architecture, and how."""

    obstacle: str = ""
    """Why it does not, in a sentence; empty if it does."""
    implementation: str = ""
    """The implementation of the model that the engine must use, by the engine's own name; empty: its own choice."""
    lost: str = ""
    """What users lose beside an engine with an implementation of its own, in a sentence; empty: nothing."""


class ModelAccess(Protocol):
    """The models that one kind of engine reads, and how."""

    def access(self, spec: EngineSpec, model: ModelSpec | None = None, /) -> HubAccess:
        """The engine's access to its model; without a model, to any."""

    @property
    def formats(self) -> frozenset[WeightFormat]:
        """The formats of weights that the engine reads."""

    @property
    def needs_inspection(self) -> bool:
        """Whether the engine starts otherwise if the model's files are known, on CPUs too."""

    @property
    def requires_facts(self) -> bool:
        """Whether the engine starts with no model whose files could not be read, whatever the user says."""

    def check_facts(self, facts: ModelFacts, /) -> Refusal | None:
        """Why the engine cannot run a model of an architecture that it supports; None if it can."""

    def support(self, architecture: str, /, *, image: str) -> Support:
        """Whether this image's engine runs models of an architecture, by the name in their config."""

    def check_model(self, spec: EngineSpec, model: ModelSpec, /, *, cached: bool) -> Refusal | None:
        """Why this engine cannot have this model, from a claim without a hub if `cached`; None if it can."""


def refusal_of_format(engine: ModelAccess, facts: ModelFacts) -> Refusal | None:
    """Why this engine cannot read the model's weights; None if it can."""
    found = format_of(facts.weights_from)
    if found in engine.formats:
        return None
    readable = ", ".join(sorted(one.value for one in engine.formats))
    problem = f"The weights are {found.value}, which this engine does not read."
    return Refusal(Reason.INVALID_MODEL, "spec.model.source", problem, f"Use a model whose weights are {readable}.")
