"""The chart's DaemonSet for images, on a real node: its pod runs every image, and stays."""

import json

import pytest

from e2e import images
from e2e.deploy import stack
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

DAEMON_SET = f"daemonset/{stack.RELEASE}-pre-pull"
SECONDS = 120

pytestmark = pytest.mark.full  # tests/chart covers what is rendered


def test_the_daemon_set_has_every_image_on_the_node_and_its_pod_stays(cluster: LocalCluster) -> None:
    values = ("--set=prePull.enabled=true", f"--set-string=prePull.images[0]={images.reference('engine-cpu')}")
    release = ("upgrade", stack.RELEASE, str(stack.CHART), f"--namespace={stack.SYSTEM}", "--reuse-values", "--wait")
    cluster.helm(*release, *values)
    try:
        status = json.loads(cluster.kubectl("--namespace", stack.SYSTEM, "get", DAEMON_SET, "--output=json"))["status"]
        assert (status["desiredNumberScheduled"], status["numberReady"]) == (1, 1)
        selector = f"--selector=app.kubernetes.io/name={stack.RELEASE}-pre-pull"
        listed = cluster.kubectl("--namespace", stack.SYSTEM, "get", "pods", selector, "--output=json")
        (pod,) = json.loads(listed)["items"]
        (pulled,) = pod["status"]["initContainerStatuses"]
        assert pulled["image"] == images.reference("engine-cpu")
        assert pulled["state"]["terminated"]["exitCode"] == 0
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    finally:
        cluster.helm(*release, "--set=prePull.enabled=false")
    eventually(
        lambda: DAEMON_SET not in cluster.kubectl("--namespace", stack.SYSTEM, "get", "daemonsets", "--output=name"),
        seconds=SECONDS,
        what="no DaemonSet",
    )
