"""CustomResourceDefinitions of a test cluster."""

from functools import partial

from e2e.cluster.handle import LocalCluster
from e2e.waiting import eventually

SECONDS = 60
_STATUS = "--output=jsonpath={.status.conditions[?(@.type=='Established')].status}"


def await_established(cluster: LocalCluster, *names: str) -> None:
    """Wait until the API server serves these kinds.

    `kubectl wait` (1.36) fails instead if the API server has written no condition yet.
    """
    for name in names:
        asked = ("get", "crd", name.removeprefix("crd/"), _STATUS)
        eventually(partial(_is_true, cluster, *asked), seconds=SECONDS, what=f"{name} is established")


def _is_true(cluster: LocalCluster, *asked: str) -> bool:
    return cluster.kubectl(*asked) == "True"
