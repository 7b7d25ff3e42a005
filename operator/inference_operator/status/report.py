"""The report of a reconcile: the status of an InferenceDeployment, and when to reconcile it again."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Generic

from inference_operator.api.conditions import MAX_MESSAGE_LENGTH, Condition, time_text
from inference_operator.api.explanations import EXPLANATIONS, with_cure
from inference_operator.api.hardware import Device
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import Resource, SpecT, StatusT
from inference_operator.api.status import MAX_EXTERNAL_URLS, EngineStatus, PlanStatus, RoleStatus, Status
from inference_operator.fleet.rollout_slots import FleetState
from inference_operator.manifest import Key
from inference_operator.objects.names import selector_text
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.outcomes import Outcome
from inference_operator.pipeline.renewal import renewal_due
from inference_operator.router.service import url
from inference_operator.sizing.plan import Plan
from inference_operator.status.adapters import adapters_available, adapters_of, ready_adapters
from inference_operator.status.engines_available import engines_available
from inference_operator.status.kv_cache import kv_cache
from inference_operator.status.model_resolved import model_resolved
from inference_operator.status.observation import ConditionVerdict, Observation, RoleObservation
from inference_operator.status.prefill import prefill_unused
from inference_operator.status.ready import ready
from inference_operator.status.reconciling import reconciling
from inference_operator.status.routing import exposed, router_available
from inference_operator.status.scaling_active import scaling_active
from inference_operator.status.sized import sized
from inference_operator.status.stalled import progress_deadline, stalled
from inference_operator.status.write_results import Failed, WriteResult
from inference_operator.views.lookups import Lookup
from inference_operator.views.pod import POD_INDEX_LABEL

_RENEWAL_REASONS: Mapping[FleetState, Reason] = {
    FleetState.WAITING: Reason.WAITING_FOR_TURN,
    FleetState.ROLLING: Reason.ROLLING_OUT,
    FleetState.FAILED: Reason.ROLLOUT_STOPPED,
}
_ROLLING = "Pods are being replaced, because the operator's settings have changed."


def renewed(observation: Observation) -> ConditionVerdict | None:
    """Condition Renewed: why pods differ from the administrator's settings; None if they do not or nothing is decided.

    The message tells nothing of other InferenceDeployments, which may be of other users.
    """
    reason = _RENEWAL_REASONS.get(observation.outcome.fleet_state)
    if reason is None:
        return None
    if reason is Reason.ROLLING_OUT:
        return ConditionVerdict("False", reason, _ROLLING)
    explained = EXPLANATIONS[reason]
    return ConditionVerdict("False", reason, with_cure(explained.cause, explained.cure))


RULES: dict[ConditionType, Callable[[Observation], ConditionVerdict | None]] = {
    ConditionType.READY: ready,
    ConditionType.RECONCILING: reconciling,
    ConditionType.STALLED: stalled,
    ConditionType.MODEL_RESOLVED: model_resolved,
    ConditionType.SIZED: sized,
    ConditionType.ENGINES_AVAILABLE: engines_available,
    ConditionType.ROUTER_AVAILABLE: router_available,
    ConditionType.EXPOSED: lambda observation: exposed(observation.exposures),
    ConditionType.SCALING_ACTIVE: scaling_active,
    ConditionType.ADAPTERS_AVAILABLE: adapters_available,
    ConditionType.PREFILL_UNUSED: prefill_unused,
    ConditionType.RENEWED: renewed,
}
"""The rule of each condition. One that returns None says that the condition is not reported."""

DETAILS = (
    ConditionType.ENGINES_AVAILABLE,
    ConditionType.ROUTER_AVAILABLE,
    ConditionType.EXPOSED,
    ConditionType.SCALING_ACTIVE,
    ConditionType.ADAPTERS_AVAILABLE,
)
NOTICES = frozenset(
    {Reason.ROUTER_VULNERABLE, Reason.NETWORK_DEVICES_UNUSED, Reason.METRICS_MISSING, Reason.CAPACITY_LIMITED}
)
"""Reasons with which a condition is True, and somebody should act."""
_WITHOUT_TROUBLE = frozenset({Reason.PAUSED, Reason.SCALED_TO_ZERO})
"""Reasons of Ready that explain all other conditions."""

RECHECK = timedelta(seconds=15)
"""Interval between two reads of a foreign object with the name of a child, which no watch shows; one request each."""


@dataclass(frozen=True, slots=True)
class Requeue:
    seconds: float | None = None
    """After this time; None: only after an event."""
    backoff: bool = False
    """Whether something failed: the key waits at least `seconds`, and longer with each failure in a row."""
    with_all: bool = False
    """Whether all resources are due at that time."""
    lookups: tuple[Lookup, ...] = ()
    """Lookups whose results the next report needs; they are kept up to date while every report names them."""


@dataclass(frozen=True, slots=True)
class Report(Generic[StatusT]):
    status: StatusT
    requeue: Requeue | None


def report(inputs: Inputs, outcome: Outcome, results: Sequence[WriteResult]) -> Report:
    current = Observation(inputs, outcome, results)
    verdicts = {kind: verdict for kind, rule in RULES.items() if (verdict := rule(current))}
    conditions = tuple(condition_of(kind, verdict, inputs) for kind, verdict in verdicts.items())
    overall, scaled, adapters = summary(verdicts), current.scaled_role, adapters_of(current)
    own = _role_status(current, scaled)
    status = Status(
        observed_generation=inputs.resource.generation,
        reason=overall.reason,
        message=overall.message[:MAX_MESSAGE_LENGTH],
        model=model_name(current.spec.model.source) if current.spec else "",
        gpus=", ".join(dict.fromkeys(gpus(role.plan) for role in current.roles if role.plan)),
        conditions=conditions,
        url=url(inputs.resource.owner, cluster_domain=inputs.settings.cluster_domain),
        external_urls=tuple(url for exposure in current.exposures for url in exposure.urls)[:MAX_EXTERNAL_URLS],
        replicas=own.replicas,
        ready_replicas=own.ready_replicas,
        ready=f"{current.answering.ready}/{current.desired}",
        selector=_selector(current.key, scaled),
        plan=own.plan,
        engine=own.engine,
        roles=tuple(_role_status(current, role) for role in current.roles) if len(current.roles) > 1 else (),
        startup=current.startup,
        autoscaling=own.autoscaling,
        adapters_ready=ready_adapters(adapters),
        adapters=adapters,
    )
    due = _or_window(_requeue(current, status), inputs)
    requeue = replace(due, lookups=(*outcome.lookups, *current.diagnoses.lookups(current.diagnosis_inputs)))
    return Report(status, requeue if requeue != Requeue() else None)


def _role_status(current: Observation, role: RoleObservation) -> RoleStatus:
    pinned, workload = role.pinned, role.component.workload
    engine = pinned and EngineStatus(
        kind=pinned.engine,
        implementation=pinned.plan.implementation,
        image=pinned.image,
        model_commit=pinned.commit,
        kv_cache=kv_cache(current, role),
        network=current.network(role),
        unread_metrics=current.unread_of(role),
    )
    return RoleStatus(
        name=role.name,
        replicas=workload.replicas,
        ready_replicas=workload.ready,
        plan=sizes(pinned.plan) if pinned else None,
        engine=engine,
        autoscaling=current.scaling[role.name].status,
    )


def summary(verdicts: Mapping[ConditionType, ConditionVerdict]) -> ConditionVerdict:
    """The summary of all conditions: one reason and one message, which `kubectl get` prints.

    Ready says whether a request would be answered. Beside it something else may be wrong, such as a refused edit. So:

    1. Stalled, if it is True: waiting does not help.
    2. Reconciling, if it is True: work goes on, or waits for what its message names.
    3. A condition of `DETAILS` that is False, or has a reason of `NOTICES`, in the order of `DETAILS`.
    4. Ready.
    """
    ready = verdicts[ConditionType.READY]
    for kind in (ConditionType.STALLED, ConditionType.RECONCILING):
        if verdicts[kind].status == "True":
            return verdicts[kind]
    if ready.reason in _WITHOUT_TROUBLE:
        return ready
    details = (verdicts[kind] for kind in DETAILS if kind in verdicts)
    return next((detail for detail in details if detail.status == "False" or detail.reason in NOTICES), ready)


def undecided(inputs: Inputs[Resource[SpecT, StatusT]]) -> StatusT:
    """The status after an unexpected exception of a decision: the former one, with the condition Stalled."""
    explained, former = EXPLANATIONS[Reason.OPERATOR_ERROR], inputs.resource.status
    verdict = ConditionVerdict("True", Reason.OPERATOR_ERROR, with_cure(explained.cause, explained.cure))
    settled = ConditionVerdict("False", Reason.SETTLED, "Waiting does not help.")
    own = {ConditionType.RECONCILING: settled, ConditionType.STALLED: verdict}
    others = tuple(condition for condition in former.conditions if condition.type not in own)
    conditions = (*others, *(condition_of(kind, state, inputs) for kind, state in own.items()))
    fields = {"reason": verdict.reason, "message": verdict.message, "conditions": conditions}
    return former.model_copy(update={"observed_generation": inputs.resource.generation, **fields})


def _selector(key: Key, role: RoleObservation) -> str:
    """The selector of `/scale`: one pod for each engine, since `spec.replicas` counts engines.

    A HorizontalPodAutoscaler divides by the number of pods. Of groups these are the leaders. While pods of a Deployment
    serve too, which have no index, it selects all.
    """
    leaders = {POD_INDEX_LABEL: "0"} if role.has_only_groups else {}
    return selector_text(key.name, role.name, **leaders)


def condition_of(kind: ConditionType, verdict: ConditionVerdict, inputs: Inputs[Any]) -> Condition:
    """A condition, whose time is that of its last change."""
    before = inputs.resource.status.condition(kind)
    since = before.last_transition_time if before and before.status == verdict.status else time_text(inputs.now)
    return Condition(
        type=kind,
        status=verdict.status,
        reason=verdict.reason,
        message=verdict.message[:MAX_MESSAGE_LENGTH],
        observed_generation=inputs.resource.generation,
        last_transition_time=since,
    )


def after_failures(results: Sequence[WriteResult]) -> Requeue | None:
    waits = [result.retry_after for result in results if isinstance(result, Failed)]
    return Requeue(max(waits), backoff=True) if waits else None


def _requeue(current: Observation, status: Status) -> Requeue:
    """Reconcile again after a failure, while a foreign object has the name of a child, and when a deadline passes."""
    if retry := after_failures(current.results):
        return retry
    if current.blocked is not None:
        return Requeue(RECHECK.total_seconds())
    now, deadline = current.inputs.now, progress_deadline(current, status)  # it may begin with this very status
    due = [moment - now for moment in (deadline, *current.due) if moment and moment > now]
    return Requeue(min(due).total_seconds()) if due else Requeue()


def _or_window(requeue: Requeue, inputs: Inputs) -> Requeue:
    """The next reconcile, at the latest when the administrator's window opens or closes: all resources are due then."""
    moment = renewal_due(inputs.settings, inputs.now)
    if moment is None or requeue.backoff:
        return requeue
    seconds = (moment - inputs.now).total_seconds()
    return requeue if requeue.seconds is not None and requeue.seconds <= seconds else Requeue(seconds, with_all=True)


