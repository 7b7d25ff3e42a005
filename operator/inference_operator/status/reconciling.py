"""Condition Reconciling: whether the operator or Kubernetes still works towards the specification."""

from collections.abc import Mapping

from inference_operator.api.reasons import Reason
from inference_operator.api.spec import RolloutStrategy
from inference_operator.api.status import StartupStep
from inference_operator.diagnosis.pod_diagnosis import PodDiagnosis
from inference_operator.status.facts import Facts, rejection_reason
from inference_operator.status.ready import missing_node, ready
from inference_operator.status.stalled import stalled
from inference_operator.status.verdict import Verdict
from inference_operator.status.write_results import Failed, Waiting
from inference_operator.workload.rollout import Rollout, RolloutReason

UNDECIDED_ROLLOUT = "Engines will be replaced once free GPUs are known."
"""Message while a rollout waits for the lookup that decides its strategy."""


def reconciling(facts: Facts) -> Verdict:
    """Whether work goes on.

    The first rule that applies:

    - Paused, or the specification is refused: no.
    - A write waits or failed and will be repeated, or the model is inspected: yes.
    - The resource is stalled: no.
    - Ready, and no pod of an earlier template is left: no; yes if a rollout waits for the lookup of free GPUs.
    - Kubernetes rejects a pod, or a pod does not run: yes, with that cause.
    - Not ready: yes, with the reason of Ready.
    - Otherwise a rollout is in progress.
    """
    if verdict := _unchanged(facts) or _waiting(facts):
        return verdict
    if stalled(facts).status == "True":
        return Verdict("False", Reason.SETTLED, "Waiting does not help: see the condition Stalled.")
    state = ready(facts)
    if state.status == "True" and not facts.rolling:
        if facts.rollout_undecided:
            return Verdict("True", Reason.ROLLING_OUT, UNDECIDED_ROLLOUT)
        return Verdict("False", Reason.SETTLED, "No changes are in progress.")
    if facts.rejected_workload:
        return Verdict("True", rejection_reason(facts.rejected_workload), facts.rejection)
    if facts.diagnosis:
        return _pod_problem(facts, facts.diagnosis)
    if state.status == "False":
        return Verdict("True", state.reason, state.message)
    how = f" {_strategy(facts.rollout)}" if facts.engines.rolling and facts.rollout else ""
    message = f"Pods of the previous specification are being replaced.{how} {facts.progress}{_download(facts)}"
    return Verdict("True", Reason.ROLLING_OUT, message.strip())


def _download(facts: Facts) -> str:
    """That a new engine downloads the model while others serve."""
    if facts.startup is None or facts.startup.step is not StartupStep.DOWNLOADING_MODEL:
        return ""
    return " Earlier engines serve until it is ready. With `spec.cache` a Job downloads before the rollout."


def _unchanged(facts: Facts) -> Verdict | None:
    """The operator applies nothing: paused or refused."""
    if facts.paused:
        return Verdict("False", Reason.PAUSED, "Paused: the operator changes nothing while `spec.paused` is true.")
    if facts.refusal:
        return Verdict(
            "False", Reason.SETTLED, "Engines keep their specification until this is solved: see the condition Stalled."
        )
    return None


def _waiting(facts: Facts) -> Verdict | None:
    """What passes without a user: a deletion, a request that is repeated, or an inspection."""
    match facts.blocked:
        case Waiting(ref):
            return Verdict("True", Reason.WAITING_FOR_DELETION, f"{ref} is still being deleted.")
        case Failed(ref, cause):
            message = f"{ref} could not be changed: {cause}. The operator retries with increasing delays."
            return Verdict("True", Reason.REQUEST_FAILED, message)
        case _ if facts.inspection:
            return Verdict("True", Reason.INSPECTING_MODEL, facts.inspection)
        case _ if facts.model_wait:
            return Verdict("True", facts.model_wait.reason, facts.model_wait.message)
        case _:
            return None


def _pod_problem(facts: Facts, diagnosis: PodDiagnosis) -> Verdict:
    """A pod does not run. During a rollout that replaces engines because GPUs are missing, that is no problem."""
    if facts.rollout and facts.unschedulable and facts.engines.rolling:
        how = f"{_strategy(facts.rollout)} {diagnosis.message}"
        if facts.rollout.why in (RolloutReason.UNSCHEDULABLE, RolloutReason.NO_NODE_CAME, RolloutReason.ONE_NODE):
            return Verdict("True", Reason.SWITCHED_TO_REPLACE, how)
        if facts.rollout.why is RolloutReason.NODE_MAY_COME:
            return Verdict("True", Reason.WAITING_FOR_NODE, how)
    if message := missing_node(facts):
        return Verdict("True", Reason.WAITING_FOR_NODE, message)
    return Verdict("True", diagnosis.reason, diagnosis.message)


_STRATEGIES: Mapping[RolloutStrategy, str] = {
    RolloutStrategy.SURGE: "Each new engine starts before an old one ends",
    RolloutStrategy.REPLACE: "Each old engine ends before a new one starts",
}

_REASONS: Mapping[RolloutReason, str] = {
    RolloutReason.NOTHING_RUNS: "because no engine ran before",
    RolloutReason.ASKED: "as `spec.rollout.strategy` says",
    RolloutReason.FREE_SLOT: "because a node has free GPUs for one more",
    RolloutReason.NO_FREE_SLOT: "because no node has free GPUs for one more",
    RolloutReason.UNKNOWN: (
        "because free GPUs are unknown; if the new engine finds none for 30 s (`surgeWaitSeconds` where nodes can be"
        " added and no other engine is ready), old engines end first"
    ),
    RolloutReason.NO_USE: "because ending an old engine would not free the GPUs that a new one needs",
    RolloutReason.UNSCHEDULABLE: "because the new engine found no free GPUs for 30 s",
    RolloutReason.NODE_MAY_COME: (
        "because no GPUs are free, a node may be added, and no other engine is ready; if no node comes within the"
        " operator's setting `surgeWaitSeconds`, the old engine ends first"
    ),
    RolloutReason.NO_NODE_CAME: "because no node for the new engine came within `surgeWaitSeconds`",
    RolloutReason.ONE_NODE: "because only pods on one node can mount the claim, and the new engine is on another",
}


def _strategy(rollout: Rollout) -> str:
    return f"{_STRATEGIES[rollout.strategy]}, {_REASONS[rollout.why]}."
