"""Failures of the whole cluster: outages of the API server, an etcd that is slow or full, lost owners, and upgrades."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from e2e.helpers.faults import without_room
from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.controller.cluster import FIELD_MANAGER
from inference_operator.objects.child import ADOPT_ANNOTATION
from tests.apiserver.components import component, paused
from tests.apiserver.proxy import Proxy
from tests.testing.operated_cluster import QUICK_LEASE, SETTINGS
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

AWAY_SECONDS = 2.0
"""Less than the renewal deadline of the tests' Lease."""
WAIT_SECONDS = 60
SLOW_SECONDS, BETWEEN_SECONDS = 1.0, 0.2
"""For so long etcd stands still again and again, and works in between: a write takes a second or two."""
RESTARTED = "kubectl.kubernetes.io/restartedAt"
CRD = "inferencedeployments.inference-operator.dev"
UNREADABLE = "\ninfd_namespaces_unreadable 1.0\n"


def test_a_short_outage_of_the_api_server_costs_no_extra_write(
    qwen: Workspace, operator: OperatorProcess, account: Path, tmp_path: Path, audit: AuditLog
) -> None:
    operator.stop()
    try:
        with Proxy(account, tmp_path / "kubeconfig") as proxy, ExitStack() as stack:
            process = OperatorProcess(proxy.kubeconfig, tmp_path / "log", {**SETTINGS, **QUICK_LEASE})
            stack.callback(process.stop)
            process.start()
            time.sleep(QUIET_SECONDS)
            mark = audit.mark()
            for number in (2, 3, 2):
                proxy.cut()
                qwen.patch("qwen", {"replicas": number})
                time.sleep(AWAY_SECONDS)
                mended = audit.mark()
                proxy.mend()
                eventually(lambda n=number: qwen.replicas("qwen") == n, seconds=WAIT_SECONDS, what=f"{number} replicas")  # type: ignore[misc]
                qwen.settled("qwen")  # the operator has the answer to its write: one that is cut off is repeated
                # Outages that follow one another before a renewal are one long outage, which ends the holder.
                eventually(lambda m=mended: audit.renewals(m), seconds=WAIT_SECONDS, what="a renewed Lease")  # type: ignore[misc]
            assert process.is_running()
            assert process.log().count("holds Lease") == 1
            applied = [w for w in audit.writes(mark, namespace=qwen.namespace) if w.resource == "deployments"]
            assert len(applied) == 3
            assert process.stop() == 0
    finally:
        operator.start()


@contextmanager
def slow_etcd(cluster: LocalCluster) -> Iterator[None]:
    """As if its disk were slow."""
    etcd, over = component(cluster, "etcd"), threading.Event()

    def stutter() -> None:
        while not over.wait(BETWEEN_SECONDS):
            with paused(etcd):
                over.wait(SLOW_SECONDS)

    thread = threading.Thread(target=stutter)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_a_slow_etcd_causes_no_repeated_write(
    kubernetes: LocalCluster, qwen: Workspace, operator: OperatorProcess, audit: AuditLog
) -> None:
    mark = audit.mark()
    with slow_etcd(kubernetes):
        for number in (2, 3, 2):
            qwen.patch("qwen", {"replicas": number})
            eventually(lambda n=number: qwen.replicas("qwen") == n, seconds=WAIT_SECONDS, what=f"{number} replicas")  # type: ignore[misc]
    qwen.settled("qwen", "Reconciling", "False")
    assert operator.is_leading()
    applied = [w for w in audit.writes(mark, namespace=qwen.namespace) if w.resource == "deployments"]
    assert len(applied) == 3


def test_an_etcd_without_room_is_outlived(kubernetes: LocalCluster, qwen: Workspace, operator: OperatorProcess) -> None:
    with without_room(Path(f"/proc/{component(kubernetes, 'etcd')}")):
        with pytest.raises(Exception, match="database space exceeded"):
            qwen.patch("qwen", {"replicas": 3})
        time.sleep(AWAY_SECONDS)
    qwen.patch("qwen", {"replicas": 2})
    eventually(lambda: qwen.replicas("qwen") == 2, seconds=WAIT_SECONDS, what="2 replicas")
    assert operator.is_leading()


def test_a_resource_that_is_deleted_while_its_children_are_made_leaves_no_children(workspace: Workspace) -> None:
    for _ in range(3):
        workspace.create("qwen", QWEN)
        workspace.kubectl("delete", "infd", "qwen", "--wait=false")
    eventually(lambda: not workspace.children("qwen"), seconds=WAIT_SECONDS, what="no children")


@pytest.mark.parametrize("cascade", ["foreground", "background"])
def test_foreground_and_background_deletion_remove_all_children(qwen: Workspace, cascade: str) -> None:
    qwen.kubectl("delete", "infd", "qwen", f"--cascade={cascade}", "--wait=false")
    eventually(lambda: not qwen.children("qwen"), seconds=WAIT_SECONDS, what="no children")
    eventually(lambda: not qwen.exists("infd", "qwen"), seconds=WAIT_SECONDS, what="no owner after its children")


