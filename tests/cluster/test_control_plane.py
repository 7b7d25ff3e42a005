"""The control-plane level with real processes: start, scheduling, failure of a component, and cleanup."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube import existing
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.local import down, is_running, up
from e2e.localkube.ports import SLOTS
from e2e.localkube.processes import processes
from e2e.localkube.state import Record, exclusive, layout, read_record, write_record

NAME = f"tool-{os.getpid()}"
DEADLINE_S = 30.0
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: engine}
spec:
  replicas: 2
  selector: {matchLabels: {app: engine}}
  template:
    metadata: {labels: {app: engine}}
    spec:
      containers:
        - name: engine
          image: example.com/engine:1
          resources: {limits: {nvidia.com/gpu: 8}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    yield up(NAME, owned=True)
    down(NAME)
    assert processes(layout(NAME).directory) == []
    assert not layout(NAME).directory.exists()


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, capture_output=True, text=True, check=False)


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return run(sys.executable, "-m", "e2e.localkube", *arguments)


def await_end(name: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while is_running(name):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def audited(cluster: LocalCluster) -> list[dict[str, Any]]:
    """The entries of the audit log. The API server may be writing the last line: it is left out until it is whole."""
    lines = cluster.audit_log.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def executable(number: int) -> str:
    return Path(f"/proc/{number}/exe").resolve().name


def test_up_returns_the_running_cluster(cluster: LocalCluster) -> None:
    before = processes(layout(NAME).directory)
    assert up(NAME, owned=True) == cluster
    assert processes(layout(NAME).directory) == before


def test_a_cluster_name_in_use_for_another_level_is_refused_with_the_cure(cluster: LocalCluster) -> None:
    answer = command("up", f"--name={cluster.name}", "--level=node")
    assert answer.returncode == 1
    assert answer.stderr.startswith(f"error: cluster {NAME} runs at level control-plane")
    assert f"down --name {NAME}" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_pods_with_gpus_are_scheduled_on_separate_nodes_and_become_ready(cluster: LocalCluster) -> None:
    cluster.kubectl("apply", "--filename=-", input=DEPLOYMENT)
    cluster.kubectl("rollout", "status", "deployment/engine", "--timeout=30s")
    nodes = cluster.kubectl("get", "pods", "--output=jsonpath={.items[*].spec.nodeName}").split()
    assert len(set(nodes)) == 2


def test_the_audit_log_contains_writes_of_every_user_but_no_reads_of_the_administrator(cluster: LocalCluster) -> None:
    cluster.kubectl("create", "configmap", "seen")
    cluster.kubectl("get", "configmaps")
    events = audited(cluster)
    ours = [event for event in events if event["user"]["username"] == "cluster-admin"]
    assert "seen" in {event["objectRef"].get("name") for event in ours if event["verb"] == "create"}
    assert not {event["verb"] for event in ours} & {"get", "list", "watch"}


def test_every_request_of_the_operator_is_in_the_audit_log(cluster: LocalCluster) -> None:
    operator = "system:serviceaccount:inference-operator-system:inference-operator"
    with pytest.raises(ClusterError, match="forbidden"):
        cluster.kubectl("get", "secrets", f"--as={operator}")
    events = audited(cluster)
    assert not [event for event in events if event["user"]["username"] == operator]
    token = cluster_token(cluster)
    with pytest.raises(ClusterError, match="forbidden"):
        cluster.kubectl("get", "secrets", f"--token={token}", "--kubeconfig=/dev/null", *server(cluster))
    events = audited(cluster)
    assert ("list", "secrets") in {
        (event["verb"], event["objectRef"]["resource"]) for event in events if event["user"]["username"] == operator
    }


def cluster_token(cluster: LocalCluster) -> str:
    namespace = "inference-operator-system"
    cluster.kubectl("create", "namespace", namespace)
    cluster.kubectl("create", "serviceaccount", "inference-operator", f"--namespace={namespace}")
    return cluster.kubectl("create", "token", "inference-operator", f"--namespace={namespace}").strip()


def server(cluster: LocalCluster) -> tuple[str, str]:
    authority = layout(cluster.name).certificates / "ca.crt"
    return f"--server={cluster.server}", f"--certificate-authority={authority}"


def test_the_env_command_prints_variables_for_a_shell(cluster: LocalCluster) -> None:
    lines = command("env", f"--name={cluster.name}").stdout
    answer = run("bash", "-c", f"{lines} kubectl get nodes --output=name && helm list --short")
    assert answer.stdout.split() == [f"node/gpu-{number}" for number in range(4)]


def test_an_existing_cluster_is_used_through_the_named_context_only(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    name = f"bound-{os.getpid()}"
    with pytest.raises(ClusterError, match="named explicitly"):
        existing.up(name, "")
    with pytest.raises(ClusterError, match=f"no context production; it has: {NAME}"):
        existing.up(name, "production")
    assert read_record(name) is None
    try:
        bound = existing.up(name, NAME)
        assert bound.server == cluster.server
        assert "gpu-0" in bound.kubectl("get", "nodes")
        with pytest.raises(ClusterError, match=f"bound to context {NAME}, not to context production"):
            existing.up(name, "production")
        answer = command("load-image", f"--name={name}", "/dev/null")
        assert "push the image to a registry" in answer.stderr
    finally:
        existing.down(name)
    assert is_running(NAME), "an existing cluster is not ours to end"


def test_a_cluster_that_loses_a_component_stops_completely_and_reports_the_cause() -> None:
    name = f"broken-{os.getpid()}"
    try:
        up(name, owned=True, gpu_nodes=0)
        (scheduler,) = (one for one in processes(layout(name).directory) if executable(one) == "kube-scheduler")
        # The start of another cluster removes clusters that have stopped; a test beside this one may start one.
        with exclusive(name):
            os.kill(scheduler, signal.SIGKILL)
            await_end(name)
            described = command("status").stdout
        assert f"{name}: stopped" in described
        assert "kube-scheduler was ended by signal 9; last lines of" in described
        start_and_die(name)
        await_end(name)
    finally:
        down(name)


def start_and_die(name: str) -> None:
    """A broken cluster starts again, and an owned one ends even with an owner that is killed."""
    script = f"""
