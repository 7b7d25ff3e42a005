"""Rollouts and drains whose new engine cannot start while the old one is there: they end, as their strategy says."""

import json
from typing import Any

from e2e.localkube.waiting import eventually
from tests.apiserver.test_rollout import EDIT, await_rolled, how, pool, spec
from tests.testing.workspace import Workspace

__all__ = ["pool"]

ENGINES = "inference-operator.dev/name=one,app.kubernetes.io/component=engine"
REPLACING = (0, 1)


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
