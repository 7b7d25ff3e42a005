"""Reconciling: whether the operator or Kubernetes is still at work on what was asked."""

from inference_operator.api.reasons import Reason
from inference_operator.observed.answer import Failed, Waiting
from inference_operator.status.facts import Facts
from inference_operator.status.ready import ready
from inference_operator.status.stalled import stalled
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
    if rejection := facts.engines.rejection or facts.routers.rejection:
        return Verdict("True", Reason.POD_REJECTED, f"Kubernetes refuses a pod: {rejection}")
    if facts.stuck and facts.stuck.problem:
        return Verdict("True", facts.stuck.problem.reason, facts.trouble)
    if state.status == "False":
        return Verdict("True", state.reason, state.message)
    return Verdict("True", Reason.ROLLING_OUT, "Pods of the previous specification are being replaced.")


def _passing(facts: Facts) -> Verdict | None:
    """What stands in the way of a child and needs nobody's hand, if anything."""
    match facts.blocked:
        case Waiting(ref):
            return Verdict("True", Reason.WAITING_FOR_DELETION, f"{ref} is still being deleted.")
        case Failed(ref, cause):
            again = "It is tried again, later each time, until it can."
            return Verdict("True", Reason.REQUEST_FAILED, f"{ref} could not be changed: {cause}. {again}")
        case _:
            return None


def _at_rest(facts: Facts) -> Verdict:
    if facts.paused:
        return Verdict("False", Reason.PAUSED, "Nothing is changed while `spec.paused` is true.")
    return Verdict("False", Reason.SETTLED, "Nothing is changed until the specification can be served.")
