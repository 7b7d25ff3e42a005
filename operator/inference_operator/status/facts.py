"""Facts: what the rules of all conditions read, gathered once per report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from inference_operator.api.explanations import with_cure
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.router import RouterSpec, RouterStrategy
from inference_operator.api.spec import Spec
from inference_operator.api.status import AutoscalingStatus, KvCacheStatus, StartupStatus, Status
from inference_operator.autoscaling.autoscaler_state import AutoscalerState
from inference_operator.autoscaling.conflict import ScalingConflict
from inference_operator.autoscaling.request import ScalingResult
from inference_operator.autoscaling.schedule import Floor
from inference_operator.diagnosis.pending_causes import rejection_reason_of
from inference_operator.diagnosis.pod_diagnosis import (
    PodDiagnosis,
    cure_of,
    diagnosis_due,
    diagnosis_lookups,
    pod_diagnosis,
)
from inference_operator.diagnosis.request import DiagnosedRole, DiagnosisRequest
from inference_operator.diagnosis.startup_progress import StartupProgress, sentence, startup_progress
from inference_operator.diagnosis.volumes import volume_diagnosis
from inference_operator.manifest import CONFIG_MAP, SERVICE, Key, Ref
from inference_operator.models.source import ModelSource, model_source
from inference_operator.objects.names import ROUTER, headless_service_name, router_name
from inference_operator.pipeline.contexts import live_roles, role_specs
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import ModelWait, NeedsInspection, Outcome, Paused, Planned, Refused
from inference_operator.pipeline.replicas import ObservedScaling, observed_scaling
from inference_operator.planning.known_model import KnownModel
from inference_operator.roles.context import LiveRole
from inference_operator.roles.pinned_plan import PinnedPlan
from inference_operator.router.exposure import Exposure, exposures
from inference_operator.sizing.plan import Plan
from inference_operator.status.autoscaling import autoscaling_status
from inference_operator.status.kv_cache import kv_cache
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting, WriteResult
from inference_operator.views.lookups import Lookup
from inference_operator.views.pod import PodView
from inference_operator.views.raw import mapping, objects
from inference_operator.views.workload import WorkloadView, combined, workload_view
from inference_operator.workload.rollout import Rollout


@dataclass(frozen=True, slots=True)
class RequestPath:
    """How requests reach the engines."""

    connected: bool
    """Whether the Services and the router's configuration exist, which requests need."""
    external: bool
    """Whether something else than our routers is to send the requests."""
    direct: bool
    """Whether the Service selects the engines themselves, so that requests need no router."""
    exposures: Sequence[Exposure]
    """How each object exposes the router outside the cluster."""
    engines_selector: str
    """Labels of the engines that take requests, as text."""
    engine_port: int
    """Port of the engines' API; 0 while their Service does not exist."""


