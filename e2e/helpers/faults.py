"""Faults that tests inject on a real node: SIGKILL, a pause, and packets that are dropped."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.helpers.container_processes import container_processes
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster

_GONE_SECONDS = 10.0
_POLL_SECONDS = 0.002
_BLOCKED, _EGRESS, _CUT_OFF = "blocked_by_test", "egress_closed_by_test", "cut_off_by_test"
_COUNTED = re.compile(r"counter packets (\d+)")


def kill_container(cluster: Cluster, pod: str, namespace: str = "default", *, container: str = "") -> None:
    """SIGKILL a container of a pod, as the kernel does when it is out of memory; returns once all processes are gone.

    It is the first by name, unless one is named. The signal goes to process 1 of the container; the kernel then kills
    the others.
    """
    running = container_processes(cluster, pod, namespace, container=container)
    os.kill(int(running[0].name), signal.SIGKILL)
    deadline = time.monotonic() + _GONE_SECONDS
    while any(process.exists() for process in running):
        if time.monotonic() > deadline:
            raise ClusterError(f"processes of pod {namespace}/{pod} survive SIGKILL")
        time.sleep(_POLL_SECONDS)


@contextmanager
def paused(cluster: Cluster, pod: str, namespace: str = "default") -> Iterator[None]:
    """Stop all processes in a pod's only container for the block; processes that start later still run."""
    with stopped(container_processes(cluster, pod, namespace)):
        yield


@contextmanager
def stopped(processes: Collection[Path]) -> Iterator[None]:
    """Stop processes, as folders in /proc, for the block: at once, where finding them would take too long."""
    for process in processes:
        os.kill(int(process.name), signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGCONT)


@contextmanager
def without_room(etcd: Path) -> Iterator[None]:
    """Have etcd, a folder in /proc, believe for the block that its room is used up: it refuses to write.

    It is the alarm of its quota (etcd 3.6, Documentation/op-guide/maintenance.md, "Space quota"), which comes before
    the disk is full.
    """
    options = (etcd / "cmdline").read_text().split("\0")
    url = next(one.partition("=")[2] for one in options if one.startswith("--listen-client-urls="))

    def alarm(action: str) -> None:
        body = json.dumps({"action": action, "alarm": "NOSPACE"})
        client = f"import urllib.request; urllib.request.urlopen({url!r} + '/v3/maintenance/alarm', {body.encode()!r})"
        # On a real node etcd has another loopback than this process.
        enter = ("nsenter", f"--net={etcd}/ns/net", sys.executable, "-c", client)
        subprocess.run(enter, check=True, timeout=_GONE_SECONDS)

    alarm("ACTIVATE")
    try:
        yield
    finally:
        alarm("DEACTIVATE")


@contextmanager
def unreachable(
    cluster: Cluster, pod: str, port: int, *, clients: Collection[str], namespace: str = "default"
) -> Iterator[None]:
    """Drop what these addresses send to a port of a pod for the block, as a NetworkPolicy may do it."""
    process = container_processes(cluster, pod, namespace)[0].name
    nft = ("nsenter", f"--target={process}", "--net", "nft")
    families = {("ip6" if ":" in client else "ip", client) for client in clients}
    rules = "; ".join(f"{family} saddr {client} tcp dport {port} drop" for family, client in sorted(families))
    chain = f"chain input {{ type filter hook input priority 0; {rules}; }}"
    subprocess.run([*nft, f"table inet {_BLOCKED} {{ {chain}; }}"], check=True)
    try:
        yield
    finally:
        subprocess.run([*nft, "delete", "table", "inet", _BLOCKED], check=False)


@contextmanager
def cut_off(
    cluster: Cluster, pod: str, others: Collection[str], *, container: str = "", after_kib: int = 0
) -> Iterator[Callable[[], int]]:
    """Drop all packets between a pod and these addresses for the block; no connection is closed by it.

    Args:
        after_kib: KiB that still come from each of them, so that packets of something large are dropped in its middle.

    Yields:
        How many packets were dropped.
    """
    process = container_processes(cluster, pod, container=container)[0]
    families = [("ip6" if ":" in other else "ip", other) for other in sorted(others)]
    drop = f"quota over {after_kib} kbytes counter drop" if after_kib else "counter drop"
    rules = {
        hook: "; ".join(f"{family} {end} {other} {drop}" for family, other in families)
        for hook, end in (("input", "saddr"), ("output", "daddr"))
        if hook == "input" or not after_kib
    }
    chains = "; ".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; {dropped}; }}" for hook, dropped in rules.items()
    )
    # The process may end in the block; an open file keeps the pod's network.
    with (process / "ns" / "net").open("rb") as network:
        file = network.fileno()
        nft = ("nsenter", f"--net=/proc/self/fd/{file}", "nft")
        subprocess.run([*nft, f"table inet {_CUT_OFF} {{ {chains}; }}"], check=True, pass_fds=[file])

        def dropped() -> int:
            list_table = [*nft, "list", "table", "inet", _CUT_OFF]
            listed = subprocess.run(list_table, check=True, capture_output=True, text=True, pass_fds=[file])
            return sum(map(int, _COUNTED.findall(listed.stdout)))

        try:
            yield dropped
        finally:
            subprocess.run([*nft, "delete", "table", "inet", _CUT_OFF], check=False, pass_fds=[file])


@contextmanager
def egress_closed(device: str) -> Iterator[None]:
    """Drop every new connection that leaves a local cluster by this device of the machine, for the block."""
    drop = f'iifname "{device}" ct state new counter drop'
    chains = "; ".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; {drop}; }}" for hook in ("input", "forward")
    )
    subprocess.run(["nft", f"table inet {_EGRESS} {{ {chains}; }}"], check=True)
    try:
        yield
    finally:
        subprocess.run(["nft", "delete", "table", "inet", _EGRESS], check=False)