import os
from e2e.localkube.local import up
assert up({name!r}, owned=True, gpu_nodes=0).kubectl("get", "--raw=/readyz") == "ok"
os.kill(os.getpid(), 9)
"""
    owner = run(sys.executable, "-c", script)
    assert owner.returncode == -signal.SIGKILL, owner.stderr


@pytest.fixture
def unable(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a cluster whose etcd cannot start: it reads its flags from the environment too."""
    monkeypatch.setenv("ETCD_NAME", "no-member")
    name = f"unable-{os.getpid()}"
    yield name
    down(name)


def test_the_error_of_a_component_that_cannot_start_is_in_the_message(unable: str) -> None:
    with pytest.raises(ClusterError) as caught:
        up(unable, owned=True)
    assert not is_running(unable)
    message = str(caught.value)
    assert "etcd ended with status" in message
    assert str(layout(unable).log("etcd")) in message


def test_the_next_start_removes_a_cluster_whose_owner_was_killed_and_no_other(
    cluster: LocalCluster, unable: str
) -> None:
    orphan = f"orphan-{os.getpid()}"
    write_record(Record(orphan, "local", owned=True, slot=SLOTS - 1))
    with pytest.raises(ClusterError):
        up(unable, owned=True)
    assert not layout(orphan).directory.exists()
    assert is_running(cluster.name)


def test_commands_on_an_absent_cluster_name_the_command_that_starts_the_cluster() -> None:
    for arguments in (["kubeconfig"], ["env"], ["load-image", "/dev/null"]):
        answer = command(*arguments, "--name=absent")
        assert answer.returncode == 1
        assert "up --name absent" in answer.stderr
    assert command("down", "--name=absent").returncode == 0