@dataclass(frozen=True, slots=True)
class ScalingFacts:
    """What is known of autoscaling."""

    status: AutoscalingStatus | None
    """The last decision about the number of engines; None without autoscaling."""
    result: ScalingResult | None
    """The same as the loop has it; None before its first sample."""
    autoscaler: AutoscalerState | None
    """What a HorizontalPodAutoscaler or KEDA does; None without one."""
    conflict: ScalingConflict | None
    """Whether another autoscaler acts beside the operator; None where the operator does not decide."""
    floor: Floor | None
    """The fewest engines now; None without autoscaling."""
    requested: int | None
    """`spec.replicas`; None if the specification is invalid."""
    without_gpu: int
    """Engines that are wanted and have no node."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is requested, what runs, and what is wrong."""

    key: Key
    desired: int
    """Engines that should run. While nothing is changed, those of the live workload."""
    engines: WorkloadView
    """The workloads of all roles."""
    routers: WorkloadView
    path: RequestPath
    """How requests reach the engines."""
    refusal: Refusal | None
    source: ModelSource | None
    """The source of the model; None if the specification or the source is invalid."""
    inspection: str
    """Progress of the model's inspection, in a sentence; empty if nothing waits for it."""
    model_wait: ModelWait | None
    """Why engines wait for their model; None if they do not."""
    paused: bool
    blocked: Conflict | Waiting | Rejected | Failed | None
    """Why a child could not be written; causes that a user must resolve come before those that pass."""
    failures: Sequence[Failed]
    diagnosis: PodDiagnosis | None
    """The pod whose problem matters most, and why it does not run."""
    router_diagnosis: PodDiagnosis | None
    """The router pod whose problem matters most, and why it does not run."""
    out_of_traffic: Sequence[str]
    """Names of the engine pods that get no new requests, because they made no progress; sorted."""
    stall: str
    """The engine that this round found stalled; empty if none."""
    unread: int
    """Ready engines whose metrics cannot be read."""
    replacing: bool
    """Whether fewer engine pods are ready and staying than the workload should have."""
    engine_since: datetime | None
    """Creation time of the oldest engine pod that is to stay."""
    notice: str
    decided: PinnedPlan | None
    """The plan of the first role: decided in this round, or pinned."""
    kv_cache: KvCacheStatus | None
    """The KV cache of the engines, once one has reported it."""
    model: KnownModel | None
    missing_gpu_kind: str
    """The kind of GPU that the plan needs and no node has; empty if a node has it."""
    disk_shortfall: str
    """Which nodes lack the disk that an engine requests, in a sentence; empty if one has it."""
    rollout: Rollout | None
    """How the engines of the first role are replaced."""
    rollout_undecided: bool
    """Whether engines wait to be replaced until a lookup shows which GPUs are free."""
    scaling: ScalingFacts
    startup: StartupStatus | None
    """The engine that is furthest in its start; None if no start is to be reported."""
    lookups: tuple[Lookup, ...]
    """Lookups that tell more."""
    due: tuple[datetime, ...]
    """When some of these facts change without an event."""
    previous: Status
    now: datetime

    @property
    def progress(self) -> str:
        """The startup progress in a sentence; empty if there is none."""
        return sentence(self.startup) if self.startup else ""

    @property
    def plan(self) -> Plan | None:
        """The sizes of an engine of the first role, if they are decided."""
        return self.decided.plan if self.decided else None

    @property
    def complete(self) -> bool:
        """Whether every object that serving needs exists, even if not as desired now."""
        return self.path.connected and self.engines.exists and (self.path.direct or self.routers.exists)

    @property
    def serving(self) -> bool:
        """Whether a request would be answered now."""
        return self.path.connected and self.engines.ready > 0 and self.routable

    @property
    def routable(self) -> bool:
        """Whether a request would reach an engine that is ready."""
        return self.path.direct or self.routers.ready > 0

    @property
    def at_zero(self) -> bool:
        """Whether no engine should run, by a specification that is valid."""
        return self.desired == 0 and (self.refusal is None or self.engines.exists)

    @property
    def rejected_workload(self) -> WorkloadView | None:
        """A workload whose pods Kubernetes rejects; engines before routers."""
        return next((workload for workload in (self.engines, self.routers) if workload.rejection), None)

    @property
    def rejection(self) -> str:
        """Why Kubernetes rejects a pod, in a sentence; empty if it does not."""
        workload = self.rejected_workload
        if workload is None:
            return ""
        return with_cure(f"Kubernetes refuses a pod: {workload.rejection}", cure_of(rejection_reason(workload)))

    @property
    def rolling(self) -> bool:
        """Whether pods of an earlier template still exist."""
        return self.engines.rolling or self.routers.rolling

    @property
    def unschedulable(self) -> bool:
        """Whether the diagnosed pod waits for a node. It may do so for any time."""
        return self.diagnosis is not None and self.diagnosis.reason is Reason.UNSCHEDULABLE


def _source(inputs: Inputs) -> ModelSource | None:
    spec = inputs.resource.spec
    source = None if isinstance(spec, Refusal) else model_source(spec.model.source)
    return None if isinstance(source, Refusal) else source


def rejection_reason(workload: WorkloadView) -> Reason:
    """The reason for which Kubernetes rejects the pods of a workload."""
    return rejection_reason_of(workload.rejection or "")


