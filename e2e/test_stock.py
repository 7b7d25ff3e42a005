"""`make install`: the operator, its Jobs and routers on official images, without a build or a registry of one's own.

The node pulls from a registry on this machine that has stand-ins under the names of the official images, and pods
install the libraries from a package index on this machine.
"""

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from e2e import images
from e2e.deploy import install, stack
from e2e.deploy.local_registry import local_registry
from e2e.deploy.package_index import package_index
from e2e.deploy.stock_images import put_stock_images
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of
from e2e.images.assembly import BASES, DOCKER_HUB
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.state import layout
from e2e.localkube.waiting import eventually
from e2e.test_cache import CLAIM, hub_of, outside, resource
from inference_operator.jobs.program import PROGRAM_FILE
from inference_operator.objects.names import INSPECTION, PROGRAM
from tests.testing.hub import COMMIT, REPOSITORY, serving

NAME, ATTACKED = "stock", "attacked"
SECONDS = 120


@pytest.fixture(scope="module")
def stocked(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """The cluster with an operator that `make install` has installed; afterwards the one of all tests again."""
    folder, mirror = tmp_path_factory.mktemp("stock"), layout(cluster.name).registries / DOCKER_HUB
    with ThreadPoolExecutor(1) as pool, ExitStack() as running:
        registry = running.enter_context(local_registry(folder))
        stored = pool.submit(put_stock_images, registry)
        variables = running.enter_context(package_index(folder / "wheels", outside(cluster)))
        stored.result()
        mirror.mkdir(parents=True)
        address = stack.authority(outside(cluster), int(registry.rpartition(":")[2]))
        (mirror / "hosts.toml").write_text(f'server = "http://{address}"\n')
        try:
            stack.install_on_stock_images(cluster, images.reference("engine-cpu"), variables)
            yield cluster
        finally:
            stack.install_operator(cluster)
            cluster.kubectl("--namespace", stack.SYSTEM, "delete", "configmaps", f"--selector={install.LABEL}")
            shutil.rmtree(mirror)


@pytest.fixture
def served(stocked: LocalCluster) -> Iterator[Served]:
    """The name of a resource, and an empty claim for its model; both are deleted afterwards."""
    served, folder = Served(stocked, NAME), stocked.volumes / CLAIM
    folder.mkdir()
    with claim_of(stocked, CLAIM, folder, access="ReadWriteMany"):
        yield served
        served.leave()


def test_an_installation_on_stock_images_downloads_a_model_and_answers(served: Served) -> None:
    with serving(hub_of(REPOSITORY), address=outside(served.cluster)) as hub:
        served.kubectl("apply", "--filename=-", input=resource(NAME, hub.endpoint, {"claimName": CLAIM}))
        stack.wait_ready(served.cluster, NAME)
    assert served.complete()
    assert (served.cluster.volumes / CLAIM / f"complete/org--model@{COMMIT}.json").is_file()
    operators = served.kubectl("get", "pods", f"--namespace={stack.SYSTEM}", "--output=json")
    assert _images(operators) == {f"{DOCKER_HUB}/{BASES['operator']}"}
    routers = served.kubectl("get", "pods", "--selector=app.kubernetes.io/component=router", "--output=json")
    assert f"{DOCKER_HUB}/{BASES['router']}" in _images(routers)
    eventually(lambda: _are_done(served), seconds=SECONDS, what="the program is deleted with the last Job")


def _images(listed: str) -> set[str]:
    return {container["image"] for pod in json.loads(listed)["items"] for container in pod["spec"]["containers"]}


def _are_done(served: Served) -> bool:
    """Whether no Job is left but one that failed, which keeps the cause, and no program without a Job."""
    jobs = json.loads(served.kubectl("get", "jobs", "--output=json"))["items"]
    return all(job["status"].get("failed") for job in jobs) and bool(_programs(served)) == bool(jobs)


def _programs(served: Served) -> list[str]:
    """The ConfigMaps with a program in the namespace."""
    found = served.kubectl("get", "configmaps", f"--selector=app.kubernetes.io/component={PROGRAM}", "--output=name")
    return found.split()


@pytest.mark.full  # tests/jobs/test_program.py covers the check
def test_a_program_of_somebody_else_does_not_run_in_a_job(stocked: LocalCluster, tmp_path: Path) -> None:
    """Who may write ConfigMaps replaces the program while the Job's pod waits for a node and the operator is down."""
    served, archive, program = Served(stocked, ATTACKED), _evil(tmp_path), "configmap/none"
    try:
        stocked.kubectl("cordon", "--selector=kubernetes.io/os=linux")
        spec = {"model": {"source": "hf://org/model"}, "hardware": {"device": "CPU"}}
        resource = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "InferenceDeployment", "spec": spec}
        served.kubectl("apply", "--filename=-", input=json.dumps({**resource, "metadata": {"name": ATTACKED}}))
        (pod,) = eventually(lambda: served.pods(INSPECTION), seconds=SECONDS, what="the Job has a pod")
        (program,) = eventually(lambda: _programs(served), seconds=SECONDS, what="the program is there")
        with pytest.raises(ClusterError, match="immutable"):
            served.kubectl("patch", program, "--type=merge", '--patch={"binaryData": {"a": ""}}')
        _scale_operator(stocked, 0)
        served.kubectl("delete", program)
        served.kubectl("create", "configmap", program.rpartition("/")[2], f"--from-file={archive}")
        stocked.kubectl("uncordon", "--selector=kubernetes.io/os=linux")
        status = eventually(lambda: _failed(served, pod), seconds=SECONDS, what="the pod ends")
        (install,), (inspection,) = status["initContainerStatuses"], status["containerStatuses"]
        assert "is not the one that this pod was made for" in install["state"]["terminated"]["message"]
        assert "waiting" in inspection["state"], "it never ran"
    finally:
        stocked.kubectl("uncordon", "--selector=kubernetes.io/os=linux")
        _scale_operator(stocked, 2)
        served.kubectl("delete", "infd", ATTACKED, "--ignore-not-found")
        served.kubectl("delete", program, "--ignore-not-found")


def _evil(folder: Path) -> Path:
    """A program of an attacker, in the form of the operator's."""
    archive = folder / PROGRAM_FILE
    with tarfile.open(archive, "w:xz") as tar:
        for file, text in {"__main__.py": 'print("EVIL")\n', "requirements.txt": ""}.items():
            member = tarfile.TarInfo(file)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return archive


def _failed(served: Served, pod: str) -> dict[str, Any]:
    """The status of a pod that has failed; empty before."""
    status: dict[str, Any] = json.loads(served.kubectl("get", "pod", pod, "--output=json"))["status"]
    return status if status.get("phase") == "Failed" else {}


def _scale_operator(cluster: LocalCluster, replicas: int) -> None:
    system = f"--namespace={stack.SYSTEM}"
    cluster.kubectl("scale", f"deployment/{stack.RELEASE}", system, f"--replicas={replicas}")
    if replicas:
        ready = f"--for=jsonpath={{.status.readyReplicas}}={replicas}"
        cluster.kubectl("wait", f"deployment/{stack.RELEASE}", system, ready, "--timeout=120s")
    else:
        selector = f"--selector=app.kubernetes.io/instance={stack.RELEASE}"
        cluster.kubectl("wait", "pods", system, selector, "--for=delete", "--timeout=120s")
