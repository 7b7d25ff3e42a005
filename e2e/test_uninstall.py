"""Deleting leaves nothing, and uninstalling leaves the CRD, so that nobody's resources go with the operator."""

from e2e import stack
from e2e.cluster.handle import LocalCluster
from e2e.served import Served
from e2e.test_causes import apply
from e2e.waiting import eventually

CRD = "customresourcedefinition.apiextensions.k8s.io/inferencedeployments.inference-operator.dev"
API = "apiservice.apiregistration.k8s.io/v1alpha1.inference-operator.dev"
KEPT = {CRD, API, f"namespace/{stack.SYSTEM}"}
"""The API server makes its service of the CRD; Helm makes the namespace if told to, and never deletes one."""
PASSING = ("events", "endpointslices", "leases", "pods", "replicasets")
"""What Kubernetes makes for others and removes by itself, some of it hours later."""
TAKEOVER_SECONDS = 90
"""Helm takes an operator's rights away while it still ends, so that it cannot hand over: its Lease of 30 s has to run
out, counted from when the next one first sees it."""


def test_deleting_a_resource_leaves_no_children(tiny: Served) -> None:
    tiny.kubectl("delete", f"infd/{tiny.name}", "--wait=true")
    tiny.await_gone()


def test_helm_uninstall_keeps_the_crd_and_a_new_install_works(cluster: LocalCluster) -> None:
    resources = cluster.kubectl("get", "infd", "--all-namespaces", "--output=name")
    assert resources == "", "other tests clean up behind them"
    cluster.helm("uninstall", stack.RELEASE, f"--namespace={stack.SYSTEM}", "--wait", "--timeout=60s")
    assert _ours(cluster) == KEPT
    stack.install_operator(cluster)
    served = Served(cluster, "again")
    apply(served, "pvc://nosuch/llama", {})
    eventually(
        lambda: served.kubectl("get", "deployments", "--output=name").split(),
        seconds=TAKEOVER_SECONDS,
        what="children are made",
    )
    served.kubectl("delete", f"infd/{served.name}", "--wait=true")
    served.await_gone()


def _ours(cluster: LocalCluster) -> set[str]:
    """Every object of the cluster that bears the operator's name."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--output=name").split()
    chosen = ",".join(kind for kind in kinds if kind.partition(".")[0] not in PASSING)
    found = cluster.kubectl("get", chosen, "--all-namespaces", "--output=name", "--ignore-not-found").split()
    return {name for name in found if stack.RELEASE in name}