def test_orphaned_children_are_adopted_without_a_restart_once_somebody_says_so(qwen: Workspace) -> None:
    qwen.kubectl("rollout", "restart", "deployment/qwen-engine")
    before = qwen.get("deployment", "qwen-engine")
    qwen.kubectl("delete", "infd", "qwen", "--cascade=orphan")
    qwen.create("qwen", QWEN)
    qwen.settled("qwen", "Stalled", "True", "NameConflict", saying="take it over with the annotation")
    assert qwen.get("deployment", "qwen-engine")["metadata"]["uid"] == before["metadata"]["uid"]
    kinds = "deployments,services,configmaps,poddisruptionbudgets"
    selector = "--selector=inference-operator.dev/name=qwen"
    qwen.kubectl("annotate", kinds, selector, "inference-operator.dev/adopt=true")
    qwen.settled("qwen")
    eventually(
        lambda: ADOPT_ANNOTATION not in qwen.get("deployment", "qwen-engine")["metadata"]["annotations"],
        seconds=WAIT_SECONDS,
        what="the annotation is removed: it says nothing about the next loss of an owner",
    )
    adopted = qwen.get("deployment", "qwen-engine")
    assert adopted["metadata"]["uid"] == before["metadata"]["uid"]
    assert RESTARTED in adopted["spec"]["template"]["metadata"]["annotations"], "fields of others stay theirs"
    assert adopted["spec"]["template"] == before["spec"]["template"], "no pod is replaced"
    ours = [one for one in adopted["metadata"]["managedFields"] if one["manager"] == FIELD_MANAGER]
    assert [one["operation"] for one in ours] == ["Apply"], "a later apply can take owner and labels away again"
    (owner,) = adopted["metadata"]["ownerReferences"]
    assert owner["uid"] == qwen.get("infd", "qwen")["metadata"]["uid"]


def test_a_namespace_with_a_served_model_can_be_deleted_and_made_again(
    kubernetes: LocalCluster, qwen: Workspace
) -> None:
    before, former = qwen.children("qwen"), qwen.get("infd", "qwen")["metadata"]["uid"]
    kubernetes.kubectl("delete", "namespace", qwen.namespace, "--wait=true", f"--timeout={2 * WAIT_SECONDS}s")
    kubernetes.kubectl("create", "namespace", qwen.namespace)
    qwen.create("qwen", QWEN)
    qwen.settled("qwen")
    qwen.settled("qwen", "Reconciling", "False")
    owner = qwen.get("infd", "qwen")["metadata"]["uid"]
    assert qwen.children("qwen") == before
    assert qwen.owners("qwen") == {owner} != {former}


def test_after_its_own_crd_was_deleted_the_operator_serves_a_new_one_without_a_restart(
    qwen: Workspace, operator: OperatorProcess
) -> None:
    """All resources go with it, but not always their children, for the garbage collector cannot look for owners of a
    kind that there is not.
    """
    definition = qwen.kubectl("get", "crd", CRD, "--output=yaml")
    process = operator.pid
    qwen.kubectl("delete", "crd", CRD, "--wait=true", f"--timeout={WAIT_SECONDS}s")
    eventually(lambda: UNREADABLE in operator.metrics(), seconds=WAIT_SECONDS, what="it can list nothing")
    qwen.kubectl("create", "--filename=-", input=definition)
    eventually(lambda: _is_established(qwen), seconds=WAIT_SECONDS, what="the definition is established")
    qwen.create("again", QWEN)
    eventually(
        lambda: qwen.condition("again", "Ready").get("status") == "True",
        seconds=WAIT_SECONDS,
        what=lambda: f"it serves; the operator:\n{operator.log()[-4000:]}",
    )
    eventually(lambda: not qwen.children("qwen"), seconds=WAIT_SECONDS, what="nothing of before is left")
    assert (operator.is_running(), operator.pid) == (True, process)


def _is_established(workspace: Workspace) -> bool:
    """kubectl's own wait fails on a definition that has no conditions yet."""
    conditions = workspace.get("crd", CRD).get("status", {}).get("conditions") or ()
    return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)


def test_an_operator_upgrade_with_other_defaults_restarts_no_serving_engine(
    qwen: Workspace, operator: OperatorProcess, account: Path, tmp_path: Path
) -> None:
    """An upgrade and a downgrade of the operator, as far as engines see them."""
    before = qwen.get("deployment", "qwen-engine")
    images = {"GPU_ENGINE_IMAGE": "example.com/vllm:newer", "CPU_ENGINE_IMAGE": "example.com/vllm-cpu:newer"}
    pods = {"DNS_STALENESS_SECONDS": "77", "IMAGE_PULL_POLICY": "Always"}
    newer = OperatorProcess(account, tmp_path / "log", {**SETTINGS, **images, **pods})
    operator.stop()
    try:
        newer.start()
        qwen.kubectl("delete", "service", "qwen", "--wait=false")
        eventually(lambda: qwen.exists("service", "qwen"), seconds=WAIT_SECONDS, what="the newer one works")
        ready = qwen.settled("qwen")
        assert "example.com/vllm:newer" in ready["message"]
        assert "Engines keep their current pod template" in ready["message"]
        assert newer.stop() == 0
    finally:
        newer.stop()
        operator.start()
    time.sleep(QUIET_SECONDS)
    after = qwen.get("deployment", "qwen-engine")
    assert after["spec"] == before["spec"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