def facts(inputs: Inputs, outcome: Outcome, results: Sequence[WriteResult]) -> Facts:
    """Gather the facts: of what was observed after this round's writes, of its decision, and of the writes' results."""
    first, *_ = (roles := live_roles(inputs, role_specs(inputs))).values()
    pods, engines = [pod for role in roles.values() for pod in role.pods], combined([r.view for r in roles.values()])
    staying = [pod for role in roles.values() for pod in role.pods if _stays(pod, role.view)]
    diagnoses = _diagnoses(inputs, _diagnosis_request(inputs, outcome, roles), inputs.routers, staying)
    decided = outcome.plan if isinstance(outcome, Planned) else next(iter(first.recorded), None)
    return Facts(
        key=inputs.resource.key,
        desired=_desired(inputs, outcome, engines, len(roles)),
        engines=engines,
        routers=inputs.routers,
        path=_request_path(inputs, first),
        refusal=outcome.refusal if isinstance(outcome, Refused) else None,
        source=_source(inputs),
        inspection=outcome.message if isinstance(outcome, NeedsInspection) else "",
        model_wait=outcome.model_wait if isinstance(outcome, Planned) else None,
        paused=isinstance(outcome, Paused),
        blocked=_obstacle(results),
        failures=[one for one in results if isinstance(one, Failed)],
        diagnosis=diagnoses.pod,
        router_diagnosis=diagnoses.router,
        stall="; ".join(one.why for one in outcome.removals if one.reason is Reason.ENGINE_STALLED),
        unread=_unread(inputs, staying),
        out_of_traffic=_out_of_traffic(roles.values()),
        replacing=sum(pod.ready and not pod.terminating for pod in pods) < engines.desired,
        engine_since=min((pod.created for pod in staying if pod.created and not pod.failed), default=None),
        notice=outcome.notice if isinstance(outcome, Planned) else "",
        decided=decided,
        kv_cache=kv_cache(inputs, pods, first.view.template, decided.plan if decided else None),
        model=outcome.model,
        missing_gpu_kind=outcome.missing_gpu_kind if isinstance(outcome, Planned) else "",
        disk_shortfall=outcome.roles[0].disk_shortfall if isinstance(outcome, Planned) else "",
        rollout=outcome.roles[0].rollout if isinstance(outcome, Planned) else None,
        rollout_undecided=isinstance(outcome, Planned) and any(role.rollout is None for role in outcome.roles),
        scaling=_scaling(inputs, outcome, first, staying),
        startup=diagnoses.startup.status,
        lookups=diagnoses.lookups,
        due=tuple(moment for moment in (*diagnoses.due, outcome.recheck_at) if moment),
        previous=inputs.resource.status,
        now=inputs.now,
    )


def _desired(inputs: Inputs, outcome: Outcome, engines: WorkloadView, roles: int) -> int:
    spec, unchanged = inputs.resource.spec, not isinstance(outcome, Planned) and engines.exists
    if unchanged or not isinstance(spec, Spec):
        return engines.desired
    if isinstance(outcome, Planned):
        return sum(role.replicas for role in outcome.roles)
    return spec.replicas * roles


def _scaling(inputs: Inputs, outcome: Outcome, first: LiveRole, engines: Sequence[PodView]) -> ScalingFacts:
    spec = inputs.resource.spec
    scaling = observed_scaling(inputs, spec, first) if isinstance(spec, Spec) else ObservedScaling()
    return ScalingFacts(
        status=autoscaling_status(inputs, outcome, scaling),
        result=inputs.scaling,
        autoscaler=scaling.autoscaler,
        conflict=scaling.conflict,
        floor=scaling.floor,
        requested=spec.replicas if isinstance(spec, Spec) else None,
        without_gpu=_without_gpu(outcome, engines),
    )


def _without_gpu(outcome: Outcome, engines: Sequence[PodView]) -> int:
    """Engines that are wanted and have no node: pods that wait for one, and those that fixed capacity rules out."""
    roles = outcome.roles if isinstance(outcome, Planned) else ()
    capped = sum(role.replicas - workload_view(role.workload).desired for role in roles)
    waiting = sum(pod.problem is not None and pod.problem.reason is Reason.UNSCHEDULABLE for pod in engines)
    return max(0, capped) + waiting


def _unread(inputs: Inputs, engines: Sequence[PodView]) -> int:
    """Ready engines whose metrics cannot be read.

    Until each was scraped, as many as before: an operator that has just started knows nothing.
    """
    samples, previous = inputs.samples, inputs.resource.status
    ready = [pod for pod in engines if pod.ready]
    if all(pod.uid in samples.engines or pod.uid in samples.unread for pod in ready):
        return sum(pod.uid in samples.unread for pod in ready)
    before = previous.engine.unread_metrics if previous and previous.engine else 0
    return min(before, len(ready))


def _out_of_traffic(roles: Iterable[LiveRole]) -> Sequence[str]:
    return sorted(pod.name for role in roles for pod in role.pods if not (pod.traffic or pod.terminating))


def _obstacle(results: Sequence[WriteResult]) -> Conflict | Waiting | Rejected | Failed | None:
    """What stands in the way of a write; a failed request comes last, because it is repeated."""
    obstacles = (Conflict | Waiting | Rejected, Failed)
    return next((one for kinds in obstacles for one in results if isinstance(one, kinds)), None)


