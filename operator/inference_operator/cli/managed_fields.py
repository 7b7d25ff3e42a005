"""The owners of fields of a live InferenceDeployment, by its `managedFields`, and the edits that `infd` owns.

Each edit has a field manager of its own: a server-side apply removes what its manager owns and does not apply again.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

from inference_operator.manifest import Manifest
from inference_operator.views.raw import annotations, mapping, objects

FIELD_MANAGER = "infd"
"""Of resources that `infd run` creates. The manager of an edit has its name behind it, as `infd-pause`."""
ARGO_CD, FLUX = "Argo CD", "Flux"
_ARGO_CD_ANNOTATION = "argocd.argoproj.io/tracking-id"
_ARGO_CD_LABEL = "argocd.argoproj.io/instance"
_FLUX_LABELS = ("kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name")
_MANAGERS = {"argocd-controller": ARGO_CD, "kustomize-controller": FLUX, "helm-controller": FLUX}
"""Field managers of what applies Git (argo-cd v3.5, common/common.go, `ArgoCDSSAManager`; Flux: the controllers' names,
as kustomize-controller v1.9.6, main.go, `controllerName`)."""


def manager(live: Manifest) -> str:
    """What applies a live InferenceDeployment from Git, by labels, annotations and field managers; empty if nothing."""
    metadata = mapping(live, "metadata")
    labels = mapping(metadata, "labels")
    if _ARGO_CD_ANNOTATION in annotations(live) or _ARGO_CD_LABEL in labels:
        return ARGO_CD
    if any(label in labels for label in _FLUX_LABELS):
        return FLUX
    return _of_git(str(entry.get("manager")) for entry in objects(metadata, "managedFields"))


def _of_git(names: Iterable[str]) -> str:
    return next((_MANAGERS[name] for name in names if name in _MANAGERS), "")


def applier(live: Manifest) -> str:
    """The field manager that applied the specification on the server's side, that of Git first; empty if none did.

    `infd` is none: who applies a file leaves the fields that it has set.
    """
    names = [
        str(entry.get("manager"))
        for entry in objects(mapping(live, "metadata"), "managedFields")
        if entry.get("operation") == "Apply"
        and "f:spec" in mapping(entry, "fieldsV1")
        and not str(entry.get("manager")).startswith(FIELD_MANAGER)
    ]
    return next((name for name in names if name in _MANAGERS), next(iter(names), ""))


def owners(live: Manifest, path: Sequence[str]) -> list[str]:
    *parents, last = (f"f:{name}" for name in path)
    entries = objects(mapping(live, "metadata"), "managedFields")
    owning = (entry for entry in entries if last in reduce(mapping, parents, mapping(entry, "fieldsV1")))
    return list(dict.fromkeys(str(entry.get("manager")) for entry in owning))


def git_owner(live: Manifest, path: Sequence[str]) -> str:
    """What applies a field from Git; empty if Git does not name it.

    Examples:
        >>> entry = {"manager": "kustomize-controller", "fieldsV1": {"f:spec": {"f:paused": {}}}}
        >>> live = {"metadata": {"managedFields": [entry]}}
        >>> git_owner(live, ("spec", "paused")), git_owner(live, ("spec", "replicas"))
        ('Flux', '')
    """
    return _of_git(owners(live, path))


def applied_edit(live: Manifest, spec: Mapping[str, object]) -> Manifest:
    """The object for a server-side apply of some fields; with the uid, so that it creates nothing."""
    metadata = {name: live["metadata"][name] for name in ("namespace", "name", "uid")}
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": metadata, "spec": dict(spec)}
