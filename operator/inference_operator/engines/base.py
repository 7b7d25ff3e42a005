"""The protocol of an inference engine such as vLLM, and its values. They hold no Kubernetes objects."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from inference_operator.api.container import EnvironmentVariable, SecretKeySelector
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import EngineSpec, ModelSpec
from inference_operator.hardware.needs import GpuNeeds
from inference_operator.hardware.offers import GpuOffer
from inference_operator.manifest import Manifest
from inference_operator.settings import Settings
from inference_operator.sizing.engine_memory import EngineMemory
from inference_operator.sizing.learned import Shortage
from inference_operator.sizing.plan import Plan
from inference_operator.sizing.shape import Shape
from inference_operator.views.samples import EngineSample


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The model to serve: a hub repository or a path in the container, and the served model name."""

    model: str
    name: str
    commit: str = ""
    """The commit of the hub repository to load; empty: `revision`."""
    revision: str | None = None
    """Branch, tag or commit that the user asks for; None: the engine's own default."""
    token: SecretKeySelector | None = None
    """Key of the Secret that holds a token of the hub."""
    hub_cache: str = ""
    """Folder with the repository in the layout of the hub's cache. Then the engine asks no hub. Empty: it downloads."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names that requests may use; the first is that of metrics. A hub repository is a name too.

        Examples:
            >>> ServedModel("Qwen/Qwen3-8B", "qwen").names, ServedModel("/models/qwen", "qwen").names
            (('qwen', 'Qwen/Qwen3-8B'), ('qwen',))
        """
        return (self.name,) if self.model.startswith("/") or self.model == self.name else (self.name, self.model)


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
    """The process of an engine: how it is started, probed and stopped."""

    user: int
    """User id of the processes."""
    group: int
    """Group id of the processes."""
    port: int
    """TCP port of the API and the metrics."""
    max_concurrency: int
    """Sequences that the engine computes at once. Each HAProxy process sends it at most as many requests; more requests
    wait in the router."""
    command: Sequence[str]
    args: Sequence[str]
    env: Sequence[EnvironmentVariable]
    health_path: str
    model_names: Sequence[str]
    """Names of the base model in the API; any other name is an adapter."""
    api_paths: Sequence[str]
    """Paths of the API for clients, each with all paths below it. Routers forward no other path."""
    writable: Sequence[str]
    """Paths that must be writable."""
    startup_seconds: int
    """Time limit until the health path answers."""
    pre_stop: Sequence[str]
    """Command of the preStop hook, which ends before the engine gets SIGTERM; run without a shell."""
    stop_seconds: int
    """Time limit from SIGTERM to the end of the process."""
    compiled: str = ""
    """Folder of all compiled kernels; empty if the engine keeps none."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause of an engine's end, from its own log."""

    reason: Reason
    cause: str
    """One line with the engine's figures and what to do."""


@dataclass(frozen=True, slots=True)
class DemandMetrics:
    """The names of an engine's Prometheus metrics that show the demand for it."""

    running: str
    """Gauge of requests that it computes."""
    waiting: str
    """Gauge of requests in its queue."""
    finished: str
    """Counter of requests that it has answered."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """How busy one engine is, from its metrics."""

    running: int
    """Requests that it computes."""
    waiting: int
    """Requests in its own queue."""
    cache_usage: float
    """Used part of the KV cache, from 0 to 1."""
    preemptions: int
    """Requests since its start whose KV cache was dropped for others, so that they were computed again."""
    answered: int
    """Requests since its start that it has finished."""


class Phase(Enum):
    """The phases of an engine's start, in their order."""

    SETTING_UP = auto()
    """The processes run and have read their configuration."""
    CONNECTING = auto()
    """Its processes connect their GPUs with each other."""
    DOWNLOADING = auto()
    """The engine downloads the model from a hub."""
    LOADING = auto()
    """It loads the weights into device memory."""
    COMPILING = auto()
    """It compiles the model for the device."""
    WARMING_UP = auto()
    """The KV cache is allocated, and the engine makes warm-up runs."""
    CAPTURING = auto()
    """It captures CUDA graphs."""


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
class Parsers:
    """The engine's parsers of a model's answers, by the engine's names; empty where there is none."""

    tool_call: str = ""
    """Parser of tool calls."""
    reasoning: str = ""
    """Parser of reasoning."""


