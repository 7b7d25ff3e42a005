"""The status of each adapter, and condition AdaptersAvailable: whether all of them can be used."""

from collections.abc import Sequence
from datetime import UTC, datetime

from inference_operator.api.conditions import time_text
from inference_operator.api.reasons import Reason
from inference_operator.api.status import AdapterPhase, AdapterStatus
from inference_operator.objects.adapter_list import AdapterList, adapter_list_ref, listed_adapters
from inference_operator.pipeline.adapter_lists import Adapter
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation
from inference_operator.views.pod import ADAPTERS_PORT
from inference_operator.views.samples import AdapterReport

_REASONS = {
    AdapterPhase.REFUSED: Reason.ADAPTER_REFUSED,
    AdapterPhase.FAILED: Reason.ADAPTER_NOT_LOADED,
    AdapterPhase.COPYING: Reason.ADAPTER_PENDING,
    AdapterPhase.LOADING: Reason.ADAPTER_PENDING,
}
"""Reasons of the condition, the phase that matters most first."""


def adapters_of(observation: Observation) -> tuple[AdapterStatus, ...]:
    """The status of each adapter; as before while nothing is decided."""
    inputs, planned = observation.inputs, observation.planned
    before = {adapter.name: adapter for adapter in observation.previous.adapters}
    if planned is None:
        return tuple(before.values())
    live = listed_adapters(inputs.child(adapter_list_ref(inputs.owner)))
    serving = [engine for engine in observation.staying if engine.is_serving and ADAPTERS_PORT in engine.leader.ports]
    reports = {engine.name: inputs.samples.adapters.get(engine.uid) for engine in serving}
    statuses = (_status(adapter, live, reports) for adapter in planned.adapters)
    return tuple(_since(status, before.get(status.name), inputs.now) for status in statuses)


def _status(adapter: Adapter, live: AdapterList, reports: dict[str, AdapterReport | None]) -> AdapterStatus:
    name, listed = adapter.name, live.loaded.get(adapter.name, "")
    has = [report for report in reports.values() if report and name in report.loaded and report.loaded[name] == listed]
    engines = f"{len(has)}/{len(reports)}"
    if adapter.refusal:
        former = "Its former files stay in use." if listed and adapter.keeps_former else ""
        message = sentences(adapter.refusal.message, former)
        return AdapterStatus(name=name, phase=AdapterPhase.REFUSED, engines=engines, message=message[:1024])
    if not adapter.path:
        return AdapterStatus(name=name, phase=AdapterPhase.COPYING, engines=engines, message=adapter.progress[:1024])
    failed = {pod: report.failed[name] for pod, report in reports.items() if report and name in report.failed}
    if failed:
        pod, failure = next(iter(failed.items()))
        since = time_text(datetime.fromtimestamp(failure.since, UTC))
        message = (
            f"{len(failed)} of {len(reports)} engines cannot load it since {since}; it is tried again."
            f" The engine's answer: `kubectl logs {pod} -c {ADAPTERS_PORT}`."
        )
        return AdapterStatus(name=name, phase=AdapterPhase.FAILED, engines=engines, message=message)
    is_ready = name in live.advertised and len(has) == len(reports)
    return AdapterStatus(name=name, phase=AdapterPhase.READY if is_ready else AdapterPhase.LOADING, engines=engines)


def _since(status: AdapterStatus, before: AdapterStatus | None, now: datetime) -> AdapterStatus:
    since = before.since if before and before.phase is status.phase else None
    return status.model_copy(update={"since": since or time_text(now)})


def ready_adapters(adapters: Sequence[AdapterStatus]) -> str:
    """Ready adapters and all of them; empty without adapters."""
    ready = sum(adapter.phase is AdapterPhase.READY for adapter in adapters)
    return f"{ready}/{len(adapters)}" if adapters else ""


def adapters_available(observation: Observation) -> ConditionVerdict | None:
    """The condition; none without adapters. Its message is about the first adapter with the worst phase."""
    adapters, planned = adapters_of(observation), observation.planned
    if not adapters:
        return None
    ready = sum(adapter.phase is AdapterPhase.READY for adapter in adapters)
    count = f"{ready} of {len(adapters)} adapters {'is' if len(adapters) == 1 else 'are'} ready."
    for phase, reason in _REASONS.items():
        if first := next((adapter for adapter in adapters if adapter.phase is phase), None):
            is_awaited = observation.wait is not None and observation.wait.message == first.message
            reason_text = "the first engine waits for it." if is_awaited else first.message or "engines load it."
            message = sentences(count, f"`{first.name}`: {reason_text}")
            waits = [copy.wait for copy in (planned.adapters if planned else ()) if copy.wait]
            is_copying = bool(waits) and phase is AdapterPhase.COPYING
            return ConditionVerdict("False", waits[0].reason if is_copying else reason, message)
    return ConditionVerdict("True", Reason.ADAPTERS_READY, count)
