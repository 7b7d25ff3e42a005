"""The refusals of the setting `policy`: which field the policy does not allow, by which rule, and what helps.

The operator decides by them before it makes any object, in the words of the API server (`administrator_policy`).
"""

from collections.abc import Iterator, Sequence

from pydantic.alias_generators import to_camel

from inference_operator.admission.administrator_rules import CHECKS, GPUS_KEY, PolicyCheck, sections, stated_gpus
from inference_operator.admission.named_parts import NAMED
from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal, all_of
from inference_operator.api.spec import Spec
from inference_operator.sentences import sentences

BEGIN = "The policy of this cluster (`{}`) {}"
"""Section, and problem."""
MOST_SHOWN = 300
"""Characters of a list that a message shows: a condition must stay readable."""
UNSHOWN = "those that the administrator lists"
GPUS_FIELDS = ("autoscaling.maxReplicas", "replicas")
"""The field that decides the number of engines: with autoscaling, and without."""
GPUS_CURE = (
    "Lower `spec.replicas`, `spec.autoscaling.maxReplicas`, `spec.parallelism` or the engines of"
    " `spec.disaggregation.prefill`."
)
_SIZED_CURE = "Lower one of them: `spec.parallelism` and `spec.engine.profile: Smallest` give engines with fewer GPUs."


def refusal_of_policy(
    spec: Spec, policy: AdministratorPolicy, cluster_domain: str, *, is_new: bool = True
) -> Refusal | None:
    """Why the policy does not allow a specification as its user wrote it, with all such fields; None if it allows it.

    For one that has sizes already only rules hold that the administrator has set: a default of a new release stops
    nothing that runs.
    """
    stated = {to_camel(name) for name in policy.model_fields_set}
    checks = [check for check in CHECKS if check.is_active(policy) and (is_new or check.section in stated)]
    refusals = [*_refusals(spec, policy, cluster_domain, checks), *_of_stated_gpus(spec, policy)]
    return all_of(refusals) if refusals else None


def refusal_of_gpus(spec: Spec, policy: AdministratorPolicy, *, per_engine: int, others: int = 0) -> Refusal | None:
    """Why the policy does not allow the computed sizes, with GPUs of other roles (`others`); None if it allows them."""
    most, engines = policy.gpus.most, spec.most_replicas
    if most is None or per_engine * engines + others <= most:
        return None
    asked = f"{engines} engine of {per_engine}" if engines == 1 else f"{engines} engines of {per_engine} each"
    more = f", and {others} of the other role" if others else ""
    problem = f"allows {most} GPUs of one resource, and this needs {per_engine * engines + others}: {asked}{more}."
    return _of_gpus(spec, policy, problem, _SIZED_CURE)


def _refusals(
    spec: Spec, policy: AdministratorPolicy, cluster_domain: str, checks: Sequence[PolicyCheck]
) -> Iterator[Refusal]:
    for check in checks:
        (named, _), (allowed, _) = NAMED[check.named], sections(policy)[check.section]
        for field, text in dict.fromkeys(named(spec)):
            if not check.allowed.holds(text, allowed, cluster_domain):
                yield _refusal(check, field, policy)


def _refusal(check: PolicyCheck, field: str, policy: AdministratorPolicy) -> Refusal:
    allowed, message = sections(policy)[check.section]
    shown = ", ".join(allowed) if len(",".join(allowed)) <= MOST_SHOWN else UNSHOWN
    cure = check.cure if check.flag else f"{check.cure} {shown}."
    return Refusal(
        Reason.REFUSED_BY_POLICY, f"spec.{field}", BEGIN.format(check.section, check.problem), sentences(cure, message)
    )


def _of_stated_gpus(spec: Spec, policy: AdministratorPolicy) -> Iterator[Refusal]:
    most, stated = policy.gpus.most, stated_gpus(spec)
    if most is not None and stated > most:
        problem = f"allows {most} GPUs of one resource, and this asks for at least {stated}."
        yield _of_gpus(spec, policy, problem, GPUS_CURE)


def _of_gpus(spec: Spec, policy: AdministratorPolicy, problem: str, cure: str) -> Refusal:
    scaled, fixed = GPUS_FIELDS
    return Refusal(
        Reason.REFUSED_BY_POLICY,
        f"spec.{scaled if spec.autoscaling else fixed}",
        BEGIN.format(GPUS_KEY, problem),
        sentences(cure, policy.gpus.message),
    )
