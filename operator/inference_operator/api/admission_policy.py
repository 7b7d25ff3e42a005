"""Generates the ValidatingAdmissionPolicy that stops users from gaining rights through the operator.

A user who may create pods in a namespace may read its Secrets through them. The operator creates pods for users who
may create InferenceDeployments. The policy therefore requires the user's own rights on pods and Secrets for the fields
that need them. Fields that become a Service, Ingress or HTTPRoute require the right to create one.

A field is checked when it is added or changed, not when it is removed. The policy applies to the resource itself, not
to its subresources status and `/scale`. The operator never writes the resource itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from inference_operator.api.pod_template import MAX_SIDECARS
from inference_operator.manifest import GPU_RESOURCE, GROUP, PLURAL, Manifest

POLICY_NAME = f"{PLURAL}.{GROUP}"

NEEDS_PODS: tuple[str, ...] = (
    "engine.image",
    "engine.env",
    "podTemplate",
    "scheduling.tolerations",
    "scheduling.priorityClassName",
    "scheduling.runtimeClassName",
    "scheduling.schedulerName",
    "router.podTemplate",
    "router.tls",
    "router.scheduling.tolerations",
    "router.scheduling.priorityClassName",
    "router.scheduling.runtimeClassName",
    "router.scheduling.schedulerName",
)
"""Fields below `spec` that decide what runs in a pod, or on which reserved nodes and with which priority. Setting them
requires the right to create pods."""

NEEDS_RESOURCES: tuple[tuple[str, str, str], ...] = (
    ("router.service", "", "services"),
    ("router.ingress", "networking.k8s.io", "ingresses"),
    ("router.httpRoute", "gateway.networking.k8s.io", "httproutes"),
    ("cache.size", "", "persistentvolumeclaims"),
)
"""Fields below `spec` that become an object of a kind, with its API group and plural. Setting them requires the right
to create such objects: their type and annotations decide what is published, and what controllers do."""

AMOUNTS: tuple[str, ...] = ("engine.resources.requests", "engine.resources.limits")
"""Maps of resource amounts below `spec`. An extended resource in them, such as a device of the node, requires the right
to create pods; sizing computes the GPUs."""

GPU_RESOURCE_NAME = "hardware.gpu.resourceName"
"""The extended resource of the GPUs. One outside the domain of `GPU_RESOURCE` requires the right to create pods."""

CLAIM_VERB = "use"
"""The verb on a PersistentVolumeClaim that allows to serve a model from it without the right to create pods. Kubernetes
has no such verb of its own: `get` shows only the object, and is in the role `view`."""

ENVIRONMENTS: tuple[str, ...] = (
    "engine.env",
    *(f"{part}.sidecars[{n}].env" for part in ("podTemplate", "router.podTemplate") for n in range(MAX_SIDECARS)),
)
"""Lists of environment variables below `spec`. Referring to a Secret in them requires the right to get it."""

MAX_SECRETS = 16
"""Secrets that are checked by name, each in its own expression. The cost budget allows two authorizer checks in an
expression and 28 in a policy (Kubernetes 1.36, apiserver, pkg/cel/library/cost.go and pkg/apis/cel/config.go)."""

SECRET_NAMES: tuple[str, ...] = ("router.keys.secretName",)
"""Fields below `spec` that name a Secret. They require the right to get it too."""

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
    """The CEL expression for the names of all Secrets in environment variables and fields."""
    variables = " + ".join(f"{value_of(root, path)}.orValue([])" for path in ENVIRONMENTS)
    fields = " + ".join(f"{value_of(root, path)}.optMap(name, [name]).orValue([])" for path in SECRET_NAMES)
    return (
        f"(({variables}).filter(v, has(v.valueFrom) && has(v.valueFrom.secretKeyRef))"
        f".map(v, v.valueFrom.secretKeyRef.name) + {fields})"
    )


def _variables() -> Iterator[Manifest]:
    yield {
        "name": _PODS,
        "expression": "authorizer.group('').resource('pods').namespace(request.namespace).check('create').allowed()",
    }
    yield {"name": "claim", "expression": _claim("object")}
    yield {"name": "knownClaim", "expression": f"oldObject == null ? '' : ({_claim('oldObject')})"}
    yield {"name": "known", "expression": f"oldObject == null ? [] : {_secrets('oldObject')}"}
    yield {"name": "secrets", "expression": f"{_secrets('object')}.filter(name, !(name in variables.known))"}


def _field_check(path: str) -> _Check:
    new, old = value_of("object", path), value_of("oldObject", path)
    return _Check(
        f"!{new}.hasValue() || (oldObject != null && {new} == {old}) || variables.{_PODS}",
        f"'spec.{path}: requires the right to create pods in namespace ' + request.namespace + '. Remove the field, or"
        " request this right.'",
    )


def _resource_check(path: str, group: str, plural: str) -> _Check:
    new, old = value_of("object", path), value_of("oldObject", path)
    allowed = f"authorizer.group('{group}').resource('{plural}').namespace(request.namespace).check('create').allowed()"
    return _Check(
        f"!{new}.hasValue() || (oldObject != null && {new} == {old}) || {allowed}",
        f"'spec.{path}: requires the right to create {plural} in namespace ' + request.namespace + '. Remove the"
        " field, or request this right.'",
    )


def _amount_check(path: str) -> _Check:
    new, old = (f"{value_of(root, path)}.orValue({{}})" for root in ("object", "oldObject"))
    changed = f"(oldObject == null || !(name in {old}) || {old}[name] != {new}[name])"
    return _Check(
        f"!{new}.exists(name, name.contains('/') && {changed}) || variables.{_PODS}",
        f"'spec.{path}: extended resources require the right to create pods in namespace ' + request.namespace"
        " + '. Remove them, or request this right.'",
    )


def _gpu_resource_check() -> _Check:
    new, old = value_of("object", GPU_RESOURCE_NAME), value_of("oldObject", GPU_RESOURCE_NAME)
    domain = GPU_RESOURCE.partition("/")[0]
    return _Check(
        f"{new}.orValue('{GPU_RESOURCE}').startsWith('{domain}/') || (oldObject != null && {new} == {old})"
        f" || variables.{_PODS}",
        f"'spec.{GPU_RESOURCE_NAME}: a resource outside {domain}/ requires the right to create pods in namespace '"
        " + request.namespace + '. Use another resource, or request this right.'",
    )


def _claim(root: str) -> str:
    """The CEL expression for the claim that the model is read from, or downloaded to; empty without one."""
    source = f"{value_of(root, 'model.source')}.orValue('')"
    cache = f"{value_of(root, 'cache.pvc')}.orValue('')"
    return f"{source}.startsWith('pvc://') ? {source}.substring(6).split('/')[0] : {cache}"


def _claim_check() -> _Check:
    claims = "authorizer.group('').resource('persistentvolumeclaims').namespace(request.namespace)"
    return _Check(
        f"variables.claim == '' || variables.claim == variables.knownClaim || variables.{_PODS}"
        f" || {claims}.name(variables.claim).check('{CLAIM_VERB}').allowed()",
        "'spec: the claim ' + variables.claim + ' requires the right to create pods, or the verb"
        f" {CLAIM_VERB} on this PersistentVolumeClaim, in namespace ' + request.namespace + '. Use another one,"
        " or request one of these rights.'",
    )


def _secret_check(index: int) -> _Check:
    name = f"variables.secrets[{index}]"
    return _Check(
        f"variables.secrets.size() <= {index} || variables.secrets.size() > {MAX_SECRETS}"
        f" || {_READING}.name({name}).check('get').allowed()",
        f"'spec: the Secret ' + {name} + ' requires the right to get this Secret in namespace ' + request.namespace"
        " + '. Use another Secret, or request this right.'",
    )


def _many_secrets() -> _Check:
    return _Check(
        f"variables.secrets.size() <= {MAX_SECRETS} || {_READING}.check('get').allowed()",
        f"'spec: more than {MAX_SECRETS} new Secrets require the right to get all Secrets in namespace '"
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
        *(_resource_check(*needed) for needed in NEEDS_RESOURCES),
        *map(_amount_check, AMOUNTS),
        _gpu_resource_check(),
        _claim_check(),
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
