"""The outcome of a request, and what is promised for each fault: which requests may be lost, and for how long.

For docs, tests and `infd drill`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

SERVICE_UNAVAILABLE = 503


class Loss(StrEnum):
    REFUSED = "refused"
    RESET = "reset"
    STATUS = "status"
    """A status that is neither 2xx nor 429."""
    BROKEN = "broken"
    """The answer began but is incomplete; for a stream, `data: [DONE]` is missing."""
    DIFFERENT = "different text"
    MIXED_UP = "answer to another request"
    LATE = "late"
    """No complete answer within the client's timeout."""


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """One request and its outcome; times in seconds of the monotonic clock."""

    started: float
    ended: float
    streamed: bool
    kept: bool
    """Whether its client keeps connections for the next request, if the server allows it."""
    loss: Loss | None = None
    status: int | None = None
    detail: str = ""
    number: int = 0
    request_id: str = ""
    """`X-Request-Id` of the answer: what the router's log calls it; empty without one."""

    @property
    def rejected(self) -> bool:
        return self.loss is None and self.status is not None and self.status // 100 != 2  # noqa: PLR2004 - 2xx

    @property
    def ok(self) -> bool:
        return self.loss is None and not self.rejected

    @property
    def seconds(self) -> float:
        return self.ended - self.started

    def since(self, origin: float) -> "CheckedAnswer":
        return replace(self, started=self.started - origin, ended=self.ended - origin)


def longest_gap(answers: Iterable[CheckedAnswer]) -> float:
    """The longest time in seconds without a right answer."""
    ends = sorted(one.ended for one in answers if one.ok)
    return max((later - earlier for earlier, later in pairwise(ends)), default=0.0)


