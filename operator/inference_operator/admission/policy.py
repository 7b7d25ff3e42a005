"""A ValidatingAdmissionPolicy with its binding, as all generators of this package write it."""

from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.manifest import Kind, Manifest

_API_VERSION = "admissionregistration.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class Validation:
    expression: str
    message: str
    """A CEL expression too."""

    @property
    def manifest(self) -> Manifest:
        return {"expression": self.expression, "messageExpression": self.message, "reason": "Forbidden"}


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
    """A policy about who writes the resources of a kind, in the whole cluster. It fails closed."""

    name: str
    kind: Kind
    validations: Sequence[Validation]
    variables: Sequence[tuple[str, str]] = ()
    """Names and CEL expressions that the validations use. Each is evaluated once."""
    parameters: Parameters | None = None

    @property
    def manifests(self) -> list[Manifest]:
        """The policy and its binding."""
        variables = [{"name": name, "expression": expression} for name, expression in self.variables]
        read = self.parameters.kind if self.parameters else None
        policy = {
            "failurePolicy": "Fail",
            **({"paramKind": {"apiVersion": read.api_version, "kind": read.name}} if read else {}),
            "matchConstraints": {"resourceRules": [self._rule]},
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

    @property
    def _rule(self) -> Manifest:
        """The API server checks types only for a named version."""
        group, _, version = self.kind.api_version.rpartition("/")
        operations, resources = ["CREATE", "UPDATE"], [self.kind.plural]
        return {"apiGroups": [group], "apiVersions": [version], "operations": operations, "resources": resources}

    def _manifest(self, kind: str, spec: Manifest) -> Manifest:
        return {"apiVersion": _API_VERSION, "kind": kind, "metadata": {"name": self.name}, "spec": spec}
