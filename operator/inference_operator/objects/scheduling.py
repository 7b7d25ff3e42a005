"""Where engines may run: what the user asks, in the pod's own fields, and the taint of GPU nodes."""

from collections.abc import Mapping, Sequence

from inference_operator.api.scheduling import SchedulingSpec, TopologySpread
from inference_operator.hardware.offers import label_of
from inference_operator.manifest import GPU_RESOURCE, Manifest
from inference_operator.objects.api_form import api_form
from inference_operator.sizing.plan import Plan

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Kueue admits the pods of a Deployment that carries it, and copies it into the pods itself
(kubernetes-sigs/kueue, pkg/controller/jobs/deployment/deployment_webhook.go)."""

GPU_TOLERATION: Manifest = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
"""GPU nodes are often tainted with their resource's name (NVIDIA GPU operator, GKE, EKS)."""

_AS_ASKED = ("nodeSelector", "affinity", "priorityClassName", "runtimeClassName", "schedulerName")


def scheduling(asked: SchedulingSpec, *, gpus: int, selector: Mapping[str, str]) -> Manifest:
    """The fields of an engine's pod that say where it may run.

    Args:
        asked: what the user asks.
        gpus: GPUs of one engine.
        selector: the labels that select the engines.
    """
    fields = api_form(asked)
    result = {name: fields[name] for name in _AS_ASKED if name in fields}
    if tolerations := _tolerations(fields.get("tolerations", []), gpus):
        result["tolerations"] = tolerations
    if asked.topology_spread:
        result["topologySpreadConstraints"] = [_spread(one, selector) for one in asked.topology_spread]
    return result


def bound_to_gpus(fields: Manifest, plan: Plan) -> Manifest:
    """The same with what ties engines to the GPUs that they were sized for; what the user says of nodes stays."""
    selector = {**plan.node_selector, **fields.get("nodeSelector", {})}
    result = {**fields, "nodeSelector": selector} if selector else fields
    return (
        {**result, "affinity": _avoiding(fields.get("affinity", {}), plan.avoided_products)}
        if (plan.avoided_products)
        else result
    )


def _avoiding(affinity: Manifest, products: Sequence[str]) -> Manifest:
    """The affinity with more conditions in each of its terms, of which one has to hold."""
    labels = sorted({label_of(product) for product in products})
    others = [
        {"key": label, "operator": "NotIn", "values": [one for one in products if label_of(one) == label]}
        for label in labels
    ]
    nodes = affinity.get("nodeAffinity", {})
    terms = nodes.get(_REQUIRED, {}).get("nodeSelectorTerms") or [{}]
    narrowed = [{**term, "matchExpressions": [*term.get("matchExpressions", []), *others]} for term in terms]
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": narrowed}}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def queue_labels(asked: SchedulingSpec) -> dict[str, str]:
    """The label of the engines' Deployment by which Kueue knows their queue."""
    return {QUEUE_LABEL: asked.queue_name} if asked.queue_name else {}


def _tolerations(asked: Sequence[Manifest], gpus: int) -> list[Manifest]:
    own = [GPU_TOLERATION] if gpus and GPU_TOLERATION not in asked else []
    return [*own, *asked]


def _spread(asked: TopologySpread, selector: Mapping[str, str]) -> Manifest:
    """Each rollout is spread by itself, as if the pods that it replaces were gone."""
    return {
        **api_form(asked),
        "labelSelector": {"matchLabels": dict(selector)},
        "matchLabelKeys": ["pod-template-hash"],
    }
