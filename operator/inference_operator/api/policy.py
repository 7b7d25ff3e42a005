"""The ValidatingAdmissionPolicy that asks of users what their InferenceDeployment makes the operator do for them.

Whoever may create pods in a namespace may read its Secrets through them. Without this policy, so may whoever may
create InferenceDeployments, because the operator creates pods for them. With it, they get plain ones.

A field is looked at when it is new or changed, never when it is taken away. The policy is about the resource itself:
its status and `/scale` are other resources, and the operator never writes the resource.
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
"""Fields below `spec` by which a user decides what runs in a pod, or takes nodes and ranks that are not for everybody:
they need the right to create pods."""

ENVIRONMENTS: tuple[str, ...] = ("engine.env", *(f"podTemplate.sidecars[{n}].env" for n in range(MAX_SIDECARS)))
"""Lists of environment variables below `spec`, whose Secrets need the right to get them."""

MAX_SECRETS = 16
"""Secrets that are asked about by name, each by an expression of its own: one expression has budget for two questions,
and a policy for 28 (Kubernetes 1.36, apiserver, pkg/cel/library/cost.go and pkg/apis/cel/config.go)."""

_PODS = "mayCreatePods"
_READING = "authorizer.group('').resource('secrets').namespace(request.namespace)"


@dataclass(frozen=True, slots=True)
class _Check:
    """What must hold, and how its failure is told (a message in CEL)."""

    expression: str
    message: str

    @property
    def manifest(self) -> Manifest:
        return {"expression": self.expression, "messageExpression": self.message, "reason": "Forbidden"}


def value_of(root: str, path: str) -> str:
    """A field of an object that may not have it, as an optional value in CEL.

    Examples:
        >>> value_of("object", "podTemplate.sidecars[1].env")
        'object.?spec.?podTemplate.?sidecars[?1].?env'
    """
    return f"{root}.?spec.?" + path.replace(".", ".?").replace("[", "[?")


def _secrets(root: str) -> str:
    """Names of all Secrets that environments take values from."""
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
        f"'spec.{path}: needs the right to create pods in namespace ' + request.namespace + '. Leave it out, or ask for"
        " that right.'",
    )


def _secret_check(index: int) -> _Check:
    name = f"variables.secrets[{index}]"
    return _Check(
        f"variables.secrets.size() <= {index} || variables.secrets.size() > {MAX_SECRETS}"
        f" || {_READING}.name({name}).check('get').allowed()",
        f"'spec: secretKeyRef ' + {name} + ': needs the right to get this Secret in namespace ' + request.namespace"
        " + '. Name another, or ask for that right.'",
    )


def _many_secrets() -> _Check:
    return _Check(
        f"variables.secrets.size() <= {MAX_SECRETS} || {_READING}.check('get').allowed()",
        f"'spec: more than {MAX_SECRETS} new secretKeyRefs need the right to get every Secret in namespace '"
        " + request.namespace + '. Name fewer at a time, or ask for that right.'",
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
