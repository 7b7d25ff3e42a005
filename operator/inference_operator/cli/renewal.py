"""The renewal of routers and engines: the edits that begin it, and how far that of routers is."""

from collections.abc import Mapping
from enum import Enum, auto

from inference_operator.api.conditions import Condition
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.managed_fields import FIELD_MANAGER
from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping

RENEWED_ANNOTATION = "renewed-at-generation"
"""Annotation of the router pods that Argo CD's action `renew-routers` sets too. Its value is the generation before the
edit, so that it is another one each time."""

FIELD_MANAGER_OF_ROUTERS, FIELD_MANAGER_OF_ENGINES = (
    f"{FIELD_MANAGER}-renew-{pods}" for pods in ("routers", "engines")
)


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
    return resource(live).current_condition(ConditionType.ROUTER_AVAILABLE)


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
    return {"router": engines_edit(live)}


def engines_edit(live: Manifest) -> Manifest:
    """The specification's part that makes the operator replace the engines, as Argo CD's action `renew` does."""
    value = str(live["metadata"].get("generation", 0))
    return {"podTemplate": {"annotations": {RENEWED_ANNOTATION: value}}}
