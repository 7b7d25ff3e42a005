"""The HorizontalPodAutoscaler, or the ScaledObject of KEDA, that acts on the `/scale` of an InferenceDeployment."""

from inference_operator.api.autoscaling import AutoscalingBackend, AutoscalingSpec, ScheduleSpec
from inference_operator.api.prometheus import PrometheusSettings, QueriedNamespace
from inference_operator.manifest import (
    API_VERSION,
    HORIZONTAL_POD_AUTOSCALER,
    KIND,
    SCALED_OBJECT,
    Manifest,
    Owner,
    Ref,
)
from inference_operator.objects.child import child
from inference_operator.objects.names import MANAGED_BY_LABEL

METRIC = "inference_operator_engines_wanted"
"""The external metric that a HorizontalPodAutoscaler asks for; its value is that of the query."""

METRIC_LABEL = "inferencedeployment"
"""The label of the external metric that names the InferenceDeployment."""

QUERY_ANNOTATION = "inference-operator.dev/prometheus-query"
"""The query whose value the external metric must have, for the rules of Prometheus."""

POLLING_SECONDS = 5
"""Interval at which KEDA queries Prometheus: how long a request can wait at zero engines until KEDA hears of it."""

FAILED_POLLS = 3
"""Failed queries in a row after which KEDA falls back: 15 s, so that one scrape that fails changes nothing."""

POLICY_SECONDS = 15
"""Period of the scaling policies: one interval of the HorizontalPodAutoscaler controller (Kubernetes 1.36,
`--horizontal-pod-autoscaler-sync-period`)."""

KINDS = {AutoscalingBackend.HPA: HORIZONTAL_POD_AUTOSCALER, AutoscalingBackend.KEDA: SCALED_OBJECT}


def external_ref(spec: AutoscalingSpec, owner: Owner) -> Ref | None:
    kind = KINDS.get(spec.backend)
    return Ref(kind, owner.key.namespace, owner.key.name) if kind else None


def external_autoscaler(
    spec: AutoscalingSpec, owner: Owner, role: str, query: str, *, prometheus: PrometheusSettings, least: int
) -> Manifest | None:
    """The object that makes the backend act; None with `BuiltIn`, and for KEDA without an address of Prometheus.

    Args:
        least: fewest engines now, for a HorizontalPodAutoscaler, which knows no times.
    """
    kind = KINDS.get(spec.backend)
    if kind is None or (kind is SCALED_OBJECT and not prometheus.url):
        return None
    if kind is HORIZONTAL_POD_AUTOSCALER:
        fields, notes = _horizontal_pod_autoscaler(spec, owner, least), {QUERY_ANNOTATION: query}
    else:
        # KEDA gives its HorizontalPodAutoscaler the labels of the ScaledObject; this one would say that it is ours.
        notes = {"scaledobject.keda.sh/hpa-excluded-labels": MANAGED_BY_LABEL}
        fields = _scaled_object(spec, owner, query, prometheus)
    return child(kind, owner.key.name, owner=owner, component=role, content={"spec": fields}, annotations=notes)


def _horizontal_pod_autoscaler(spec: AutoscalingSpec, owner: Owner, least: int) -> Manifest:
    metric = {"name": METRIC, "selector": {"matchLabels": {METRIC_LABEL: owner.key.name}}}
    target = {"type": "AverageValue", "averageValue": "1"}
    return {
        "scaleTargetRef": _target(owner),
        "minReplicas": least,
        "maxReplicas": spec.max_replicas,
        "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
        "behavior": _behavior(spec),
    }


def _scaled_object(spec: AutoscalingSpec, owner: Owner, query: str, prometheus: PrometheusSettings) -> Manifest:
    """It keeps the replicas where the query fails; at zero or below the minimum it starts the minimum, at least one.

    Fields: kedacore/keda v2.21.0, apis/keda/v1alpha1/scaledobject_types.go and pkg/scalers/prometheus_scaler.go.
    """
    return {
        "scaleTargetRef": _target(owner),
        "pollingInterval": POLLING_SECONDS,
        "cooldownPeriod": int(spec.idle_timeout.total_seconds()),
        "minReplicaCount": spec.min_replicas,
        "maxReplicaCount": spec.max_replicas,
        "fallback": {
            "failureThreshold": FAILED_POLLS,
            "replicas": max(spec.min_replicas, 1),
            "behavior": "currentReplicasIfHigher",
        },
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(spec)}},
        "triggers": [_demand_trigger(query, prometheus, owner.key.namespace), *map(_cron_trigger, spec.schedule)],
    }


def _demand_trigger(query: str, prometheus: PrometheusSettings, namespace: str) -> Manifest:
    """What KEDA asks Prometheus. The admission policy of the operator's account allows no other key."""
    metadata = {
        "serverAddress": prometheus.url,
        "query": query,
        "threshold": "1",
        "activationThreshold": "0",
        "ignoreNullValues": "false",  # KEDA's default reads missing metrics as zero demand
    }
    if prometheus.auth_modes:
        metadata["authModes"] = prometheus.sent_modes
    if prometheus.namespace is QueriedNamespace.RESOURCE:
        metadata["namespace"] = namespace
    trigger: Manifest = {"type": "prometheus", "metricType": "AverageValue", "metadata": metadata}
    if name := prometheus.cluster_trigger_authentication:
        trigger["authenticationRef"] = {"kind": "ClusterTriggerAuthentication", "name": name}
    return trigger


def _cron_trigger(entry: ScheduleSpec) -> Manifest:
    """KEDA's own schedule (kedacore/keda v2.21.0, pkg/scalers/cron_scaler.go)."""
    metadata = {
        "timezone": entry.time_zone,
        "start": entry.start,
        "end": entry.end,
        "desiredReplicas": str(entry.min_replicas),
    }
    return {"type": "cron", "metricType": "AverageValue", "metadata": metadata}


def _target(owner: Owner) -> Manifest:
    return {"apiVersion": API_VERSION, "kind": KIND, "name": owner.key.name}


def _behavior(spec: AutoscalingSpec) -> Manifest:
    """Up at once to what is needed; down to the most that was needed within the delay.

    It names every default of the API server, so that they are no drift (Kubernetes 1.36,
    pkg/apis/autoscaling/v2/defaults.go).
    """
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": spec.max_replicas, "periodSeconds": POLICY_SECONDS}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": int(spec.scale_down_delay.total_seconds()),
            "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 100, "periodSeconds": POLICY_SECONDS}],
        },
    }
