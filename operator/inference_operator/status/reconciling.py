"""Reconciling: whether the operator or Kubernetes is still at work on what was asked."""

from collections.abc import Mapping

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import RolloutStrategy
from inference_operator.observed.answer import Failed, Waiting
from inference_operator.observed.rollout import Rollout, Why
from inference_operator.status.facts import Facts, rejection_reason
from inference_operator.status.ready import missing_node, ready
from inference_operator.status.stalled import stalled
from inference_operator.status.trouble import Trouble
from inference_operator.status.verdict import Verdict


def reconciling(facts: Facts) -> Verdict:
    """Decide whether work goes on."""
    if facts.paused or facts.refusal:
        return _at_rest(facts)
    if passing := _passing(facts):
        return passing
    if stalled(facts).status == "True":
        return Verdict("False", Reason.SETTLED, "Waiting does not help; see the condition Stalled.")
    state = ready(facts)
    if state.status == "True" and not facts.rolling:
        return Verdict("False", Reason.SETTLED, "Nothing is being changed.")
    if facts.rejection:
        owner = facts.engines if facts.engines.rejection else facts.routers
        return Verdict("True", rejection_reason(owner), facts.rejection)
    if facts.stuck:
        return _troubled(facts, facts.stuck)
    if state.status == "False":
        return Verdict("True", state.reason, state.message)
    how = f" {_how(facts.rollout)}" if facts.engines.rolling and facts.rollout else ""
    return Verdict(
        "True",
        Reason.ROLLING_OUT,
        f"Pods of the previous specification are being replaced.{how} {facts.progress}".strip(),
    )


def _troubled(facts: Facts, stuck: Trouble) -> Verdict:
    """A pod's problem; the want of room is none where it is being made."""
    if facts.homeless and facts.engines.rolling and facts.rollout and facts.rollout.why is Why.UNSCHEDULABLE:
        return Verdict("True", Reason.MAKING_ROOM, f"{_how(facts.rollout)} {stuck.message}")
    if waiting := missing_node(facts):
        return Verdict("True", Reason.WAITING_FOR_NODE, waiting)
    return Verdict("True", stuck.reason, stuck.message)


_HOW: Mapping[RolloutStrategy, str] = {
    RolloutStrategy.SURGE: "Each new engine starts before its predecessor ends",
    RolloutStrategy.REPLACE: "One engine at a time ends before its successor starts",
}

_WHY: Mapping[Why, str] = {
    Why.NOTHING_RUNS: "since nothing ran before",
    Why.ASKED: "as `spec.rollout.strategy` asks",
    Why.FREE_SLOT: "since there was room for one more",
    Why.NO_FREE_SLOT: "since there was no room for one more",
    Why.UNKNOWN: "since it is not known whether there is room for one more; if there is none for 30 s, that changes",
    Why.NO_USE: "since ending one makes no room for what is asked now",
    Why.UNSCHEDULABLE: "since there was no room for one more for 30 s",
}


def _how(rollout: Rollout) -> str:
    return f"{_HOW[rollout.strategy]}, {_WHY[rollout.why]}."


def _passing(facts: Facts) -> Verdict | None:
    """What stands in the way of a child and needs nobody's hand, if anything."""
    match facts.blocked:
        case Waiting(ref):
            return Verdict("True", Reason.WAITING_FOR_DELETION, f"{ref} is still being deleted.")
        case Failed(ref, cause):
            again = "It is tried again, later each time, until it can."
            return Verdict("True", Reason.REQUEST_FAILED, f"{ref} could not be changed: {cause}. {again}")
        case _ if facts.inspecting:
            return Verdict("True", Reason.INSPECTING_MODEL, facts.inspecting)
        case _:
            return None


def _at_rest(facts: Facts) -> Verdict:
    if facts.paused:
        return Verdict("False", Reason.PAUSED, "Nothing is changed while `spec.paused` is true.")
    return Verdict("False", Reason.SETTLED, "Nothing is changed until the specification can be served.")
