"""The state of the cluster of the current kubeconfig that `infd plan --cluster` plans for."""

import argparse
import sys
from collections.abc import AsyncIterator

from inference_operator.cli.cluster_command import ClusterCommand, operators
from inference_operator.cli.operator_settings import LiveState
from inference_operator.cli.parser import UsageError
from inference_operator.controller.cluster import ForbiddenError
from inference_operator.kube.client import Api
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import CONFIG_MAP, NODE, Kind, Manifest, Ref
from inference_operator.objects.names import COMPONENT_LABEL, ENGINE, INSPECTION, NAME_LABEL
from inference_operator.planning.gpu_offers import has_gpus
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.views.node import node_view
from inference_operator.views.workload import WORKLOAD_KINDS, newest_first


def cluster_of_kubeconfig(options: argparse.Namespace) -> LiveState:
    """The cluster that the options choose.

    The right to list nodes is sufficient: without that to list ConfigMaps, the hub is asked, and without that to list
    Deployments and StatefulSets, every resource counts as a new one.
    """

    async def read(_: Api, cluster: KubeCluster) -> LiveState:
        views = [node_view(node) async for node in cluster.each(NODE)]
        results = await _allowed(cluster, CONFIG_MAP, INSPECTION, "So models are read from the hub.")
        engines = [
            one
            for kind in WORKLOAD_KINDS
            for one in await _allowed(cluster, kind, ENGINE, "So each resource is planned as a new one.")
        ]
        oldest_first = reversed(newest_first(engines))
        plans = {_owner(one): plan for one in oldest_first if (plan := PLAN_ANNOTATION.read(one))}
        gpus = [view for view in views if has_gpus(view)]
        stored = {Ref.of(result): result for result in results}
        return LiveState(gpus, stored, plans, await operators(cluster) or ())

    try:
        cure = "Check that `kubectl get nodes` works with the same kubeconfig."
        return ClusterCommand(options, cure=cure).run(read)
    except UsageError as error:
        raise UsageError(f"--cluster: {error}") from error


async def _allowed(cluster: KubeCluster, kind: Kind, component: str, otherwise: str) -> list[Manifest]:
    """The objects of a component; none, with a line on stderr, if they may not be listed."""
    found: AsyncIterator[Manifest] = cluster.each(kind, labels=f"{COMPONENT_LABEL}={component}")
    try:
        return [one async for one in found]
    except ForbiddenError as error:
        print(f"--cluster: {error.cause}. {otherwise}", file=sys.stderr)
        return []


def _owner(workload: Manifest) -> tuple[str, str]:
    metadata = workload["metadata"]
    return metadata.get("namespace", ""), (metadata.get("labels") or {}).get(NAME_LABEL, "")
