"""A scheduler with the plugin Coscheduling, as a process of this machine."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.go_modules import ensure_coscheduler
from e2e.helpers.free_ports import free_port
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

SCHEDULER = "gpus"
READY_SECONDS = 120


@contextmanager
def coscheduler(cluster: LocalCluster, folder: Path) -> Iterator[None]:
    """Run the scheduler `gpus` until the block ends. The CRD of its groups must be there."""
    plugin = {"enabled": [{"name": "Coscheduling"}]}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "profiles": [
            {
                "schedulerName": SCHEDULER,
                "plugins": {"multiPoint": plugin, "queueSort": {**plugin, "disabled": [{"name": "*"}]}},
            }
        ],
    }
    file, log = folder / "scheduler.json", folder / "scheduler.log"
    file.write_text(json.dumps(configuration))
    command = [
        str(ensure_coscheduler()),
        f"--config={file}",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
    ]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            eventually(
                lambda: "Starting Kubernetes Scheduler" in log.read_text(),
                seconds=READY_SECONDS,
                what=lambda: log.read_text()[-3000:],
            )
            yield
        finally:
            process.kill()
