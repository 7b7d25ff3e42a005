"""Rollouts and drains whose new engine cannot start while the old one is there: they end, as their strategy says."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.apiserver.inspection import MODEL, let_it_say
from tests.apiserver.test_groups import PAIR, members
from tests.apiserver.test_rollout import EDIT, TAINT, await_rolled, how, pool, spec
from tests.testing.workspace import Workspace

__all__ = ["pool"]

ENGINES = "inference-operator.dev/name=one,app.kubernetes.io/component=engine"
REPLACING = (0, 1)
LIMIT_SECONDS = 75
"""The limit of a refused pod is 30 s."""
REJECTIONS, KEPT = 6, 3
REPORT_SECONDS = 8
"""A node is taken for unready 50 s after the last report (Kubernetes 1.36, `--node-monitor-grace-period`)."""


def serve(workspace: Workspace, asked: dict[str, Any]) -> None:
    workspace.create("one", asked)
    workspace.settled("one")
    workspace.settled("one", "Reconciling", "False")


def full_quota(workspace: Workspace) -> None:
    workspace.kubectl("create", "quota", "gpus", "--hard=requests.nvidia.com/gpu=1")
    eventually(
        lambda: "used" in json.loads(workspace.kubectl("get", "quota", "gpus", "--output=json"))["status"],
        seconds=30,
        what="the quota is counted",
    )


def replaced(workspace: Workspace) -> str:
    """Wait until the rollout has ended; returns why it replaced."""
    await_rolled(workspace, "one")
    decided = how(workspace, "one")
    assert (decided["maxSurge"], decided["maxUnavailable"]) == REPLACING
    return str(decided["why"])


def test_a_rollout_under_a_full_quota_replaces(workspace: Workspace, pool: str) -> None:
    serve(workspace, spec(pool))
    full_quota(workspace)
    workspace.patch("one", EDIT)
    assert replaced(workspace) == "QuotaFull"


def test_a_surge_as_asked_under_a_full_quota_names_the_strategy_that_helps(workspace: Workspace, pool: str) -> None:
    serve(workspace, spec(pool, rollout={"strategy": "Surge"}))
    full_quota(workspace)
    workspace.patch("one", EDIT)
    workspace.settled("one", "Reconciling", "True", "QuotaExceeded", saying="spec.rollout.strategy: Replace")
    assert workspace.condition("one", "Ready")["status"] == "True"
    workspace.patch("one", {"rollout": {"strategy": "Replace"}})
    assert replaced(workspace) == "Asked"


def test_engines_that_keep_apart_replace_each_other_on_one_node(workspace: Workspace, pool: str) -> None:
    labels = {"inference-operator.dev/name": "one", "app.kubernetes.io/component": "engine"}
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked = spec(pool)
    serve(workspace, {**asked, "scheduling": {**asked["scheduling"], "affinity": affinity}})
    workspace.patch("one", EDIT)
    assert replaced(workspace) == "NoNodeCame"


def claim(workspace: Workspace, mode: str) -> None:
    """A bound claim of a driver that nobody runs."""
    name = f"{workspace.namespace}-weights"
    common = {"accessModes": [mode], "storageClassName": ""}
    volume = {
        "capacity": {"storage": "50Gi"},
        "csi": {"driver": "disk.example.com", "volumeHandle": name},
        "claimRef": {"namespace": workspace.namespace, "name": "weights"},
    }
    asks = {"volumeName": name, "resources": {"requests": {"storage": "50Gi"}}}
    for kind, named, fields in (("PersistentVolume", name, volume), ("PersistentVolumeClaim", "weights", asks)):
        made = {"apiVersion": "v1", "kind": kind, "metadata": {"name": named}, "spec": {**common, **fields}}
        workspace.kubectl("apply", "--filename=-", input=json.dumps(made))


MOUNTED = {
    "volumes": [{"name": "w", "persistentVolumeClaim": {"claimName": "weights"}}],
    "volumeMounts": [{"name": "w", "mountPath": "/weights"}],
}


def test_engines_with_a_claim_of_one_pod_replace_each_other(workspace: Workspace, pool: str) -> None:
    claim(workspace, "ReadWriteOncePod")
    serve(workspace, spec(pool, podTemplate=MOUNTED))
    workspace.patch("one", EDIT)
    assert replaced(workspace) == "VolumeInUse"


@pytest.fixture
def far(kubernetes: LocalCluster, workspace: Workspace) -> Iterator[str]:
    """Two nodes with one GPU each. On the second, which is cordoned first, no kubelet starts or ends pods.

    Each test has nodes of its own: pods of the one before may still be on the second.
    """
    near, remote = f"near-{workspace.namespace}", f"far-{workspace.namespace}"
    made = json.loads(kubernetes.kubectl("get", "node", "gpu-0", "--output=json"))
    room = {**made["status"]["capacity"], "nvidia.com/gpu": "1"}
    for name, played in ((near, True), (remote, False)):
        labels = {**made["metadata"]["labels"], "kubernetes.io/hostname": name, "pool": workspace.namespace}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": labels if played else {key: value for key, value in labels.items() if key != "type"},
                "annotations": {"kwok.x-k8s.io/node": "fake"} if played else {},
            },
            "spec": {"taints": [TAINT], "unschedulable": not played},
            "status": {"capacity": room, "allocatable": room},
        }
        kubernetes.kubectl("apply", "--filename=-", input=json.dumps(node))
    ended = threading.Event()
    reporter = threading.Thread(target=report, args=(kubernetes, remote, ended))
    reporter.start()
    yield remote
    ended.set()
    reporter.join()
    kubernetes.kubectl("delete", "node", near, remote)


def report(kubernetes: LocalCluster, name: str, ended: threading.Event) -> None:
    """As a kubelet does, so that the controllers of nodes go on to believe that the node is ready."""
    since = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    while not ended.wait(REPORT_SECONDS):
        now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now}
        status = json.dumps({"status": {"conditions": [{**ready, "lastTransitionTime": since}]}})
        kubernetes.kubectl("patch", "node", name, "--subresource=status", "--type=merge", f"--patch={status}")


def let_it_be_schedulable(kubernetes: LocalCluster, name: str) -> None:
    kubernetes.kubectl("uncordon", name)

    def is_ready() -> bool:
        node = json.loads(kubernetes.kubectl("get", "node", name, "--output=json"))
        return [taint["key"] for taint in node["spec"].get("taints", [])] == [TAINT["key"]]

    eventually(is_ready, seconds=LIMIT_SECONDS, what="no taint of a node that is not ready")


def test_engines_whose_claim_one_node_mounts_replace_each_other_although_another_node_has_a_free_gpu(
    workspace: Workspace, far: str, kubernetes: LocalCluster
) -> None:
    claim(workspace, "ReadWriteOnce")
    where = {"nodeSelector": {"pool": workspace.namespace}, "tolerations": [TAINT]}
    serve(workspace, {**spec(far, podTemplate=MOUNTED), "scheduling": where})
    let_it_be_schedulable(kubernetes, far)
    workspace.patch("one", EDIT)
    eventually(
        lambda: how(workspace, "one")["why"] == "OneNode",
        seconds=30,
        what=lambda: f"replaced: {how(workspace, 'one')}, {workspace.get('infd', 'one')['status']['conditions']}",
    )
    decided = how(workspace, "one")
    assert (decided["maxSurge"], decided["maxUnavailable"]) == REPLACING


def test_engines_of_a_model_on_a_claim_that_one_node_mounts_replace_each_other(
    workspace: Workspace, far: str, kubernetes: LocalCluster
) -> None:
    """The new engine gets a node that cannot mount the claim, and starts there once the old one has ended."""
    claim(workspace, "ReadWriteOnce")
    found, where = "pvc://weights/mine", {"nodeSelector": {"pool": workspace.namespace}, "tolerations": [TAINT]}
    workspace.create("one", {**spec(far), "model": {"source": found}, "scheduling": where})
    let_it_say(workspace, {**MODEL, "model": found, "source": f"{found}:config.json"})
    workspace.settled("one")
    workspace.settled("one", "Reconciling", "False")
    let_it_be_schedulable(kubernetes, far)
    workspace.patch("one", EDIT)

    def alone() -> str | None:
        pods = workspace.all("pods", ENGINES)
        return str(pods[0]["metadata"]["name"]) if [pod["spec"].get("nodeName") for pod in pods] == [far] else None

    name = eventually(
        alone,
        seconds=LIMIT_SECONDS,
        what=lambda: f"the new one: {how(workspace, 'one')}, {workspace.get('infd', 'one')['status']['conditions']}",
    )
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    container = {"name": "engine", "ready": True, "started": True, "restartCount": 0, "image": "x", "imageID": ""}
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        "containerStatuses": [{**container, "state": {"running": {"startedAt": now}}}],
    }
    patch = json.dumps({"status": status})
    workspace.kubectl("patch", "pod", str(name), "--subresource=status", "--type=strategic", f"--patch={patch}")
    assert replaced(workspace) == "OneNode"


def test_pods_that_their_node_rejects_name_it_and_three_of_them_stay(
    workspace: Workspace, far: str, kubernetes: LocalCluster
) -> None:
    asked = spec(far)
    where = {"nodeSelector": {"kubernetes.io/hostname": far}, "tolerations": [TAINT]}
    workspace.create("one", {**asked, "scheduling": where})
    message = "Pod was rejected: Allocate failed due to no healthy devices present"
    patch = json.dumps({"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}})

    def placed() -> str | None:
        pods = [pod for pod in workspace.all("pods", ENGINES) if pod["spec"].get("nodeName")]
        return next((str(pod["metadata"]["name"]) for pod in pods if pod["status"]["phase"] == "Pending"), None)

    def seen() -> str:
        pods = [(pod["metadata"]["name"], pod["status"]) for pod in workspace.all("pods", ENGINES)]
        return f"a pod on that node: {pods}, {workspace.get('infd', 'one')['status']['conditions']}"

    rejected = list[str]()
    let_it_be_schedulable(kubernetes, far)
    for _ in range(REJECTIONS):
        rejected.append(str(eventually(placed, seconds=30, what=seen)))
        workspace.kubectl("patch", "pod", rejected[-1], "--subresource=status", "--type=merge", f"--patch={patch}")
    cure = f"Look at the devices of `{far}` and at their plugin. Until they work, run `kubectl cordon {far}`"
    verdict = workspace.settled("one", "Reconciling", "True", "PodRejected", saying=cure)
    assert f"on node `{far}`: UnexpectedAdmissionError" in verdict["message"]

    def left() -> set[str]:
        pods = workspace.all("pods", ENGINES)
        return {str(pod["metadata"]["name"]) for pod in pods if pod["status"]["phase"] == "Failed"}

    eventually(lambda: len(left()) == KEPT, seconds=LIMIT_SECONDS, what=lambda: f"three are left: {left()}")
    assert left() <= {*rejected}  # pods of one second have no order: tests/workload/test_failed_pods.py has it


def test_a_drain_under_a_full_quota_goes_on_after_the_limit_although_a_surge_is_asked_for(
    workspace: Workspace, pool: str, kubernetes: LocalCluster
) -> None:
    asked = spec(pool, rollout={"strategy": "Surge"})
    serve(workspace, {**asked, "scheduling": {"tolerations": asked["scheduling"]["tolerations"]}})
    full_quota(workspace)
    (pod,) = workspace.all("pods", ENGINES)
    kubernetes.kubectl("cordon", pod["spec"]["nodeName"])
    try:
        workspace.settled("one", "Reconciling", "True", "NodeLeaving")
        eventually(
            lambda: (
                workspace.get("poddisruptionbudget", "one-engine")["status"].get("disruptionsAllowed") == 1
                and workspace.replicas("one") == 1
            ),
            seconds=LIMIT_SECONDS,
            what=lambda: f"an eviction is allowed: {workspace.get('infd', 'one')['status']['conditions']}",
        )
    finally:
        kubernetes.kubectl("uncordon", pod["spec"]["nodeName"])


def test_groups_under_a_full_quota_replace_each_other(workspace: Workspace) -> None:
    workspace.create("qwen", PAIR)
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    old = set(members(workspace).values())
    workspace.kubectl("create", "quota", "gpus", "--hard=requests.nvidia.com/gpu=2")
    workspace.patch("qwen", EDIT)
    eventually(
        lambda: len(members(workspace)) == len(old) and not old & set(members(workspace).values()),
        seconds=LIMIT_SECONDS,
        what=lambda: f"new pods only: {members(workspace)}, {workspace.get('infd', 'qwen')['status']['conditions']}",
    )
    workspace.settled("qwen", "Reconciling", "False")
