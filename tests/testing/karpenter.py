"""Karpenter itself, with its provider `kwok`: its nodes exist in the API only, and KWOK plays their kubelets."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from e2e.go_modules import ensure_karpenter
from e2e.helpers.free_ports import free_port
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from tests.testing.definitions import await_established
from tests.testing.node_pools import InstanceType
from tests.testing.operator_process import answers

READY_SECONDS = 120
NODE_CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CAPACITY = "karpenter.sh/capacity-type"
ON_DEMAND = {"key": CAPACITY, "operator": "In", "values": ["on-demand"]}
"""The only capacity that is offered. Else a cheaper node would have to be a spot instance (karpenter v1.14.0,
pkg/controllers/disruption/consolidation.go), for which the provider fails without an offering."""


@contextmanager
def karpenter(cluster: LocalCluster, types: Sequence[InstanceType], folder: Path) -> Iterator[None]:
    """Run Karpenter with these instance types, until the block ends."""
    command, definitions = ensure_karpenter()
    for definition in definitions:
        cluster.kubectl("apply", "--server-side", f"--filename={definition}")
    kinds = ("nodepools.karpenter.sh", "nodeclaims.karpenter.sh", "kwoknodeclasses.karpenter.kwok.sh")
    await_established(cluster, *kinds)
    sizes, log, health = folder / "instance-types.json", folder / "karpenter.log", free_port()
    sizes.write_text(json.dumps([_offered(one) for one in types]))
    settings = {
        "KUBECONFIG": str(cluster.kubeconfig),
        "INSTANCE_TYPES_FILE_PATH": str(sizes),
        "DISABLE_LEADER_ELECTION": "true",
        "METRICS_PORT": str(free_port()),
        "HEALTH_PROBE_PORT": str(health),
    }
    with (
        log.open("w") as output,
        subprocess.Popen([command], env={**os.environ, **settings}, stdout=output, stderr=output) as process,
    ):
        try:
            eventually(
                lambda: answers(f"http://localhost:{health}/readyz"),
                seconds=READY_SECONDS,
                what=lambda: f"Karpenter is ready; its log:\n{log.read_text()[-3000:]}",
            )
            yield
        finally:
            process.kill()


def node_pool(name: str, labels: dict[str, str], taint: dict[str, str]) -> list[dict[str, Any]]:
    """A pool of all instance types, and its node class."""
    node_class = {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": NODE_CLASS["kind"]}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeClassRef": NODE_CLASS, "taints": [taint], "requirements": [ON_DEMAND]},
            },
            "disruption": {"consolidateAfter": "Never"},
        },
    }
    return [{**node_class, "metadata": {"name": NODE_CLASS["name"]}, "spec": {}}, pool]


def _offered(one: InstanceType) -> dict[str, Any]:
    """An instance type in the form of the provider. Labels of an offering become well known, as those of AWS are."""
    labels = {CAPACITY: "on-demand", "topology.kubernetes.io/zone": "test-a", **one.labels}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]
    return {
        "name": one.name,
        "offerings": [{"Price": one.price, "Available": True, "Requirements": requirements}],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "10Ti", "nvidia.com/gpu": str(one.gpus)},
    }