def _diagnosis_request(inputs: Inputs, outcome: Outcome, live: Mapping[str, LiveRole]) -> DiagnosisRequest:
    """What diagnoses read; each role's engine is the one that its pinned plan names."""
    decided = {role.name: role.engine for role in outcome.roles} if isinstance(outcome, Planned) else {}
    roles = {name: DiagnosedRole(decided.get(name) or role.engine, role.view) for name, role in live.items()}
    return DiagnosisRequest(
        namespace=inputs.resource.key.namespace,
        roles=roles,
        lookups=inputs.lookups,
        read_logs=inputs.settings.read_logs,
        nodes_visible=not inputs.settings.namespaces,
        now=inputs.now,
        one_node_claim=outcome.one_node_claim if isinstance(outcome, Planned) else "",
    )


@dataclass(frozen=True, slots=True)
class _Diagnoses:
    """What is wrong with pods, and how far a start is."""

    pod: PodDiagnosis | None
    router: PodDiagnosis | None
    startup: StartupProgress
    lookups: tuple[Lookup, ...]
    due: tuple[datetime | None, ...]


def _diagnoses(
    inputs: Inputs, request: DiagnosisRequest, routers: WorkloadView, staying: Sequence[PodView]
) -> _Diagnoses:
    """Diagnose the pod that matters most, the router that does, the volumes of starting pods, and the start."""
    workloads = {name: role.workload for name, role in request.roles.items()}
    startup = _startup(inputs, combined(list(workloads.values())), staying, request)
    volumes = volume_diagnosis(staying, request)
    worst = pod_diagnosis(_worst_pod(inputs.pods, {**workloads, ROUTER: routers}), request)
    worst_router = pod_diagnosis(_worst_pod(inputs.pods, {ROUTER: routers}), request)
    of_routers = volume_diagnosis((pod for pod in inputs.pods_of(ROUTER) if _stays(pod, routers)), request)
    lookups = (startup.lookup, volumes.lookup, of_routers.lookup, *diagnosis_lookups(worst, request))
    return _Diagnoses(
        pod=worst or volumes.diagnosis or of_routers.diagnosis,
        router=worst_router or of_routers.diagnosis,
        startup=startup,
        lookups=tuple(lookup for lookup in lookups if lookup),
        due=(startup.due, volumes.due, of_routers.due, diagnosis_due(worst)),
    )


def _path_of_requests(inputs: Inputs, role: str) -> Sequence[Ref]:
    """The objects between a client and the engines, Deployments aside."""
    key = inputs.resource.key
    config = Ref(CONFIG_MAP, key.namespace, router_name(key.name))
    engines = Ref(SERVICE, key.namespace, headless_service_name(key.name, role))
    return (inputs.main_service, engines) if inputs.bypasses_routers else (inputs.main_service, config, engines)


def _request_path(inputs: Inputs, first: LiveRole) -> RequestPath:
    spec, service = inputs.resource.spec, mapping(first.service or {}, "spec")
    valid, ports = isinstance(spec, Spec), objects(service, "ports")
    router = spec.router if isinstance(spec, Spec) else RouterSpec()
    return RequestPath(
        connected=all(ref in inputs.children for ref in _path_of_requests(inputs, first.name)),
        external=router.strategy is RouterStrategy.EXTERNAL if valid else inputs.bypasses_routers,
        direct=inputs.bypasses_routers,
        exposures=exposures(router, inputs.main_service, inputs.children, inputs.unavailable_kinds),
        engines_selector=",".join(f"{name}={value}" for name, value in sorted(mapping(service, "selector").items())),
        engine_port=next((int(port["port"]) for port in ports), 0),
    )


def _worst_pod(pods: Sequence[PodView], workloads: Mapping[str, WorkloadView]) -> PodView | None:
    """The pod to diagnose: engines before routers, then the oldest. Failed pods, which are replaced, come last."""
    order = list(workloads)
    troubled = [pod for pod in pods if pod.component in order and _matters(pod, workloads[pod.component])]
    return min(troubled, key=lambda p: (p.failed, order.index(p.component), str(p.created), p.name), default=None)


def _matters(pod: PodView, workload: WorkloadView) -> bool:
    """Whether a pod has a problem that is not over: not that of an earlier template, or of a pod already replaced."""
    replaced = workload.ready >= workload.desired and not workload.rolling
    return pod.problem is not None and _stays(pod, workload) and not (pod.failed and replaced)


def _stays(pod: PodView, workload: WorkloadView) -> bool:
    earlier = pod.template and workload.template and pod.template != workload.template
    return not (pod.terminating or earlier)


def _startup(
    inputs: Inputs, engines: WorkloadView, pods: Sequence[PodView], request: DiagnosisRequest
) -> StartupProgress:
    """Startup progress, if it is reported: while no engine serves, and during a rollout."""
    if engines.ready and not engines.rolling:
        return StartupProgress()
    return startup_progress(pods, inputs.resource.status.startup, request)
