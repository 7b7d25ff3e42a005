"""An operator that is idle, killed, or stopped with SIGTERM."""

import re
import time
from pathlib import Path

from e2e.localkube.audit_log import TELLING, AuditLog
from e2e.localkube.waiting import eventually
from inference_operator.manifest import INFERENCE_DEPLOYMENT
from inference_operator.telemetry.metrics import DESCRIPTIONS
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.operated_cluster import RESYNC_SECONDS, SETTINGS, free_lease
from tests.testing.operator_process import OperatorProcess
from tests.testing.reads import reader
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

IDLE_SECONDS = 2 * RESYNC_SECONDS
SCHEDULED = {
    "replicas": 0,
    "parallelism": {"tensor": 1},
    "scheduling": SCHEDULING,
    "podTemplate": POD_TEMPLATE,
}


def test_an_idle_operator_writes_nothing_but_its_lease(
    qwen: Workspace, audit: AuditLog, operator: OperatorProcess, account: Path, tmp_path: Path
) -> None:
    qwen.kubectl("apply", "--filename=-", input=_every_field())
    qwen.create("scheduled", {**QWEN, **SCHEDULED})
    eventually(lambda: qwen.exists("deployment", "scheduled-engine"), seconds=10, what="engines that are scheduled")
    qwen.settled("every", "Sized", "Unknown", "PartlyEstimated")  # its Job has ended without a word
    qwen.settled("every", "Reconciling", "False")
    time.sleep(QUIET_SECONDS)

    # The pods have addresses that nobody has; each status says so once.
    eventually(lambda: not _untold(qwen), seconds=60, what=lambda: f"metrics cannot be read: {_untold(qwen)}")

    # Namespaces of earlier tests that are still going refuse every write in them.
    read = reader(qwen.cluster.kubeconfig)
    eventually(lambda: not read.terminating_namespaces(), seconds=120, what="no namespace is going")

    seen = audit.mark()
    qwen.kubectl("delete", "service", "qwen", "--wait=false")
    eventually(lambda: audit.writes(seen, namespace=qwen.namespace), seconds=10, what="the log shows a write")

    mark = audit.quiet(QUIET_SECONDS)
    qwen.kubectl("annotate", "infd", "qwen", "every", "look=again")
    time.sleep(IDLE_SECONDS)
    listings = [r for r in audit.requests(mark) if r.verb == "list" and r.resource == "deployments"]
    assert len(listings) >= IDLE_SECONDS // RESYNC_SECONDS - 1
    operator.stop()
    # As users start it, so that its hashes have another seed: no order of a set decides what is written.
    another = OperatorProcess(account, tmp_path / "log", SETTINGS, forked=False)
    try:
        another.start()
        time.sleep(QUIET_SECONDS)
        assert audit.writes(mark, namespace=qwen.namespace) == [], "other tests have namespaces of their own"
    finally:
        another.stop()
        operator.start()


def test_a_paused_resource_gets_status_writes_only(qwen: Workspace, audit: AuditLog) -> None:
    mark = audit.mark()
    qwen.patch("qwen", {"paused": True, "replicas": 2})
    assert qwen.settled("qwen", "Ready", "True", "Paused")
    qwen.kubectl("delete", "configmap", "qwen-router")
    time.sleep(RESYNC_SECONDS + QUIET_SECONDS)
    assert {w.resource for w in audit.writes(mark, namespace=qwen.namespace)} <= TELLING
    qwen.patch("qwen", {"paused": False})
    qwen.settled("qwen", "Ready", "True", "Serving")
    assert qwen.exists("configmap", "qwen-router")
    assert qwen.get("deployment", "qwen-engine")["spec"]["replicas"] == 2


def test_a_restarted_operator_repairs_changes_made_while_it_was_not_running(
    workspace: Workspace, operator: OperatorProcess
) -> None:
    operator.kill()
    free_lease(workspace.cluster)
    workspace.create("qwen", QWEN)
    assert workspace.children("qwen") == set()
    operator.start()
    workspace.settled("qwen")
    operator.kill()
    free_lease(workspace.cluster)
    workspace.kubectl("delete", "service", "qwen")
    workspace.patch("qwen", {"replicas": 2})
    operator.start()
    eventually(lambda: workspace.exists("service", "qwen"), seconds=15, what="the Service is back")
    eventually(lambda: workspace.get("infd", "qwen")["status"].get("ready") == "2/2", seconds=20, what="two engines")


