"""Scheduling fields of a pod: the requested ones, the constraints of a plan and an image, and the GPU toleration."""

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from inference_operator.api.scheduling import PodScheduling, SchedulingSpec
from inference_operator.hardware.node_labels import GKE, PLATFORM_LABELS, PRODUCT, Alternative, alternatives
from inference_operator.hardware.offers import label_of
from inference_operator.hardware.resources import GPU_TOLERATION
from inference_operator.manifest import ARCHITECTURE_LABEL, SYSTEM_LABEL, Manifest
from inference_operator.sizing.plan import Plan
from inference_operator.views.pod import GROUP_LABEL

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label of a Deployment whose pods Kueue admits. Kueue itself copies it into the pods
(kubernetes-sigs/kueue, pkg/controller/jobs/deployment/deployment_webhook.go)."""

_UNCHANGED = ("nodeSelector", "affinity", "priorityClassName", "runtimeClassName", "schedulerName")


def scheduling(requested: PodScheduling, *, gpus: int, selector: Mapping[str, str]) -> Manifest:
    """The scheduling fields of a pod; its topology spread constraints count the pods with these labels."""
    fields = api_form(requested)
    result = {name: fields[name] for name in _UNCHANGED if name in fields}
    tolerations = fields.get("tolerations", [])
    if gpus and GPU_TOLERATION not in tolerations:
        tolerations = [GPU_TOLERATION, *tolerations]
    if tolerations:
        result["tolerations"] = tolerations
    if requested.topology_spread:
        # Counted per pod template hash: pods that a rollout replaces do not count.
        own = {"labelSelector": {"matchLabels": dict(selector)}, "matchLabelKeys": ["pod-template-hash"]}
        result["topologySpreadConstraints"] = [{**api_form(spread), **own} for spread in requested.topology_spread]
    return result


def near_members(fields: Manifest, topology_key: str | None, *, selector: Mapping[str, str]) -> Manifest:
    """The fields with an affinity that places all pods of a group into one topology domain; requested terms stay.

    `matchLabelKeys` makes the API server compare the group's label when it creates a pod. So the term is equal in the
    templates of all groups (on by default from Kubernetes 1.31, gate MatchLabelKeysInPodAffinity).
    """
    if topology_key is None:
        return fields
    affinity = fields.get("affinity", {})
    pods = affinity.get("podAffinity", {})
    term = {
        "labelSelector": {"matchLabels": dict(selector)},
        "topologyKey": topology_key,
        "matchLabelKeys": [GROUP_LABEL],
    }
    near = {**pods, _REQUIRED: [*pods.get(_REQUIRED, ()), term]}
    return {**fields, "affinity": {**affinity, "podAffinity": near}}


_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
"""Ends of image tags, and the value of the node label for each."""


def on_architecture(fields: Manifest, image: str) -> Manifest:
    """The fields with a selector for the image's architecture, if its tag ends with one; requested selectors stay."""
    architecture = _ARCHITECTURES.get(image.partition("@")[0].rpartition("-")[2])
    if architecture is None:
        return fields
    return {**fields, "nodeSelector": {ARCHITECTURE_LABEL: architecture, **fields.get("nodeSelector", {})}}


def on_linux(fields: Manifest) -> Manifest:
    """The fields with a selector for Linux: Kubernetes puts pods without GPUs on Windows nodes too."""
    return {**fields, "nodeSelector": {SYSTEM_LABEL: "linux", **fields.get("nodeSelector", {})}}


def bound_to_gpus(fields: Manifest, plan: Plan, *, added_labels: Sequence[str] = ()) -> Manifest:
    """The fields with node constraints that keep engines on the GPUs of their plan; the user's constraints stay.

    A user who selects the label of a GPU product decides alone. Labels of the settings that name kinds are
    `KIND:LABEL=VALUE`.
    """
    requested = fields.get("nodeSelector", {})
    if plan.labels_of_kind and not requested.keys() & {PRODUCT, GKE, *plan.node_selector}:
        terms = [_term(alternative) for alternative in alternatives(plan.gpu, plan.node_selector, added_labels)]
        return {**fields, "affinity": _narrowed(fields.get("affinity", {}), terms)}
    selector = {**plan.node_selector, **requested}
    result = {**fields, "nodeSelector": selector} if selector else fields
    if not plan.avoided_products:
        return result
    return {**result, "affinity": _narrowed(fields.get("affinity", {}), [_without(plan.avoided_products)])}


def _term(labels: Alternative) -> list[Manifest]:
    """The requirements of one alternative.

    A node that GPU feature discovery has labelled is selected by that label alone: its GPUs may be divided (MIG) or
    shared, and labels of the platform do not say so. A label of the settings is trusted.
    """
    values = [{"key": label, "operator": "In", "values": list(allowed)} for label, allowed in labels.items()]
    divided = {"key": PRODUCT, "operator": "DoesNotExist"}
    return [*values, divided] if labels.keys() & PLATFORM_LABELS else values


def _without(products: Sequence[str]) -> list[Manifest]:
    labels = sorted({label_of(product) for product in products})
    return [
        {"key": label, "operator": "NotIn", "values": [product for product in products if label_of(product) == label]}
        for label in labels
    ]


def _narrowed(affinity: Manifest, alternatives: Sequence[Sequence[Manifest]]) -> Manifest:
    """The affinity with required node terms that meet one of the user's terms and one of these alternatives.

    One matching term suffices for Kubernetes, so each alternative is combined with each term of the user: at most 8
    times the alternatives.
    """
    nodes = affinity.get("nodeAffinity", {})
    requested = nodes.get(_REQUIRED, {}).get("nodeSelectorTerms") or [{}]
    terms = [
        {**term, "matchExpressions": [*term.get("matchExpressions", []), *alternative]}
        for alternative in alternatives
        for term in requested
    ]
    return {**affinity, "nodeAffinity": {**nodes, _REQUIRED: {"nodeSelectorTerms": terms}}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def queue_labels(requested: SchedulingSpec) -> dict[str, str]:
    return {QUEUE_LABEL: requested.queue_name} if requested.queue_name else {}


def api_form(part: BaseModel) -> Manifest:
    """The fields by their API names, without empty ones, which the API server omits."""
    named = {info.alias or name: getattr(part, name) for name, info in type(part).model_fields.items()}
    values = {name: _value(value) for name, value in named.items()}
    return {name: value for name, value in values.items() if value is not False and value not in (None, "", {}, [])}


def _value(value: object) -> object:
    if isinstance(value, BaseModel):
        return api_form(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    return str(value) if isinstance(value, str) else value
