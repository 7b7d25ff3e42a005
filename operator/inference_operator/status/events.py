"""Events: one for each transition between two statuses of an InferenceDeployment."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.status import Status
from inference_operator.diagnosis.pod_diagnosis import LOG_IS_READ
from inference_operator.status.reconciling import UNDECIDED_ROLLOUT

SCALED_UP, SCALED_DOWN = "ScaledUp", "ScaledDown"
"""Reasons of Events about another number of engines."""

MAX_NOTE_BYTES = 1024
"""Upper bound of an Event's note (Kubernetes 1.36, API reference, events.k8s.io/v1)."""


@dataclass(frozen=True, slots=True)
class Event:
    kind: Literal["Normal", "Warning"]
    reason: str
    note: str


_WITHOUT_EVENT = frozenset(
    {Reason.STARTING, Reason.ENGINES_UNAVAILABLE, Reason.ROUTER_UNAVAILABLE, Reason.SETTLED, Reason.REQUEST_FAILED}
)
"""Reasons of Reconciling without an Event of their own: they are normal, or the Event of Ready covers them."""

_WAITS_FOR_MODEL = frozenset({Reason.INSPECTING_MODEL, Reason.DOWNLOADING_MODEL, Reason.VERIFYING_MODEL})

_NORMAL = frozenset({*_WAITS_FOR_MODEL, Reason.ROLLING_OUT, Reason.SWITCHED_TO_REPLACE, Reason.WAITING_FOR_DELETION})
"""Reasons of Reconciling whose Event is no warning."""


def events(before: Status, after: Status) -> Sequence[Event]:
    """The Events for the transition between two statuses.

    A first status causes Events about problems, and about what begins: the inspection of the model, or the first
    engines. An unchanged status causes none, so neither a restart of the operator nor a relist does.
    """
    changes = (_ready, _created, _reconciling, _stalled, _engine_stalled, _traffic, _scaled, _scaling_active)
    return [event for change in changes for event in change(before, after)]


def _ready(before: Status, after: Status) -> Iterator[Event]:
    was, now = before.condition(ConditionType.READY), after.condition(ConditionType.READY)
    if now is None or (was.status if was else "False") == now.status:
        return
    yield event_of("Normal" if now.status == "True" else "Warning", now)


def _created(before: Status, after: Status) -> Iterator[Event]:
    """One Event when the first engines are created: at once, or after a wait for the model."""
    was, now = before.condition(ConditionType.RECONCILING), after.condition(ConditionType.RECONCILING)
    if now is not None and now.reason == Reason.STARTING and (was is None or was.reason in _WAITS_FOR_MODEL):
        message = f"Engines and routers are created. {now.message}"
        yield event_of("Normal", now.model_copy(update={"message": message}))


def _reconciling(before: Status, after: Status) -> Iterator[Event]:
    was, now = before.condition(ConditionType.RECONCILING), after.condition(ConditionType.RECONCILING)
    if now is None or now.status != "True" or now.reason in _WITHOUT_EVENT or _is_undecided(now):
        return  # the Event of a rollout names its strategy and that of an end its cause, so it comes once that is known
    if was and was.reason == now.reason and not _is_undecided(was):
        return
    yield event_of("Normal" if now.reason in _NORMAL else "Warning", now)


def _is_undecided(condition: Condition) -> bool:
    return condition.message == UNDECIDED_ROLLOUT or LOG_IS_READ in condition.message


def _stalled(before: Status, after: Status) -> Iterator[Event]:
    was, now = before.condition(ConditionType.STALLED), after.condition(ConditionType.STALLED)
    if now is None or now.status != "True" or (was and (was.status, was.reason) == (now.status, now.reason)):
        return
    yield event_of("Warning", now)


def _engine_stalled(before: Status, after: Status) -> Iterator[Event]:
    """One Event for each stalled engine. The message names it, and stays until its replacement is ready."""
    was, now = before.condition(ConditionType.ENGINES_AVAILABLE), after.condition(ConditionType.ENGINES_AVAILABLE)
    if now is not None and now.reason == Reason.ENGINE_STALLED and (was is None or was.message != now.message):
        yield event_of("Warning", now)


def _traffic(before: Status, after: Status) -> Iterator[Event]:
    """A Warning when engines are taken out of traffic, and a Normal Event when all are back."""
    was, now = before.condition(ConditionType.ENGINES_AVAILABLE), after.condition(ConditionType.ENGINES_AVAILABLE)
    if now is None or (was is not None and (was.reason, was.message) == (now.reason, now.message)):
        return
    if now.reason == Reason.ENGINE_NOT_PROGRESSING:
        yield event_of("Warning", now)
    elif was is not None and was.reason == Reason.ENGINE_NOT_PROGRESSING and now.status == "True":
        message = f"Every engine gets new requests again. {now.message}"
        yield event_of("Normal", now.model_copy(update={"message": message}))


def _scaled(before: Status, after: Status) -> Iterator[Event]:
    was, now = before.autoscaling, after.autoscaling
    if was is None or now is None or was.desired_replicas == now.desired_replicas:
        return
    name = SCALED_UP if now.desired_replicas > was.desired_replicas else SCALED_DOWN
    yield Event("Normal", name, f"From {was.desired_replicas} to {now.desired_replicas} engines: {now.reason}.")


def _scaling_active(before: Status, after: Status) -> Iterator[Event]:
    """A Warning when the number of engines stops following the demand, or is limited by GPUs."""
    was, now = before.condition(ConditionType.SCALING_ACTIVE), after.condition(ConditionType.SCALING_ACTIVE)
    others = (Reason.AUTOSCALER_MISSING, Reason.AUTOSCALER_FAILED, Reason.AUTOSCALER_CONFLICT)
    warned = (Reason.METRICS_MISSING, Reason.CAPACITY_LIMITED, *others)
    if now is not None and now.reason in warned and (was is None or was.reason != now.reason):
        yield event_of("Warning", now)


def event_of(kind: Literal["Normal", "Warning"], condition: Condition) -> Event:
    note = condition.message.encode()[:MAX_NOTE_BYTES].decode(errors="ignore")
    return Event(kind, condition.reason, note)
