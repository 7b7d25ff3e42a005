"""The status of a ModelGateway, and its Events."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from inference_operator.api.conditions import MAX_MESSAGE_LENGTH
from inference_operator.api.model_gateway import MODEL_GATEWAY_API, ModelGatewayStatus
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import MAX_EXTERNAL_URLS
from inference_operator.diagnosis.pending_causes import rejection_reason
from inference_operator.gateway.decide import GatewayDecision, GatewayInputs, deployment
from inference_operator.router.exposure import Exposure, exposures
from inference_operator.router.service import url
from inference_operator.sentences import sentences
from inference_operator.status.events import Event, event_of
from inference_operator.status.observation import ConditionVerdict
from inference_operator.status.report import RECHECK, Report, Requeue, after_failures, condition_of
from inference_operator.status.routing import exposed
from inference_operator.status.write_results import Conflict, Failed, Rejected, Waiting, WriteResult
from inference_operator.views.workload import WorkloadView, workload_view

MOST_REFUSED = 8
"""Names that the message lists; more are counted."""
_SETTLED = ConditionVerdict("False", Reason.SETTLED, "All objects are as they should be.")
_NOT_STALLED = ConditionVerdict("False", Reason.NOT_STALLED, "Nothing hinders it that waiting would not end.")
_EVENTS = {ConditionType.READY: "True", ConditionType.STALLED: "False", ConditionType.NAMES_ACCEPTED: "True"}
"""Conditions with Events, and the status that is well."""
_ORDER = (
    ConditionType.STALLED,
    ConditionType.RECONCILING,
    ConditionType.EXPOSED,
    ConditionType.NAMES_ACCEPTED,
    ConditionType.READY,
)
"""Of which one that is wrong is the summary: the first of these."""


def report(
    inputs: GatewayInputs, decided: GatewayDecision, results: Sequence[WriteResult]
) -> Report[ModelGatewayStatus]:
    view, router = workload_view(deployment(inputs)), decided.router
    shown = list(exposures(router, inputs.main_service, inputs.children, inputs.unavailable_kinds)) if router else []
    verdicts = dict(_verdicts(view, decided, results, shown))
    overall = _summary(verdicts)
    models = decided.models.values()
    served = sum(not model.reason for model in models)
    status = ModelGatewayStatus(
        observed_generation=inputs.resource.generation,
        conditions=tuple(
            condition_of(kind, verdicts[kind], inputs) for kind in MODEL_GATEWAY_API.conditions if kind in verdicts
        ),
        reason=overall.reason,
        message=overall.message[:MAX_MESSAGE_LENGTH],
        url=url(inputs.resource.owner, cluster_domain=inputs.settings.cluster_domain),
        external_urls=tuple(url for exposure in shown for url in exposure.urls)[:MAX_EXTERNAL_URLS],
        models=len(models),
        models_served=served,
        models_ready=f"{served}/{len(models)}",
        names=len(decided.names.values),
        ready_replicas=view.ready,
    )
    return Report(status, _requeue(inputs, decided, results))


def events(before: ModelGatewayStatus, after: ModelGatewayStatus) -> Sequence[Event]:
    """One for each of Ready, Stalled and NamesAccepted that changes."""
    found = []
    for kind, good in _EVENTS.items():
        was, now = before.condition(kind), after.condition(kind)
        former = was.status if was else "False" if kind is ConditionType.READY else good
        if now is not None and now.status != former:
            found.append(event_of("Normal" if now.status == good else "Warning", now))
    return found


def _verdicts(
    view: WorkloadView, decided: GatewayDecision, results: Sequence[WriteResult], shown: Sequence[Exposure]
) -> Iterator[tuple[ConditionType, ConditionVerdict]]:
    yield ConditionType.READY, _ready(view, decided)
    yield ConditionType.RECONCILING, _reconciling(view, results)
    yield ConditionType.STALLED, _stalled(view, decided, results)
    if outside := exposed(shown):
        message = outside.message.replace("spec.router.", "spec.")
        yield ConditionType.EXPOSED, replace(outside, message=message)
    if decided.refusal is None:
        yield ConditionType.NAMES_ACCEPTED, _names(decided.names.refused)


def _summary(verdicts: Mapping[ConditionType, ConditionVerdict]) -> ConditionVerdict:
    wrong = {ConditionType.STALLED: "True", ConditionType.RECONCILING: "True"}
    found = ((kind, verdicts[kind]) for kind in _ORDER if kind in verdicts)
    bad = (verdict for kind, verdict in found if verdict.status == wrong.get(kind, "False"))
    return next(bad, verdicts[ConditionType.READY])


def _ready(view: WorkloadView, decided: GatewayDecision) -> ConditionVerdict:
    if not view.ready:
        return ConditionVerdict("False", Reason.ROUTER_UNAVAILABLE, "No pod of the gateway is ready.")
    served = sum(not model.reason for model in decided.models.values())
    message = f"{view.ready}/{view.desired} pods are ready. {served} of {len(decided.models)} models can answer."
    return ConditionVerdict("True", Reason.SERVING, message)


def _reconciling(view: WorkloadView, results: Sequence[WriteResult]) -> ConditionVerdict:
    if failed := _first(results, Failed):
        return ConditionVerdict("True", Reason.REQUEST_FAILED, f"{failed.ref} was not written: {failed.cause}.")
    if waiting := _first(results, Waiting):
        return ConditionVerdict("True", Reason.WAITING_FOR_DELETION, f"An earlier {waiting.ref} is being deleted.")
    if view.rolling:
        message = f"{view.updated} of {view.desired} pods have the latest pod template."
        return ConditionVerdict("True", Reason.ROLLING_OUT if view.ready else Reason.STARTING, message)
    if view.ready < view.desired or not view.exists:
        return ConditionVerdict("True", Reason.STARTING, f"{view.ready} of {view.desired} pods are ready.")
    return _SETTLED


def _stalled(view: WorkloadView, decided: GatewayDecision, results: Sequence[WriteResult]) -> ConditionVerdict:
    if refusal := decided.refusal:
        return ConditionVerdict("True", refusal.reason, refusal.message)
    if conflict := _first(results, Conflict):
        message = f"{conflict.ref} belongs to {conflict.holder}. Delete or rename it, or use another name."
        return ConditionVerdict("True", Reason.NAME_CONFLICT, message)
    if rejected := _first(results, Rejected):
        return ConditionVerdict("True", Reason.CHILD_REJECTED, f"{rejected.ref} is rejected: {rejected.message}")
    if view.rejection:
        message = f"Kubernetes refuses a pod of the gateway: {view.rejection}"
        return ConditionVerdict("True", rejection_reason(view.rejection), message)
    if view.failed:
        message = "The pods of the gateway make no progress. Look at them with `kubectl describe pods`."
        return ConditionVerdict("True", Reason.PROGRESS_DEADLINE_EXCEEDED, message)
    return _NOT_STALLED


def _names(refused: Sequence[str]) -> ConditionVerdict:
    if not refused:
        return ConditionVerdict("True", Reason.NAMES_ACCEPTED, "Each name belongs to one model or alias.")
    hidden = len(refused) - MOST_REFUSED
    more = f"And {hidden} more." if hidden > 0 else ""
    return ConditionVerdict("False", Reason.NAME_REFUSED, sentences(*refused[:MOST_REFUSED], more))


ResultT = TypeVar("ResultT", Conflict, Failed, Rejected, Waiting)


def _first(results: Sequence[WriteResult], kind: type[ResultT]) -> ResultT | None:
    return next((result for result in results if isinstance(result, kind)), None)


def _requeue(inputs: GatewayInputs, decided: GatewayDecision, results: Sequence[WriteResult]) -> Requeue | None:
    if retry := after_failures(results):
        return retry
    if any(isinstance(result, Conflict | Waiting | Rejected) for result in results):
        return Requeue(RECHECK.total_seconds())
    if decided.due is None:
        return None
    return Requeue(max(0.0, (decided.due - inputs.now).total_seconds()))
