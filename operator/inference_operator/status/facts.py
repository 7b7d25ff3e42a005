"""The few facts that the rules of all conditions share, gathered once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.api.status import KvCacheStatus, Status
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, SERVICE, Key, Ref
from inference_operator.observed.answer import Answer, Conflict, Failed, Rejected, Waiting
from inference_operator.observed.deployment import DeploymentView, deployment_view
from inference_operator.observed.look import Look
from inference_operator.observed.pod import PodView
from inference_operator.observed.rollout import Rollout
from inference_operator.observed.waits import refused_for
from inference_operator.pipeline import Inputs, NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.planning.known_model import KnownModel
from inference_operator.resources.names import (
    ENGINE,
    ROUTER,
    engines_service_name,
    router_name,
    service_name,
)
from inference_operator.resources.pinned import Pinned
from inference_operator.sizing.plan import Plan
from inference_operator.status.kv_cache import kv_cache
from inference_operator.status.start import Progress, progress
from inference_operator.status.trouble import Trouble, cure_of, looks_for, trouble_of
from inference_operator.status.volumes import volumes


@dataclass(frozen=True, slots=True)
class Facts:
    """What is asked, what runs, what stands in the way."""

    key: Key
    wanted: int
    """Engines asked for; while nothing is changed, those that the live Deployment is asked for."""
    engines: DeploymentView
    routers: DeploymentView
    connected: bool
    """Whether the Services and the configuration are there by which requests find their way."""
    refusal: Refusal | None
    inspecting: str
    """What goes on so that the model becomes known, in a sentence; empty where nothing waits for it."""
    paused: bool
    """Whether nothing is to be changed, because the user says so."""
    blocked: Conflict | Waiting | Rejected | Failed | None
    """What stands in the way of a child; rather what somebody must act on than what only takes another attempt."""
    failures: Sequence[Failed]
    stuck: Trouble | None
    """The pod whose problem matters most, if any, and why it does not run."""
    standstill: str
    """Which engine stands still and is being replaced from this round on; empty if none."""
    replacing: bool
    """Whether fewer engine pods are ready and stay than are wanted."""
    engine_since: datetime | None
    """When the oldest engine pod was made that is to stay."""
    notice: str
    decided: Pinned | None
    """What was decided in this round, or stands."""
    kv_cache: KvCacheStatus | None
    """The KV cache of the engines, once one has told."""
    model: KnownModel | None
    """What is known of the model."""
    awaited: str
    """The kind of GPU that no node has which is there; empty if one has."""
    rollout: Rollout | None
    """How engines are being replaced, or were last."""
    progress: str
    """Where the start of an engine is, in a sentence; empty where none is to be told of."""
    looks: tuple[Look, ...]
    """What has to be looked up to know more of any of this."""
    due: tuple[datetime, ...]
    """When some of this changes, if nothing happens before."""
    previous: Status
    now: datetime

    @property
    def plan(self) -> Plan | None:
        """The sizes of an engine, if they are decided."""
        return self.decided.plan if self.decided else None

    @property
    def complete(self) -> bool:
        """Whether all that serving needs has been made, if perhaps not as it is wanted now."""
        return self.connected and self.engines.exists and self.routers.exists

    @property
    def serving(self) -> bool:
        """Whether a request gets an answer now."""
        return self.connected and self.engines.ready > 0 and self.routers.ready > 0

    @property
    def at_zero(self) -> bool:
        """Whether no engine is wanted, by a specification that could be followed."""
        return self.wanted == 0 and (self.refusal is None or self.engines.exists)

    @property
    def rejection(self) -> str:
        """Why Kubernetes refuses a pod, in a sentence; empty if it does not."""
        owner = self.engines if self.engines.rejection else self.routers
        said = f"Kubernetes refuses a pod: {owner.rejection}"
        return with_cure(said, cure_of(rejection_reason(owner))) if owner.rejection else ""

    @property
    def rolling(self) -> bool:
        """Whether pods of an earlier specification are still there."""
        return self.engines.rolling or self.routers.rolling

    @property
    def homeless(self) -> bool:
        """Whether a pod waits for a node, which it may do for as long as it takes."""
        return self.stuck is not None and self.stuck.reason is Reason.UNSCHEDULABLE


def rejection_reason(owner: DeploymentView) -> Reason:
    """Why Kubernetes refuses the pods of a Deployment."""
    return refused_for(owner.rejection or "")


def facts(inputs: Inputs, outcome: Outcome, answers: Sequence[Answer]) -> Facts:
    """Gather the facts."""
    key, spec = inputs.resource.key, inputs.resource.spec
    engines = deployment_view(inputs.engines)
    routers = deployment_view(inputs.child(Ref(DEPLOYMENT, key.namespace, router_name(key.name))))
    obstacles = [a for a in answers if isinstance(a, Conflict | Waiting | Rejected)]
    failures = [a for a in answers if isinstance(a, Failed)]
    kept = not isinstance(outcome, Planned) and engines.exists
    start = _start(inputs, engines)
    mounting = volumes(_staying(inputs, engines), namespace=key.namespace, seen=inputs.seen, now=inputs.now)
    stuck = trouble_of(_stuck(inputs.pods, {ENGINE: engines, ROUTER: routers}), inputs)
    until = None if isinstance(outcome, Paused) else outcome.until
    decided = outcome.pinned if isinstance(outcome, Planned) else next(iter(inputs.previous.decisions), None)
    return Facts(
        key=key,
        wanted=spec.replicas if isinstance(spec, Spec) and not kept else engines.wanted,
        engines=engines,
        routers=routers,
        connected=all(ref in inputs.children for ref in _way(key)),
        refusal=outcome.refusal if isinstance(outcome, Refused) else None,
        inspecting=outcome.told if isinstance(outcome, NeedsInspection) else "",
        paused=isinstance(outcome, Paused),
        blocked=next(iter([*obstacles, *failures]), None),
        failures=failures,
        stuck=stuck or mounting.trouble,
        standstill="; ".join(removal.why for removal in outcome.removals),
        replacing=sum(pod.ready and not pod.terminating for pod in inputs.pods if pod.component == ENGINE)
        < engines.wanted,
        engine_since=_oldest(inputs.pods, engines),
        notice=outcome.notice if isinstance(outcome, Planned) else "",
        decided=decided,
        kv_cache=kv_cache(inputs, engines.template, decided.plan if decided else None),
        model=outcome.model,
        awaited=outcome.awaited if isinstance(outcome, Planned) else "",
        rollout=outcome.rollout if isinstance(outcome, Planned) else None,
        progress=start.told,
        looks=tuple(look for look in (start.look, mounting.look, *looks_for(stuck, inputs)) if look),
        due=tuple(moment for moment in (start.due, mounting.due, until) if moment),
        previous=inputs.resource.status,
        now=inputs.now,
    )


def _way(key: Key) -> Sequence[Ref]:
    return (
        Ref(SERVICE, key.namespace, service_name(key.name)),
        Ref(CONFIG_MAP, key.namespace, router_name(key.name)),
        Ref(SERVICE, key.namespace, engines_service_name(key.name)),
    )


def _stuck(pods: Sequence[PodView], owners: Mapping[str, DeploymentView]) -> PodView | None:
    """Engines before routers, the oldest first; failed pods, which their ReplicaSet replaces, come last."""
    order = list(owners)
    troubled = [pod for pod in pods if pod.component in order and _counts(pod, owners[pod.component])]
    return min(troubled, key=lambda p: (p.failed, order.index(p.component), str(p.created), p.name), default=None)


def _counts(pod: PodView, owner: DeploymentView) -> bool:
    """Whether a pod's problem matters; one of an earlier template may just have been cured by the change."""
    made_up_for = owner.ready >= owner.wanted and not owner.rolling
    return pod.problem is not None and _stays(pod, owner) and not (pod.failed and made_up_for)


def _stays(pod: PodView, owner: DeploymentView) -> bool:
    earlier = pod.template and owner.template and pod.template != owner.template
    return not (pod.terminating or earlier)


def _staying(inputs: Inputs, owner: DeploymentView) -> Sequence[PodView]:
    return [pod for pod in inputs.engine_pods if _stays(pod, owner)]


def _start(inputs: Inputs, engines: DeploymentView) -> Progress:
    """Where the start of an engine is, if that is told: where none serves, and in a rollout."""
    if engines.ready and not engines.rolling:
        return Progress()
    return progress(
        _staying(inputs, engines),
        inputs.resource.status,
        inputs.seen,
        namespace=inputs.resource.key.namespace,
        read_logs=inputs.settings.read_logs,
        now=inputs.now,
    )


def _oldest(pods: Sequence[PodView], owner: DeploymentView) -> datetime | None:
    staying = (pod.created for pod in pods if pod.component == ENGINE and not pod.failed and _stays(pod, owner))
    return min((created for created in staying if created), default=None)
