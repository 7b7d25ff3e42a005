"""Snapshots of a cluster's etcd, taken and restored as an administrator does it."""

import base64
import json
import shutil
import subprocess
import urllib.request
from http.client import HTTPResponse
from pathlib import Path

from e2e.go_modules import ensure_etcdutl
from e2e.localkube import local
from e2e.localkube.control_plane import LOOPBACK
from e2e.localkube.handle import LocalCluster
from e2e.localkube.serve import plane
from e2e.localkube.state import layout, read_record

BUMPED = ("--bump-revision=1000000000", "--mark-compacted")
"""Makes all versions larger than any that a client has seen, and tells clients that theirs are gone."""
ANSWER_SECONDS = 60


def save(cluster: LocalCluster, to: Path) -> None:
    """Take a snapshot, as `etcdctl snapshot save` does: through the maintenance API of etcd."""
    with _asked(cluster, "maintenance/snapshot", {}) as answer, to.open("wb") as file:
        for line in answer:
            file.write(base64.b64decode(json.loads(line)["result"]["blob"]))


def grow_older(cluster: LocalCluster, revisions: int) -> None:
    """Let so many versions pass, as others' writes do within minutes on a large cluster."""
    key = base64.b64encode(b"/of-a-test").decode()
    for _ in range(revisions):
        with _asked(cluster, "kv/put", {"key": key}):
            pass


def restore(cluster: LocalCluster, snapshot: Path, *flags: str) -> None:
    """End the control plane, put the snapshot in the place of its data, and start the control plane again."""
    command = ensure_etcdutl()
    data, peer = layout(cluster.name).directory / "etcd", f"http://{LOOPBACK}:{_ports(cluster)[1]}"
    with local.stopped(cluster.name):
        shutil.rmtree(data)
        subprocess.run(
            [
                command,
                "snapshot",
                "restore",
                str(snapshot),
                f"--data-dir={data}",
                f"--initial-cluster=default={peer}",
                f"--initial-advertise-peer-urls={peer}",
                *flags,
            ],
            check=True,
            capture_output=True,
        )


def _asked(cluster: LocalCluster, what: str, body: dict[str, str]) -> HTTPResponse:
    url = f"http://{LOOPBACK}:{_ports(cluster)[0]}/v3/{what}"
    answer: HTTPResponse = urllib.request.urlopen(url, data=json.dumps(body).encode(), timeout=ANSWER_SECONDS)
    return answer


def _ports(cluster: LocalCluster) -> tuple[int, int]:
    """Where etcd listens for clients and for other members."""
    record = read_record(cluster.name)
    assert record is not None
    found = plane(record).ports
    return found.etcd, found.etcd_peer
