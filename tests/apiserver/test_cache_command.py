"""`infd cache` on a real API server: its Jobs and records, beside an operator that leaves them alone."""

import json
from collections.abc import Iterator

import pytest

from e2e.localkube.waiting import eventually
from inference_operator.jobs.download_result import Downloaded, downloaded_text
from tests.apiserver.inspection import let_it_say
from tests.apiserver.test_download import CACHED, CLAIM, DOWNLOAD, FULL
from tests.testing.infd_command import RunningInfd
from tests.testing.workspace import Workspace

COMMIT = "0" * 40
DONE = json.loads(downloaded_text(Downloaded(COMMIT, 2**30, 12)))
SOURCE = CACHED["model"]["source"]
OTHERS = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: theirs}
spec:
  replicas: 0
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec:
      containers:
      - name: engine
        image: registry.example/engine:1
        args: [hf://org/theirs]
        volumeMounts: [{name: models, mountPath: /models}]
      volumes: [{name: models, persistentVolumeClaim: {claimName: models}}]
"""
"""A workload of others without pods, which names a model on the claim."""


@pytest.fixture
def claimed(workspace: Workspace) -> Iterator[Workspace]:
    """A workspace with the claim `models`."""
    workspace.kubectl("apply", "--filename=-", input=CLAIM % {"namespace": workspace.namespace})
    yield workspace
    workspace.kubectl("delete", "pv", f"models-of-{workspace.namespace}", "--wait=false")


def started(workspace: Workspace, *arguments: str) -> RunningInfd:
    """`infd cache` that runs."""
    return RunningInfd(workspace.cluster, "cache", *arguments, f"--namespace={workspace.namespace}")


def models(workspace: Workspace) -> list[tuple[str, str, str, list[str]]]:
    _, output, _ = started(workspace, "list", "--output=json").ended()
    return [(one["model"], one["revision"], one["state"], one["usedBy"]) for one in json.loads(output)["items"]]


def prune_job(workspace: Workspace) -> list[str]:
    """The arguments of the Job that prunes."""
    jobs = eventually(
        lambda: workspace.all("jobs", "app.kubernetes.io/component=prune"), seconds=60, what="a Job that prunes"
    )
    arguments: list[str] = (jobs or [])[0]["spec"]["template"]["spec"]["containers"][0]["args"]
    return arguments


def test_a_model_is_prefetched_listed_used_and_kept_by_pruning_and_a_failed_prefetch_says_why(
    claimed: Workspace,
) -> None:
    prefetch = started(claimed, "prefetch", SOURCE, "--claim=models")
    let_it_say(claimed, DONE, component="download")
    status, output, complaints = prefetch.ended()
    assert (status, complaints) == (0, "")
    assert f"is complete on the claim models: 1.00 GiB, {COMMIT}." in output
    assert not claimed.all("jobs", DOWNLOAD)
    assert models(claimed) == [("Qwen/Qwen3-8B", COMMIT, "complete", [])]
    claimed.create("mine", CACHED)
    let_it_say(claimed, DONE, component="download")
    claimed.settled("mine")
    assert models(claimed) == [("Qwen/Qwen3-8B", COMMIT, "complete", ["mine"])]
    assert len(claimed.all("configmaps", DOWNLOAD)) == 2

    claimed.kubectl("apply", "--filename=-", input=OTHERS)
    prune = started(claimed, "prune", "--claim=models", "--dry-run")
    arguments = prune_job(claimed)
    volumes = claimed.get("deployment", "mine-engine")["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
    (key,) = [one["subPath"].removeprefix("compiled/") for one in volumes if "compiled" in one.get("subPath", "")]
    assert f"--keep=Qwen/Qwen3-8B@{COMMIT}=InferenceDeployment mine" in arguments
    assert "--keep=org/theirs=StatefulSet theirs" in arguments
    assert f"--keep-kernels={key}" in arguments
    let_it_say(claimed, {"pruned": {"freed_bytes": 2**30, "dry_run": True}}, component="prune")
    status, output, _ = prune.ended()
    assert (status, output.splitlines()[-1]) == (0, "Would free 1.00 GiB.")
    assert not claimed.all("jobs", "app.kubernetes.io/component=prune")

    eventually(lambda: not claimed.all("pods", DOWNLOAD), seconds=60, what="no pod of an earlier Job")
    failing = started(claimed, "prefetch", "hf://org/other", "--claim=models")
    let_it_say(claimed, FULL, component="download")
    status, _, complaints = failing.ended()
    assert (status, "is full. Expand the claim." in complaints) == (1, True)
    assert len(claimed.all("configmaps", DOWNLOAD)) == 2


def test_a_claim_that_does_not_exist_is_said_before_any_job(workspace: Workspace) -> None:
    for arguments in (["prefetch", SOURCE], ["prune"]):
        status, _, complaints = started(workspace, *arguments, "--claim=nosuch").ended()
        assert (status, complaints) == (
            3,
            f"There is no PersistentVolumeClaim `nosuch` in the namespace `{workspace.namespace}`.\n",
        )
    assert not workspace.all("jobs", DOWNLOAD)
