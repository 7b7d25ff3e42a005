"""The state of the cluster of the current kubeconfig that `infd plan --cluster` plans for."""

import logging
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inference_operator.cli.parser import UsageError
from inference_operator.manifest import CONFIG_MAP, DEPLOYMENT, NODE, Kind, Manifest, Ref
from inference_operator.objects.names import COMPONENT_LABEL, ENGINE, INSPECTION, NAME_LABEL
from inference_operator.planning.gpu_offers import has_gpus
from inference_operator.roles.pinned_plan import PinnedPlan, pinned_plan
from inference_operator.views.node import NodeView, node_view

if TYPE_CHECKING:
    from inference_operator.kube.cluster import KubeCluster

DEFAULT_NAMESPACE = "default"
"""The namespace of a resource whose file names none."""


@dataclass(frozen=True, slots=True)
class LiveState:
    """The part of a cluster that plans depend on."""

    nodes: Sequence[NodeView] | None = None
    """Nodes with GPUs; None if they are not known."""
    stored_models: Mapping[Ref, Manifest] | None = None
    """ConfigMaps with results of inspections."""
    plans: Mapping[tuple[str, str], PinnedPlan] = field(default_factory=dict)
    """Plans of running engines, by namespace and name of their resource."""

    def plan_of(self, document: Manifest) -> PinnedPlan | None:
        """The plan that the engines of a resource run with; None if there are none."""
        metadata = document.get("metadata") or {}
        return self.plans.get((metadata.get("namespace") or DEFAULT_NAMESPACE, metadata.get("name") or ""))


async def cluster_of_kubeconfig() -> LiveState:
    """The cluster of the current kubeconfig.

    The right to list nodes is sufficient: without that to list ConfigMaps, the hub is asked, and without that to list
    Deployments, every resource counts as a new one.
    """
    from inference_operator.controller.cluster import ClusterError  # noqa: PLC0415 - as below
    from inference_operator.kube.client import Api, connect  # noqa: PLC0415 - a second of imports that only this needs
    from inference_operator.kube.cluster import KubeCluster  # noqa: PLC0415 - as above

    logging.getLogger("kubernetes").setLevel(logging.CRITICAL)  # the error below says the same for users
    try:
        client = await connect()
        try:
            cluster = KubeCluster(Api(client))
            views = [node_view(node) async for node in cluster.each(NODE)]
            results = await _allowed(cluster, CONFIG_MAP, INSPECTION, "So models are read from the hub.")
            engines = await _allowed(cluster, DEPLOYMENT, ENGINE, "So each resource is planned as a new one.")
        finally:
            await client.close()  # type: ignore[no-untyped-call]
    except ClusterError as error:
        cure = "Check that `kubectl get nodes` works with the same kubeconfig."
        raise UsageError(f"--cluster: {error.cause}. {cure}") from error
    plans = {_owner(one): plan for one in engines if (plan := pinned_plan(one))}
    return LiveState([view for view in views if has_gpus(view)], {Ref.of(result): result for result in results}, plans)


async def _allowed(cluster: "KubeCluster", kind: Kind, component: str, otherwise: str) -> list[Manifest]:
    """The objects of a component; none, with a line on stderr, if they may not be listed."""
    from inference_operator.controller.cluster import ForbiddenError  # noqa: PLC0415 - as above

    found: AsyncIterator[Manifest] = cluster.each(kind, labels=f"{COMPONENT_LABEL}={component}")
    try:
        return [one async for one in found]
    except ForbiddenError as error:
        print(f"--cluster: {error.cause}. {otherwise}", file=sys.stderr)
        return []


def _owner(workload: Manifest) -> tuple[str, str]:
    metadata = workload["metadata"]
    return metadata.get("namespace", ""), (metadata.get("labels") or {}).get(NAME_LABEL, "")
