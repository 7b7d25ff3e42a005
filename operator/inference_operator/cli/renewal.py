"""The renewal of routers: how far it is, the edit that begins it, and what else would make that edit."""

from collections.abc import Mapping
from enum import Enum, auto

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Manifest
from inference_operator.views.raw import annotations, mapping, objects

RENEWED_ANNOTATION = "renewed-at-generation"
"""Annotation of the router pods that Argo CD's action `renew-routers` sets too. Its value is the generation before the
edit, so that it is another one each time."""

FIELD_MANAGER = "infd"

_ARGO_CD_ANNOTATION = "argocd.argoproj.io/tracking-id"
_ARGO_CD_LABEL = "argocd.argoproj.io/instance"
_FLUX_LABELS = ("kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name")
_MANAGERS = {"argocd-controller": "Argo CD", "kustomize-controller": "Flux", "helm-controller": "Flux"}
"""Field managers of what applies Git (argo-cd v3.5, common/common.go, `ArgoCDSSAManager`; Flux: the controllers' names,
as kustomize-controller v1.9.6, main.go, `controllerName`)."""


class Progress(Enum):
    """How far the routers of an InferenceDeployment are."""

    UNSEEN = auto()
    """The operator has not seen the last edit."""
    NONE = auto()
    """No router runs."""
    UNAVAILABLE = auto()
    """No router is ready."""
    OLDER = auto()
    """Routers keep a pod template or configuration that the operator would build otherwise."""
    ROLLING = auto()
    """Routers are being replaced."""
    LATEST = auto()
    """All routers are as the operator builds them."""


_BY_REASON: Mapping[str, Progress] = {
    Reason.EXTERNAL_ROUTING: Progress.NONE,
    Reason.ROUTER_OUTDATED: Progress.OLDER,
    Reason.ROUTER_VULNERABLE: Progress.OLDER,
    Reason.ROLLING_OUT: Progress.ROLLING,
    Reason.SERVING: Progress.LATEST,
}


def router_condition(live: Manifest) -> Condition | None:
    """The condition RouterAvailable, if it is about the last edit."""
    found = resource(live)
    condition = found.status.condition(ConditionType.ROUTER_AVAILABLE)
    return condition if condition and condition.observed_generation == found.generation else None


def progress(live: Manifest) -> Progress:
    """How far the routers of a live InferenceDeployment are, from its condition RouterAvailable."""
    condition = router_condition(live)
    if condition is None:
        return Progress.UNSEEN
    return _BY_REASON.get(condition.reason, Progress.UNAVAILABLE)


def is_vulnerable(live: Manifest) -> bool:
    """Whether its routers do not close known attacks."""
    condition = router_condition(live)
    return condition is not None and condition.reason == Reason.ROUTER_VULNERABLE


def is_paused(live: Manifest) -> bool:
    """Whether the operator changes nothing."""
    return mapping(live, "spec").get("paused") is True


def problem(live: Manifest) -> str:
    """The message of Stalled, if waiting does not help; else empty."""
    condition = resource(live).status.condition(ConditionType.STALLED)
    return condition.message if condition and condition.status == "True" else ""


def edit(live: Manifest) -> Manifest:
    """The specification's part that makes the operator replace the routers."""
    value = str(live["metadata"].get("generation", 0))
    return {"router": {"podTemplate": {"annotations": {RENEWED_ANNOTATION: value}}}}


def applied_edit(live: Manifest) -> Manifest:
    """The object for a server-side apply of the edit; with the uid, so that it creates nothing."""
    metadata = live["metadata"]
    return {
        "apiVersion": INFERENCE_DEPLOYMENT.api_version,
        "kind": INFERENCE_DEPLOYMENT.name,
        "metadata": {name: metadata[name] for name in ("namespace", "name", "uid")},
        "spec": edit(live),
    }


def manager(live: Manifest) -> str:
    """What applies a live InferenceDeployment from Git, by labels, annotations and field managers; empty if nothing.

    Examples:
        >>> manager({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "models"}}})
        'Flux'
    """
    metadata = mapping(live, "metadata")
    labels = mapping(metadata, "labels")
    if _ARGO_CD_ANNOTATION in annotations(live) or _ARGO_CD_LABEL in labels:
        return "Argo CD"
    if any(label in labels for label in _FLUX_LABELS):
        return "Flux"
    names = (str(entry.get("manager")) for entry in objects(metadata, "managedFields"))
    return next((_MANAGERS[name] for name in names if name in _MANAGERS), "")