@dataclass(frozen=True, slots=True)
class OptionClasses:
    """The options and variables of an engine that need no right to create pods. All others need it."""

    safe: frozenset[str]
    """Exact spellings of options, and of single keys of their values, that everybody may set."""
    managed: frozenset[str]
    """Exact spellings of options that the operator refuses to everybody, since it sets them itself."""
    safe_variables: frozenset[str]
    """Names of environment variables that everybody may set."""
    managed_variables: frozenset[str]
    """Names of environment variables that the operator refuses to everybody."""
    secret_variables: frozenset[str] = frozenset()
    """Those of the safe ones that are made for a secret: the engine shows their values nowhere."""


METRICS_PATH = "/metrics"
"""Path of every engine's metrics, on the port of its API."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A minimal inference request, which an engine answers only if it computes. Sent as POST with a JSON body."""

    path: str
    body: Manifest


class Engine(Protocol):
    """One kind of engine."""

    def check(self, spec: EngineSpec, /, *, image: str, settings: Settings) -> Refusal | None:
        """Why this image's engine cannot run the specification; None if it can."""

    @property
    def option_classes(self) -> OptionClasses:
        """The options and variables that everybody may set, and those that nobody may."""

    def gpu_needs(self, spec: EngineSpec, /, image: str) -> GpuNeeds:
        """What this image needs of GPUs and their driver."""

    def memory(self, image: str, offer: GpuOffer) -> EngineMemory:
        """How this image's engine uses the memory of these GPUs."""

    def cpu_memory(self, *, latent: bool) -> EngineMemory:
        """How the engine uses memory on CPUs; `latent` is whether the model uses multi-head latent attention (MLA)."""

    def shape(self, spec: EngineSpec, /) -> Shape:
        """The engine's options that decide sizing, except the number of GPUs."""

    def process(
        self, spec: EngineSpec, /, plan: Plan, served: ServedModel, timeouts: Timeouts, *, host: str, traces: str = ""
    ) -> EngineProcess:
        """The process of one engine of this plan. The image in `spec` is the one that runs.

        It listens on the address `host`; `::` means IPv6 and IPv4. It sends spans to the URL `traces`, if not empty,
        unless `spec` names another.
        """

    def parsers(self, image: str, *, model: str, architecture: str) -> Parsers:
        """The parsers that this image's engine needs for the answers of a model; `model` is a repository or path."""

    def access(self, spec: EngineSpec, model: ModelSpec | None = None, /) -> HubAccess:
        """The engine's access to its model; without a model, to any."""

    def check_model(self, spec: EngineSpec, model: ModelSpec, /, *, cached: bool) -> Refusal | None:
        """Why this engine cannot have this model, from a claim without a hub if `cached`; None if it can."""

    def diagnose(self, log: str) -> Diagnosis | None:
        """The cause of the engine's end, from the end of its log; None if the log shows no known error."""

    def shortage(self, log: str) -> Shortage | None:
        """The memory that the engine lacked at its start, from its log; None if the log reports none."""

    def phase(self, log: str) -> Phase | None:
        """The phase that the log of a start shows; None if it shows none yet."""

    def startup_hint(self, phase: Phase) -> str:
        """What helps, in a sentence, if a start does not get beyond this phase; empty if nothing particular does."""

    def sample(self, metrics_text: str) -> EngineSample | None:
        """The sample in a Prometheus metrics text; None if it lacks the metrics."""

    @property
    def demand_metrics(self) -> DemandMetrics:
        """The names of the metrics that show the demand, for the queries of other autoscalers."""

    def load(self, metrics_text: str) -> EngineLoad | None:
        """How busy the engine is, from a Prometheus metrics text; None if it lacks the metrics."""

    def probe_request(self, model: str) -> ProbeRequest:
        """The probe request to an engine that makes no progress, for the model of this served name."""