def test_the_operator_ends_with_status_0_after_sigterm(operator: OperatorProcess) -> None:
    assert operator.stop() == 0
    operator.start()


def test_the_operator_exports_every_metric_of_the_reference_page(qwen: Workspace, operator: OperatorProcess) -> None:
    assert qwen.exists("deployment", "qwen-engine")
    text = operator.metrics()
    assert [one.name for one in DESCRIPTIONS if f"# TYPE {one.name} {one.type}\n" not in text] == []
    sample = r"^{}(_count)?(\{{.*\}})? [^ ]+$"
    without = {one.name for one in DESCRIPTIONS if not re.search(sample.format(one.name), text, re.MULTILINE)}
    # What has never happened has no sample yet where its labels are not known before.
    of_some = {"infd_startup_step", "infd_engine_start_seconds", "infd_cost_per_hour", "infd_max_replicas"}
    scaling = {"infd_scaling_demand_requests", "infd_scaling_target_concurrency", "infd_scaling_bound"}
    assert without <= {*of_some, *scaling, "infd_scrapes_total", "infd_reconcile_errors_total"}
    assert 'infd_api_requests_total{code="201",kind="Deployment",verb="PATCH"}' in text
    assert re.search(r'^infd_reconcile_total\{result="success"\} [1-9]', text, re.MULTILINE)
    assert re.search(r"^infd_event_to_apply_seconds_count [1-9]", text, re.MULTILINE)


def test_the_operator_tells_conditions_engines_and_gpus_of_each_resource_and_forgets_a_deleted_one(
    qwen: Workspace, operator: OperatorProcess
) -> None:
    qwen.settled("qwen", "Ready", "True", "Serving")
    of = f'resource_namespace="{qwen.namespace}"'
    plan = qwen.get("infd", "qwen")["status"]["plan"]
    told = (
        f'infd_condition{{name="qwen",reason="Serving",{of},status="True",type="Ready"}} 1.0\n',
        f'infd_replicas{{name="qwen",{of},state="desired"}} 1.0\n',
        f'infd_replicas{{name="qwen",{of},state="ready"}} 1.0\n',
        f'infd_gpus{{gpu="{plan["gpu"]}",name="qwen",{of},state="allocated"}} {plan["gpusPerReplica"]}.0\n',
    )
    eventually(
        lambda: all(one in operator.metrics() for one in told),
        seconds=30,
        what=lambda: f"{told} in {[line for line in operator.metrics().splitlines() if of in line]}",
    )
    qwen.kubectl("delete", "infd", "qwen")
    eventually(lambda: of not in operator.metrics(), seconds=30, what="no metric tells of the deleted resource")


def _untold(workspace: Workspace) -> list[str]:
    """Resources with ready engines whose status does not say yet that their metrics cannot be read."""
    listed = reader(workspace.cluster.kubeconfig).all(INFERENCE_DEPLOYMENT, None)
    serving = [one for one in listed if one.get("status", {}).get("readyReplicas")]
    return [one["metadata"]["name"] for one in serving if not one["status"]["engine"].get("unreadMetrics")]


def _every_field() -> str:
    """A resource that sets all there is."""
    return """
apiVersion: inference-operator.dev/v1alpha1
kind: InferenceDeployment
metadata: {name: every}
spec:
  model: {source: "oci://registry.example/llama:1", servedName: llama}
  engine:
    image: registry.example/vllm:1
    args: [--seed=8, --block-size, "16"]
    env:
    - {name: A, value: "1"}
    - {name: B, valueFrom: {secretKeyRef: {name: s, key: k}}}
    - {name: C, valueFrom: {configMapKeyRef: {name: c, key: k}}}
    resources: {requests: {cpu: "0.5", memory: 1.5Gi}, limits: {memory: 4096Mi}}
  hardware: {device: GPU}
  parallelism: {tensor: 2}
  replicas: 2
  router: {replicas: 3}
"""
