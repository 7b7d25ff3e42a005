"""Generates the ValidatingAdmissionPolicies that bind the operator's own ServiceAccount.

RBAC grants verbs on kinds. Whoever may create any Deployment can read every Secret and become root on every node. These
policies narrow the same rights to what the operator does: objects of InferenceDeployments, with pods of the Pod
Security Standards' level restricted. They match no request of anybody else.

A policy sees one object. It cannot look up whether an owner exists.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from inference_operator.manifest import (
    CHILD_KINDS,
    DEPLOYMENT,
    GROUP,
    INFERENCE_DEPLOYMENT,
    JOB,
    KIND,
    NETWORK_POLICY,
    OPTIONAL_KINDS,
    POD,
    Kind,
    Manifest,
)
from inference_operator.objects.child import RETAIN_ANNOTATION
from inference_operator.objects.names import COMPONENT_LABEL, MANAGED_BY_LABEL, MANAGER, NAME_LABEL

ACCOUNTS_ANNOTATION = f"{GROUP}/service-accounts"
"""Annotation of a namespace: more ServiceAccounts that the operator may give to pods there, separated by commas. The
operator has no right to write namespaces."""

SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
"""Namespaces of Kubernetes itself (documentation of 1.36, Namespaces, "Initial namespaces")."""

GUARDED_KINDS = (*CHILD_KINDS, *OPTIONAL_KINDS, NETWORK_POLICY)
"""Every kind of child object."""

VOLUMES = ("configMap", "emptyDir", "image", "persistentVolumeClaim", "secret")
"""The types of volumes that the operator uses. All are of the level restricted. `projected` is not among them: it can
contain a token of the pod's ServiceAccount."""

REPORTING_CONTROLLER = f"{GROUP}/{MANAGER}"
"""`reportingController` of the operator's Events."""

