"""Generates the ValidatingAdmissionPolicy that stops users from gaining rights through the operator.

A user who may create pods in a namespace may read its Secrets through them. The operator creates pods for users who
may create InferenceDeployments. The policy therefore requires the user's own rights on pods and Secrets for the fields
that need them.

A field is checked when it is added or changed, not when it is removed. The policy applies to the resource itself, not
to its subresources status and `/scale`. The operator never writes the resource itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.api.pod_template import MAX_SIDECARS
from inference_operator.manifest import GROUP, PLURAL, Manifest

POLICY_NAME = f"{PLURAL}.{GROUP}"

NEEDS_PODS: tuple[str, ...] = (
    "engine.image",
    "engine.env",
    "podTemplate",
    "scheduling.tolerations",
    "scheduling.priorityClassName",
    "scheduling.runtimeClassName",
    "scheduling.schedulerName",
)
"""Fields below `spec` that decide what runs in a pod, or on which reserved nodes and with which priority. Setting them
requires the right to create pods."""

ENVIRONMENTS: tuple[str, ...] = ("engine.env", *(f"podTemplate.sidecars[{n}].env" for n in range(MAX_SIDECARS)))
"""Lists of environment variables below `spec`. Referring to a Secret in them requires the right to get it."""

MAX_SECRETS = 16
"""Secrets that are checked by name, each in its own expression. The cost budget allows two authorizer checks in an
expression and 28 in a policy (Kubernetes 1.36, apiserver, pkg/cel/library/cost.go and pkg/apis/cel/config.go)."""

_PODS = "mayCreatePods"
_READING = "authorizer.group('').resource('secrets').namespace(request.namespace)"


@dataclass(frozen=True, slots=True)
class _Check:
    """One validation: a CEL expression, and the message of its failure as a CEL expression."""

    expression: str
    message: str

    @property
    def manifest(self) -> Manifest:
        return {"expression": self.expression, "messageExpression": self.message, "reason": "Forbidden"}


def value_of(root: str, path: str) -> str:
    """The CEL expression for a field that may be absent, as an optional value.

    Examples:
        >>> value_of("object", "podTemplate.sidecars[1].env")
        'object.?spec.?podTemplate.?sidecars[?1].?env'
    """
    return f"{root}.?spec.?" + path.replace(".", ".?").replace("[", "[?")


def _secrets(root: str) -> str:
    """The CEL expression for the names of all Secrets in environment variables."""
    variables = " + ".join(f"{value_of(root, path)}.orValue([])" for path in ENVIRONMENTS)
    return (
        f"({variables}).filter(v, has(v.valueFrom) && has(v.valueFrom.secretKeyRef))"
        ".map(v, v.valueFrom.secretKeyRef.name)"
    )


def _variables() -> Iterator[Manifest]:
    yield {
        "name": _PODS,
        "expression": "authorizer.group('').resource('pods').namespace(request.namespace).check('create').allowed()",
    }
    yield {"name": "known", "expression": f"oldObject == null ? [] : {_secrets('oldObject')}"}
    yield {"name": "secrets", "expression": f"{_secrets('object')}.filter(name, !(name in variables.known))"}


def _field_check(path: str) -> _Check:
    new, old = value_of("object", path), value_of("oldObject", path)
    return _Check(
        f"!{new}.hasValue() || (oldObject != null && {new} == {old}) || variables.{_PODS}",
        f"'spec.{path}: requires the right to create pods in namespace ' + request.namespace + '. Remove the field, or"
        " request this right.'",
    )


def _secret_check(index: int) -> _Check:
    name = f"variables.secrets[{index}]"
    return _Check(
        f"variables.secrets.size() <= {index} || variables.secrets.size() > {MAX_SECRETS}"
        f" || {_READING}.name({name}).check('get').allowed()",
        f"'spec: secretKeyRef ' + {name} + ': requires the right to get this Secret in namespace ' + request.namespace"
        " + '. Use another Secret, or request this right.'",
    )


def _many_secrets() -> _Check:
    return _Check(
        f"variables.secrets.size() <= {MAX_SECRETS} || {_READING}.check('get').allowed()",
        f"'spec: more than {MAX_SECRETS} new secretKeyRefs require the right to get all Secrets in namespace '"
        " + request.namespace + '. Add fewer at a time, or request this right.'",
    )


def policy() -> list[Manifest]:
    """The policy and its binding, for the whole cluster.

    Examples:
        >>> [manifest["kind"] for manifest in policy()]
        ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding']
    """
    checks = [
        *map(_field_check, NEEDS_PODS),
        *map(_secret_check, range(MAX_SECRETS)),
        _many_secrets(),
    ]
    rule = {"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": [PLURAL]}
    version = "admissionregistration.k8s.io/v1"
    return [
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY_NAME},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "variables": list(_variables()),
                "validations": [check.manifest for check in checks],
            },
        },
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY_NAME},
            "spec": {"policyName": POLICY_NAME, "validationActions": ["Deny"]},
        },
    ]
