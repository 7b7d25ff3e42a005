"""Deleting a resource leaves no objects. `helm uninstall` keeps the CRD, and with it all resources of users."""

from e2e.deploy import stack
from e2e.helpers.served_deployment import Served, await_all_left
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.test_causes import apply

DEFINITIONS = {
    f"customresourcedefinition.apiextensions.k8s.io/{plural}.inference-operator.dev"
    for plural in ("inferencedeployments", "modelgateways")
}
API = "apiservice.apiregistration.k8s.io/v1alpha1.inference-operator.dev"
KEPT = {*DEFINITIONS, API, f"namespace/{stack.SYSTEM}"}
"""The API server creates an APIService for the CRDs; Helm creates the namespace on request, and never deletes one."""
TRANSIENT = ("events", "endpointslices", "leases", "pods", "replicasets")
"""Kinds that Kubernetes creates by itself and removes by itself, some of them hours later."""
TAKEOVER_SECONDS = 90
"""Helm removes the RBAC objects while the operator still stops, so that it cannot release its Lease. The Lease of 30 s
has to expire, counted from when the next operator first sees it."""


def test_deleting_a_resource_leaves_no_children(tiny: Served) -> None:
    tiny.kubectl("delete", f"infd/{tiny.name}", "--wait=true")
    tiny.await_gone()


def test_helm_uninstall_keeps_the_crd_and_a_new_install_works(cluster: LocalCluster) -> None:
    await_all_left()
    resources = cluster.kubectl("get", "infd", "--all-namespaces", "--output=name")
    assert resources == "", "the tests before this one have deleted their resources"
    cluster.helm("uninstall", stack.RELEASE, f"--namespace={stack.SYSTEM}", "--wait", "--timeout=60s")
    assert _ours(cluster) == KEPT
    stack.install_operator(cluster)
    served = Served(cluster, "again")
    apply(served, "pvc://nosuch/llama", {})
    eventually(
        lambda: served.kubectl("get", "deployments", "--output=name").split(),
        seconds=TAKEOVER_SECONDS,
        what="the operator creates the children",
    )
    served.kubectl("delete", f"infd/{served.name}", "--wait=true")
    served.await_gone()


def _ours(cluster: LocalCluster) -> set[str]:
    """Every object of the cluster with the operator's name in its own."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "--output=name").split()
    chosen = ",".join(kind for kind in kinds if kind.partition(".")[0] not in TRANSIENT)
    found = cluster.kubectl("get", chosen, "--all-namespaces", "--output=name", "--ignore-not-found").split()
    return {name for name in found if stack.RELEASE in name}
