"""The renewal of routers and engines: the edits that begin it, and how far it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import reduce

from inference_operator.api.conditions import Condition
from inference_operator.api.pod_template import RENEWED_ANNOTATION
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.edit import LIMIT_SECONDS
from inference_operator.cli.managed_fields import FIELD_MANAGER
from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping

PAUSED = "the operator changes nothing while `spec.paused` is true. Run `infd resume` first."


class Progress(Enum):
    """How far the routers or engines of an InferenceDeployment are."""

    UNSEEN = auto()
    """The operator has not seen the last edit."""
    NONE = auto()
    """None should run."""
    UNAVAILABLE = auto()
    """No router is ready, or not enough engines."""
    STALLED = auto()
    """Waiting for engines does not help."""
    OLDER = auto()
    """They keep something that the operator would build otherwise."""
    ROLLING = auto()
    """They are being replaced."""
    LATEST = auto()
    """All are as the operator builds them."""


_BY_REASON: Mapping[str, Progress] = {
    Reason.EXTERNAL_ROUTING: Progress.NONE,
    Reason.SCALED_TO_ZERO: Progress.NONE,
    Reason.ROUTER_OUTDATED: Progress.OLDER,
    Reason.ROUTER_VULNERABLE: Progress.OLDER,
    Reason.ENGINES_OUTDATED: Progress.OLDER,
    Reason.ENGINES_VULNERABLE: Progress.OLDER,
    Reason.ROLLING_OUT: Progress.ROLLING,
    Reason.SERVING: Progress.LATEST,
    Reason.NETWORK_DEVICES_UNUSED: Progress.LATEST,
}
_ROLLOUTS = frozenset({Reason.ROLLING_OUT, Reason.SWITCHED_TO_REPLACE})
"""Reasons of Reconciling while engines are replaced, also while none answers."""


@dataclass(frozen=True, slots=True)
class RenewedPart:
    """Routers or engines."""

    name: str
    section: Sequence[str]
    """The section of the specification with their pod template."""
    condition: ConditionType
    """The condition that tells about them."""
    action: str
    """Argo CD's action that makes the same edit."""
    none: str
    """Why none runs."""
    cure: str
    """What helps those that are not ready."""
    timeout_seconds: int
    """Default of --timeout."""

    @property
    def path(self) -> Sequence[str]:
        """The field with the annotations of their pods."""
        return "spec", *self.section, "podTemplate", "annotations"

    @property
    def field_manager(self) -> str:
        """The owner of the edit."""
        return f"{FIELD_MANAGER}-renew-{self.name}"

    def edit(self, live: Manifest) -> Manifest:
        """The specification's part that makes the operator replace them, as Argo CD's action does."""
        value: Manifest = {RENEWED_ANNOTATION: str(live["metadata"].get("generation", 0))}
        return reduce(lambda inner, name: {name: inner}, reversed(self.path[1:]), value)

    def progress(self, live: Manifest) -> Progress:
        """How far they are, from the conditions of a live InferenceDeployment."""
        own = self._condition(live)
        if own is None:
            return Progress.UNSEEN
        return (self is ENGINES and _progress_of_all(live)) or _BY_REASON.get(own.reason, Progress.UNAVAILABLE)

    def is_vulnerable(self, live: Manifest) -> bool:
        """Whether a renewal closes known attacks or vulnerabilities."""
        own = self._condition(live)
        return own is not None and own.reason in {Reason.ROUTER_VULNERABLE, Reason.ENGINES_VULNERABLE}

    def message(self, live: Manifest) -> str:
        """What the status says about them."""
        own, work = self._condition(live), _current(live, ConditionType.RECONCILING)
        if own is None:
            return "The operator has not seen the last edit yet. If this lasts, does it run?"
        return work.message if self is ENGINES and work and work.status == "True" else own.message

    def _condition(self, live: Manifest) -> Condition | None:
        return _current(live, self.condition)


ROUTERS = RenewedPart(
    name="routers",
    section=("router",),
    condition=ConditionType.ROUTER_AVAILABLE,
    action="renew-routers",
    none="no router runs, because `spec.router.strategy` is `External`.",
    cure="Routers that become ready are as this release builds them.",
    timeout_seconds=LIMIT_SECONDS["routers"],
)
ENGINES = RenewedPart(
    name="engines",
    section=(),
    condition=ConditionType.ENGINES_AVAILABLE,
    action="renew",
    none="no engine runs. The next one is as this release builds it.",
    cure="Engines are renewed when enough of them are ready; `infd restart` replaces them as they are.",
    timeout_seconds=LIMIT_SECONDS["engines"],
)


def is_paused(live: Manifest) -> bool:
    """Whether the operator changes nothing."""
    return mapping(live, "spec").get("paused") is True


def problem(live: Manifest) -> str:
    """The message of Stalled, if waiting does not help; else empty."""
    condition = resource(live).status.condition(ConditionType.STALLED)
    return condition.message if condition and condition.status == "True" else ""


def _progress_of_all(live: Manifest) -> Progress | None:
    """The progress of engines that other conditions tell; None if they tell nothing.

    A rollout of engines begins with their plan, model and objects, of which Reconciling and Stalled tell.
    """
    kinds = (ConditionType.RECONCILING, ConditionType.STALLED, ConditionType.READY)
    work, stalled, ready = (_current(live, kind) for kind in kinds)
    if work is None:
        return Progress.UNSEEN
    if stalled and stalled.status == "True":
        return Progress.STALLED
    if work.status != "True":
        return None
    serves = ready is not None and ready.status == "True"
    return Progress.ROLLING if serves or work.reason in _ROLLOUTS else Progress.UNAVAILABLE


def _current(live: Manifest, kind: ConditionType) -> Condition | None:
    """A condition, if it is about the last edit."""
    return resource(live).current_condition(kind)
