"""A world whose engines are groups of two pods, which a StatefulSet controller and a kubelet would make."""

from inference_operator.manifest import POD, STATEFUL_SET, Manifest, Ref
from inference_operator.objects.names import ENGINE
from inference_operator.views.pod import POD_INDEX_LABEL
from tests.controller.world import World
from tests.testing.builders import ROUTERS, deployment_status, ready_pod

PAIR: Manifest = {"parallelism": {"tensor": 1, "nodes": 2}, "rollout": {"strategy": "Surge"}}
"""Nothing here counts free GPUs, for which the strategy `Auto` would wait."""


class GroupWorld(World):
    """Each engine is a StatefulSet. `pods_are_ready` makes its pods, and takes those away whose StatefulSet is gone."""

    rounds = 4

    def ask(self, *, source: str = "hf://Qwen/Qwen3-8B", **spec: object) -> None:
        super().ask(source=source, **PAIR, **spec)

    def pods_are_ready(self) -> None:
        routers = self.live(ROUTERS)
        status = deployment_status(routers["spec"]["replicas"], seen=routers["metadata"]["generation"])
        if routers.get("status") != status:
            self.cluster.set_status(ROUTERS, status)
        wanted = {ref: one for group in self.groups() for ref, one in _members(group).items()}
        there = {ref for ref in self.cluster.live() if ref.kind == POD}
        for ref in sorted(there - set(wanted)):
            self.cluster.remove(ref)
        for ref in sorted(set(wanted) - there):
            self.cluster.apply_as("kube-controller-manager", wanted[ref])
            self.cluster.set_status(ref, ready_pod())

    def groups(self) -> list[Manifest]:
        """The StatefulSets of the engines."""
        return [one for ref, one in sorted(self.cluster.live().items()) if ref.kind == STATEFUL_SET]


def _members(group: Manifest) -> dict[Ref, Manifest]:
    """The pods of a StatefulSet, each on a node of its own."""
    found, template = {}, group["spec"]["template"]
    for index in range(group["spec"]["replicas"]):
        name = f"{group['metadata']['name']}-{index}"
        meta: Manifest = {
            "name": name,
            "namespace": group["metadata"]["namespace"],
            "annotations": template["metadata"]["annotations"],
            "labels": {**template["metadata"]["labels"], POD_INDEX_LABEL: str(index)},
        }
        spec: Manifest = {"nodeName": f"node-of-{name}", "containers": [{"name": ENGINE}]}
        pod: Manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        found[Ref.of(pod)] = pod
    return found
