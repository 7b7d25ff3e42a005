"""Generates the ValidatingAdmissionPolicies that stop users from gaining rights through the operator.

They require of who writes an InferenceDeployment the rights of `rights.py`. A field is checked when it is added or
changed, not when it is removed. The policies apply to the resource itself, not to its subresources status and `/scale`.
The operator never writes the resource itself.

Each kind of object that a resource can name has a policy of its own, since the checks of one policy are limited.
"""

from collections.abc import Iterator, Sequence

from inference_operator.admission.references import kinds, references_cel, value_of
from inference_operator.admission.rights import (
    CREATE_PODS,
    MAX_NAMED,
    Check,
    Right,
    checks,
    rights_on,
)
from inference_operator.engines.base import OptionClasses
from inference_operator.engines.rights import JSON, NUMBER
from inference_operator.manifest import GROUP, PLURAL, VERSION, Kind, Manifest

POLICY_NAME = f"{PLURAL}.{GROUP}"
_API_VERSION = "admissionregistration.k8s.io/v1"

_PODS = "mayCreatePods"


def writer_policies(options: OptionClasses) -> list[Manifest]:
    """The policies and their bindings, for the whole cluster.

    Args:
        options: the classes of the engine's options.

    Examples:
        >>> nothing = OptionClasses(frozenset(), frozenset(), frozenset(), frozenset())
        >>> [one["metadata"]["name"] for one in writer_policies(nothing) if one["kind"] == "ValidatingAdmissionPolicy"]
        ['inferencedeployments.inference-operator.dev', \
'persistentvolumeclaims.inferencedeployments.inference-operator.dev', \
'secrets.inferencedeployments.inference-operator.dev', 'configmaps.inferencedeployments.inference-operator.dev']
    """
    return [
        *_policy(POLICY_NAME, list(_field_variables(options)), [_validation(check) for check in checks(options)]),
        *(manifest for kind in kinds() for manifest in _reference_policy(kind)),
    ]


def _policy(name: str, variables: Sequence[Manifest], validations: Sequence[Manifest]) -> list[Manifest]:
    """A policy over InferenceDeployments, and its binding."""
    rule = {"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["CREATE", "UPDATE"], "resources": [PLURAL]}
    may_create_pods = {"name": _PODS, "expression": _authorizer(CREATE_PODS)}
    return [
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "variables": [may_create_pods, *variables],
                "validations": list(validations),
            },
        },
        {
            "apiVersion": _API_VERSION,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _authorizer(right: Right, name: str = "") -> str:
    """The CEL expression for whether the writer has a right; `name` is an expression for the object's name."""
    of_object = f".name({name})" if name else ""
    kind = f"authorizer.group('{right.group}').resource('{right.plural}').namespace(request.namespace)"
    return f"{kind}{of_object}.check('{right.verb}').allowed()"


def _denial(expression: str, message: str) -> Manifest:
    return {"expression": expression, "messageExpression": message, "reason": "Forbidden"}


def _field_variables(options: OptionClasses) -> Iterator[Manifest]:
    known = {
        "options": options.safe | options.managed,
        "environment": options.safe_variables | options.managed_variables,
    }
    for name, values in known.items():
        yield {"name": name, "expression": str(sorted(values))}
    is_json = f"matches('{_escaped(JSON)}')"
    option = f"!(one.split('=')[0] in variables.options) || one.split('=', 2).exists(value, value.{is_json})"
    unsafe = f"one.startsWith('-') && !one.matches('{NUMBER}') ? ({option}) : one.{is_json}"
    args, env = (f"{value_of('object', field)}.orValue([])" for field in ("engine.args", "engine.env"))
    yield {"name": "unsafeArguments", "expression": f"{args}.filter(one, {unsafe})"}
    names = f"{env}.filter(one, !(one.name in variables.environment)).map(one, one.name)"
    yield {"name": "unsafeVariables", "expression": names}


def _validation(check: Check) -> Manifest:
    new, old = value_of("object", check.field), value_of("oldObject", check.field)
    unchanged = f" || (oldObject != null && {new} == {old})" if check.compared else ""
    allowed = f"variables.{_PODS}" if check.right == CREATE_PODS else _authorizer(check.right)
    message = (
        f"'spec.{check.field}: ' + {check.subject} + 'requires the right to {check.right} in namespace '"
        " + request.namespace + '. Remove it, or request this right.'"
    )
    return _denial(f"!({check.asks}){unchanged} || {allowed}", message)


def _reference_policy(kind: Kind) -> list[Manifest]:
    """The policy of the fields that name objects of a kind."""
    variables = [
        {"name": "known", "expression": f"oldObject == null ? [] : {references_cel('oldObject', kind)}"},
        {
            "name": "references",
            "expression": f"({references_cel('object', kind)}).filter(one, !(one in variables.known))",
        },
    ]
    many = _denial(
        f"variables.references.size() <= {MAX_NAMED} || variables.{_PODS}",
        f"'spec: more than {MAX_NAMED} new names of {kind.plural} require the right to create pods in namespace '"
        " + request.namespace + '. Add fewer at a time, or request this right.'",
    )
    checked = [_reference_check(number, kind) for number in range(MAX_NAMED)]
    return _policy(f"{kind.plural}.{POLICY_NAME}", variables, [*checked, many])


def _reference_check(number: int, kind: Kind) -> Manifest:
    reference = f"variables.references[{number}].split(' ')"
    _, *on_object = rights_on(kind, "")
    allowed = " || ".join(_authorizer(right, f"{reference}[0]") for right in on_object)
    verbs = " or ".join(right.verb for right in on_object)
    message = (
        f"'spec.' + {reference}[1] + ': the {kind.name} ' + {reference}[0] + ' requires the right to create pods, or"
        f" the verb {verbs} on it, in namespace ' + request.namespace + '. Use another one, or request one of these"
        " rights.'"
    )
    return _denial(f"variables.references.size() <= {number} || variables.{_PODS} || {allowed}", message)


def _escaped(pattern: str) -> str:
    """A regular expression inside a CEL string in single quotes."""
    return pattern.replace("\\", "\\\\")
