"""States of engines over several nodes: nodes given back, a pod on a node that is gone, network devices not used."""

from collections.abc import Sequence
from dataclasses import replace

from inference_operator.api.status import EngineStatus, NetworkStatus, Status
from inference_operator.engines.group.network import SOCKETS
from inference_operator.manifest import STATEFUL_SET, Ref
from inference_operator.pipeline.inputs import Inputs
from inference_operator.status.write_results import WriteResult
from inference_operator.views.node import node_view
from inference_operator.views.pod import pod_template_hash
from inference_operator.workload.eviction.half_placed import GIVEN_BACK_ANNOTATION, GivenBack
from tests.status.situations import observed, starting, view
from tests.testing.builders import H100, NODES, NOW, deployment_status, inference_deployment, planned, ready_pod
from tests.testing.engine_groups import grouped
from tests.testing.nodes import node

PAIR = inference_deployment(parallelism={"tensor": 1, "nodes": 2})
GROUP = Ref(STATEFUL_SET, "default", "qwen-engine-0")


def _given_back() -> Inputs:
    found = observed(PAIR, live=PAIR, routers=deployment_status(2))
    group = found.children[GROUP]
    record = GIVEN_BACK_ANNOTATION.entry(GivenBack(NOW, 3, "other-engine-0"))
    meta = {**group["metadata"], "annotations": {**group["metadata"]["annotations"], **record}}
    off = {**group, "metadata": meta, "spec": {**group["spec"], "replicas": 0}}
    return replace(found, children={**found.children, GROUP: off})


def _lost() -> Inputs:
    leader, worker = grouped(replace(view(starting(state={"running": {}})), node=H100["metadata"]["name"]), 2)
    silent = replace(node_view(node("gone", gpus=8, ready=False)), unready_since=NOW)
    pods = [leader, replace(worker, node="gone", terminating=True, start=None)]
    found = observed(PAIR, live=PAIR, routers=deployment_status(2), pods=pods)
    return replace(found, nodes=[*NODES, silent])


def _by_sockets() -> Inputs:
    made = planned(PAIR).desired[GROUP]
    template = pod_template_hash(made["spec"]["template"]["metadata"])
    in_use = NetworkStatus(in_use=SOCKETS, resource="rdma/ib", pod_template_hash=template or "")
    before = Status(engine=EngineStatus(image="vllm", network=in_use))
    pods = grouped(view(ready_pod(), template=template), 2)
    return observed(PAIR, live=PAIR, routers=deployment_status(2), pods=pods, before=before)


GROUP_STATES: dict[str, tuple[Inputs, Sequence[WriteResult], tuple[str, str, str]]] = {
    "nodes were given back": (
        _given_back(),
        [],
        ("False WaitingForOlderGroup", "True WaitingForOlderGroup", "False NotStalled"),
    ),
    "a node is gone": (_lost(), [], ("False NodeLost", "True NodeLost", "False NotStalled")),
    "network devices are not used": (_by_sockets(), [], ("True Serving", "False Settled", "False NotStalled")),
}
