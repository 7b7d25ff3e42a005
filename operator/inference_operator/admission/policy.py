"""A ValidatingAdmissionPolicy with its binding, as all generators of this package write it."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.manifest import Kind, Manifest

_API_VERSION = "admissionregistration.k8s.io/v1"
WRITES = ("CREATE", "UPDATE")


@dataclass(frozen=True, slots=True)
class Validation:
    expression: str
    message: str
    is_computed: bool = False
    """Whether the message is a CEL expression too."""

    @property
    def manifest(self) -> Manifest:
        message = "messageExpression" if self.is_computed else "message"
        return {"expression": self.expression, message: self.message, "reason": "Forbidden"}


@dataclass(frozen=True, slots=True)
class Parameters:
    """The object that the expressions of a policy read as `params`.

    Without it the policy decides nothing. API servers see a new object some seconds after a new policy, and GitOps may
    replace it: nobody's edit should fail by that. The operator decides by the same rules from its own settings.
    """

    kind: Kind
    namespace: str
    name: str

    @property
    def reference(self) -> Manifest:
        return {"name": self.name, "namespace": self.namespace, "parameterNotFoundAction": "Allow"}


@dataclass(frozen=True, slots=True)
class Policy:
    """A policy for the whole cluster. It fails closed."""

    name: str
    resources: Sequence[tuple[Kind, str]]
    """Kinds, with the plural of each, or of its subresource. The API server checks types only for named versions."""
    operations: Sequence[str]
    validations: Sequence[Validation]
    variables: Sequence[tuple[str, str]] = ()
    """Names and CEL expressions that the validations use. Each is evaluated once."""
    parameters: Parameters | None = None

    @property
    def manifests(self) -> list[Manifest]:
        """The policy and its binding."""
        rules = [_rule(kind, resource, self.operations) for kind, resource in self.resources]
        variables = [{"name": name, "expression": expression} for name, expression in self.variables]
        kind = self.parameters.kind if self.parameters else None
        policy = {
            "failurePolicy": "Fail",
            **({"paramKind": {"apiVersion": kind.api_version, "kind": kind.name}} if kind else {}),
            "matchConstraints": {"resourceRules": rules},
            **({"variables": variables} if variables else {}),
            "validations": [validation.manifest for validation in self.validations],
        }
        binding = {
            "policyName": self.name,
            "validationActions": ["Deny"],
            **({"paramRef": self.parameters.reference} if self.parameters else {}),
        }
        return [
            self._manifest("ValidatingAdmissionPolicy", policy),
            self._manifest("ValidatingAdmissionPolicyBinding", binding),
        ]

    def _manifest(self, kind: str, spec: Manifest) -> Manifest:
        return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": self.name}, "spec": spec}


def _rule(kind: Kind, resource: str, operations: Sequence[str]) -> Manifest:
    group, _, version = kind.api_version.rpartition("/")
    return {"apiGroups": [group], "apiVersions": [version], "operations": list(operations), "resources": [resource]}
