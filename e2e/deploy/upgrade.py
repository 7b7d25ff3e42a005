"""Upgrades an earlier commit's operator and rolls it back, under load: `python -m e2e.deploy.upgrade FOLDER`.

The folder is a checkout of that commit. Its own `make demo` starts the cluster, its operator and two engines. Then this
tree's chart and operator take over, and then those of the earlier commit again, while a client keeps sending requests.
No engine and no router may restart, and no request may be lost.

An earlier commit without pinned routers has its routers replaced at each step. The result is 1 then, although nothing
is lost.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.deploy import demo, stack
from e2e.helpers.served_deployment import Served
from e2e.load import Load
from e2e.localkube.handle import LocalCluster

BEFORE, AFTER = 500, 1500
"""Requests that are answered before the upgrade, and after it."""
SETTLE_SECONDS = 30.0
"""How long the new operator gets to do something wrong after it has taken over."""
PHASE_SECONDS, MOST = 900, 200_000
"""Limits of the load: seconds, and requests."""


def pods(cluster: LocalCluster) -> Mapping[str, tuple[str, int]]:
    """Uid and container restarts of every engine and router, by name."""
    listed = json.loads(cluster.kubectl("get", "pods", "--output=json"))["items"]
    return {
        pod["metadata"]["name"]: (
            pod["metadata"]["uid"],
            sum(container["restartCount"] for container in pod["status"]["containerStatuses"]),
        )
        for pod in listed
    }


def install_earlier(folder: Path) -> None:
    """Load the images of the earlier commit into the node, and install its chart."""
    code = "from e2e import demo, stack; stack.install_operator(stack.bring_up(demo.CLUSTER))"
    subprocess.run([folder / ".venv" / "bin" / "python", "-c", code], cwd=folder, check=True)


def kept(cluster: LocalCluster, load: Load, name: str, install: Callable[[], None]) -> bool:
    """Whether no pod restarts and no request is lost while another operator is installed and takes over."""
    before, leader = pods(cluster), stack.leader(cluster)
    with load.phase(name, at_least=BEFORE + AFTER, seconds=PHASE_SECONDS, at_most=MOST) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        install()
        while stack.leader(cluster) in ("", leader):
            time.sleep(stack.POLL_SECONDS)
        time.sleep(SETTLE_SECONDS)
        phase.await_answers(AFTER)
    after = pods(cluster)
    print(phase.result)
    print(f"pods before {dict(before)}\npods after  {dict(after)}")
    print(f"operator before {leader}, after {stack.leader(cluster)}")
    print(cluster.kubectl("get", "infd", "--output=wide"))
    return after == before and not phase.result.lost


def main(earlier: Path) -> int:
    """Run it; returns 1 where a pod restarted or a request was lost."""
    subprocess.run(["make", "-C", str(earlier), "demo"], check=True)
    cluster = stack.bring_up(demo.CLUSTER)
    served = Served(cluster, stack.SAMPLE_NAME)
    load = Load(served.address, served.name)
    load.learn()
    upgraded = kept(cluster, load, "operator upgrade", lambda: stack.install_operator(cluster))
    rolled_back = kept(cluster, load, "roll back", lambda: install_earlier(earlier))
    return int(not (upgraded and rolled_back))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
