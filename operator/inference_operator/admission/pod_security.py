"""The Pod Security Standards' level restricted in CEL, for pod templates of the operator's account.

It has one exception: the engine's container in a group may lock memory.

The level and its fields follow Kubernetes 1.36, pod-security-admission/policy. The expressions read the variables that
`VARIABLES` defines.
"""

from collections.abc import Iterator

from inference_operator.admission.policy import Validation
from inference_operator.manifest import STATEFUL_SET
from inference_operator.objects.names import COMPONENT_LABEL
from inference_operator.objects.pod import MEMORY_LOCK
from inference_operator.views.pod import GROUP_LABEL

VOLUMES = ("configMap", "csi", "emptyDir", "image", "persistentVolumeClaim", "secret")
"""The types of volumes that the operator uses. All are of the level restricted. `projected` is not among them: it can
contain a token of the pod's ServiceAccount."""

_ADDED_CAPABILITIES = "c.?securityContext.?capabilities.?add.orValue([])"

VARIABLES = (
    ("pod", "object.spec.template.spec"),
    ("containers", "variables.pod.containers + variables.pod.?initContainers.orValue([])"),
    (
        "locking",
        f"variables.containers.filter(c, {_ADDED_CAPABILITIES}.exists(name, name == '{MEMORY_LOCK}'))",
    ),
    ("nonRoot", "variables.pod.?securityContext.?runAsNonRoot.orValue(false)"),
    ("seccomp", "variables.pod.?securityContext.?seccompProfile.?type.orValue('')"),
)
"""Names and CEL expressions. A field of a container without a value has that of its pod."""

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HOOKS = ("lifecycle.?postStart", "lifecycle.?preStop")
_HOST_FIELDS = tuple(f"{part}.?{action}.?host" for part in (*_PROBES, *_HOOKS) for action in ("httpGet", "tcpSocket"))
_OWN_CONFINEMENT = ("seLinuxOptions", "appArmorProfile", "windowsOptions")
_SECCOMP = "['RuntimeDefault', 'Localhost']"
_ADDED = ["NET_BIND_SERVICE", MEMORY_LOCK]
_REFUSING_LOCKS = ["baseline", "restricted"]
"""Levels that refuse the capability to lock memory."""
_ENFORCED = "pod-security.kubernetes.io/enforce"
_DEPRECATED_APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _every_container(expression: str) -> str:
    return f"variables.containers.all(c, {expression})"


def confinement() -> Iterator[Validation]:
    """Rules about what a pod may share with its node, and what it may change of its confinement."""
    host = ("hostNetwork", "hostPID", "hostIPC")
    yield Validation(
        " && ".join(f"!variables.pod.?{field}.orValue(false)" for field in host),
        f"A pod of the operator may not set {', '.join(host)}.",
    )
    volumes = " || ".join(f"has(v.{kind})" for kind in VOLUMES)
    yield Validation(
        f"variables.pod.?volumes.orValue([]).all(v, {volumes})",
        f"A pod of the operator may have only volumes of the types {', '.join(VOLUMES)}.",
    )
    yield Validation(
        "variables.pod.?volumes.orValue([]).all(v, !has(v.csi) || v.csi.?readOnly.orValue(false))",
        "A volume of a CSI driver must be read-only in a pod of the operator.",
    )
    yield Validation(
        _every_container("c.?ports.orValue([]).all(p, p.?hostPort.orValue(0) == 0)"),
        "A container of the operator may not use a port of its node (hostPort).",
    )
    yield Validation(
        _every_container(" && ".join(f"c.?{field}.orValue('') == ''" for field in _HOST_FIELDS)),
        "A probe or lifecycle hook of the operator may not name a host.",
    )
    own = [f"!variables.pod.?securityContext.?{field}.hasValue()" for field in _OWN_CONFINEMENT]
    each = " && ".join(f"!c.?securityContext.?{field}.hasValue()" for field in _OWN_CONFINEMENT)
    own.append("variables.pod.?securityContext.?sysctls.orValue([]).size() == 0")
    annotations = "object.spec.template.?metadata.?annotations.orValue({})"
    own.append(f"!{annotations}.exists(key, key.startsWith('{_DEPRECATED_APP_ARMOR}'))")
    yield Validation(
        f"{' && '.join(own)} && {_every_container(each)}",
        "A pod of the operator may not set sysctls, seLinuxOptions, appArmorProfile or windowsOptions.",
    )
    yield Validation(
        _every_container("c.?securityContext.?procMount.orValue('Default') == 'Default'"),
        "A container of the operator may not set procMount.",
    )


def memory_lock() -> Iterator[Validation]:
    """Rules about the capability to lock memory: only for the engine of a group, and where its pods could start.

    Pod Security judges pods, and a StatefulSet tells the refusal only in Events. So a new StatefulSet is refused.
    """
    pods = f"object.spec.template.metadata.?labels[?'{GROUP_LABEL}'].orValue('')"
    engine = f"object.metadata.?labels[?'{COMPONENT_LABEL}'].orValue('')"
    yield Validation(
        f"variables.locking.size() == 0 || request.resource.resource == '{STATEFUL_SET.plural}'"
        f" && {pods} == object.metadata.name && variables.locking.all(c, c.name == {engine})",
        f"Only the engine's container in a {STATEFUL_SET.name} whose name is its pods' label {GROUP_LABEL} may add"
        f" {MEMORY_LOCK}.",
    )
    yield Validation(
        "variables.locking.size() == 0 || request.operation != 'CREATE'"
        f" || !(namespaceObject.metadata.?labels[?'{_ENFORCED}'].orValue('') in {_REFUSING_LOCKS})",
        f"This namespace enforces the Pod Security level {' or '.join(_REFUSING_LOCKS)} (its label {_ENFORCED}), which"
        f" refuses pods with {MEMORY_LOCK}. Remove spec.hardware.network.ipcLock, or use a namespace with the level"
        " privileged.",
    )


def privileges() -> Iterator[Validation]:
    """Rules about the privileges of containers, and the user that they run as."""
    yield Validation(
        _every_container(
            "!c.?securityContext.?privileged.orValue(false)"
            " && !c.?securityContext.?allowPrivilegeEscalation.orValue(true)"
        ),
        "A container of the operator must set allowPrivilegeEscalation: false, and may not be privileged.",
    )
    added = f"{_ADDED_CAPABILITIES}.all(name, name in {_ADDED})"
    dropped = "c.?securityContext.?capabilities.?drop.orValue([]).exists(name, name == 'ALL')"
    yield Validation(
        _every_container(f"{dropped} && {added}"),
        f"A container of the operator must drop ALL capabilities, and may add only {' and '.join(_ADDED)}.",
    )
    yield Validation(
        _every_container("c.?securityContext.?runAsNonRoot.orValue(variables.nonRoot)"),
        "A container of the operator must run with runAsNonRoot: true.",
    )
    yield Validation(
        "variables.pod.?securityContext.?runAsUser.orValue(1) != 0"
        f" && {_every_container('c.?securityContext.?runAsUser.orValue(1) != 0')}",
        "A container of the operator may not run as user 0.",
    )
    yield Validation(
        _every_container(f"c.?securityContext.?seccompProfile.?type.orValue(variables.seccomp) in {_SECCOMP}"),
        "A container of the operator must have the seccomp profile RuntimeDefault or Localhost.",
    )
    yield Validation(
        "!variables.pod.?automountServiceAccountToken.orValue(true)",
        "A pod of the operator must set automountServiceAccountToken: false.",
    )