class Fault(StrEnum):
    ROLL_ENGINES = "roll-engines"
    ROLL_ROUTERS = "roll-routers"
    DELETE_ENGINE = "delete-engine"
    DELETE_ROUTER = "delete-router"
    END_OPERATOR = "end-operator"
    DRAIN_NODE = "drain-node"
    SCALE_DOWN = "scale-down"
    TO_ZERO = "to-zero"
    ROLL_GATEWAY = "roll-gateway"
    BAD_ROLLOUT = "bad-rollout"
    UPGRADE_OPERATOR = "upgrade-operator"
    RENEW_CERTIFICATE = "renew-certificate"
    CHANGE_KEYS = "change-keys"
    STOP_KUBELET = "stop-kubelet"
    STOP_API_SERVER = "stop-api-server"
    STOP_ETCD = "stop-etcd"
    STOP_DNS = "stop-dns"
    SLOW_DISK = "slow-disk"
    FULL_DISK = "full-disk"
    DROP_PACKETS = "drop-packets"
    KILL_ENGINE = "kill-engine"
    KILL_ROUTER_PROCESS = "kill-router-process"
    KILL_ROUTER = "kill-router"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a resource sets, in seconds."""

    drain: float
    """`spec.drainTimeout`."""
    hold: float
    """The least of `router.coldStart.timeout` and `router.queue.timeout`."""


NO_LIMITS = Limits(drain=float("inf"), hold=float("inf"))
"""No request of a test takes as long."""


@dataclass(frozen=True, slots=True)
class Allowance:
    words: str
    allows: Callable[[CheckedAnswer, float, Limits], bool]
    """Whether a lost request, with the begin of the fault, is one of them."""


_BROKEN = frozenset({Loss.BROKEN, Loss.RESET})

LONG_ANSWERS = Allowance(
    "answers that take longer than `spec.drainTimeout`",
    lambda answer, _, limits: answer.loss in _BROKEN and answer.seconds >= limits.drain,
)
LONG_WAITS = Allowance(
    "requests that wait longer than `router.coldStart.timeout` or `router.queue.timeout` (503 with `Retry-After`)",
    lambda answer, _, limits: answer.status == SERVICE_UNAVAILABLE and answer.seconds >= limits.hold,
)
BEGUN = Allowance(
    "requests that it was answering",
    lambda answer, begin, _: answer.loss in {*_BROKEN, Loss.STATUS} and answer.started <= begin,
)
UNNOTICED = Allowance("new connections to it", lambda answer, *_: answer.loss in {*_BROKEN, Loss.REFUSED, Loss.LATE})


@dataclass(frozen=True, slots=True)
class Promise:
    title: str
    allowed: Sequence[Allowance] = ()
    how_long: str = ""

    @property
    def may_be_lost(self) -> str:
        if not self.allowed:
            return "nothing"
        return ("" if self.how_long else "only ") + "; ".join(one.words for one in self.allowed)


PLANNED = (LONG_ANSWERS, LONG_WAITS)
"""Engines end after their answers, routers hold what comes while none is up."""
PROMISES: Mapping[Fault, Promise] = {
    Fault.ROLL_ENGINES: Promise("Engines are rolled (an edit, `infd restart`)", PLANNED),
    Fault.ROLL_ROUTERS: Promise("Routers are rolled (`infd restart --routers`)", (LONG_ANSWERS,)),
    Fault.DELETE_ENGINE: Promise("The pod of an engine is deleted", PLANNED),
    Fault.DELETE_ROUTER: Promise("The pod of one of several routers is deleted", (LONG_ANSWERS,)),
    Fault.END_OPERATOR: Promise("The operator ends or is killed"),
    Fault.DRAIN_NODE: Promise("A node is drained", PLANNED),
    Fault.SCALE_DOWN: Promise("There are fewer engines", (LONG_ANSWERS,)),
    Fault.TO_ZERO: Promise("There is no engine, and then one again", PLANNED),
    Fault.ROLL_GATEWAY: Promise("A gateway is rolled", (LONG_ANSWERS,)),
    Fault.BAD_ROLLOUT: Promise("An edit starts no engine that serves"),
    Fault.UPGRADE_OPERATOR: Promise("The operator is upgraded"),
    Fault.RENEW_CERTIFICATE: Promise("A certificate is renewed"),
    Fault.CHANGE_KEYS: Promise("Keys of others come and go"),
    Fault.STOP_KUBELET: Promise("A kubelet stops, for less than until its node is NotReady"),
    Fault.STOP_API_SERVER: Promise("The API server does not answer"),
    Fault.STOP_ETCD: Promise("etcd does not answer"),
    Fault.STOP_DNS: Promise("The cluster's DNS does not answer"),
    Fault.SLOW_DISK: Promise("The disk of etcd, containerd and the kubelets is slow"),
    Fault.FULL_DISK: Promise("etcd has no room left, and refuses to write"),
    Fault.DROP_PACKETS: Promise("Packets between a router and an engine are dropped for a while"),
    Fault.KILL_ENGINE: Promise("An engine is killed", (BEGUN,), "at once"),
    Fault.KILL_ROUTER_PROCESS: Promise("One of the two HAProxy processes of a router is killed", (BEGUN,), "at once"),
    Fault.KILL_ROUTER: Promise(
        "A router is killed with its pod or node",
        (BEGUN, UNNOTICED),
        "until Kubernetes notices: about a second for a pod, for a node until it is marked NotReady",
    ),
}


def beyond(
    fault: Fault | None, lost: Collection[CheckedAnswer], begin: float | None, limits: Limits
) -> tuple[CheckedAnswer, ...]:
    """The lost requests that the promise about a fault does not allow. Without a fault, none may be lost."""
    allowed = PROMISES[fault].allowed if fault else ()
    since = float("-inf") if begin is None else begin
    return tuple(one for one in lost if not any(allowance.allows(one, since, limits) for allowance in allowed))


def promises_table() -> Iterator[str]:
    """The lines of the table in docs/explanation/scope.md."""
    yield "| fault | what may be lost | for how long |"
    yield "|---|---|---|"
    for promise in PROMISES.values():
        yield f"| {promise.title} | {promise.may_be_lost} | {promise.how_long or '-'} |"
