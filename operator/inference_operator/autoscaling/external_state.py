"""The state of the HorizontalPodAutoscaler or ScaledObject that the operator creates, and the replicas that follow."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.autoscaling.external import external_ref
from inference_operator.manifest import SCALED_OBJECT, Kind, Manifest, Owner, Ref
from inference_operator.views.raw import condition, mapping, timestamp

KEDA_FIRST_WRITE = timedelta(seconds=60)
"""Time in which a new ScaledObject has surely set the replicas: 4 intervals of the HorizontalPodAutoscaler controller
(Kubernetes 1.36, `--horizontal-pod-autoscaler-sync-period`, 15 s)."""


@dataclass(frozen=True, slots=True)
class ExternalState:
    reason: Reason
    """`FollowingAutoscaler`, `AutoscalerPending`, or the problem."""
    message: str
    """The state and, for a problem, its cure, in sentences."""
    replicas: int | None = None
    """Replicas that it has written to `/scale`; None if that is unknown. Until then the number does not fall."""
    due: datetime | None = None
    """Time of the next check: no event announces the change."""


def external_state(
    spec: Spec,
    owner: Owner,
    live: Manifest | None,
    unavailable: Mapping[Kind, str],
    *,
    prometheus_url: str,
    now: datetime,
) -> ExternalState | None:
    """The state; None where the operator decides."""
    ref = external_ref(spec.autoscaling, owner) if spec.autoscaling else None
    if ref is None:
        return None
    if why := unavailable.get(ref.kind):
        return ExternalState(Reason.AUTOSCALER_MISSING, f"`autoscaling.backend` has no effect: {why}")
    keda = ref.kind is SCALED_OBJECT
    if keda and not prometheus_url:
        fix = "Set `settings.prometheus.url` of the operator's chart, or use the backend `BuiltIn`."
        message = f"KEDA needs the address of Prometheus, which the operator does not know. {fix}"
        return ExternalState(Reason.AUTOSCALER_MISSING, message)
    if live is None:
        return ExternalState(Reason.AUTOSCALER_PENDING, f"{ref} is not there yet.")
    return _of_scaled_object(ref, live, spec.replicas, now) if keda else _of_hpa(ref, live)


def followed_replicas(requested: int, now: int, state: ExternalState) -> int:
    """The number of engines: as the autoscaler wrote it; before it has written, not fewer than now.

    So a change of the backend takes no engine away: `spec.replicas` is old until the first write.
    """
    return requested if state.replicas == requested else max(requested, now)


def _of_hpa(ref: Ref, live: Manifest) -> ExternalState:
    """By the conditions of the HorizontalPodAutoscaler controller (Kubernetes 1.36, pkg/controller/podautoscaler)."""
    status = mapping(live, "status")
    active, able = condition(status, "ScalingActive"), condition(status, "AbleToScale")
    for state in (able, active):
        if state.get("status") == "False":
            cause = f"{state.get('reason')}: {state.get('message', '')}".strip().rstrip(".")
            message = f"{ref} keeps the number of engines ({cause}). {_hpa_fix(str(state.get('reason')))}"
            return ExternalState(Reason.AUTOSCALER_FAILED, message)
    if active.get("status") != "True":
        return ExternalState(Reason.AUTOSCALER_PENDING, f"{ref} has not read its metric yet.")
    written = status.get("desiredReplicas")
    return ExternalState(Reason.FOLLOWING_AUTOSCALER, f"{ref} sets the number of engines.", replicas=written)


def _hpa_fix(reason: str) -> str:
    if reason == "ScalingDisabled":
        return "It does not act at zero: set `spec.replicas` to 1 with `kubectl scale`."
    return (
        "Check that an adapter serves `external.metrics.k8s.io`, and that its rule and Prometheus have the metric"
        " (docs/how-to/autoscaling-hpa-keda.md)."
    )


def _of_scaled_object(ref: Ref, live: Manifest, requested: int, now: datetime) -> ExternalState:
    """By the conditions of KEDA (kedacore/keda v2.21.0, apis/keda/v1alpha1/condition_types.go)."""
    status = mapping(live, "status")
    ready = condition(status, "Ready")
    if problem := _problem_of_keda(status):
        cause = f"{problem.get('reason')}: {problem.get('message', '')}".strip().rstrip(".")
        fix = "Check that KEDA reaches Prometheus, and that Prometheus scrapes routers and engines."
        return ExternalState(Reason.AUTOSCALER_FAILED, f"{ref} does not follow the demand ({cause}). {fix}")
    if ready.get("status") != "True":
        return ExternalState(Reason.AUTOSCALER_PENDING, f"KEDA has not accepted {ref} yet. Check that KEDA runs.")
    created = timestamp(mapping(live, "metadata").get("creationTimestamp"))
    settled = created + KEDA_FIRST_WRITE if created else now
    if now < settled:
        message = f"{ref} is new; no engine is removed in its first minute."
        return ExternalState(Reason.AUTOSCALER_PENDING, message, due=settled)
    message = f"{ref} sets the number of engines."
    return ExternalState(Reason.FOLLOWING_AUTOSCALER, message, replicas=requested)


def _problem_of_keda(status: Manifest) -> Manifest:
    """The condition that tells why KEDA does not follow the demand; empty if it does."""
    ready, fallback, metrics = (condition(status, kind) for kind in ("Ready", "Fallback", "HPAActive"))
    if fallback.get("status") == "True":
        return fallback
    if metrics.get("status") == "False" and metrics.get("reason") == "HPAMetricsUnavailable":
        return metrics
    return ready if ready.get("status") == "False" else {}
