"""`helm test` on a real node: its pod runs the operator's image with the rights of the operator."""

from e2e.deploy import stack
from e2e.localkube.handle import LocalCluster

NAME = "helm-test"


def test_helm_test_succeeds_and_leaves_nothing_behind(cluster: LocalCluster) -> None:
    said = cluster.helm("test", stack.RELEASE, f"--namespace={stack.SYSTEM}", "--timeout=120s", "--logs")
    assert "Succeeded" in said
    assert f"The operator has reported the status of {stack.SYSTEM}/{NAME}." in said
    left = cluster.kubectl("--namespace", stack.SYSTEM, "get", "infd,pods", "--output=name").split()
    assert not [name for name in left if "test" in name]
