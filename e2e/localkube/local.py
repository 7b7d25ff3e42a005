"""Clusters on this machine, without Docker: from nothing to a Kubernetes that answers, and back to nothing."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from e2e.localkube import cgroups, control_plane, images, kwok, network, node, preflight
from e2e.localkube.binaries import Level, ensure_binaries
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.health import is_ready
from e2e.localkube.network import NODE_SLOTS, IpFamily
from e2e.localkube.ports import SLOTS, free_slot
from e2e.localkube.processes import end_processes, first_inside, last_lines, marked_environment, processes
from e2e.localkube.progress import say
from e2e.localkube.serve import plane
from e2e.localkube.state import (
    Record,
    exclusive,
    exclusive_if_free,
    layout,
    read_record,
    records,
    subnets_of,
    write_record,
)
from e2e.localkube.supervisor import KEEP, READY, START

PROVIDER = "local"
DEFAULT_NAME = "demo"
DEFAULT_GPU_NODES = {Level.CONTROL_PLANE: 4, Level.NODE: 0}
"""Four take two replicas of anything that fits one node, and a surge; where pods really run, only on request."""
_REPOSITORY = Path(__file__).parents[2]
_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--")
"""Everything of a node lives in these namespaces, and the kernel ends them with their first process."""
_NAMESPACES_DEADLINE_S = 10.0
_ANSWER_DEADLINE_S = 30.0
"""How long a running cluster may take to answer before it counts as stuck."""
_POLL_S = 0.1
_COLLECT_LESS_OFTEN = {"GOGC": "300", "GOMEMLIMIT": "8GiB"}
"""For the control plane's Go programs. Their heaps are small and live, so at Go's default of 100 a fifth of their CPU
time goes into looking through them (https://go.dev/doc/gc-guide). Thousands of InferenceDeployments make a heap
large: from the limit on it is looked through as often as needed."""

_children: dict[str, subprocess.Popen[str]] = {}
"""Clusters that this process started. The pipes of owned ones keep them alive; the kernel closes those with us."""


def up(
    name: str = DEFAULT_NAME,
    level: Level = Level.CONTROL_PLANE,
    *,
    gpu_nodes: int | None = None,
    ip_family: IpFamily = IpFamily.IPV4,
    owned: bool = False,
) -> LocalCluster:
    """Return the running cluster of this name; start it if it does not run.

    An `owned` cluster ends with the calling process, however that ends: for tests. Pods and the node have
    addresses of this family, or of both; at level control-plane there are none of them, and the family must be IPv4.
    """
    if ip_family is not IpFamily.IPV4 and level is not Level.NODE:
        raise ClusterError(f"a cluster of {ip_family} needs pods and Services that can be reached: use --level node")
    with exclusive(name):
        found = read_record(name)
        if found is not None and _answers(found):
            _check_same(found, level, gpu_nodes, ip_family)
            return handle(found)
        preflight.check(level)
        _remove(name, purge=False)
        nodes = DEFAULT_GPU_NODES[level] if gpu_nodes is None else gpu_nodes
        binaries = str(ensure_binaries(level))
        asked = Record(name, PROVIDER, level=level, gpu_nodes=nodes, ip_family=ip_family, owned=owned)
        record = _reserve(replace(asked, binaries=binaries))
        try:
            _start(record)
        except BaseException:
            _stop(name)  # its files stay: they say why
            raise
        return handle(record)


def down(name: str = DEFAULT_NAME, *, purge: bool = False) -> None:
    """End the cluster and remove what it left; nothing happens if there is none."""
    with exclusive(name):
        _remove(name, purge=purge)


@contextmanager
def stopped(name: str) -> Iterator[None]:
    """A block in which no process of an owned cluster runs; after it they run again, with the data that they find.

    Only at level control-plane: a node's containers would end as well.
    """
    with exclusive(name):
        record = read_record(name)
        if record is None or not record.owned or record.level is Level.NODE:
            raise ClusterError(f"there is no owned control plane {name} without a node")
        _stop(name)
        yield
        layout(name).failure.unlink(missing_ok=True)  # of whatever ended first
        _run(record)


def is_running(name: str) -> bool:
    """Whether any process of this cluster lives; they live and die together."""
    return bool(processes(layout(name).directory))


def handle(record: Record) -> LocalCluster:
    """What a user holds of a recorded cluster."""
    where = layout(record.name)
    return LocalCluster(
        name=record.name,
        server=record.server,
        kubeconfig=where.kubeconfig,
        level=record.level,
        audit_log=where.audit_log,
        volumes=where.volumes,
    )


def _answers(record: Record) -> bool:
    """Whether the cluster works; not, if it ends while we wait, since the kernel may be ending it right now."""
    deadline = time.monotonic() + _ANSWER_DEADLINE_S
    authority = plane(record).certificate("ca.crt")
    while is_running(record.name):
        if is_ready(f"{record.server}/readyz", authority) and _is_supervised(record):
            return True
        if time.monotonic() > deadline:
            log = layout(record.name).log("kube-apiserver")
            raise ClusterError(
                f"cluster {record.name} runs, but {record.server} has not answered for {_ANSWER_DEADLINE_S:.0f} s; "
                f"run `down` and `up` again. Last lines of {log}:\n{last_lines(log)}"
            )
        time.sleep(_POLL_S)
    return False


def _is_supervised(record: Record) -> bool:
    """Whether the first process of a node's namespaces lives: without it the kernel is ending all others."""
    return record.level is not Level.NODE or first_inside(layout(record.name).directory) is not None


def _check_same(record: Record, level: Level, gpu_nodes: int | None, ip_family: IpFamily) -> None:
    is_same = record.level is level and record.ip_family is ip_family
    if not is_same or gpu_nodes not in {None, record.gpu_nodes}:
        raise ClusterError(
            f"cluster {record.name} runs at level {record.level} with {record.gpu_nodes} GPU nodes and "
            f"{record.ip_family}, which is not what was asked for: end it with "
            f"`python -m e2e.localkube down --name {record.name}`, or choose another name"
        )


def _reserve(record: Record) -> Record:
    """Record the cluster with ports that no other one has."""
    with exclusive(".slots"):
        _remove_orphans(record.name)
        taken = {other.slot for other in records() if other.name != record.name}
        candidates: Iterable[int] = range(NODE_SLOTS, SLOTS)
        if record.level is Level.NODE:
            candidates = (slot for slot in range(NODE_SLOTS) if network.are_free(subnets_of(slot, record.ip_family)))
        reserved = replace(record, slot=free_slot(candidates, taken))
        reserved = replace(reserved, server=plane(reserved).server)
        write_record(reserved)
    return reserved


def _remove_orphans(name: str) -> None:
    """Remove owned clusters whose owner was killed, so that test runs that end badly pile up nothing."""
    for other in records():
        if other.owned and other.name != name:
            with exclusive_if_free(other.name) as held:
                if held and not is_running(other.name):
                    _remove(other.name, purge=True)


def _start(record: Record) -> None:
    cluster, subnets = plane(record), record.subnets
    if record.level is Level.NODE:
        control_plane.write_files(cluster, *node.identities(subnets))
        node.write_files(cluster, subnets)
        cgroups.create(record.name)
    else:
        control_plane.write_files(cluster)
    process = _run(record)
    try:
        _furnish(record)
    except ClusterError as error:
        raise ClusterError(_reason(record, str(error))) from error
    if not record.owned:
        _tell(process, KEEP)


def _run(record: Record) -> "subprocess.Popen[str]":
    """Start its processes, and wait until they are ready."""
    process = _children[record.name] = _spawn(record)
    if record.level is Level.NODE:
        network.attach(record.subnets, _await_namespaces(record))
    _tell(process, START)
    _follow(record, process)
    return process


def _spawn(record: Record) -> "subprocess.Popen[str]":
    where = layout(record.name)
    log = where.log("supervisor")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors:
        return subprocess.Popen(
            [
                *(_UNSHARE if record.level is Level.NODE else ()),
                sys.executable,
                "-m",
                "e2e.localkube.serve",
                record.name,
            ],
            cwd=_REPOSITORY,
            env=marked_environment(where.directory, {**_COLLECT_LESS_OFTEN, **os.environ}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


def _await_namespaces(record: Record) -> int:
    """The first process inside, once it is there."""
    deadline = time.monotonic() + _NAMESPACES_DEADLINE_S
    where = layout(record.name)
    while (found := first_inside(where.directory)) is None:
        if time.monotonic() > deadline:
            log = where.log("supervisor")
            raise ClusterError(f"no namespaces were made; last lines of {log}:\n{last_lines(log)}")
        time.sleep(_POLL_S)
    return found


def _tell(process: "subprocess.Popen[str]", word: bytes) -> None:
    if process.stdin is None:
        raise ValueError("a cluster is started with a pipe to it")
    try:
        os.write(process.stdin.fileno(), word)
    except BrokenPipeError as error:
        raise ClusterError("the cluster ended while it started; see its supervisor's log") from error


def _follow(record: Record, process: "subprocess.Popen[str]") -> None:
    """Pass on what the cluster reports until it is ready."""
    for line in process.stdout or ():
        if line.strip() == READY:
            return
        say(f"  {line.rstrip()}")
    log = layout(record.name).log("supervisor")
    raise ClusterError(_reason(record, f"see {log}:\n{last_lines(log)}"))


def _reason(record: Record, otherwise: str) -> str:
    """Why a start failed: the component that ended, if one did."""
    failure = layout(record.name).failure
    return f"cluster {record.name} did not start: {failure.read_text() if failure.exists() else otherwise}"


def _furnish(record: Record) -> None:
    """Put in what every user of the cluster expects to find."""
    cluster = handle(record)
    if record.level is Level.NODE:
        images.import_node_images(layout(record.name), Path(record.binaries))
        cluster.kubectl("apply", "--server-side", "--filename=-", input=node.dns(plane(record), record.subnets))
        cluster.kubectl("wait", "--for=create", f"node/{node.NAME}", "--timeout=60s")
    if record.gpu_nodes:
        nodes = kwok.gpu_nodes(record.gpu_nodes, tainted=record.level is Level.NODE)
        cluster.kubectl("apply", "--server-side", "--filename=-", input=nodes)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    if record.level is Level.NODE or record.gpu_nodes:
        cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")
    if record.level is Level.NODE:
        cluster.kubectl("rollout", "status", "--namespace=kube-system", "deployment/coredns", "--timeout=60s")


def _stop(name: str) -> None:
    end_processes(layout(name).directory)
    child = _children.pop(name, None)
    if child is not None:
        with child:  # closes the pipes and collects the process
            child.kill()
    record = read_record(name)
    if record is not None and record.level is Level.NODE:
        network.detach(record.subnets[0])
        cgroups.remove(name)


def _remove(name: str, *, purge: bool) -> None:
    """End what runs, then remove the files."""
    _stop(name)
    where = layout(name)
    kept = () if purge else (where.images,)
    for path in where.directory.glob("*"):
        if path not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not any(where.directory.glob("*")):
        shutil.rmtree(where.directory, ignore_errors=True)
