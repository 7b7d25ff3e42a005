"""Generates the ValidatingAdmissionPolicies that stop users from gaining rights through the operator.

They require of who writes an InferenceDeployment the rights of `rights.py`. A field is checked when it is added or
changed, not when it is removed. The policies apply to the resource itself, not to its subresources status and `/scale`.
The operator never writes the resource itself.

Each kind of object that a resource can name has a policy of its own, since the checks of one policy are limited.
"""

from collections.abc import Iterator, Sequence

from inference_operator.admission.policy import WRITES, Policy, Validation
from inference_operator.admission.references import kinds, references_cel, value_of
from inference_operator.admission.rights import (
    CREATE_PODS,
    MAX_NAMED,
    Check,
    Right,
    checks,
    rights_on,
)
from inference_operator.engines.rights import JSON, NUMBER
from inference_operator.engines.validation import OptionClasses
from inference_operator.manifest import GROUP, INFERENCE_DEPLOYMENT, PLURAL, Kind, Manifest

POLICY_NAME = f"{PLURAL}.{GROUP}"

_PODS = "mayCreatePods"
_SAME_MODEL = " && ".join(
    f"{value_of('object', field)} == {value_of('oldObject', field)}" for field in ("model.source", "model.revision")
)
"""Whether a change keeps the model. Files of another one could be code, or show what the engine has."""
_OF_ANY_MODEL = ("model.source", "cache.claimName")
"""Fields whose objects another model may have too, as those of the routers: they hold models, or no engine has them."""


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
    fields = _policy(POLICY_NAME, list(_field_variables(options)), [_validation(check) for check in checks(options)])
    policies = (fields, *map(_reference_policy, kinds()))
    return [manifest for policy in policies for manifest in policy.manifests]


def _policy(name: str, variables: Sequence[tuple[str, str]], validations: Sequence[Validation]) -> Policy:
    """A policy over InferenceDeployments."""
    known = ((_PODS, _authorizer(CREATE_PODS)), *variables)
    return Policy(name, [(INFERENCE_DEPLOYMENT, PLURAL)], WRITES, validations, known)


def _authorizer(right: Right, name: str = "") -> str:
    """The CEL expression for whether the writer has a right; `name` is an expression for the object's name."""
    of_object = f".name({name})" if name else ""
    kind = f"authorizer.group('{right.group}').resource('{right.plural}').namespace(request.namespace)"
    return f"{kind}{of_object}.check('{right.verb}').allowed()"


def _field_variables(options: OptionClasses) -> Iterator[tuple[str, str]]:
    known = {
        "options": options.safe | options.managed,
        "environment": options.safe_variables | options.managed_variables,
        "secretEnvironment": options.secret_variables,
    }
    for name, values in known.items():
        yield name, str(sorted(values))
    is_json = f"matches('{_escaped(JSON)}')"
    option = f"!(one.split('=')[0] in variables.options) || one.split('=', 2).exists(value, value.{is_json})"
    unsafe = f"one.startsWith('-') && !one.matches('{NUMBER}') ? ({option}) : one.{is_json}"
    args, env = (f"{value_of('object', field)}.orValue([])" for field in ("engine.args", "engine.env"))
    yield "unsafeArguments", f"{args}.filter(one, {unsafe})"
    shown = "has(one.valueFrom) && has(one.valueFrom.secretKeyRef) && !(one.name in variables.secretEnvironment)"
    yield "unsafeVariables", f"{env}.filter(one, !(one.name in variables.environment) || {shown}).map(one, one.name)"


def _validation(check: Check) -> Validation:
    new, old = value_of("object", check.field), value_of("oldObject", check.field)
    same = f"oldObject != null && {new} == {old}{f' && {_SAME_MODEL}' if check.of_model else ''}"
    unchanged = f" || ({same})" if check.compared else ""
    allowed = f"variables.{_PODS}" if check.right == CREATE_PODS else _authorizer(check.right)
    message = (
        f"'spec.{check.field}: ' + {check.subject} + 'requires the right to {check.right} in namespace '"
        " + request.namespace + '. Remove it, or request this right.'"
    )
    return Validation(f"!({check.asks}){unchanged} || {allowed}", message, is_computed=True)


def _reference_policy(kind: Kind) -> Policy:
    """The policy of the fields that name objects of a kind."""
    of_any = f"one.split(' ')[1].startsWith('router.') || one.split(' ')[1] in {list(_OF_ANY_MODEL)}"
    known = f"({references_cel('oldObject', kind)}).filter(one, ({_SAME_MODEL}) || {of_any})"
    variables = [
        ("known", f"oldObject == null ? [] : {known}"),
        ("references", f"({references_cel('object', kind)}).filter(one, !(one in variables.known))"),
    ]
    many = Validation(
        f"variables.references.size() <= {MAX_NAMED} || variables.{_PODS}",
        f"'spec: more than {MAX_NAMED} new names of {kind.plural} require the right to create pods in namespace '"
        " + request.namespace + '. Add fewer at a time, or request this right.'",
        is_computed=True,
    )
    checked = [_reference_check(number, kind) for number in range(MAX_NAMED)]
    return _policy(f"{kind.plural}.{POLICY_NAME}", variables, [*checked, many])


def _reference_check(number: int, kind: Kind) -> Validation:
    reference = f"variables.references[{number}].split(' ')"
    _, *on_object = rights_on(kind, "")
    allowed = " || ".join(_authorizer(right, f"{reference}[0]") for right in on_object)
    verbs = " or ".join(right.verb for right in on_object)
    message = (
        f"'spec.' + {reference}[1] + ': the {kind.name} ' + {reference}[0] + ' requires the right to create pods, or"
        f" the verb {verbs} on it, in namespace ' + request.namespace + '. Use another one, or request one of these"
        " rights.'"
    )
    return Validation(
        f"variables.references.size() <= {number} || variables.{_PODS} || {allowed}", message, is_computed=True
    )


def _escaped(pattern: str) -> str:
    """A regular expression inside a CEL string in single quotes."""
    return pattern.replace("\\", "\\\\")
