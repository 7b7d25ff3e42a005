"""What `infd plan` asks a cluster: the state that plans depend on, and the resource after an apply of a file."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence

from inference_operator.cli.cluster_command import ClusterCommand, list_objects
from inference_operator.cli.files import stored
from inference_operator.cli.managed_fields import applier
from inference_operator.cli.operator_settings import INSTEAD, SELECTOR, FoundSettings, LiveState, settings_of
from inference_operator.cli.options import SYSTEM_NAMESPACE
from inference_operator.cli.parser import UsageError, harmless
from inference_operator.controller.cluster import ClusterError, ForbiddenError, RejectedError
from inference_operator.kube.client import APPLY, MERGE
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, INFERENCE_DEPLOYMENT, NODE, Kind, Manifest, Ref
from inference_operator.objects.names import (
    COMPONENT_LABEL,
    INSPECTION,
    MANAGED_SELECTOR,
    NAME_LABEL,
    component_of,
    is_role,
)
from inference_operator.planning.gpu_offers import has_gpus
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION, PinnedPlan
from inference_operator.settings import Settings
from inference_operator.views.node import node_view
from inference_operator.views.raw import annotations, mapping
from inference_operator.views.workload import WORKLOAD_KINDS, newest_first


def cluster_of_kubeconfig(options: argparse.Namespace) -> LiveState:
    """The cluster that the options choose.

    The right to list nodes is sufficient: without that to list ConfigMaps, the hub is asked, and without that to list
    Deployments and StatefulSets, every resource counts as a new one.
    """

    async def read(cluster: KubeCluster) -> LiveState:
        views = [node_view(node) for node in await list_objects(cluster, NODE)]
        of_inspections = f"{COMPONENT_LABEL}={INSPECTION}"
        results = await _allowed(cluster, CONFIG_MAP, of_inspections, "So models are read from the hub.")
        engines = [
            workload
            for kind in WORKLOAD_KINDS
            for workload in await _allowed(cluster, kind, MANAGED_SELECTOR, "So each resource is planned as a new one.")
            if is_role(component_of(workload))
        ]
        plans: dict[tuple[str, str], dict[str, PinnedPlan]] = {}
        for workload in reversed(newest_first(engines)):
            if plan := PLAN_ANNOTATION.read(workload):
                metadata = workload["metadata"]
                owner = metadata.get("namespace", ""), (metadata.get("labels") or {}).get(NAME_LABEL, "")
                plans.setdefault(owner, {})[component_of(workload)] = plan
        gpus = [view for view in views if has_gpus(view)]
        models = {Ref.of(result): result for result in results}
        return LiveState(gpus, models, plans, await operators(cluster) or ())

    try:
        cure = "Check that `kubectl get nodes` works with the same kubeconfig."
        return ClusterCommand(options, cure=cure).run(read)
    except UsageError as error:
        raise UsageError(f"--cluster: {error}", error.status) from error


async def _allowed(cluster: KubeCluster, kind: Kind, labels: str, otherwise: str) -> list[Manifest]:
    """The objects with these labels; none, with a line on stderr, if they may not be listed."""
    try:
        return await list_objects(cluster, kind, labels=labels)
    except ForbiddenError as error:
        print(harmless(f"--cluster: {error.cause}. {otherwise}"), file=sys.stderr)
        return []


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation of client-side `kubectl apply` (Kubernetes 1.36, k8s.io/api/core/v1/annotation_key_constants.go)."""
DEFAULT_MANAGER = "kubectl"
"""Field manager of `kubectl apply --server-side`."""


async def stored_edit(cluster: KubeCluster, document: Manifest, live: Manifest | None) -> Manifest:
    """The resource after an apply of a file; raises `RejectedError` if it is refused, or the user may not patch."""
    kind, meta = INFERENCE_DEPLOYMENT, document["metadata"]
    ref = Ref(kind, meta["namespace"], meta["name"])
    before = last_applied(live)
    if live is not None and before is not None:
        body = merge_patch(before, _content(document), _content(live))
        return await cluster.api.request("PATCH", ref.path, kind, query=_DRY, body=body, patch=MERGE)
    query = {**_DRY, "force": "true", "fieldManager": (live and applier(live)) or DEFAULT_MANAGER}
    body = {**document, "metadata": {name: meta[name] for name in _OF_USERS if name in meta}}
    try:
        return await cluster.api.request("PATCH", ref.path, kind, query=query, body=body, patch=APPLY)
    except ClusterError as error:
        if _UNTYPED not in error.cause:
            raise
        raise RejectedError(error.cause.rpartition("): ")[2]) from error


_DRY = {"dryRun": "All", "fieldValidation": "Strict"}
_UNTYPED = "failed to create typed patch object"
"""Server-side apply's answer to a field that the schema does not have, with HTTP status 500 (Kubernetes 1.36)."""
_OF_USERS = ("namespace", "name", "labels", "annotations")


def last_applied(live: Manifest | None) -> Manifest | None:
    """The content that client-side `kubectl apply` applied last; None if it did not."""
    try:
        found = json.loads(annotations(live).get(LAST_APPLIED, "null"))
    except ValueError:
        return None
    return _content(found) if isinstance(found, dict) else None


def merge_patch(before: Mapping[str, object], wanted: Mapping[str, object], live: Mapping[str, object]) -> Manifest:
    """The JSON merge patch of a three-way merge: fields that left the file become null, others as in the file."""
    patch: Manifest = {}
    for name, value in wanted.items():
        old, now = before.get(name), live.get(name)
        if isinstance(value, dict) and isinstance(now, dict):
            if part := merge_patch(old if isinstance(old, dict) else {}, value, now):
                patch[name] = part
        elif value != now:
            patch[name] = value
    patch.update(dict.fromkeys(name for name in before if name not in wanted and name in live))
    return patch


def _content(resource: Manifest) -> Manifest:
    meta = mapping(resource, "metadata")
    kept = {name: mapping(meta, name) for name in ("labels", "annotations") if mapping(meta, name)}
    kept = {name: {key: value for key, value in part.items() if key != LAST_APPLIED} for name, part in kept.items()}
    spec = stored(resource.get("spec"))
    return {"metadata": kept, "spec": spec if isinstance(spec, dict) else {}}


async def found_settings(cluster: KubeCluster, namespace: str) -> FoundSettings:
    """The settings of the operator that serves a namespace. Variables of the command's own environment replace them."""
    found = await operators(cluster)
    if found is None:
        right = f"get the Deployment `inference-operator` in `{SYSTEM_NAMESPACE}`"
        return FoundSettings(
            Settings(), (f"You have no right to {right}, which has the operator's settings. {INSTEAD}",)
        )
    return settings_of(found, namespace)


async def operators(cluster: KubeCluster) -> Sequence[Manifest] | None:
    """The Deployments of all operators, or of the one in its usual place; None without the right to read it."""
    try:
        return await list_objects(cluster, DEPLOYMENT, labels=SELECTOR)
    except ForbiddenError:
        try:
            own = await cluster.get(Ref(DEPLOYMENT, SYSTEM_NAMESPACE, "inference-operator"))
        except ForbiddenError:
            return None
        return [own] if own else []
