"""The members of the engine over two pods of `e2e/helpers/group_manifests.py`, as tests see and break them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from e2e.helpers.container_processes import container_processes, kill_processes
from e2e.helpers.group_manifests import NAME, pair
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster

LEADER, WORKER = f"{NAME}-engine-0-0", f"{NAME}-engine-0-1"
OUT_SECONDS = 20
"""Limit from the end of a member until the group is not ready; a probe may take so long."""
MOST_HUNG_SECONDS = 30
"""No request waits longer for an answer that a group without a member will never give."""


@contextmanager
def served_pair(cluster: LocalCluster, **more: Any) -> Iterator[Served]:  # noqa: ANN401 - any JSON
    """The sample over two pods, behind two routers, with more fields of the specification during the block."""
    served = Served(cluster, NAME)
    served.await_left()
    with served.serving(pair(**more)):
        yield served


def members(served: Served) -> list[dict[str, Any]]:
    """The pods of the group."""
    selector = f"--selector=inference-operator.dev/name={NAME},app.kubernetes.io/component=engine"
    pods: list[dict[str, Any]] = json.loads(served.kubectl("get", "pods", selector, "--output=json"))["items"]
    return pods


def restarts(served: Served) -> Mapping[str, int]:
    """How often each member's engine has been restarted in its pod, by uid of the pod."""
    return {
        pod["metadata"]["uid"]: status["restartCount"]
        for pod in members(served)
        for status in pod["status"]["containerStatuses"]
        if status["name"] == "engine"
    }


def ready(served: Served) -> Mapping[str, bool]:
    """Whether each member is ready, by name."""
    return {
        pod["metadata"]["name"]: any(
            one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", [])
        )
        for pod in members(served)
    }


def uids(served: Served) -> Mapping[str, str]:
    """The uid of each member that stays, by name."""
    staying = (pod["metadata"] for pod in members(served) if "deletionTimestamp" not in pod["metadata"])
    return {meta["name"]: meta["uid"] for meta in staying}


def evict(served: Served, pod: str) -> None:
    """Evict a pod through the API, as `kubectl drain` does."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    served.kubectl("create", f"--raw={path}", "--filename=-", input=json.dumps(eviction))


def kill_engine(served: Served, pod: str) -> None:
    """Kill the engine in a member's container: every process but the first, which is the operator's program."""
    kill_processes(container_processes(served.cluster, pod, container="engine")[1:])
