"""An engine over two pods whose member is killed or falls silent: how soon it is noticed, and what it costs.

    python -m bench.groups [--form NAME]... [-o text|json]

Runs on a real node (needs root) with the real vLLM on the CPU, pipeline parallel over gloo. The same engine is run in
three ways: by this operator, by LeaderWorkerSet with its own webhooks, and as a StatefulSet alone.

- *Killed*: SIGKILL for every process of vLLM in the worker.
- *Silent*: packets between the two pods are dropped until the leader is out of rotation, or `PATIENCE_SECONDS` are
  over. No connection is closed.
- *Out of rotation*: the leader's endpoint is not ready.
- *Engines start again*: until both members have started vLLM again, before its own start.
- *Ready again*: the leader's endpoint is ready.
- `CLIENTS` clients send requests all the time. Requests in flight at the fault and those sent after it count apart.

Each fault has a new engine, since a kubelet waits longer with each restart.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from math import isnan, nan

from bench.figures import Aim, Figure, as_known, at_most, exactly, parser_of, shown, unmeasured
from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes, kill_processes, started
from e2e.helpers.delayed_downloads import Sources
from e2e.helpers.faults import cut_off
from e2e.helpers.group_manifests import NAME, REPOSITORY, START_SECONDS, Form, as_list, forms
from e2e.helpers.leader_worker_set import lws
from e2e.load import GENTLE_PAUSE_SECONDS, Load, Result
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily
from e2e.localkube.state import read_record
from e2e.model.tiny_llama import model_folder

CLIENTS = 16
BEFORE = 50
"""Requests answered before a fault."""
PATIENCE_SECONDS = 90
"""Limit until the leader is out of rotation, and until the members of an engine that ended start again."""
CLIENT_SECONDS = 60
"""A client's timeout."""
POLL_SECONDS = 0.1
GONE_SECONDS = 300
MEMBERS = 2


class Fault(StrEnum):
    """What happens to the worker."""

    KILLED = "killed"
    SILENT = "silent"


AIMS: Mapping[tuple[Fault, str], Aim] = {
    (Fault.KILLED, "out of rotation"): at_most(1),
    (Fault.SILENT, "out of rotation"): at_most(15),
    (Fault.KILLED, "engines start again"): at_most(3),
    (Fault.SILENT, "engines start again"): at_most(15 + 3),
    (Fault.KILLED, "fetched again"): exactly(0),
    (Fault.SILENT, "fetched again"): exactly(0),
}
"""Aims of this operator's form. The others are there to compare."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one fault did; times in seconds since the fault, not a number if it did not happen in time."""

    out: float
    begun: float
    ready: float
    result: Result
    replaced: int
    """Pods that are others than before."""
    fetched: int
    """Bytes of the model that the hub sent after the fault."""


@dataclass(frozen=True, slots=True)
class Group:
    """An engine of one form that serves."""

    cluster: LocalCluster
    form: Form
    sources: Sources

    def is_ready(self) -> bool:
        """Whether the leader's endpoint is ready."""
        path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        selector = f"labelSelector=kubernetes.io%2Fservice-name%3D{self.form.engines}"
        slices = json.loads(self.cluster.kubectl("get", f"--raw={path}?{selector}"))["items"]
        endpoints = (endpoint for one in slices for endpoint in one.get("endpoints") or [])
        return any(endpoint["conditions"].get("ready") for endpoint in endpoints)

    def pods(self) -> Mapping[str, tuple[str, str]]:
        """Uid and address of each member that exists, also while it ends, by name."""
        listed = json.loads(self.cluster.kubectl("get", "pods", "--output=json"))["items"]
        members = (pod for pod in listed if pod["metadata"]["name"] in (self.form.leader, self.form.worker))
        return {pod["metadata"]["name"]: (pod["metadata"]["uid"], pod["status"].get("podIP", "")) for pod in members}

    def engine_start(self, pod: str) -> float:
        """When vLLM of a member was started, in seconds since boot; 0 if it does not run."""
        with suppress(ClusterError, KeyError, FileNotFoundError):  # a pod between two containers
            processes = container_processes(self.cluster, pod, container=self.form.container)[self.form.wraps :]
            return min((started(process) for process in processes), default=0.0)
        return 0.0

    def kill_worker(self) -> None:
        """SIGKILL for every process of vLLM in the worker."""
        kill_processes(
            container_processes(self.cluster, self.form.worker, container=self.form.container)[self.form.wraps :]
        )


def main(arguments: Sequence[str]) -> int:
    """Measure and print the figures."""
    parser = parser_of("python -m bench.groups", "Faults of an engine over two pods, run in three ways.")
    parser.add_argument("--form", action="append", help="only the ways whose names begin so")
    args = parser.parse_args(arguments)
    print(shown(list(as_known(measured(args.form or [""]))), args.output))
    return 0


