"""Cures of a pod or a container that the kubelet does not start, where its message alone decides them."""

import re
from collections.abc import Mapping

from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping, objects

_NO_OBJECT = re.compile(r'^(?P<kind>secret|configmap) "(?P<name>[-.a-z0-9]{1,253})" not found')
_NO_KEY = re.compile(
    r"^couldn't find key (?P<key>[-._a-zA-Z0-9]{1,253}) in (?P<kind>Secret|ConfigMap) "
    r"(?P<namespace>[-a-z0-9]{1,63})/(?P<name>[-.a-z0-9]{1,253})"
)
"""Kubernetes 1.36, pkg/kubelet/kubelet_pods.go, makeEnvironmentVariables, and pkg/api/v1/resource of the API server's
`not found`."""

_SOURCES = {
    "secret": ("secretKeyRef", "Secret", "secret generic"),
    "configmap": ("configMapKeyRef", "ConfigMap", "configmap"),
}
"""The field of a variable that names an object of this kind, the kind, and its words for `kubectl create`."""


def missing_object_cure(pod: Manifest, container: str, message: str) -> str:
    """The command that makes the Secret, ConfigMap or key that a container's variables lack; empty for others."""
    if absent := _NO_KEY.match(message):
        kind, name, key = absent["kind"], absent["name"], absent["key"]
        field = "stringData" if kind == "Secret" else "data"
        change = f'{{"{field}":{{"{key}":"…"}}}}'
        command = f"kubectl patch {kind.lower()} -n {absent['namespace']} {name} -p '{change}'"
        return f"Add the key `{key}` to the {kind}: `{command}`."
    absent = _NO_OBJECT.match(message)
    if absent is None:
        return ""
    field, kind, words = _SOURCES[absent["kind"]]
    keys = _keys(pod, container, field, absent["name"])
    if not keys:
        return f"Create the {kind} `{absent['name']}` in this namespace."
    namespace = mapping(pod, "metadata").get("namespace", "")
    values = " ".join(f"--from-literal={key}=…" for key in keys)
    return f"Create it: `kubectl create {words} -n {namespace} {absent['name']} {values}`."


def _keys(pod: Manifest, container: str, field: str, name: str) -> list[str]:
    """The keys that the container's variables read from an object, without optional ones."""
    spec = mapping(pod, "spec")
    every = (*objects(spec, "initContainers"), *objects(spec, "containers"))
    own = (item for item in every if item.get("name") == container)
    references = [mapping(variable, "valueFrom", field) for each in own for variable in objects(each, "env")]
    required = (
        reference for reference in references if reference.get("name") == name and not reference.get("optional")
    )
    return sorted({str(reference.get("key")) for reference in required})


_NODE_CURES: Mapping[str, str] = {
    "OutOf": (
        "Something on `{node}` uses what the scheduler takes for free, such as a static pod or one that still ends."
        " If it lasts, {cordon}."
    ),
    "NodeAffinity": "The labels of `{node}` no longer match: correct them, or `spec.scheduling` of this resource.",
    "TopologyAffinityError": "The Topology Manager of `{node}` allows no such set of CPUs and devices: {cordon}.",
    "NodeShutdown": "`{node}` shuts down: add a node, or wait until it is back.",
    "UnexpectedAdmissionError": "Look at the devices of `{node}` and at their plugin. Until they work, {cordon}.",
    "": "If `{node}` rejects every pod, {cordon}.",
}
"""What helps, by how the kubelet's reason begins (Kubernetes 1.36, pkg/kubelet: lifecycle/predicate.go, cm/admission,
cm/topologymanager, nodeshutdown)."""


def node_cure(cause: str, node: str) -> str:
    """What helps where the kubelet of a node rejects a pod."""
    cordon = f"run `kubectl cordon {node}`, so that new pods get another node"
    cure = next(text for reason, text in _NODE_CURES.items() if cause.startswith(reason))
    return cure.format(node=node, cordon=cordon) if node else ""
