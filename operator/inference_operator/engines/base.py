"""What every engine answers, in words that know nothing of Kubernetes."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import EngineSpec
from inference_operator.hardware.offers import GpuOffer
from inference_operator.manifest import Manifest
from inference_operator.settings import Settings
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.views.samples import EngineSample


@dataclass(frozen=True, slots=True)
class Served:
    """The model as the engine sees it: a hub repository or a path in its file system, and its name in the API."""

    model: str
    name: str


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts of an engine, in seconds."""

    startup: int
    """From the start of the container until the engine is ready."""
    dns_staleness: int
    """From the start of the shutdown until no client uses the engine's address from DNS any more."""
    drain: int
    """After that: until the engine has answered the requests in flight."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """How an engine is started, watched and stopped."""

    user: int
    """User id of its processes."""
    group: int
    """Group id of its processes."""
    port: int
    """TCP port of its API and its metrics."""
    max_concurrency: int
    """Requests that a router pod sends to one engine at a time; more requests wait in the router."""
    command: Sequence[str]
    args: Sequence[str]
    env: Sequence[EnvironmentVariable]
    health_path: str
    writable: Sequence[str]
    startup_seconds: int
    """How long it may take until it answers its health path."""
    pre_stop: Sequence[str]
    """What runs beside it, and ends, before it gets SIGTERM; without a shell."""
    stop_seconds: int
    """How long it may take from there to its end."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why an engine ended, as it says itself."""

    reason: Reason
    cause: str
    """A phrase with the engine's own figures and what to do, on one line."""


class Phase(Enum):
    """What an engine does before it answers, in the order in which it does so."""

    SETTING_UP = auto()
    """Its processes have begun, and know what they are to run."""
    DOWNLOADING = auto()
    """It fetches the model from a hub."""
    LOADING = auto()
    """It reads the weights into its device's memory."""
    COMPILING = auto()
    """It compiles the model for its device."""
    WARMING_UP = auto()
    """It has its KV cache, and runs the model for practice."""
    CAPTURING = auto()
    """It records what the device does, so that it can be repeated (CUDA graphs)."""


@dataclass(frozen=True, slots=True)
class HubAccess:
    """How an engine gets at its model, so that whatever else reads the model gets at it in the same way."""

    user: int
    """User id of the engine's processes."""
    group: int
    """Group id of the engine's processes."""
    env: Sequence[EnvironmentVariable]
    """Mirror, token, cache, proxies and certificates."""
    writable: Sequence[str]
    """Paths that must be writable for it."""
    revision: str | None
    """Branch, tag or commit of the hub's repository; None is the default branch."""


METRICS_PATH = "/metrics"
"""Where every engine shows its metrics, on the port of its API."""


@dataclass(frozen=True, slots=True)
class Question:
    """The smallest request that only an engine that computes can answer; sent with POST, as JSON."""

    path: str
    body: Manifest


class Engine(Protocol):
    """One kind of engine."""

    def check(self, asked: EngineSpec, *, image: str, settings: Settings) -> Refusal | None:
        """Why what was asked cannot be given by the engine of this image, or None."""

    def memory(self, image: str, offer: GpuOffer) -> EngineMemory:
        """How the engine of this image uses the memory of these GPUs."""

    def cpu_memory(self, *, latent: bool) -> EngineMemory:
        """How the engine uses memory on CPUs, for a model with latent attention or another one."""

    def shape(self, asked: EngineSpec) -> Shape:
        """What is asked of an engine, in the words of sizing: everything but how many GPUs it has."""

    def process(self, asked: EngineSpec, plan: Plan, served: Served, timeouts: Timeouts) -> EngineProcess:
        """How one engine of this plan is run."""

    def access(self, asked: EngineSpec) -> HubAccess:
        """How the engine gets at its model."""

    def diagnose(self, log: str) -> Diagnosis | None:
        """What its last words say about its end; None where they say nothing that is known."""

    def phase(self, log: str) -> Phase | None:
        """How far it is, by the log of a start; None where that does not tell yet."""

    def sample(self, metrics_text: str) -> EngineSample | None:
        """What an engine's metrics tell about its work; None where they do not."""

    def question(self, model: str) -> Question:
        """A question to an engine that seems to stand still, about the model of this name."""
