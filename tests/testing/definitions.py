"""CustomResourceDefinitions of a test cluster."""

import json
from functools import partial

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

SECONDS = 60


def await_established(cluster: LocalCluster, *names: str) -> None:
    """Wait until the API server serves these kinds.

    `kubectl wait` (1.36) fails instead if the API server has written no condition yet.
    """
    for name in names:
        eventually(partial(_is_established, cluster, name), seconds=SECONDS, what=f"{name} is established")


def _is_established(cluster: LocalCluster, name: str) -> bool:
    found = json.loads(cluster.kubectl("get", "crd", name.rpartition("/")[2], "--output=json"))
    conditions = found.get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
