"""The edits of `infd pause`, `resume`, `restart` and `renew`: what each sets, what forbids it, and when it is done."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import reduce
from typing import TypeAlias

import yaml

from inference_operator.api.conditions import Condition
from inference_operator.api.pod_template import RENEWED_ANNOTATION
from inference_operator.api.reasons import ConditionType, Reason
from inference_operator.api.resource import resource
from inference_operator.cli.cluster_command import Step
from inference_operator.cli.edit import LIMIT_SECONDS
from inference_operator.cli.managed_fields import ARGO_CD, FIELD_MANAGER, git_owner, manager
from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping

PAUSED = "the operator changes nothing while `spec.paused` is true. Run `infd resume` first."
UNSEEN_SECONDS = 10.0
"""Before the wait tells that the operator has not seen the edit: it sees most within a second."""
UNSEEN = Step("the operator has not seen the edit yet. If this lasts, does it run?", quiet_seconds=UNSEEN_SECONDS)
Steps: TypeAlias = Callable[[], Callable[[Manifest], Step]]
"""What begins a wait, and then tells how far a live resource is."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One server-side apply, and the wait for what it brings."""

    what: str
    field_manager: str
    spec: Callable[[Manifest], Manifest]
    forbids: Callable[[Manifest], str]
    steps: Steps
    done: str
    interrupted: str = ""
    """What Ctrl-C prints; empty: whether the edit is made."""
    limit_seconds: int = 0
    """How long nothing may change, where the command line does not say."""
    forced: Manifest | None = None
    needless: Callable[[Manifest], str] = lambda _: ""
    """What is so already; empty if the edit changes something."""
    begun: str = ""
    first: Steps = lambda: lambda _: Step(is_last=True)


def _pausing(*, paused: bool) -> Edit:
    """Pauses or resumes. Git that does not name `spec.paused` leaves it alone.

    To resume, the field is first given up: it disappears if nobody else sets it.
    """
    value = str(paused).lower()

    def forbids(live: Manifest) -> str:
        by = git_owner(live, ("spec", "paused"))
        return f"{by} sets `spec.paused` from its source. Commit `spec.paused: {value}` there." if by else ""

    def step(live: Manifest) -> Step:
        ready = resource(live).current_condition(ConditionType.READY)
        return Step(is_last=True) if ready and (ready.reason == Reason.PAUSED) == paused else UNSEEN

    return Edit(
        what="spec.paused",
        field_manager=f"{FIELD_MANAGER}-pause",
        spec=lambda _: {"paused": True} if paused else {},
        forced=None if paused else {"paused": False},
        needless=lambda live: (
            f"is {'' if paused else 'not '}paused already. Nothing was changed." if is_paused(live) == paused else ""
        ),
        forbids=forbids,
        steps=lambda: step,
        done=(
            "paused. Engines and routers go on serving. Until `infd resume`, nothing is created, changed, repaired,"
            " scaled or deleted, and edits wait."
            if paused
            else "resumed. The operator applies the edits that have waited."
        ),
    )


class Progress(Enum):
    UNSEEN = auto()
    NONE = auto()
    UNAVAILABLE = auto()
    """No router is ready, or not enough engines."""
    STALLED = auto()
    OLDER = auto()
    """They keep something that the operator would build otherwise."""
    ROLLING = auto()
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
_LATEST = frozenset({Progress.LATEST, Progress.NONE})


@dataclass(frozen=True, slots=True)
class RenewedPart:
    name: str
    section: Sequence[str]
    """The section of the specification with their pod template."""
    condition: ConditionType
    action: str
    """Argo CD's action that makes the same edit."""
    none: str
    cure: str

    @property
    def path(self) -> Sequence[str]:
        return "spec", *self.section, "podTemplate", "annotations"

    @property
    def field_manager(self) -> str:
        return f"{FIELD_MANAGER}-renew-{self.name}"

    def edit(self, live: Manifest) -> Manifest:
        """The specification's part that makes the operator replace them, as Argo CD's action does."""
        value: Manifest = {RENEWED_ANNOTATION: str(live["metadata"].get("generation", 0))}
        return reduce(lambda inner, name: {name: inner}, reversed(self.path[1:]), value)

    def edit_text(self, live: Manifest) -> str:
        return yaml.safe_dump({"spec": self.edit(live)}, sort_keys=False).rstrip()

    def progress(self, live: Manifest) -> Progress:
        own = _current(live, self.condition)
        if own is None:
            return Progress.UNSEEN
        return (self is ENGINES and _progress_of_all(live)) or _BY_REASON.get(own.reason, Progress.UNAVAILABLE)

    def is_vulnerable(self, live: Manifest) -> bool:
        own = _current(live, self.condition)
        return own is not None and own.reason in {Reason.ROUTER_VULNERABLE, Reason.ENGINES_VULNERABLE}

    def message(self, live: Manifest) -> str:
        own, work = _current(live, self.condition), _current(live, ConditionType.RECONCILING)
        if own is None:
            return "The operator has not seen the last edit yet. If this lasts, does it run?"
        return work.message if self is ENGINES and work and work.status == "True" else own.message


ROUTERS = RenewedPart(
    name="routers",
    section=("router",),
    condition=ConditionType.ROUTER_AVAILABLE,
    action="renew-routers",
    none="no router runs, because `spec.router.strategy` is `External`.",
    cure="Routers that become ready are as this release builds them.",
)
ENGINES = RenewedPart(
    name="engines",
    section=(),
    condition=ConditionType.ENGINES_AVAILABLE,
    action="renew",
    none="no engine runs. The next one is as this release builds it.",
    cure="Engines are renewed when enough of them are ready; `infd restart` replaces them as they are.",
)
PARTS = (ROUTERS, ENGINES)
"""In the order of renewal: an engine asks for a key only if all routers send one."""


