"""Clusters on this machine, without Docker: from nothing to a Kubernetes that answers, and back to nothing."""

import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from e2e.cluster import control_plane, kwok
from e2e.cluster.binaries import Level, ensure_binaries
from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import LocalCluster
from e2e.cluster.health import is_ready
from e2e.cluster.ports import free_slot
from e2e.cluster.processes import end_processes, last_lines, marked_environment, processes
from e2e.cluster.progress import say
from e2e.cluster.serve import plane
from e2e.cluster.state import Record, exclusive, layout, read_record, records, write_record
from e2e.cluster.supervisor import KEEP, READY, START

PROVIDER = "local"
DEFAULT_NAME = "demo"
DEFAULT_GPU_NODES = {Level.CONTROL_PLANE: 4, Level.NODE: 0}
"""Four take two replicas of anything that fits one node, and a surge; where pods really run, only on request."""
_REPOSITORY = Path(__file__).parents[2]
_ANSWER_DEADLINE_S = 30.0
"""How long a running cluster may take to answer before it counts as stuck."""
_POLL_S = 0.1

_children: dict[str, subprocess.Popen[str]] = {}
"""Clusters that this process started. The pipes of owned ones keep them alive; the kernel closes those with us."""


def up(
    name: str = DEFAULT_NAME,
    level: Level = Level.CONTROL_PLANE,
    *,
    gpu_nodes: int | None = None,
    owned: bool = False,
) -> LocalCluster:
    """Return the running cluster of this name; start it if it does not run.

    An `owned` cluster ends with the calling process, however that ends: for tests.
    """
    with exclusive(name):
        found = read_record(name)
        if found is not None and is_running(name):
            return _found(found, level, gpu_nodes)
        _remove(name, purge=False)
        nodes = DEFAULT_GPU_NODES[level] if gpu_nodes is None else gpu_nodes
        record = _reserve(Record(name, PROVIDER, level=level, gpu_nodes=nodes, binaries=str(ensure_binaries(level))))
        try:
            _start(record, owned=owned)
        except BaseException:
            _stop(name)  # its files stay: they say why
            raise
        return handle(record)


def down(name: str = DEFAULT_NAME, *, purge: bool = False) -> None:
    """End the cluster and remove what it left; nothing happens if there is none."""
    with exclusive(name):
        _remove(name, purge=purge)


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


def _found(record: Record, level: Level, gpu_nodes: int | None) -> LocalCluster:
    if record.level is not level or gpu_nodes not in {None, record.gpu_nodes}:
        raise ClusterError(
            f"cluster {record.name} runs at level {record.level} with {record.gpu_nodes} GPU nodes, which is not "
            f"what was asked for: end it with `python -m e2e.cluster down --name {record.name}`, or choose another name"
        )
    deadline = time.monotonic() + _ANSWER_DEADLINE_S
    authority = plane(record).certificate("ca.crt")
    while not is_ready(f"{record.server}/readyz", authority):
        if time.monotonic() > deadline:
            log = layout(record.name).log("kube-apiserver")
            raise ClusterError(
                f"cluster {record.name} runs, but {record.server} has not answered for {_ANSWER_DEADLINE_S:.0f} s; "
                f"run `down` and `up` again. Last lines of {log}:\n{last_lines(log)}"
            )
        time.sleep(_POLL_S)
    return handle(record)


def _reserve(record: Record) -> Record:
    """Record the cluster with ports that no other one has."""
    with exclusive(".slots"):
        taken = {other.slot for other in records() if other.name != record.name}
        reserved = replace(record, slot=free_slot(taken))
        reserved = replace(reserved, server=plane(reserved).server)
        write_record(reserved)
    return reserved


def _start(record: Record, *, owned: bool) -> None:
    cluster = plane(record)
    control_plane.write_files(cluster)
    process = _spawn(record)
    _children[record.name] = process
    _tell(process, START)
    _follow(record, process)
    _furnish(record)
    if not owned:
        _tell(process, KEEP)


def _spawn(record: Record) -> "subprocess.Popen[str]":
    where = layout(record.name)
    log = where.log("supervisor")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "e2e.cluster.serve", record.name],
            cwd=_REPOSITORY,
            env=marked_environment(where.directory, os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )


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
    where = layout(record.name)
    log = where.log("supervisor")
    reason = where.failure.read_text() if where.failure.exists() else f"see {log}:\n{last_lines(log)}"
    raise ClusterError(f"cluster {record.name} did not start: {reason}")


def _furnish(record: Record) -> None:
    """Put in what every user of the cluster expects to find."""
    cluster = handle(record)
    if record.gpu_nodes:
        nodes = kwok.gpu_nodes(record.gpu_nodes, tainted=record.level is Level.NODE)
        cluster.kubectl("apply", "--server-side", "--filename=-", input=nodes)
    cluster.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
    cluster.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=60s")


def _stop(name: str) -> None:
    end_processes(layout(name).directory)
    child = _children.pop(name, None)
    if child is not None:
        with child:  # closes the pipes and collects the process
            child.kill()


def _remove(name: str, *, purge: bool) -> None:
    """End what runs, then remove the files."""
    _stop(name)
    where = layout(name)
    kept = () if purge else (where.containerd,)
    for path in where.directory.glob("*"):
        if path not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not any(where.directory.glob("*")):
        shutil.rmtree(where.directory, ignore_errors=True)
