"""Time and writes that the operator adds from `kubectl apply` to Ready.

    python -m bench.path [--runs N] [--output text|json]

Runs on a real node (needs root) with the CPU sample. *The engine's start* lasts from the start of the container's first
process, from `/proc`, to the first 200 of `/health`, polled every 20 ms. *The path* is the rest of the time from
`kubectl apply` until `kubectl wait` sees Ready: operator, scheduler, volumes, sandboxes, probes (the startup probe runs
every 2 s) and the status update.

Writes are all modifying requests of the operator's service account in the API server's audit log, whatever the
response. They are counted for a new resource until `QUIET_SECONDS` after Ready, for the same manifest applied again,
and for an operator restart.
"""

import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bench.figures import Figure, at_most, exactly, parser_of, shown
from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes, started
from e2e.helpers.served_deployment import Served
from e2e.localkube.audit_log import TELLING, AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily

ACCOUNT = f"system:serviceaccount:{stack.SYSTEM}:{stack.RELEASE}"
RUNS = 3
QUIET_SECONDS = 10
"""Time after a change in which its writes are counted; the operator acts within a second."""
POLL_SECONDS = 0.02
CHILDREN = 7
"""Two Deployments, two Services, a ConfigMap, and the disruption budgets of the engine and of the routers."""
STATUSES = 5
"""One for each visible step: accepted, engine pod created, one router ready, both routers ready, engine ready."""
PATH_AIM = at_most(3)
"""Seconds: one period of the startup probe, and one second for everything else."""


@dataclass(slots=True)
class EngineStart:
    """Polls the engine for its first 200, in a thread, while the bench waits for Ready."""

    served: Served
    pod: str = ""
    answered: float = 0.0
    stopped: bool = False

    def watch(self) -> None:
        """Poll until the engine answers."""
        while not self.stopped:
            for pod, address in self.served.pods("engine").items():
                while address and not self.stopped:
                    if _is_healthy(address):
                        self.pod, self.answered = pod, _now()
                        return
                    time.sleep(POLL_SECONDS)
            time.sleep(POLL_SECONDS)

    @property
    def seconds(self) -> float:
        """From the first process to the first 200."""
        first = container_processes(self.served.cluster, self.pod, self.served.namespace)[0]
        return self.answered - started(first)


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.path", "Time and writes that the operator adds.")
    parser.add_argument("--runs", type=int, default=RUNS, help="new resources; the median counts")
    args = parser.parse_args(arguments)
    print(shown(measured(args.runs), args.output))
    return 0


def measured(runs: int) -> list[Figure]:
    """All figures, on the cluster of the e2e tests. Its node has the images already."""
    with stack.tests_cluster(IpFamily.IPV4) as cluster:
        return _figures(Served(cluster, stack.SAMPLE_NAME), runs)


def _figures(served: Served, runs: int) -> list[Figure]:
    cluster = served.cluster
    audit = AuditLog(cluster.audit_log, ACCOUNT)
    starts: list[tuple[float, float]] = []
    for _ in range(runs):
        served.kubectl("delete", f"infd/{served.name}", "--ignore-not-found", "--wait=true")
        served.await_gone()
        mark = audit.mark()
        starts.append(_start(served))
        time.sleep(QUIET_SECONDS)
        new = audit.writes(mark)
    mark = audit.mark()
    cluster.kubectl("apply", "--filename", str(stack.SAMPLE))
    served.kubectl("annotate", f"infd/{served.name}", "bench=no-op", "--overwrite")
    time.sleep(QUIET_SECONDS)
    same = audit.writes(mark)
    mark = audit.mark()
    _restart(cluster)
    time.sleep(QUIET_SECONDS)
    restarted = audit.writes(mark)
    children = sum(request.resource not in TELLING for request in new)
    statuses = sum(request.resource.endswith("/status") for request in new)
    return [
        Figure(
            "apply to Ready, without the engine's start",
            median(path for path, _ in starts),
            "seconds",
            PATH_AIM,
        ),
        Figure("the engine's start", median(engine for _, engine in starts), "seconds"),
        Figure("writes of children for a new resource", children, "requests", exactly(CHILDREN)),
        Figure("writes of status for a new resource", statuses, "requests", at_most(STATUSES)),
        Figure("writes for the same manifest applied again", len(same), "requests", exactly(0)),
        Figure("writes after a restart of the operator", len(restarted), "requests", exactly(0)),
    ]


def _start(served: Served) -> tuple[float, float]:
    """Seconds of the path and of the engine's start, for a new resource."""
    engine = EngineStart(served)
    watcher = threading.Thread(target=engine.watch)
    watcher.start()
    try:
        before = _now()
        served.kubectl("apply", "--filename", str(stack.SAMPLE))
        served.kubectl("wait", "--for=condition=Ready", f"infd/{served.name}", f"--timeout={stack.READY_SECONDS}s")
        whole = _now() - before
    finally:
        engine.stopped = True
        watcher.join()
    return whole - engine.seconds, engine.seconds


def _restart(cluster: LocalCluster) -> None:
    deployment = ("--namespace", stack.SYSTEM, "rollout")
    cluster.kubectl(*deployment, "restart", f"deployment/{stack.RELEASE}")
    cluster.kubectl(*deployment, "status", f"deployment/{stack.RELEASE}", "--timeout=120s")


def _is_healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}:8000/health", timeout=5) as answer:
            return bool(answer.status == 200)  # noqa: PLR2004 - HTTP OK
    except (urllib.error.URLError, OSError):
        return False


def _now() -> float:
    """Time on the clock of the start times in `/proc`."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