def measured(wanted: Sequence[str]) -> Iterator[Figure]:
    """The figures of each form and fault."""
    with ExitStack() as until_end:
        cluster = until_end.enter_context(stack.tests_cluster(IpFamily.IPV4))
        record = read_record(cluster.name)
        if record is None:
            raise SystemExit("The cluster of the tests has no record.")
        outside = str(record.subnets[0].outside)
        sources = Sources(outside, REPOSITORY, model_folder())
        until_end.enter_context(sources.serving())
        sources.let_go()
        for form in forms(f"http://{sources.authority}"):
            if not form.name.startswith(tuple(wanted)):
                continue
            with lws().running(cluster, outside) if form.needs_controller else nullcontext():
                for fault in Fault:
                    with running(Group(cluster, form, sources)) as group:
                        outcome = outcome_of(group, fault)
                    print(f"{form.name}, {fault}: {outcome.result}", file=sys.stderr, flush=True)
                    yield from figures(form, fault, outcome)


@contextmanager
def running(group: Group) -> Iterator[Group]:
    """The engine during the block, from when it is ready."""
    group.cluster.kubectl("apply", "--filename=-", input=as_list(group.form.objects))
    try:
        if isnan(awaited(lambda: len(group.pods()) == MEMBERS and group.is_ready(), START_SECONDS)):
            raise SystemExit(f"{group.form.name}: the engine is not ready within {START_SECONDS} s.")
        yield group
    finally:
        group.cluster.kubectl("delete", "--filename=-", "--wait=true", input=as_list(group.form.objects))
        if isnan(awaited(lambda: not group.pods(), GONE_SECONDS)):
            raise SystemExit(f"{group.form.name}: the pods have not ended within {GONE_SECONDS} s.")


def outcome_of(group: Group, fault: Fault) -> Outcome:
    """What one fault does to an engine that serves requests."""
    port = 80
    service = NAME if group.form.wraps else group.form.engines
    ip = group.cluster.kubectl("get", "service", service, "--output=jsonpath={.spec.clusterIP}")
    load = Load(stack.authority(ip, port), NAME, workers=CLIENTS, request_seconds=CLIENT_SECONDS)
    load.learn()
    before, fetched = group.pods(), sum(group.sources.sent_bytes.values())
    with load.phase(fault, at_least=BEFORE, seconds=2 * START_SECONDS, pause=GENTLE_PAUSE_SECONDS) as phase:
        phase.await_answers(BEFORE)
        others = [address for name, (_, address) in before.items() if name == group.form.leader]
        since_boot, since = time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
        phase.mark()
        with ExitStack() as until_noticed:
            if fault is Fault.SILENT:
                until_noticed.enter_context(
                    cut_off(group.cluster, group.form.worker, others, container=group.form.container)
                )
            else:
                group.kill_worker()
            out = awaited(lambda: not group.is_ready(), PATIENCE_SECONDS, since)
        begun = ready = nan
        if not isnan(out):  # a group that nobody has noticed does not start again
            starts = (group.form.leader, group.form.worker)
            if not isnan(
                awaited(lambda: all(group.engine_start(pod) > since_boot for pod in starts), PATIENCE_SECONDS)
            ):
                begun = max(group.engine_start(pod) for pod in starts) - since_boot
            ready = awaited(group.is_ready, START_SECONDS, since)
    after = group.pods()
    replaced = sum(after.get(name, ("", ""))[0] != uid for name, (uid, _) in before.items())
    return Outcome(out, begun, ready, phase.result, replaced, sum(group.sources.sent_bytes.values()) - fetched)


def awaited(is_so: Callable[[], bool], seconds: float, since: float | None = None) -> float:
    """Seconds until something is so, since then or now; not a number if it is not within the limit."""
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() > begun + seconds:
            return nan
        time.sleep(POLL_SECONDS)
    return time.monotonic() - (begun if since is None else since)


def figures(form: Form, fault: Fault, outcome: Outcome) -> Iterator[Figure]:
    """The figures of one outcome."""
    late = f"not within {PATIENCE_SECONDS} s"
    for name, value in (
        ("out of rotation", outcome.out),
        ("engines start again", outcome.begun),
        ("ready again", outcome.ready),
    ):
        title, aim = f"{form.name}: member {fault}, {name}", AIMS.get((fault, name)) if form.wraps else None
        yield unmeasured(title, "s", late) if isnan(value) else Figure(title, value, "s", aim)
    sent_later = len(outcome.result.lost_later)
    for name, count, unit in (
        ("broken in flight", len(outcome.result.lost) - sent_later, "requests"),
        ("broken that were sent later", sent_later, "requests"),
        ("pods replaced", outcome.replaced, "pods"),
        ("fetched again", outcome.fetched, "bytes"),
    ):
        aim = AIMS.get((fault, name)) if form.wraps else None
        yield Figure(f"{form.name}: member {fault}, {name}", count, unit, aim)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
