"""KEDA itself, and the HorizontalPodAutoscaler controller of Kubernetes, scale an InferenceDeployment through `/scale`.

A real Prometheus answers their query. Its series tell of as many requests as the test says.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.helpers.free_ports import free_port
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.admission.operator_policy import OperatorAccount, operator_policies
from inference_operator.api.prometheus import PrometheusSettings
from inference_operator.autoscaling.external import METRIC, METRIC_LABEL, QUERY_ANNOTATION
from tests.testing.demand import demand, prometheus, value
from tests.testing.keda import keda
from tests.testing.metrics_api import adapter
from tests.testing.operated_cluster import PROMETHEUS, RELEASE, SETTINGS, SYSTEM, free_lease, new_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace

pytestmark = pytest.mark.full
SECONDS = 240
"""More than three rounds of the HorizontalPodAutoscaler controller and the least `scaleDownDelay`."""
FEW, MANY = 2, 16
"""Requests for one engine, and for more than three."""
FAILED_SECONDS = 30
"""Longer than KEDA waits until it falls back: three queries, 5 s apart."""


def autoscaled(backend: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    section = {"backend": backend, "maxReplicas": 3, "targetConcurrency": 4, "scaleDownDelay": "30s", **fields}
    return {**QWEN, "router": {"replicas": 1}, "autoscaling": section}


@pytest.fixture
def address() -> str:
    """Where Prometheus listens, when it runs."""
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def own(
    kubernetes: LocalCluster, operator: OperatorProcess, account: Path, address: str, tmp_path: Path
) -> Iterator[OperatorProcess]:
    """An operator of the test's own, which knows the address of Prometheus, as the policy of its account does."""
    operator.stop()
    prometheus = PrometheusSettings(url=address)
    allow(kubernetes, prometheus)
    process = OperatorProcess(
        account, tmp_path / "log", {**SETTINGS, "PROMETHEUS": prometheus.model_dump_json(by_alias=True)}
    )
    yield process
    process.kill()
    free_lease(kubernetes)
    allow(kubernetes, PrometheusSettings.model_validate_json(PROMETHEUS))
    operator.start()


def allow(cluster: LocalCluster, prometheus: PrometheusSettings) -> None:
    """Let the policies of the operator's account allow this Prometheus."""
    policies = operator_policies(OperatorAccount(SYSTEM, RELEASE, prometheus=prometheus))
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=yaml.safe_dump_all(policies))


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def await_replicas(workspace: Workspace, replicas: int) -> None:
    eventually(
        lambda: workspace.replicas("qwen") == replicas,
        seconds=SECONDS,
        what=lambda: f"{replicas} engines: {workspace.get('infd', 'qwen').get('status')}",
    )
    assert workspace.get("infd", "qwen")["spec"]["replicas"] == replicas, "it is written through `/scale`"


def test_keda_scales_from_zero_to_three_and_back_and_keeps_engines_while_prometheus_is_gone(
    kubernetes: LocalCluster, own: OperatorProcess, address: str, tmp_path: Path
) -> None:
    with keda(kubernetes, tmp_path):
        own.start()
        workspace = new_workspace(kubernetes)
        with demand(workspace) as requests, ExitStack() as running:
            running.enter_context(prometheus(requests, tmp_path, port_of(address)))
            workspace.create("qwen", {**autoscaled("KEDA", minReplicas=0, idleTimeout="10s"), "replicas": 0})
            workspace.settled("qwen", "RouterAvailable")
            assert workspace.replicas("qwen") == 0
            requests.outstanding = 1
            await_replicas(workspace, 1)
            requests.outstanding = MANY
            await_replicas(workspace, 3)
            eventually(
                lambda: workspace.condition("qwen", "ScalingActive").get("reason") == "FollowingAutoscaler",
                seconds=SECONDS,
                what=lambda: f"{workspace.condition('qwen', 'ScalingActive')}",
            )
            running.close()
            eventually(
                lambda: workspace.condition("qwen", "ScalingActive").get("reason") == "AutoscalerFailed",
                seconds=SECONDS,
                what=lambda: f"{workspace.get('scaledobject', 'qwen').get('status')}",
            )
            time.sleep(FAILED_SECONDS)
            assert workspace.replicas("qwen") == 3
            requests.outstanding = FEW
            running.enter_context(prometheus(requests, tmp_path, port_of(address)))
            await_replicas(workspace, 1)
            requests.outstanding = 0
            await_replicas(workspace, 0)
        kubernetes.kubectl("delete", "namespace", workspace.namespace)


def test_the_hpa_controller_scales_from_one_to_three_and_back_by_the_query_of_its_annotation(
    kubernetes: LocalCluster, own: OperatorProcess, address: str, tmp_path: Path
) -> None:
    own.start()
    workspace = new_workspace(kubernetes)

    def wanted(metric: str, selector: str) -> float | None:
        """What the documented rules give: the query of the annotation, under the name of the metric."""
        if (metric, selector) != (METRIC, f"{METRIC_LABEL}=qwen"):
            return None
        hpa = workspace.get("horizontalpodautoscaler", "qwen")
        return value(address, hpa["metadata"]["annotations"][QUERY_ANNOTATION])

    with demand(workspace) as requests, prometheus(requests, tmp_path, port_of(address)):
        with adapter(kubernetes, tmp_path / "adapter", wanted):
            requests.outstanding = FEW
            workspace.create("qwen", autoscaled("HPA", minReplicas=1))
            workspace.settled("qwen", "RouterAvailable")
            requests.outstanding = MANY
            await_replicas(workspace, 3)
            requests.outstanding = FEW
            await_replicas(workspace, 1)
            requests.outstanding = MANY
            await_replicas(workspace, 3)
        requests.outstanding = FEW
        eventually(
            lambda: workspace.condition("qwen", "ScalingActive").get("reason") == "AutoscalerFailed",
            seconds=SECONDS,
            what=lambda: f"without an adapter: {workspace.condition('qwen', 'ScalingActive')}",
        )
        assert workspace.replicas("qwen") == 3
    kubernetes.kubectl("delete", "namespace", workspace.namespace)