def is_paused(live: Manifest) -> bool:
    return mapping(live, "spec").get("paused") is True


def _problem(live: Manifest) -> str:
    condition = resource(live).status.condition(ConditionType.STALLED)
    return condition.message if condition and condition.status == "True" else ""


def _progress_of_all(live: Manifest) -> Progress | None:
    """The progress of engines that other conditions tell; None if they tell nothing.

    A rollout of engines begins with their plan, model and objects, of which Reconciling and Stalled tell.
    """
    found = resource(live)
    work = found.current_condition(ConditionType.RECONCILING)
    if work is None:
        return Progress.UNSEEN
    if found.is_true(ConditionType.STALLED):
        return Progress.STALLED
    if work.status != "True":
        return None
    serves = found.is_true(ConditionType.READY)
    return Progress.ROLLING if serves or work.reason in _ROLLOUTS else Progress.UNAVAILABLE


def _current(live: Manifest, kind: ConditionType) -> Condition | None:
    return resource(live).current_condition(kind)


def _restart(part: RenewedPart) -> Edit:
    def forbids(live: Manifest) -> str:
        if is_paused(live):
            return PAUSED
        if part is ROUTERS and mapping(live, "spec", "router").get("strategy") == "External":
            return part.none
        if name := git_owner(live, (*part.path, RENEWED_ANNOTATION)):
            source = f"{name} sets the annotation from its source, so nothing was changed."
            return f"{source} Commit this edit:\n{part.edit_text(live)}"
        return ""

    return Edit(
        what=part.name,
        field_manager=part.field_manager,
        spec=part.edit,
        forbids=forbids,
        begun=f"{part.name} are replaced one by one.",
        steps=lambda: _rolling,
        done=f"all {part.name} are new.",
        interrupted="Interrupted. A rollout that has begun goes on: `infd status` shows it.",
    )


def _rolling(live: Manifest) -> Step:
    kinds = ConditionType.STALLED, ConditionType.RECONCILING, ConditionType.ROUTER_AVAILABLE
    stalled, reconciling, routers = map(resource(live).current_condition, kinds)
    if stalled and stalled.status == "True":
        return Step(failure=f"{stalled.reason}: {stalled.message}")
    if reconciling is None or routers is None:
        return UNSEEN
    if reconciling.reason == Reason.PAUSED:
        return Step(failure="it was paused meanwhile. Run `infd resume`.")
    if reconciling.status == "True":
        return Step(reconciling.message)
    return Step(routers.message) if routers.reason == Reason.ROLLING_OUT else Step(is_last=True)


def _renew(part: RenewedPart) -> Edit:

    def needless(live: Manifest) -> str:
        now = part.progress(live)
        if is_paused(live) or now not in _LATEST:
            return ""
        return (
            part.none if now is Progress.NONE else f"{part.name} are as this release builds them. Nothing was changed."
        )

    def forbids(live: Manifest) -> str:
        if is_paused(live):
            return PAUSED
        now = part.progress(live)
        if now is Progress.STALLED:
            return f"its {part.name} are not renewed before this is solved: {_problem(live)}"
        if now is Progress.UNAVAILABLE:
            return f"{part.message(live)} {part.cure} Nothing was changed."
        if now is Progress.OLDER and (name := manager(live)):
            action = f"Run Argo CD's action `{part.action}`, or commit" if name == ARGO_CD else "Commit"
            source = f"{name} applies this resource from its source, so nothing was changed."
            return f"{source} {action} this edit:\n{part.edit_text(live)}"
        return ""

    return Edit(
        what=part.name,
        field_manager=part.field_manager,
        spec=part.edit,
        first=lambda: _settling(part, {Progress.UNSEEN, Progress.ROLLING}),
        needless=needless,
        forbids=forbids,
        begun=f"edited `{'.'.join(part.path)}`.",
        steps=lambda: _settling(
            part,
            set(Progress) - _LATEST,
            if_paused="it was paused meanwhile. Run `infd resume`, and this command again.",
        ),
        done=f"all {part.name} are renewed.",
        interrupted="Interrupted. A rollout that has begun goes on; the same command follows it.",
        limit_seconds=LIMIT_SECONDS[part.name],
    )


def _settling(part: RenewedPart, while_in: Collection[Progress], if_paused: str = "") -> Callable[[Manifest], Step]:
    before: Progress | None = None

    def step(live: Manifest) -> Step:
        nonlocal before
        now = part.progress(live)
        fails = now is Progress.STALLED and before is Progress.ROLLING  # also the rollout of an edit before this
        if now not in while_in and not fails:
            return Step(is_last=True, failure=if_paused if is_paused(live) else "")
        if now in {Progress.OLDER, Progress.STALLED} and (cause := _problem(live)):
            return Step(failure=f"the edit does not bring new {part.name}: {cause}")
        before = now
        message = part.message(live)
        return Step(message, details=f"{message} {_problem(live)}")

    return step


RESTART: Mapping[str, Edit] = {part.name: _restart(part) for part in PARTS}
EDITS: Mapping[str, Mapping[str, Edit]] = {
    "pause": {"": _pausing(paused=True)},
    "resume": {"": _pausing(paused=False)},
    "restart": RESTART,
    "renew": {part.name: _renew(part) for part in PARTS},
}
