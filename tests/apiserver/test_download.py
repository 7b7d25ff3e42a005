"""A model that is downloaded to a claim, on a real API server: the Job, its record, and the cleanup."""

import json

from e2e.localkube.waiting import eventually
from inference_operator.jobs.download_result import Downloaded, downloaded_text
from tests.apiserver.inspection import let_it_say
from tests.testing.workspace import QWEN, Workspace

CACHED = {**QWEN, "cache": {"claimName": "models"}}
CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: models-of-%(namespace)s}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %(namespace)s, name: models}
  hostPath: {path: /nowhere}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: models}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: ""
  resources: {requests: {storage: 1Gi}}
"""
DOWNLOAD = "app.kubernetes.io/component=download"
DONE = json.loads(downloaded_text(Downloaded("0" * 40, 10**9, 12)))
FULL = {"error": {"cause": "DiskFull", "field": "hf://a/b", "problem": "is full.", "cure": "Expand the claim."}}


def names(workspace: Workspace, kind: str) -> list[str]:
    return [str(one["metadata"]["name"]) for one in workspace.all(kind, DOWNLOAD)]


def test_engines_start_after_the_download_and_everything_but_the_claim_is_deleted_with_the_resource(
    workspace: Workspace,
) -> None:
    workspace.create("mine", CACHED)
    # Without the claim, the Job's pod has no node: once it has one, KWOK ends it at once.
    workspace.settled("mine", "Reconciling", "True", "VolumeUnavailable", saying="to the claim models")
    workspace.kubectl("apply", "--filename=-", input=CLAIM % {"namespace": workspace.namespace})
    try:
        let_it_say(workspace, FULL, component="download")
        workspace.settled("mine", "Stalled", "True", "DiskFull", saying="Expand the claim. It is tried again")
        assert not workspace.all("pods", "app.kubernetes.io/component=engine")
        eventually(lambda: len(names(workspace, "jobs")) == 2, seconds=60, what="another attempt")
        let_it_say(workspace, DONE, component="download")
        workspace.settled("mine")
        eventually(lambda: not names(workspace, "jobs"), seconds=20, what="no Job once its end is recorded")
        assert len(names(workspace, "configmaps")) == 1
        workspace.kubectl("delete", "infd", "mine")
        eventually(lambda: not names(workspace, "configmaps"), seconds=60, what="no record without its resource")
        assert workspace.get("persistentvolumeclaim", "models")["metadata"]["name"] == "models"
    finally:
        workspace.kubectl("delete", "pv", f"models-of-{workspace.namespace}", "--wait=false")


def test_a_claim_of_somebody_else_with_the_name_of_the_cache_is_mounted_by_no_pod(workspace: Workspace) -> None:
    theirs = CLAIM.rpartition("---")[2].replace("name: models", "name: mine-cache")
    workspace.kubectl("apply", "--filename=-", input=theirs)
    before = workspace.get("persistentvolumeclaim", "mine-cache")
    workspace.create("mine", {**QWEN, "cache": {"size": "40Gi"}})
    workspace.settled("mine", "Stalled", "True", "NameConflict", saying="mine-cache exists and belongs to")
    assert not names(workspace, "jobs")
    assert not workspace.all("deployments", "app.kubernetes.io/component=engine")
    assert workspace.get("persistentvolumeclaim", "mine-cache") == before
    workspace.kubectl("delete", "persistentvolumeclaim", "mine-cache", "--wait=false")
    eventually(lambda: names(workspace, "jobs"), seconds=60, what="the Job, on a claim of its own")
    assert workspace.get("persistentvolumeclaim", "mine-cache")["metadata"]["uid"] != before["metadata"]["uid"]
