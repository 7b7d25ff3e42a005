"""The node level: pods really run, and nothing stays behind, however the cluster ends."""

import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from string import Template

import pytest

from e2e.localkube.binaries import Level
from e2e.localkube.cgroups import cgroup_name
from e2e.localkube.handle import LocalCluster
from e2e.localkube.local import down, up
from e2e.localkube.network import Subnets
from e2e.localkube.oci import write_oci_archive
from e2e.localkube.processes import KILL_DEADLINE_S, first_inside, processes
from e2e.localkube.state import layout, read_record
from e2e.localkube.waiting import eventually

NAME = f"node-{os.getpid()}"
IMAGE = "localhost/inference-operator/web:1"
MANIFEST = Path(__file__).with_name("test_node.yaml")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    yield up(NAME, Level.NODE, owned=True)
    down(NAME, purge=True)
    assert not layout(NAME).directory.exists()


@pytest.fixture(scope="module")
def web(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> LocalCluster:
    """Two restricted pods that answer HTTP, behind a Service, with an image and a local disk as volumes."""
    root = tmp_path_factory.mktemp("image")
    for command in ("coredns", "kubectl"):
        shutil.copy(cluster.binary(command), root)
    archive = root.with_suffix(".tar")
    write_oci_archive(archive, name=IMAGE, root=root)
    with archive.open("rb") as stream:
        assert cluster.load_image(stream) == [IMAGE]
    disk = cluster.volumes / "disk"
    disk.mkdir()
    (disk / "config").write_text('{"kind": "Config", "apiVersion": "v1", "current-context": "from-the-disk"}')
    cluster.kubectl("apply", "--filename=-", input=Template(MANIFEST.read_text()).substitute(image=IMAGE, disk=disk))
    cluster.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    return cluster


def test_pods_answer_the_host_and_each_other_by_address_and_by_name(web: LocalCluster) -> None:
    address = web.kubectl("get", "service", "web", "--output=jsonpath={.spec.clusterIP}")
    with urllib.request.urlopen(f"http://{address}/health", timeout=5) as answer:
        assert answer.read() == b"OK"
    by_name = ("/kubectl", "--server=http://web.default.svc.cluster.local", "get", "--raw=/health")
    assert web.kubectl("exec", "deployment/web", "--", *by_name) == "OK"


def test_pods_reach_the_api_server_and_the_api_server_reaches_the_kubelet(web: LocalCluster) -> None:
    assert web.kubectl("exec", "deployment/web", "--", "/kubectl", "get", "--raw=/readyz") == "ok"
    assert "CoreDNS" in web.kubectl("logs", "deployment/web")


def test_pods_mount_an_image_volume_and_a_local_disk(web: LocalCluster) -> None:
    through_both = ("/image/kubectl", "config", "current-context", "--kubeconfig=/disk/config")
    assert web.kubectl("exec", "deployment/web", "--", *through_both) == "from-the-disk\n"


def remains(name: str, slot: int) -> list[str]:
    """What a cluster of this name and slot has left on the machine."""
    subnets, where = Subnets(slot), layout(name)
    links = subprocess.run(["ip", "-oneline", "link"], capture_output=True, text=True, check=True).stdout
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    found = [f"process {number}" for number in processes(where.directory)]
    found += [line for line in (links + routes).splitlines() if f"{subnets.device} " in line.replace("@", " ")]
    found += [line for line in tables.splitlines() if "kube" in line]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(where.directory) in line]
    found += [str(path) for path in Path("/sys/fs/cgroup").glob(f"**/{cgroup_name(name)}")]
    return found


@pytest.mark.parametrize("killed", ["outer", "inner"])
def test_after_a_killed_cluster_process_down_cleans_up_and_up_works_again(web: LocalCluster, killed: str) -> None:
    record, inner = read_record(NAME), first_inside(layout(NAME).directory)
    assert record is not None
    assert inner is not None
    outer = int(Path(f"/proc/{inner}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(outer if killed == "outer" else inner, signal.SIGKILL)
    # A signal is on its way when `kill` returns.
    dead = "the first process of the namespaces is dead"
    eventually(lambda: first_inside(layout(NAME).directory) is None, seconds=KILL_DEADLINE_S, what=dead)
    if killed == "outer":
        down(NAME)
        assert remains(NAME, record.slot) == []
    again = up(NAME, Level.NODE, owned=True)
    assert IMAGE in again.images(), "the image store must outlive the cluster"
    assert again.kubeconfig == web.kubeconfig


def test_down_cleans_up_after_a_killed_cluster_command() -> None:
    name = f"killed-{os.getpid()}"
    command = [sys.executable, "-m", "e2e.localkube", "up", "--level=node", f"--name={name}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tool:
        assert tool.stderr is not None
        assert any("kube-apiserver" in line for line in tool.stderr)
        tool.kill()
    record = read_record(name)
    assert record is not None
    down(name, purge=True)
    assert remains(name, record.slot) == []
    assert not layout(name).directory.exists()
