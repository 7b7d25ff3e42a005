"""Generates the ValidatingAdmissionPolicies that bind the operator's own ServiceAccount.

RBAC grants verbs on kinds. Whoever may create any Deployment can read every Secret and become root on every node. These
policies narrow the same rights to what the operator does: objects of InferenceDeployments, with pods of the Pod
Security Standards' level restricted; in a group, the engine may also lock memory. They match no request of anybody
else.

A policy sees one object. It cannot look up whether an owner exists.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from inference_operator.admission.pod_security import VARIABLES, confinement, memory_lock, privileges
from inference_operator.admission.policy import EVERY_WRITE, WRITES, Policy, Validation
from inference_operator.manifest import (
    CHILD_KINDS,
    DEPLOYMENT,
    GROUP,
    HORIZONTAL_POD_AUTOSCALER,
    INFERENCE_DEPLOYMENT,
    JOB,
    KIND,
    NETWORK_POLICY,
    OPTIONAL_KINDS,
    POD,
    SCALED_OBJECT,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
)
from inference_operator.objects.child import RETAIN_ANNOTATION
from inference_operator.objects.engine_key import KEY_TYPE
from inference_operator.objects.names import COMPONENT_LABEL, MANAGED_BY_LABEL, MANAGER, NAME_LABEL

ACCOUNTS_ANNOTATION = f"{GROUP}/service-accounts"
"""Annotation of a namespace: more ServiceAccounts that the operator may give to pods there, separated by commas. The
operator has no right to write namespaces."""

SYSTEM_NAMESPACES = ("kube-node-lease", "kube-public", "kube-system")
"""Namespaces of Kubernetes itself (documentation of 1.36, Namespaces, "Initial namespaces")."""

GUARDED_KINDS = (*CHILD_KINDS, *OPTIONAL_KINDS, NETWORK_POLICY)
"""Every kind of child object."""

REPORTING_CONTROLLER = f"{GROUP}/{MANAGER}"
"""`reportingController` of the operator's Events."""

_LEASE = Kind("coordination.k8s.io/v1", "Lease")
_EVENT = Kind("events.k8s.io/v1", "Event")


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
_NOT_OF_KUBERNETES = Validation(
    f"!({_one_of('request.namespace', SYSTEM_NAMESPACES)})",
    f"The operator may not write to namespaces of Kubernetes itself ({', '.join(SYSTEM_NAMESPACES)}). Create the"
    f" {KIND} in another namespace.",
)


def _children() -> Policy:
    """What the operator creates belongs to an InferenceDeployment, and so did what it changes or deletes."""
    return Policy(
        "children",
        [(kind, kind.plural) for kind in GUARDED_KINDS],
        EVERY_WRITE,
        [
            _NOT_OF_KUBERNETES,
            Validation(
                f"object == null || ({_OUR_LABELS})",
                f"The operator may write only objects with its labels {MANAGED_BY_LABEL}, {COMPONENT_LABEL} and"
                f" {NAME_LABEL}.",
            ),
            Validation(
                f"object == null || {_OUR_OWNER} || {_RETAINED}",
                f"The operator may write only objects whose controller is the {KIND} that their label {NAME_LABEL}"
                f" names, and claims without an owner that have the annotation {RETAIN_ANNOTATION}.",
            ),
            Validation(
                f"oldObject == null || {label('oldObject', MANAGED_BY_LABEL)} == '{MANAGER}'"
                f" || {_controlled('oldObject')}",
                "The operator may change and delete only objects that it made. This one has neither its label"
                f" {MANAGED_BY_LABEL} nor an {KIND} as controller. Rename or delete the object.",
            ),
        ],
    )


def _secrets() -> Policy:
    """Of Secrets the operator creates those with keys of engines. Controllers fill other types, with tokens."""
    return Policy(
        "secrets",
        [(SECRET, SECRET.plural)],
        EVERY_WRITE,
        [
            _NOT_OF_KUBERNETES,
            Validation(
                f"oldObject == null && object.?type.orValue('') == '{KEY_TYPE}' && ({_OUR_LABELS}) && {_OUR_OWNER}",
                f"The operator may only create Secrets of the type {KEY_TYPE}, with its labels and the {KIND} as"
                " controller that they name, and change or delete none.",
            ),
        ],
    )


_UNLABELED = f"{label('object', NAME_LABEL)} == ''"  # which the policy of children refuses
_SELECTED = Validation(
    f"{_UNLABELED} || (request.resource.resource == 'jobs' ? !dyn(object).spec.?manualSelector.orValue(false) :"
    f" dyn(object).spec.?selector.?matchLabels[?'{NAME_LABEL}'].orValue('') == {label('object', NAME_LABEL)})",
    f"A Deployment or StatefulSet of the operator must select pods by the label {NAME_LABEL}, and a Job may not have a"
    " manualSelector: else it would adopt pods of others.",
)


def _autoscalers() -> Policy:
    """Autoscalers scale their own InferenceDeployment. KEDA reads no Secret and no variable of a pod for them."""
    target = "dyn(object).spec.scaleTargetRef"  # dyn: the two kinds have different fields
    return Policy(
        "autoscalers",
        [(kind, kind.plural) for kind in (HORIZONTAL_POD_AUTOSCALER, SCALED_OBJECT)],
        WRITES,
        [
            Validation(
                f"{_UNLABELED} || {target}.?kind.orValue('') == '{KIND}'"
                f" && {target}.?apiVersion.orValue('').startsWith('{GROUP}/')"
                f" && {target}.name == {label('object', NAME_LABEL)}",
                f"An autoscaler of the operator may scale only the {KIND} that its label {NAME_LABEL} names.",
            ),
            Validation(
                "dyn(object).spec.?triggers.orValue([]).all(t, t.type in ['prometheus', 'cron']"
                " && !has(t.authenticationRef) && t.metadata.all(key, !key.endsWith('FromEnv')))",
                "A ScaledObject of the operator may have only triggers of the types prometheus and cron, which read no"
                " Secret and no variable.",
            ),
        ],
    )


