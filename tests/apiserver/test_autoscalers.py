"""HPA and KEDA on a real API server, with the rights of the chart, and the CRD of KEDA itself."""

import json
import time
from typing import Any

import pytest

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.keda import scaled_object_crd
from tests.testing.operated_cluster import optional_kinds
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace

SECONDS = 60


def autoscaled(backend: str, **fields: object) -> dict[str, Any]:
    return {"autoscaling": {"backend": backend, "maxReplicas": 8, "minReplicas": 1, **fields}}


def set_status(workspace: Workspace, what: str, status: dict[str, Any]) -> None:
    """Write a status as the controller of the object does."""
    patch = json.dumps({"status": status})
    workspace.kubectl("patch", what, "qwen", "--subresource=status", "--type=merge", f"--patch={patch}")


def version(workspace: Workspace, what: str) -> str:
    found: str = workspace.get(what, "qwen")["metadata"]["resourceVersion"]
    return found


def test_an_hpa_scales_the_engines_through_the_scale_subresource_and_its_defaults_are_no_drift(qwen: Workspace) -> None:
    """The HorizontalPodAutoscaler controller of Kubernetes runs, and no adapter serves external metrics."""
    qwen.patch("qwen", autoscaled("HPA"))
    eventually(lambda: qwen.exists("horizontalpodautoscaler", "qwen"), seconds=SECONDS, what="the HPA")
    target = qwen.get("horizontalpodautoscaler", "qwen")["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("InferenceDeployment", "qwen")
    qwen.settled("qwen", "ScalingActive", "False", "AutoscalerFailed", saying="external.metrics.k8s.io")

    qwen.kubectl("scale", "infd/qwen", "--replicas=3")
    eventually(lambda: qwen.replicas("qwen") == 3, seconds=SECONDS, what="three engines")
    spec = qwen.get("horizontalpodautoscaler", "qwen")["metadata"]
    time.sleep(QUIET_SECONDS)
    after = qwen.get("horizontalpodautoscaler", "qwen")["metadata"]
    assert after["annotations"] == spec["annotations"]
    assert [m["manager"] for m in after["managedFields"] if m.get("subresource") != "status"] == ["inference-operator"]

    qwen.patch("qwen", {"autoscaling": None})
    eventually(lambda: not qwen.exists("horizontalpodautoscaler", "qwen"), seconds=SECONDS, what="no HPA")
    assert qwen.replicas("qwen") == 3


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (autoscaled("HPA", minReplicas=0), "backend `HPA` needs `minReplicas` of 1 or more"),
        (autoscaled("KEDA", scaleDownDelay="2h"), "must be at most 1h with `HPA` and `KEDA`"),
        (autoscaled("Other"), "Unsupported value"),
    ],
)
def test_the_api_server_refuses_what_a_backend_cannot_do(
    workspace: Workspace, spec: dict[str, Any], words: str
) -> None:
    assert words in workspace.refusal("qwen", {**QWEN, **spec})


def test_a_scaled_object_waits_for_keda_and_is_created_when_its_crd_comes(
    kubernetes: LocalCluster, operator: OperatorProcess, qwen: Workspace
) -> None:
    qwen.patch("qwen", autoscaled("KEDA", minReplicas=0))
    qwen.settled("qwen", "ScalingActive", "False", "AutoscalerMissing", saying="Install its CustomResource")
    with optional_kinds(kubernetes, operator, scaled_object_crd()):
        qwen.settled("qwen", "ScalingActive", "Unknown", "AutoscalerPending", saying="Check that KEDA runs")
        (trigger,) = qwen.get("scaledobject", "qwen")["spec"]["triggers"]
        assert trigger["authenticationRef"] == {"kind": "ClusterTriggerAuthentication", "name": "thanos"}
        assert trigger["metadata"]["namespace"] == qwen.namespace
        ready = {"type": "Ready", "status": "True", "reason": "ScaledObjectReady", "message": ""}
        failing = {"type": "Fallback", "status": "True", "reason": "FallbackExists", "message": "a trigger fails"}
        set_status(qwen, "scaledobject", {"conditions": [ready, failing]})
        qwen.settled("qwen", "ScalingActive", "False", "AutoscalerFailed", saying="a trigger fails")
        time.sleep(QUIET_SECONDS)
        before = version(qwen, "scaledobject")
        time.sleep(QUIET_SECONDS)
        assert version(qwen, "scaledobject") == before, "defaults are no drift"
        qwen.patch("qwen", {"autoscaling": None})
        eventually(lambda: not qwen.exists("scaledobject", "qwen"), seconds=SECONDS, what="no ScaledObject")