def model_name(source: str) -> str:
    """The name of a model without scheme, organisation and digest.

    Examples:
        >>> model_name("hf://meta-llama/Llama-3.1-70B-Instruct"), model_name("pvc://models")
        ('Llama-3.1-70B-Instruct', 'models')
        >>> model_name("oci://registry.example/models/qwen:1@sha256:0123")
        'qwen:1'
    """
    return source.partition("@sha256:")[0].rstrip("/").rpartition("/")[2]


def gpus(plan: Plan) -> str:
    """The number and kind of the GPUs of one engine, `CPU`, or the number alone where no kind is known.

    The nodes of an engine come first, if it has several: `2x8xH100-80GB`.
    """
    each = "CPU" if plan.device is Device.CPU else str(plan.gpus_per_pod)
    if plan.gpu:
        each = f"{each}x{plan.gpu.replace(' ', '-')}"
    return f"{plan.parallel.nodes}x{each}" if plan.parallel.nodes > 1 else each


def sizes(plan: Plan) -> PlanStatus:
    """The fields of a plan that people act on."""
    return PlanStatus(
        device=plan.device,
        gpu=plan.gpu,
        gpus_per_replica=plan.gpus_per_replica,
        tensor_parallel_size=plan.parallel.tensor,
        pipeline_parallel_size=plan.parallel.pipeline,
        data_parallel_size=plan.parallel.data,
        nodes=plan.parallel.nodes,
        max_model_len=plan.max_model_len,
        max_num_seqs=plan.max_num_seqs,
        kv_cache_tokens=plan.per_gpu.kv_cache_tokens if plan.per_gpu else None,
        kv_cache_dtype=plan.kv_cache_dtype,
        kv_offload_memory=f"{plan.kv_offload_gib}Gi" if plan.kv_offload_gib else "",
        tool_call_parser=plan.tool_call_parser,
        reasoning_parser=plan.reasoning_parser,
    )
