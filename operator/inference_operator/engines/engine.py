"""What every engine answers, in words that know nothing of Kubernetes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import EngineSpec, EnvironmentVariable
from inference_operator.sizing.plan import Plan


@dataclass(frozen=True, slots=True)
class Served:
    """The model as the engine sees it: a hub repository or a path in its file system, and its name in the API."""

    model: str
    name: str


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """How an engine is started, watched and stopped."""

    command: Sequence[str]
    args: Sequence[str]
    env: Sequence[EnvironmentVariable]
    health_path: str
    writable: Sequence[str]
    drain_seconds: int
    """Seconds in which the engine finishes running requests after SIGTERM."""


class Engine(Protocol):
    """One kind of engine."""

    def check(self, asked: EngineSpec) -> Refusal | None:
        """Why what was asked cannot be given, or None."""

    def process(self, asked: EngineSpec, plan: Plan, served: Served, *, port: int) -> EngineProcess:
        """How one engine of this plan is run."""
