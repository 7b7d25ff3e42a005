"""Seven lines of a user without rights on pods, in a namespace with many rules, and the administrator's defaults."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.admission.operator_policy import ACCOUNTS_ANNOTATION
from tests.apiserver.inspection import MINE, MODEL, let_it_say
from tests.testing.operated_cluster import SETTINGS, new_workspace
from tests.testing.operator_process import OperatorProcess
from tests.testing.workspace import QWEN, Workspace, manifest

USER, STRICT, LABEL = "plain-user", "strict", "example.com/cost-centre"
DRY = "--dry-run=server"
TAINT = "dedicated=inference:NoSchedule"
SCHEDULING = {
    "tolerations": [{"key": "dedicated", "value": "inference", "effect": "NoSchedule"}],
    "runtimeClassName": STRICT,
}
SHARED = {"scheduling": SCHEDULING, "serviceAccountName": "inference", "imagePullSecrets": [{"name": "registry"}]}
OWNED = {
    "COMMON_LABELS": json.dumps({LABEL: "7"}),
    "ENGINE_DEFAULTS": json.dumps({**SHARED, "limitRequestRatio": {"cpu": 2, "memory": 1, "ephemeral-storage": 1}}),
    "ROUTER_DEFAULTS": json.dumps({**SHARED, "resources": {"limits": {"cpu": "100m"}}}),
}
KINDS = ("pods", "services", "configmaps", "deployments", "jobs", "poddisruptionbudgets")


def _policy(name: str, kinds: tuple[str, ...], rules: dict[str, str]) -> list[dict[str, Any]]:
    """A ValidatingAdmissionPolicy for new objects of these kinds in namespaces with the label `rules=strict`."""
    matched = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": list(kinds)}
    version = "admissionregistration.k8s.io/v1"
    return [
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {
                    "namespaceSelector": {"matchLabels": {"rules": STRICT}},
                    "resourceRules": [matched],
                },
                # Kubernetes itself makes this ConfigMap in every namespace.
                "matchConditions": [{"name": "not-the-root-ca", "expression": "request.name != 'kube-root-ca.crt'"}],
                "validations": [{"expression": rule, "message": message} for message, rule in rules.items()],
            },
        },
        {
            "apiVersion": version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


LABELLED = _policy(
    "labels-required", KINDS, {"every object needs a cost centre": f"object.metadata.?labels[?'{LABEL}'].hasValue()"}
)
PODS = _policy(
    "pods-by-the-rules",
    ("pods",),
    {
        "a pod needs the strict runtime": f"object.spec.?runtimeClassName.orValue('') == '{STRICT}'",
        "a pod needs the account": "object.spec.?serviceAccountName.orValue('') == 'inference'",
        "a pod needs the pull Secret": "object.spec.?imagePullSecrets.orValue([]).exists(s, s.name == 'registry')",
    },
)
RUNTIME = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": STRICT}, "handler": STRICT}
LIMITS = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small-by-default"},
    "spec": {
        "limits": [
            {
                "type": "Container",
                "default": {"cpu": "1", "memory": "1Gi"},
                "maxLimitRequestRatio": {"cpu": "10"},
            }
        ]
    },
}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "limited"},
    "spec": {"hard": {"limits.cpu": "40", "limits.memory": "64Gi", "requests.nvidia.com/gpu": "4"}},
}


@pytest.fixture(scope="module")
def strict(kubernetes: LocalCluster, owned: None) -> Iterator[Workspace]:  # noqa: ARG001 - its operator
    """A namespace with all of these rules, in a cluster whose nodes are all tainted."""
    found = new_workspace(kubernetes, STRICT)
    found.kubectl("create", "serviceaccount", "inference")
    # The chart of this cluster does not name it.
    found.kubectl("annotate", "namespace", found.namespace, f"{ACCOUNTS_ANNOTATION}=inference")
    found.kubectl("label", "namespace", found.namespace, f"rules={STRICT}")
    found.kubectl("create", "role", "writer", "--verb=get,create,patch", "--resource=inferencedeployments")
    found.kubectl("create", "rolebinding", "writer", "--role=writer", f"--user={USER}")
    rules = [*LABELLED, *PODS, RUNTIME, LIMITS, QUOTA]
    found.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(rules))
    kubernetes.kubectl("taint", "nodes", "--all", TAINT)
    yield found
    kubernetes.kubectl("delete", "namespace", found.namespace, "--wait=false")
    kubernetes.kubectl("taint", "nodes", "--all", f"{TAINT}-")
    kubernetes.kubectl("delete", "--filename=-", input=yaml.safe_dump_all([*LABELLED, *PODS, RUNTIME]))


@pytest.fixture(scope="module")
def owned(account: Path, operator: OperatorProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An operator with the administrator's defaults, instead of the one of the session."""
    operator.stop()
    process = OperatorProcess(account, tmp_path_factory.mktemp("owned") / "log", {**SETTINGS, **OWNED})
    process.start()
    yield
    process.stop()
    assert "Traceback" not in process.log(), process.log()
    operator.start()


def _refusal(workspace: Workspace, *arguments: str) -> str:
    try:
        workspace.kubectl(*arguments)
    except ClusterError as error:
        return str(error)
    return ""


def test_seven_lines_of_a_plain_user_serve_where_labels_limits_runtime_and_tolerations_are_required(
    strict: Workspace, audit: AuditLog
) -> None:
    eventually(
        lambda: "every object needs a cost centre" in _refusal(strict, "create", "configmap", "bare", DRY),
        seconds=30,
        what="the rules are in force",
    )
    eventually(
        lambda: "a pod needs" in _refusal(strict, "run", "bare", "--image=a", DRY, f"--labels={LABEL}=7"),
        seconds=30,
        what="the rules about pods are in force too",
    )
    assert 'cannot create resource "pods"' in _refusal(strict, "run", "bare", "--image=a", DRY, f"--as={USER}")

    mark = audit.mark()
    for name, spec in (("qwen", QWEN), ("mine", MINE)):
        strict.kubectl("apply", f"--as={USER}", "--filename=-", input=manifest(name, spec))
    strict.settled("qwen")
    let_it_say(strict, MODEL)
    strict.settled("mine")
    refused = [w for w in audit.writes(mark, namespace=strict.namespace) if w.code in (403, 422)]
    assert not refused

    pods = [pod for name in ("qwen", "mine") for pod in strict.all("pods", f"inference-operator.dev/name={name}")]
    serving = [pod for pod in pods if pod["metadata"]["labels"]["app.kubernetes.io/component"] != "inspection"]
    assert len(serving) == 2 * 3
    assert all(pod["spec"]["nodeName"].startswith("gpu-") for pod in serving)
    used = strict.get("quota", "limited")["status"]["used"]
    assert used["requests.nvidia.com/gpu"] == "2"
    assert used["limits.cpu"] not in ("0", "")
