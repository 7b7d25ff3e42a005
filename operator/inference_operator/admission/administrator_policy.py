"""Generates the ValidatingAdmissionPolicy of the setting `policy`.

The policy itself is the same in every installation. What it allows stands in a ConfigMap, its parameters, which the
chart writes from the values that the operator gets too. Without the ConfigMap, the operator alone decides.

A change is judged by what it adds: what a resource named before, or more GPUs than it asks for now, stays possible.
Else nobody could label, pause or scale down a resource that a later policy does not allow. The operator refuses such
a resource all the same: it keeps what runs, and makes nothing new.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inference_operator.admission.administrator_refusals import BEGIN, GPUS_CURE, GPUS_FIELDS, MOST_SHOWN, UNSHOWN
from inference_operator.admission.administrator_rules import (
    CHECKS,
    DOMAIN_KEY,
    GPUS_KEY,
    LISTED,
    MESSAGE_KEY,
    NAMESPACES_KEY,
    PolicyCheck,
    entries_cel,
    stated_gpus_cel,
)
from inference_operator.admission.named_parts import NAMED
from inference_operator.admission.policy import Parameters, Policy, Validation
from inference_operator.admission.references import value_of
from inference_operator.manifest import CONFIG_MAP, INFERENCE_DEPLOYMENT, Manifest

_BEFORE = "Before"
_ELSEWHERE = "!variables.served"
"""Whether the namespace is not one of this operator."""
_TEXT = "text.substring(text.indexOf(' ') + 1)"
"""The text of a pair `FIELD TEXT`."""


@dataclass(frozen=True, slots=True)
class PolicyScope:
    namespace: str
    """Namespace of the operator, which has the ConfigMap."""
    release: str
    """Name of the operator's Lease. The policy is named after it, so that those of two operators differ."""

    @property
    def name(self) -> str:
        return f"owner.{self.namespace}.{self.release}"

    @property
    def parameters(self) -> Parameters:
        return Parameters(CONFIG_MAP, self.namespace, f"{self.release}-policy")


def administrator_policy(scope: PolicyScope) -> list[Manifest]:
    policy = Policy(
        scope.name,
        INFERENCE_DEPLOYMENT,
        [*map(_validation, CHECKS), _of_gpus()],
        tuple(_variables()),
        parameters=scope.parameters,
    )
    return policy.manifests


def _variables() -> Iterator[tuple[str, str]]:
    yield "parameters", "params.?data.orValue({})"
    served = _value(NAMESPACES_KEY)
    yield "served", f"{served} == '' || request.namespace in {served}.split(',')"
    yield DOMAIN_KEY, f"variables.parameters[?'{DOMAIN_KEY}'].orValue('')"
    for section in LISTED:
        yield entries_cel(section).removeprefix("variables."), f"{_value(section)}.split(',').filter(one, one != '')"
    for named in dict.fromkeys(check.named for check in CHECKS):
        _, cel = NAMED[named]
        yield f"named_{named}", cel("object")
        yield f"named_{named}{_BEFORE}", f"oldObject == null ? [] : {cel('oldObject')}"
    for check in CHECKS:
        yield check.name, _refused(check)
    yield GPUS_KEY, stated_gpus_cel("object")


def _value(key: str) -> str:
    return f"variables.parameters[?'{key}'].orValue('')"


def _refused(check: PolicyCheck) -> str:
    """The new pairs of a resource that the rule does not allow."""
    new = f"!(text in variables.named_{check.named}{_BEFORE})"
    refused = f"variables.named_{check.named}.filter(text, {new} && ![{_TEXT}].all(one, {check.allows_cel}))"
    return f"{check.active_cel} ? {refused} : []"


def _validation(check: PolicyCheck) -> Validation:
    return Validation(
        f"{_ELSEWHERE} || variables.{check.name}.size() == 0",
        _message(f"variables.{check.name}[0].split(' ')[0]", check.section, [_literal(check.problem), *_cure(check)]),
    )


def _cure(check: PolicyCheck) -> Sequence[str]:
    value = _value(check.section)
    shown = f"({value}.size() <= {MOST_SHOWN} ? {value}.replace(',', ', ') : '{UNSHOWN}')"
    return [_literal(f" {check.cure}")] if check.flag else [_literal(f" {check.cure} "), shown, "'.'"]


def _of_gpus() -> Validation:
    most, scaled = _value(GPUS_KEY), value_of("object", "autoscaling")
    before = f"oldObject != null && variables.{GPUS_KEY} <= {stated_gpus_cel('oldObject')}"
    with_autoscaling, without = GPUS_FIELDS
    parts = (
        _literal("allows "),
        most,
        _literal(" GPUs of one resource, and this asks for at least "),
        f"string(variables.{GPUS_KEY})",
        _literal(f". {GPUS_CURE}"),
    )
    return Validation(
        f"{_ELSEWHERE} || {most} == '' || variables.{GPUS_KEY} <= int({most}) || ({before})",
        _message(f"({scaled}.hasValue() ? '{with_autoscaling}' : '{without}')", GPUS_KEY, parts),
    )


def _message(field: str, section: str, parts: Sequence[str]) -> str:
    """The message of the operator's own refusal, with the administrator's sentence, in CEL."""
    own = _value(MESSAGE_KEY.format(section))
    begin = _literal(f": {BEGIN.format(section, '')}")
    return " + ".join(["'spec.'", field, begin, *parts, f"({own} == '' ? '' : ' ' + {own})"])


def _literal(text: str) -> str:
    """A CEL string; the texts of this package contain no quotes and no backslashes."""
    return f"'{text}'"