def _services() -> Policy:
    """Services of the operator select pods. They take no traffic of other addresses."""
    return Policy(
        "services",
        [(SERVICE, SERVICE.plural)],
        WRITES,
        [
            Validation(
                "object.spec.?externalIPs.orValue([]).size() == 0 && object.spec.?type.orValue('') != 'ExternalName'",
                "A Service of the operator may have no externalIPs, and not the type ExternalName.",
            )
        ],
    )


def _templates(operator: OperatorAccount) -> Policy:
    """Pod templates have the level restricted (Kubernetes 1.36, pod-security-admission/policy) and get no token."""
    return Policy(
        "templates",
        [(kind, kind.plural) for kind in (DEPLOYMENT, STATEFUL_SET, JOB)],
        WRITES,
        [*confinement(), *privileges(), *memory_lock(), _account_check(operator), _SELECTED],
        VARIABLES,
    )


def _account_check(operator: OperatorAccount) -> Validation:
    """A ServiceAccount that neither Kubernetes nor the settings give is one that the namespace names."""
    account, named = "variables.pod.?serviceAccountName.orValue('')", ",".join(operator.pod_accounts)
    allowed = f"namespaceObject.metadata.?annotations[?'{ACCOUNTS_ANNOTATION}'].orValue('').split(',')"
    return Validation(
        f"{account} in ['', 'default'] || {account} in '{named}'.split(',')"
        f" || {allowed}.exists(name, name.trim() == {account})",
        "A pod of the operator may use only the ServiceAccount default, those that the operator's settings name, and"
        f" those in the annotation {ACCOUNTS_ANNOTATION} of its namespace. Add it there, or use another one.",
    )


def _pods() -> Policy:
    """Pods of the operator's workloads and Jobs get other labels and annotations, or are deleted."""
    kept = " && ".join(
        f"{label('object', key)} == {label('oldObject', key)}"
        for key in (MANAGED_BY_LABEL, COMPONENT_LABEL, NAME_LABEL)
    )
    unchanged = " && ".join(
        f"object.metadata.?{field}.orValue([]) == oldObject.metadata.?{field}.orValue([])"
        for field in ("ownerReferences", "finalizers")
    )
    return Policy(
        "pods",
        [(POD, POD.plural)],
        EVERY_WRITE,
        [
            _NOT_OF_KUBERNETES,
            Validation(
                f"oldObject != null && {label('oldObject', MANAGED_BY_LABEL)} == '{MANAGER}'",
                f"The operator may change and delete only pods with its label {MANAGED_BY_LABEL}, and create none.",
            ),
            Validation(
                f"object == null || (object.spec == oldObject.spec && {kept} && {unchanged})",
                "The operator may change only labels and annotations of a pod: not its specification, its owner, its"
                f" finalizers or the labels {MANAGED_BY_LABEL}, {COMPONENT_LABEL} and {NAME_LABEL}.",
            ),
        ],
    )


def _leases(operator: OperatorAccount) -> Policy:
    """The Lease of the leader election is the only one."""
    return Policy(
        "leases",
        [(_LEASE, _LEASE.plural)],
        EVERY_WRITE,
        [
            Validation(
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


def _events() -> Policy:
    """Events are the operator's own, about InferenceDeployments."""
    return Policy(
        "events",
        [(_EVENT, _EVENT.plural)],
        EVERY_WRITE,
        [
            Validation(
                f"object != null && {_own_event('object')} && (oldObject == null || ({_own_event('oldObject')}))",
                f"The operator may write only Events of its own ({REPORTING_CONTROLLER}) about an {KIND}.",
            )
        ],
    )


def _resources() -> Policy:
    plural = INFERENCE_DEPLOYMENT.plural
    return Policy(
        "resources",
        [(INFERENCE_DEPLOYMENT, plural), (INFERENCE_DEPLOYMENT, f"{plural}/*")],
        EVERY_WRITE,
        [
            Validation(
                "request.?subResource.orValue('') == 'status'",
                f"The operator may write only the status of an {KIND}.",
            )
        ],
    )


def operator_policies(operator: OperatorAccount) -> list[Manifest]:
    """The policies of an operator's account with their bindings, for the whole cluster.

    Examples:
        >>> [manifest["metadata"]["name"] for manifest in operator_policies(OperatorAccount("inference", "models"))][:2]
        ['children.inference.models', 'children.inference.models']
    """
    policies = (
        _children(),
        _secrets(),
        _templates(operator),
        _autoscalers(),
        _services(),
        _pods(),
        _leases(operator),
        _events(),
        _resources(),
    )
    return [manifest for policy in policies for manifest in _bound(policy, operator).manifests]


def _bound(policy: Policy, operator: OperatorAccount) -> Policy:
    """The policy for requests of this account only, under a name of its own."""
    condition = ("operator", f"request.userInfo.username == '{operator.user}'")
    name = f"{policy.name}.{operator.namespace}.{operator.name}"
    return replace(policy, name=name, conditions=(condition,))
