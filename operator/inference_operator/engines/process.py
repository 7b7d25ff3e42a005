"""The process of an engine: how it is started, probed and stopped. It holds no Kubernetes objects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference_operator.api.container import EnvironmentVariable, SecretKeySelector
from inference_operator.engines.kv_transfer import KVTransfer
from inference_operator.engines.model_access import GROUP, USER
from inference_operator.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Front:
    """Where an engine takes requests, and what it asks of them."""

    host: str = "::"
    traces: str = ""
    """The URL that it sends spans to, unless its specification names another; empty: it sends none."""
    asks_for_key: bool = False
    """Whether it takes only requests with the key in `KEY_FILE`."""
    transfer: KVTransfer | None = None
    """How it gets or gives the KV cache of prompts; None for an engine that does all itself."""


FRONT = Front()


@dataclass(frozen=True, slots=True)
class ServedModel:
    model: str
    name: str
    commit: str = ""
    """The commit of the hub repository to load; empty: `revision`."""
    revision: str | None = None
    """Branch, tag or commit that the user asks for; None: the engine's own default."""
    token: SecretKeySelector | None = None
    """Key of the Secret that holds a token of the hub."""
    folder: str = ""
    hub_cache: str = ""
    """Folder with the repository in the layout of the hub's cache. Then the engine asks no hub. Empty: it downloads."""

    @property
    def names(self) -> tuple[str, ...]:
        """All names that requests may use; the first is that of metrics. A hub repository is a name too."""
        return (self.name,) if self.model.startswith("/") or self.model == self.name else (self.name, self.model)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds."""

    startup: int
    """From the start of the container until the engine is ready."""
    dns_staleness: int
    """From the start of the shutdown until no client uses the engine's address from DNS any more."""
    drain: int
    """After that: until the engine has answered the requests in flight."""


@dataclass(frozen=True, slots=True)
class AdapterLoader:
    """The program that loads the listed adapters into the engine; it runs in a container beside it."""

    command: Sequence[str]
    """Of the engine's image; the file with the list follows."""
    port: int
    """TCP port of its state and of the probe."""
    ready_path: str
    """Path that answers 200 while the engine is healthy, and not before its adapters are loaded."""


HEALTH_PORT = 8002
"""Port of a member's probes and state, next to those of an engine and of its adapters."""
READY_PERIOD_SECONDS = 1
"""The shortest period of a probe. Until some have failed, routers send requests to a leader whose group is over."""
READY_FAILURES = 2
"""One lost probe takes no group out of the Service."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One pod of an engine over several nodes: the program that starts the engine in it, and ends with all others.

    It needs the variables of `engines/group/launch.py`. The hook and the command are those of the process.
    """

    size: int
    health_port: int = HEALTH_PORT
    ready_path: str = "/ready"
    """Path that answers 200 while the whole engine serves. An adapter loader repeats it, with its own state."""
    ready_period: int = READY_PERIOD_SECONDS
    """Seconds between two readiness probes. A drain takes the leader out of rotation by them."""
    ready_failures: int = READY_FAILURES
    """Failures in a row that make a pod unready."""
    live_path: str = "/live"
    """Path that answers 200 unless a restart would help. It does so from the beginning on, also while a member waits
    for others: the program itself ends an engine that does not start in time."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    port: int
    """TCP port of the API and the metrics."""
    max_concurrency: int
    """Sequences that the engine computes at once. Each HAProxy process sends it at most as many requests; more requests
    wait in the router."""
    command: Sequence[str]
    args: Sequence[str]
    env: Sequence[EnvironmentVariable]
    model_names: Sequence[str]
    """Names of the base model in the API; any other name is an adapter."""
    api_paths: Sequence[str]
    """Paths of the API for clients, each with all paths below it. Routers forward no other path."""
    writable: Sequence[str]
    startup_seconds: int
    """Time limit until the health path answers."""
    stop_seconds: int
    user: int = USER
    group: int = GROUP
    health_path: str = "/health"
    pre_stop: Sequence[str] = ()
    """Command of the preStop hook, which ends before the engine gets SIGTERM; run without a shell. Empty: the hook only
    waits, for `pre_stop_seconds`."""
    lists_models: bool = True
    """Whether it answers which models it has. Otherwise routers answer, from `model_names`."""
    compiled: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Sources of the programs that `command` and `pre_stop` run (`engines/programs.py`), by name."""
    adapter_loader: AdapterLoader | None = None
    member: GroupMember | None = None
    """The part of each pod in an engine over several nodes; None for an engine in one pod."""
    prefix_cure: str = ""
    """How to keep users of one engine from sharing its cache of prefixes, in a sentence; empty if they share none."""
    transfer: KVTransfer | None = None
    pre_stop_seconds: int = 0
    """How long a preStop hook without a command waits: until no client uses the address, and for the drain too where
    SIGTERM ends requests."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A minimal inference request, which an engine answers only if it computes. Sent as POST with a JSON body."""

    path: str
    body: Manifest


@dataclass(frozen=True, slots=True)
class Parsers:
    """The engine's parsers of a model's answers, by the engine's names; empty where there is none."""

    tool_call: str = ""
    reasoning: str = ""
