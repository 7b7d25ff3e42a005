"""`python -m bench.switch`: how long a new model waits for anything but its own engine, on a real node (root).

An edit of `model.source` replaces the engine of the CPU sample, which has its files on a claim. Real vLLM answers
behind real routers, under a constant load. Two ways:

- With a free slot the new engine starts beside the old one.
- Without one the node offers a single GPU (in its status only), and the cluster gets no other nodes (`capacity:
  Fixed`). So the old engine goes first, and routers hold the requests.

From the edit to the first answer of the new engine, minus that engine's own start (from the start of its container
until `/health` answers). The rest is the operator, the scheduler, the kubelet, the readiness probe, and the DNS of
routers.
"""

import json
import shutil
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

import yaml

from bench.figures import Figure, at_most, exactly, parser_of, shown
from e2e import images
from e2e.deploy import stack
from e2e.helpers.node_status_gpus import offer_gpus
from e2e.helpers.served_deployment import Served, metric
from e2e.helpers.volume_claim import claim_of_model
from e2e.load import GENTLE_PAUSE_SECONDS, Load, Result
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily
from e2e.localkube.waiting import eventually

NAME, CLAIM, FIRST, SECOND = "switched-model", "two-models", "first", "second"
REQUESTS, BEFORE, AFTER, MOST = 2000, 200, 300, 200_000
"""Requests of a switch at least, those answered before and after it, and the limit."""
SECONDS = 900.0
"""Limit of one switch."""
HEALTH_SECONDS = 5.0
FREE_SLOT_AIM = 3.0
NO_SLOT_MARGIN = 10.0
"""Beside `dnsStalenessSeconds`, for which an old engine serves on after it has left DNS."""
PATIENT_SECONDS = 300.0
"""Routers hold requests for `coldStart.timeout`, five minutes by default."""


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch, as times of this machine's clock, in seconds."""

    edited: float
    started: float
    """When the container of the new engine was started."""
    healthy: float
    """When the new engine was healthy first."""
    answered: float
    """When the new engine had answered its first request."""
    result: Result

    @property
    def own_start(self) -> float:
        """The new engine's own start."""
        return self.healthy - self.started

    @property
    def waited(self) -> float:
        """From the edit to the first answer, without the new engine's own start."""
        return self.answered - self.edited - self.own_start


def sample(folder: str, *, gpu: bool) -> Mapping[str, Any]:
    """The CPU sample with the model in a folder of the claim; on a GPU that only the scheduler counts, if wanted."""
    resource: dict[str, Any] = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    resource["spec"]["model"]["source"] = f"pvc://{CLAIM}/{folder}"
    if gpu:
        resource["spec"] |= {"hardware": {"device": "GPU"}, "parallelism": {"tensor": 1}}
        resource["spec"]["engine"]["image"] = images.reference("engine-cpu")
    return resource


def switched(served: Served) -> Switch:
    """Edit the model's source under load, and measure until the new engine answers."""
    load = Load(served.address, served.name, request_seconds=PATIENT_SECONDS)
    load.learn()
    old = set(served.pods("engine"))
    limits = {"at_least": REQUESTS, "at_most": MOST}
    with load.phase("switch", **limits, seconds=SECONDS, pause=GENTLE_PAUSE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        phase.mark()
        edited = time.time()
        source = {"spec": {"model": {"source": f"pvc://{CLAIM}/{SECOND}"}}}
        served.kubectl("patch", "infd", NAME, "--type=merge", f"--patch={json.dumps(source)}")
        found = eventually(lambda: _new(served, old), seconds=SECONDS, what="an address of a new engine")
        pod, address = found or ("", "")
        healthy = _first(lambda: _is_healthy(address))
        answered = _first(lambda: metric(address, "vllm:request_success_total{") > 0)
        stack.wait_ready(served.cluster, NAME)
        phase.await_answers(AFTER)
    return Switch(edited, _started(served, pod), healthy, answered, phase.result)


def _new(served: Served, old: set[str]) -> tuple[str, str] | None:
    return next(((pod, at) for pod, at in served.pods("engine").items() if pod not in old and at), None)


def _started(served: Served, pod: str) -> float:
    """When the container of an engine was started, after the node's clock, which is this machine's.

    Kubernetes has whole seconds, rounded down. So an engine's own start may be shown up to 1 s too long, and what is
    left without it up to 1 s too short.
    """
    path = '{.status.containerStatuses[?(@.name=="engine")].state.running.startedAt}'
    return datetime.fromisoformat(served.kubectl("get", "pod", pod, f"--output=jsonpath={path}")).timestamp()


def _is_healthy(address: str) -> bool:
    with urllib.request.urlopen(f"http://{stack.authority(address, 8000)}/health", timeout=HEALTH_SECONDS) as answer:
        return bool(answer.status == HTTPStatus.OK)


def _first(happened: Callable[[], bool]) -> float:
    """The time at which something is true first; an engine that does not listen or is not healthy raises OSError."""

    def seen() -> bool:
        try:
            return happened()
        except OSError:
            return False

    eventually(seen, seconds=SECONDS, what="the new engine answers")
    return time.time()


def measured(cluster: LocalCluster, *, gpu: bool) -> Switch:
    """One switch from a running service."""
    served = Served(cluster, NAME)
    with claim_of_model(cluster, CLAIM, FIRST):
        shutil.copytree(cluster.volumes / CLAIM / FIRST, cluster.volumes / CLAIM / SECOND, dirs_exist_ok=True)
        try:
            served.kubectl("apply", "--filename=-", input=yaml.safe_dump(sample(FIRST, gpu=gpu)))
            stack.wait_ready(cluster, NAME)
            served.await_routers(2)
            return switched(served)
        finally:
            served.kubectl("delete", f"infd/{NAME}", "--wait=true", "--ignore-not-found")
            served.await_gone()


def without_a_slot(cluster: LocalCluster) -> Switch:
    """One switch on a node with one GPU, to which no other node is added."""
    stack.install_operator(cluster, {"settings.capacity": "Fixed"})
    offer_gpus(cluster, 1)
    try:
        return measured(cluster, gpu=True)
    finally:
        offer_gpus(cluster, 0)
        stack.install_operator(cluster)


def figures(way: str, switch: Switch, aim: float) -> Iterator[Figure]:
    """The figures of one way."""
    result = switch.result
    yield Figure(f"{way}: edit to first answer", switch.answered - switch.edited, "s")
    yield Figure(f"{way}: the new engine's own start", switch.own_start, "s")
    yield Figure(f"{way}: edit to first answer, without that", switch.waited, "s", at_most(aim))
    yield Figure(f"{way}: of it, edit to the start of the container", switch.started - switch.edited, "s")
    yield Figure(f"{way}: of it, healthy to first answer", switch.answered - switch.healthy, "s")
    yield Figure(f"{way}: requests", result.sent, "")
    yield Figure(f"{way}: requests that were lost", result.sent - result.ok, "", exactly(0))


def main(arguments: Sequence[str]) -> int:
    """Measure, and print the figures."""
    args = parser_of("python -m bench.switch", "What a new model waits for beside its engine.").parse_args(arguments)
    staleness = float(stack.LOCAL_DNS["settings.dnsStalenessSeconds"])
    with stack.tests_cluster(IpFamily.IPV4) as cluster:
        found = list(figures("free slot", measured(cluster, gpu=False), FREE_SLOT_AIM))
        found += figures("no free slot", without_a_slot(cluster), staleness + NO_SLOT_MARGIN)
    print(shown(found, args.output))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
