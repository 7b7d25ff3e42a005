"""Condition PrefillUnused: whether engines compute all prompts themselves, although others are asked for."""

from collections.abc import Sequence

from inference_operator.api.reasons import Reason
from inference_operator.objects.kv_revision import kv_revision
from inference_operator.objects.names import PREFILL
from inference_operator.sentences import sentences
from inference_operator.status.observation import ConditionVerdict, Observation, RoleObservation
from inference_operator.status.shared_rules import ready_of

_LOCAL = "Engines compute all prompts themselves."


def prefill_unused(observation: Observation) -> ConditionVerdict | None:
    """Reported while a role for prompts is decided. What single requests did is in metrics alone."""
    roles = {role.name: role for role in observation.roles if role.decided}
    prefill = roles.get(PREFILL)
    if prefill is None or prefill.decided is None:
        return None
    wanted, ready = prefill.decided.change.wanted, prefill.component.workload.ready
    counted = ready_of(ready, wanted, "prefill engine")
    if not wanted:
        scales = prefill.decided.context.spec.stated.autoscaling is not None
        why = "no prompt has come of late" if scales else "`spec.disaggregation.prefill.replicas` is 0"
        message = f"No prefill engine is wanted: {why}."
        return ConditionVerdict("True", Reason.NO_PREFILL_ENGINE, sentences(message, _LOCAL))
    if not ready:
        return ConditionVerdict("True", Reason.NO_PREFILL_ENGINE, sentences(counted, _LOCAL))
    revisions = {kv_revision(role.decided.template.content.template) for role in roles.values() if role.decided}
    if "" in revisions:
        message = "Engines work apart once all routers send their key: a rollout of routers comes first."
        return ConditionVerdict("True", Reason.PREFILL_WAITS_FOR_KEY, sentences(message, _LOCAL))
    if len(revisions) > 1:
        message = _difference(list(roles.values()))
        return ConditionVerdict("True", Reason.REVISIONS_DIFFER, sentences(message, _LOCAL))
    return ConditionVerdict("False", Reason.PREFILL_READY, counted)


def _difference(roles: Sequence[RoleObservation]) -> str:
    """Why roles have different revisions, in a sentence."""
    if any(role.pinned and not role.pinned.commit for role in roles):
        return "The model's commit is not known, so the two roles may have loaded different files."
    return "The two roles have different revisions: images, models or arguments differ until both are rolled out."
