"""Scheduling fields of an engine pod: the user's, the node constraints of a plan, and the toleration of GPU nodes."""

from collections.abc import Mapping, Sequence

from inference_operator.api.scheduling import SchedulingSpec, TopologySpread
from inference_operator.hardware.offers import label_of
from inference_operator.manifest import GPU_RESOURCE, Manifest
from inference_operator.objects.api_form import api_form
from inference_operator.sizing.plan import Plan

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label of a Deployment whose pods Kueue admits. Kueue itself copies it into the pods
(kubernetes-sigs/kueue, pkg/controller/jobs/deployment/deployment_webhook.go)."""

GPU_TOLERATION: Manifest = {"key": GPU_RESOURCE, "operator": "Exists", "effect": "NoSchedule"}
"""GPU nodes are often tainted with their resource's name (NVIDIA GPU operator, GKE, EKS)."""

_UNCHANGED = ("nodeSelector", "affinity", "priorityClassName", "runtimeClassName", "schedulerName")


def scheduling(requested: SchedulingSpec, *, gpus: int, selector: Mapping[str, str]) -> Manifest:
    """The scheduling fields of an engine pod.

    Args:
        requested: the user's scheduling section.
        gpus: GPUs of one engine.
        selector: the labels that select the pods, for topology spread constraints.
    """
    fields = api_form(requested)
    result = {name: fields[name] for name in _UNCHANGED if name in fields}
    if tolerations := _tolerations(fields.get("tolerations", []), gpus):
        result["tolerations"] = tolerations
    if requested.topology_spread:
        result["topologySpreadConstraints"] = [
            _spread(constraint, selector) for constraint in requested.topology_spread
        ]
    return result


def bound_to_gpus(fields: Manifest, plan: Plan) -> Manifest:
    """The fields with node constraints that keep engines on the GPUs of their plan; the user's constraints stay."""
    selector = {**plan.node_selector, **fields.get("nodeSelector", {})}
    result = {**fields, "nodeSelector": selector} if selector else fields
    if not plan.avoided_products:
        return result
    return {**result, "affinity": _without_products(fields.get("affinity", {}), plan.avoided_products)}


def _without_products(affinity: Manifest, products: Sequence[str]) -> Manifest:
    """The affinity without these GPU products. Every term excludes them, because one matching term suffices."""
    labels = sorted({label_of(product) for product in products})
    others = [
        {"key": label, "operator": "NotIn", "values": [product for product in products if label_of(product) == label]}
        for label in labels
    ]
    nodes = affinity.get("nodeAffinity", {})
    terms = nodes.get(_REQUIRED, {}).get("nodeSelectorTerms") or [{}]
    narrowed = [{**term, "matchExpressions": [*term.get("matchExpressions", []), *others]} for term in terms]
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": narrowed}}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def queue_labels(requested: SchedulingSpec) -> dict[str, str]:
    """The label that gives the engines' Deployment its Kueue queue; none without a queue."""
    return {QUEUE_LABEL: requested.queue_name} if requested.queue_name else {}


def _tolerations(requested: Sequence[Manifest], gpus: int) -> list[Manifest]:
    own = [GPU_TOLERATION] if gpus and GPU_TOLERATION not in requested else []
    return [*own, *requested]


def _spread(constraint: TopologySpread, selector: Mapping[str, str]) -> Manifest:
    """The constraint, counted per pod template hash: pods that a rollout replaces do not count."""
    return {
        **api_form(constraint),
        "labelSelector": {"matchLabels": dict(selector)},
        "matchLabelKeys": ["pod-template-hash"],
    }