_LEASE = Kind("coordination.k8s.io/v1", "Lease")
_EVENT = Kind("events.k8s.io/v1", "Event")
_EVERY_WRITE = ("CREATE", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class OperatorAccount:
    """An operator: its names, and the ServiceAccounts that its settings name.

    Examples:
        >>> OperatorAccount("inference", "models").user
        'system:serviceaccount:inference:models'
    """

    namespace: str
    """Namespace of the operator, its ServiceAccount and its Lease."""
    name: str
    """Name of its Lease. The policies are named after it too, so that those of two operators differ."""
    account: str = ""
    """Name of its ServiceAccount; empty: the same."""
    pod_accounts: tuple[str, ...] = ()
    """ServiceAccounts that its settings name for pods."""

    @property
    def user(self) -> str:
        """The user name of requests with the account's token."""
        return f"system:serviceaccount:{self.namespace}:{self.account or self.name}"


@dataclass(frozen=True, slots=True)
class _Check:
    """One validation: a CEL expression that must be true, and the message otherwise."""

    expression: str
    message: str

    @property
    def manifest(self) -> Manifest:
        return {"expression": self.expression, "message": self.message, "reason": "Forbidden"}


@dataclass(frozen=True, slots=True)
class _Policy:
    """A policy about some kinds, before it is bound to an account."""

    part: str
    """The first part of its name."""
    resources: Sequence[tuple[Kind, str]]
    """Kinds, with the plural of each, or of its subresource."""
    operations: Sequence[str]
    checks: Sequence[_Check]
    variables: Sequence[tuple[str, str]] = ()


def label(root: str, key: str) -> str:
    """The CEL expression for the value of a label; empty if there is none.

    Examples:
        >>> label("object", "tier")
        "object.metadata.?labels[?'tier'].orValue('')"
    """
    return f"{root}.metadata.?labels[?'{key}'].orValue('')"


def _one_of(value: str, allowed: Iterable[str]) -> str:
    return f"{value} in {list(allowed)}"


def _controlled(root: str, *, also: str = "") -> str:
    """The CEL expression for whether an InferenceDeployment is the controller of an object."""
    return (
        f"{root}.metadata.?ownerReferences.orValue([]).exists(owner, owner.?controller.orValue(false)"
        f" && owner.kind == '{KIND}' && owner.apiVersion.startsWith('{GROUP}/'){also})"
    )


_OUR_LABELS = (
    f"{label('object', MANAGED_BY_LABEL)} == '{MANAGER}' && {label('object', COMPONENT_LABEL)} != ''"
    f" && {label('object', NAME_LABEL)} != ''"
)
_OUR_OWNER = _controlled("object", also=f" && owner.name == {label('object', NAME_LABEL)}")
_RETAINED = (
    "(request.resource.resource == 'persistentvolumeclaims' && object.metadata.?ownerReferences.orValue([]).size() == 0"
    f" && object.metadata.?annotations[?'{RETAIN_ANNOTATION}'].orValue('') == 'true')"
)
_NOT_OF_KUBERNETES = _Check(
    f"!({_one_of('request.namespace', SYSTEM_NAMESPACES)})",
    f"The operator may not write to namespaces of Kubernetes itself ({', '.join(SYSTEM_NAMESPACES)}). Create the"
    f" {KIND} in another namespace.",
)


def _children() -> _Policy:
    """What the operator creates belongs to an InferenceDeployment, and so did what it changes or deletes."""
    return _Policy(
        "children",
        [(kind, kind.plural) for kind in GUARDED_KINDS],
        _EVERY_WRITE,
        [
            _NOT_OF_KUBERNETES,
            _Check(
                f"object == null || ({_OUR_LABELS})",
                f"The operator may write only objects with its labels {MANAGED_BY_LABEL}, {COMPONENT_LABEL} and"
                f" {NAME_LABEL}.",
            ),
            _Check(
                f"object == null || {_OUR_OWNER} || {_RETAINED}",
                f"The operator may write only objects whose controller is the {KIND} that their label {NAME_LABEL}"
                f" names, and claims without an owner that have the annotation {RETAIN_ANNOTATION}.",
            ),
            _Check(
                f"oldObject == null || {label('oldObject', MANAGED_BY_LABEL)} == '{MANAGER}'"
                f" || {_controlled('oldObject')}",
                "The operator may change and delete only objects that it made. This one has neither its label"
                f" {MANAGED_BY_LABEL} nor an {KIND} as controller. Rename or delete the object.",
            ),
        ],
    )


_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("lifecycle.?postStart", "lifecycle.?preStop")
_HOST_FIELDS = tuple(f"{part}.?{way}.?host" for part in (*_PROBES, *_HOOKS) for way in ("httpGet", "tcpSocket"))
_OWN_CONFINEMENT = ("seLinuxOptions", "appArmorProfile", "windowsOptions")
_SECCOMP = "['RuntimeDefault', 'Localhost']"
_DEPRECATED_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _every_container(expression: str) -> str:
    return f"variables.containers.all(c, {expression})"


def _confinement_checks() -> Iterator[_Check]:
    """What a pod may share with its node, and what it may change of its confinement."""
    host = ("hostNetwork", "hostPID", "hostIPC")
    yield _Check(
        " && ".join(f"!variables.pod.?{field}.orValue(false)" for field in host),
        f"A pod of the operator may not set {', '.join(host)}.",
    )
    volumes = " || ".join(f"has(v.{kind})" for kind in VOLUMES)
    yield _Check(
        f"variables.pod.?volumes.orValue([]).all(v, {volumes})",
        f"A pod of the operator may have only volumes of the types {', '.join(VOLUMES)}.",
    )
    yield _Check(
        _every_container("c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"),
        "A container of the operator may not use a port of its node (hostPort).",
    )
    yield _Check(
        _every_container(" && ".join(f"c.?{field}.orValue('') == ''" for field in _HOST_FIELDS)),
        "A probe or lifecycle hook of the operator may not name a host.",
    )
    own = [f"!variables.pod.?securityContext.?{field}.hasValue()" for field in _OWN_CONFINEMENT]
    each = " && ".join(f"!c.?securityContext.?{field}.hasValue()" for field in _OWN_CONFINEMENT)
    own.append("variables.pod.?securityContext.?sysctls.orValue([]).size() == 0")
    annotations = "object.spec.template.?metadata.?annotations.orValue({})"
    own.append(f"!{annotations}.exists(key, key.startsWith('{_DEPRECATED_APP_ARMOR}'))")
    yield _Check(
        f"{' && '.join(own)} && {_every_container(each)}",
        "A pod of the operator may not set sysctls, seLinuxOptions, appArmorProfile or windowsOptions.",
    )
    yield _Check(
        _every_container("c.?securityContext.?procMount.orValue('Default') == 'Default'"),
        "A container of the operator may not set procMount.",
    )


def _privilege_checks() -> Iterator[_Check]:
    """What a container may be, and as whom it runs."""
    yield _Check(
        _every_container(
            "!c.?securityContext.?privileged.orValue(false)"
            " && !c.?securityContext.?allowPrivilegeEscalation.orValue(true)"
        ),
        "A container of the operator must set allowPrivilegeEscalation: false, and may not be privileged.",
    )
    added = "c.?securityContext.?capabilities.?add.orValue([]).all(name, name == 'NET_BIND_SERVICE')"
    dropped = "c.?securityContext.?capabilities.?drop.orValue([]).exists(name, name == 'ALL')"
    yield _Check(
        _every_container(f"{dropped} && {added}"),
        "A container of the operator must drop ALL capabilities, and may add only NET_BIND_SERVICE.",
    )
    yield _Check(
        _every_container("c.?securityContext.?runAsNonRoot.orValue(variables.nonRoot)"),
        "A container of the operator must run with runAsNonRoot: true.",
    )
    yield _Check(
        "variables.pod.?securityContext.?runAsUser.orValue(1) != 0"
        f" && {_every_container('c.?securityContext.?runAsUser.orValue(1) != 0')}",
        "A container of the operator may not run as user 0.",
    )
    yield _Check(
        _every_container(f"c.?securityContext.?seccompProfile.?type.orValue(variables.seccomp) in {_SECCOMP}"),
        "A container of the operator must have the seccomp profile RuntimeDefault or Localhost.",
    )
    yield _Check(
        "!variables.pod.?automountServiceAccountToken.orValue(true)",
        "A pod of the operator must set automountServiceAccountToken: false.",
    )


def _templates(operator: OperatorAccount) -> _Policy:
    """Pod templates have the level restricted (Kubernetes 1.36, pod-security-admission/policy) and get no token."""
    return _Policy(
        "templates",
        [(kind, kind.plural) for kind in (DEPLOYMENT, JOB)],
        ("CREATE", "UPDATE"),
        [*_confinement_checks(), *_privilege_checks(), _account_check(operator)],
        [
            ("pod", "object.spec.template.spec"),
            ("containers", "variables.pod.containers + variables.pod.?initContainers.orValue([])"),
            ("nonRoot", "variables.pod.?securityContext.?runAsNonRoot.orValue(false)"),
            ("seccomp", "variables.pod.?securityContext.?seccompProfile.?type.orValue('')"),
        ],
    )


def _account_check(operator: OperatorAccount) -> _Check:
    """A ServiceAccount that neither Kubernetes nor the settings give is one that the namespace names."""
    account, named = "variables.pod.?serviceAccountName.orValue('')", ",".join(operator.pod_accounts)
    allowed = f"namespaceObject.metadata.?annotations[?'{ACCOUNTS_ANNOTATION}'].orValue('').split(',')"
    return _Check(
        f"{account} in ['', 'default'] || {account} in '{named}'.split(',')"
        f" || {allowed}.exists(name, name.trim() == {account})",
        "A pod of the operator may use only the ServiceAccount default, those that the operator's settings name, and"
        f" those in the annotation {ACCOUNTS_ANNOTATION} of its namespace. Add it there, or use another one.",
    )


def _pods() -> _Policy:
    """Pods of the operator's Deployments and Jobs get other labels and annotations, or are deleted."""
    kept = " && ".join(
        f"{label('object', key)} == {label('oldObject', key)}"
        for key in (MANAGED_BY_LABEL, COMPONENT_LABEL, NAME_LABEL)
    )
    owners = ("object.metadata.?ownerReferences.orValue([])", "oldObject.metadata.?ownerReferences.orValue([])")
    return _Policy(
        "pods",
        [(POD, POD.plural)],
        _EVERY_WRITE,
        [
            _NOT_OF_KUBERNETES,
            _Check(
                f"oldObject != null && {label('oldObject', MANAGED_BY_LABEL)} == '{MANAGER}'",
                f"The operator may change and delete only pods with its label {MANAGED_BY_LABEL}, and create none.",
            ),
            _Check(
                f"object == null || (object.spec == oldObject.spec && {kept} && {owners[0]} == {owners[1]})",
                "The operator may change only labels and annotations of a pod: not its specification, its owner or"
                f" the labels {MANAGED_BY_LABEL}, {COMPONENT_LABEL} and {NAME_LABEL}.",
            ),
        ],
    )


def _leases(operator: OperatorAccount) -> _Policy:
    """The Lease of the leader election is the only one."""
    return _Policy(
        "leases",
        [(_LEASE, _LEASE.plural)],
        _EVERY_WRITE,
        [
            _Check(
                f"object != null && object.metadata.name == '{operator.name}'"
                f" && object.metadata.namespace == '{operator.namespace}'",
                f"The operator may write only its own Lease, {operator.namespace}/{operator.name}.",
            )
        ],
    )


def _own_event(root: str) -> str:
    return (
        f"{root}.?reportingController.orValue('') == '{REPORTING_CONTROLLER}'"
        f" && {root}.?regarding.?kind.orValue('') == '{KIND}'"
        f" && {root}.?regarding.?apiVersion.orValue('').startsWith('{GROUP}/')"
    )


def _events() -> _Policy:
    """Events are the operator's own, about InferenceDeployments."""
    return _Policy(
        "events",
        [(_EVENT, _EVENT.plural)],
        _EVERY_WRITE,
        [
            _Check(
                f"object != null && {_own_event('object')} && (oldObject == null || ({_own_event('oldObject')}))",
                f"The operator may write only Events of its own ({REPORTING_CONTROLLER}) about an {KIND}.",
            )
        ],
    )


def _resources() -> _Policy:
    """Of an InferenceDeployment the operator writes the status."""
    plural = INFERENCE_DEPLOYMENT.plural
    return _Policy(
        "resources",
        [(INFERENCE_DEPLOYMENT, plural), (INFERENCE_DEPLOYMENT, f"{plural}/*")],
        _EVERY_WRITE,
        [
            _Check(
                "request.?subResource.orValue('') == 'status'",
                f"The operator may write only the status of an {KIND}.",
            )
        ],
    )


def operator_policies(operator: OperatorAccount) -> list[Manifest]:
    """The policies of an operator's account with their bindings, for the whole cluster.

    Examples:
        >>> [one["metadata"]["name"] for one in operator_policies(OperatorAccount("inference", "models"))][:2]
        ['children.inference.models', 'children.inference.models']
    """
    policies = (
        _children(),
        _templates(operator),
        _pods(),
        _leases(operator),
        _events(),
        _resources(),
    )
    return [manifest for policy in policies for manifest in _manifests(policy, operator)]


def _manifests(policy: _Policy, operator: OperatorAccount) -> Iterator[Manifest]:
    version, name = "admissionregistration.k8s.io/v1", f"{policy.part}.{operator.namespace}.{operator.name}"
    condition = ("operator", f"request.userInfo.username == '{operator.user}'")
    yield {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [_rule(*one, policy.operations) for one in policy.resources]},
            "matchConditions": _named([condition]),
            **({"variables": _named(policy.variables)} if policy.variables else {}),
            "validations": [check.manifest for check in policy.checks],
        },
    }
    yield {
        "apiVersion": version,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


def _named(expressions: Iterable[tuple[str, str]]) -> list[Manifest]:
    return [{"name": name, "expression": expression} for name, expression in expressions]


def _rule(kind: Kind, resource: str, operations: Sequence[str]) -> Manifest:
    group, _, version = kind.api_version.rpartition("/")
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [resource],
    }
