"""A change of the owner's defaults over many InferenceDeployments: how many roll at once, and how long all take.

    python -m bench.brake [--resources N] [--at-once N] [--output text|json]

Runs on a real API server. KWOK simulates nodes and pods. Each resource has one engine and one router.

1. A default that no router can run with: `STOPPED_SECONDS` long, it must reach the canary alone.
2. A default that routers run with: it reaches all, at most `--at-once` at a time, the canary first.

*Rolling* is a Deployment of routers, by the events of a watch, from a change of its template or the loss of a pod until
its pods are all new and ready. Another generation alone is none: the API server counts changed annotations too, and the
operator removes that of a turn when the turn has ended (Kubernetes 1.36, pkg/registry/apps/deployment/strategy.go).
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from bench.figures import Figure, as_known, at_most, exactly, parser_of, shown
from bench.many_resources import (
    NAMESPACE,
    await_idle,
    await_ready,
    await_true,
    cluster_of,
    name_of,
    named,
    namespace_of,
    send,
    spec_of,
)
from bench.measured_operator import MeasuredOperator, running
from e2e.localkube.handle import LocalCluster

RESOURCES, AT_ONCE = 1000, 20
PODS = 2
CANARY = 0
STOPPED_SECONDS = 60
BAD = {"scheduling": {"nodeSelector": {"kubernetes.io/hostname": "no-node-has-this-name"}}}
GOOD = {"podTemplate": {"annotations": {"example.com/setting": "good"}}}
SELECTOR = "app.kubernetes.io/component=router"
COLUMNS = (
    "{.metadata.name}",
    "{.metadata.generation}",
    "{.status.observedGeneration}",
    "{.spec.replicas}",
    "{.status.replicas}",
    "{.status.updatedReplicas}",
    "{.status.readyReplicas}",
    "{.spec.template.spec.nodeSelector}{.spec.template.metadata.annotations.example\\.com/setting}",
)
"""Fields of a Deployment; the last one says which default it has."""


class Rollouts:
    """What a watch has told of the routers' Deployments."""

    def __init__(self) -> None:
        self.setting: dict[str, str] = {}
        self.order: list[str] = []
        """The resources in the order in which their template changed."""
        self.rolling: set[str] = set()
        self.most = 0

    def follow(self, lines: Iterable[str]) -> None:
        """Take note of all events, until the watch ends."""
        for line in lines:
            self.see(line.rstrip("\n"))

    def see(self, line: str) -> None:
        """Take note of one event."""
        name, generation, observed, wanted, *pods, setting = line.split("|")
        has_changed = self.setting.get(name, setting) != setting
        if has_changed:
            self.order.append(name)
        self.setting[name] = setting
        if has_changed or any(number != wanted for number in pods):
            self.rolling.add(name)
        elif generation == observed:
            self.rolling.discard(name)
        self.most = max(self.most, len(self.rolling))

    def changed(self, text: str) -> int:
        """How many have a default in which this text stands."""
        return sum(text in setting for setting in self.setting.values())


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.brake", "A change of the owner's defaults over many resources.")
    parser.add_argument("--resources", type=int, default=RESOURCES, help="InferenceDeployments")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="settings.rollouts.maxConcurrent")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = list(as_known(measured(args.resources, args.at_once, Path(folder))))
    print(shown(figures, args.output))
    return 0


def measured(count: int, at_once: int, folder: Path) -> Iterator[Figure]:
    """All figures, on a cluster of its own."""
    with cluster_of(count, PODS, NAMESPACE) as cluster:
        with running(cluster, folder) as operator:
            asyncio.run(send(cluster, [named(one, spec_of(routers=1)) for one in range(count)]))
            await_ready(operator, count)
            await_idle(operator)
        with watched(cluster, count) as seen, running(cluster, folder, settings(BAD, at_once)):
            await_true(lambda: seen.changed("no-node") > 0, "a first one has the bad default")
            time.sleep(STOPPED_SECONDS)
            yield Figure("bad default: resources that have it", seen.changed("no-node"), "resources", exactly(1))
            yield Figure("bad default: resources but the canary", _but_canary(seen), "resources", exactly(0))
        with watched(cluster, count) as seen, running(cluster, folder, settings(GOOD, at_once)) as operator:
            yield from _good(seen, operator, count, at_once)


def settings(defaults: Mapping[str, object], at_once: int) -> Mapping[str, str]:
    """The settings of an operator with these defaults of routers."""
    rollouts = {"maxConcurrent": at_once, "canary": f"{namespace_of(CANARY)}/{name_of(CANARY)}"}
    return {"ROUTER_DEFAULTS": json.dumps(defaults), "ROLLOUTS": json.dumps(rollouts)}


@contextmanager
def watched(cluster: LocalCluster, count: int) -> Iterator[Rollouts]:
    """The routers' Deployments during the block, from when the watch has told of all of them."""
    seen = Rollouts()
    command = [str(cluster.binary("kubectl")), f"--kubeconfig={cluster.kubeconfig}"]
    template = "|".join(COLUMNS) + "{'\\n'}"
    command += [
        "get",
        "deployments",
        f"--selector={SELECTOR}",
        "--all-namespaces",
        "--watch",
        "--chunk-size=0",
        f"--output=jsonpath={template}",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        thread = Thread(target=seen.follow, args=(process.stdout or (),))
        thread.start()
        try:
            await_true(lambda: len(seen.setting) >= count, "the watch has told of all routers")
            yield seen
        finally:
            process.terminate()
            thread.join()


def _good(seen: Rollouts, operator: MeasuredOperator, count: int, at_once: int) -> Iterator[Figure]:
    begun = time.monotonic()
    await_true(lambda: seen.changed("good") >= 1, "the canary has the good default")
    await_true(lambda: seen.changed("good") >= count and not seen.rolling, "all have the good default")
    took = time.monotonic() - begun
    await_idle(operator)
    yield Figure("good default: resources that roll at once, at most", seen.most, "resources", at_most(at_once))
    yield Figure("good default: resources before the canary", _before_canary(seen), "resources", exactly(0))
    yield Figure("good default: until all have it", took, "s")
    yield Figure("good default: resources per second", count / took, "1/s")
    writes = operator.read().writes
    yield Figure("good default: writes of children per resource", writes["child"] / count, "requests")
    yield Figure("good default: writes of status per resource", writes["status"] / count, "requests")
    yield Figure("good default: peak memory", operator.peak_mib(), "MiB")


def _but_canary(seen: Rollouts) -> int:
    return sum("no-node" in setting for name, setting in seen.setting.items() if name != _router(CANARY))


def _before_canary(seen: Rollouts) -> int:
    return seen.order.index(_router(CANARY))


def _router(number: int) -> str:
    return f"{name_of(number)}-router"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
