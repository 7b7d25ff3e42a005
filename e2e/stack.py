"""The whole stack on a real node: a cluster with the project's images, the operator, and what is served.

The demo shows it, the tests test it, the benches measure it; all of them bring it up through here.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from e2e import images
from e2e.cache import cache_root
from e2e.cluster import local
from e2e.cluster.binaries import Level
from e2e.cluster.errors import ClusterError
from e2e.cluster.handle import Cluster, LocalCluster
from e2e.cluster.progress import step

ROOT = Path(__file__).parents[1]
CHART = ROOT / "charts" / "inference-operator"
SAMPLE = ROOT / "manifests" / "samples" / "cpu-oci.yaml"
SAMPLE_NAME = "tiny"
TESTS = "e2e"
RELEASE, SYSTEM = "inference-operator", "inference-operator-system"
READY_SECONDS = 600
"""How long a first engine may take on two busy cores; it takes about one minute on two idle ones."""
POLL_SECONDS = 0.5


def bring_up(name: str, *, owned: bool = False) -> LocalCluster:
    """A node-level cluster that has every image of the project, built and loaded where something changed."""
    images.build(images.IMAGES)
    cluster = local.up(name, Level.NODE, owned=owned)
    for image in images.IMAGES:
        _load(cluster, image)
    return cluster


@contextmanager
def tests_cluster() -> Iterator[LocalCluster]:
    """The tests' cluster, with the operator on it; one that runs already is used, and left as it is."""
    ours = not local.is_running(TESTS)
    try:
        cluster = bring_up(TESTS, owned=True)
        install_operator(cluster)
        yield cluster
    finally:
        if ours:
            local.down(TESTS)


def install_operator(
    cluster: LocalCluster, settings: Mapping[str, str] | None = None, numbers: Mapping[str, int] | None = None
) -> None:
    """Install or upgrade the chart, with the images that were built here, and wait until the operator runs."""
    values = {
        "image.repository": _repository("operator"),
        "image.tag": _tag("operator"),
        "router.image.repository": _repository("router"),
        "router.image.tag": _tag("router"),
        "engine.images.cpu": images.reference("engine-cpu"),
        # A rebuilt image has the same name: the pod must be made anew.
        "podAnnotations.built": images.identity("operator"),
        **(settings or {}),
    }
    given = [f"--set-string={key}={value}" for key, value in values.items()]
    given += [f"--set={key}={value}" for key, value in (numbers or {}).items()]
    namespace = [f"--namespace={SYSTEM}", "--create-namespace"]
    cluster.helm("upgrade", "--install", RELEASE, str(CHART), *namespace, "--wait", "--timeout=120s", *given)


def leader(cluster: Cluster) -> str:
    """The operator's pod that works, while the others stand by."""
    holder = ("--namespace", SYSTEM, "get", "lease", RELEASE, "--output=jsonpath={.spec.holderIdentity}")
    return cluster.kubectl(*holder).partition("_")[0]


def conditions(cluster: Cluster, name: str, namespace: str = "default") -> dict[str, dict[str, Any]]:
    """The conditions of an InferenceDeployment that are about its latest spec, by type."""
    resource = json.loads(cluster.kubectl("--namespace", namespace, "get", "infd", name, "--output=json"))
    found = resource.get("status", {}).get("conditions", [])
    return {c["type"]: c for c in found if c["observedGeneration"] == resource["metadata"]["generation"]}


def wait_ready(
    cluster: Cluster, name: str, namespace: str = "default", *, tell: Callable[[str], None] | None = None
) -> None:
    """Wait until an InferenceDeployment is Ready and settled; tells of every change on the way."""
    deadline, told = time.monotonic() + READY_SECONDS, ""
    while True:
        now = conditions(cluster, name, namespace)
        ready, working, stalled = (now.get(kind, {}) for kind in ("Ready", "Reconciling", "Stalled"))
        if ready.get("status") == "True" and working.get("status") == "False":
            return
        state = working if working.get("status") == "True" else ready
        if stalled.get("status") == "True" or time.monotonic() > deadline:
            raise ClusterError(f"{name} is not ready: {(stalled or state).get('message')}")
        message = f"{state['reason']}: {state['message']}" if state else "Waiting for the operator."
        if tell and message != told:
            tell(message)
        told = message
        time.sleep(POLL_SECONDS)


def wait_engines(cluster: Cluster, name: str, count: int, namespace: str = "default") -> None:
    """Wait until so many engines are ready, and no others exist."""
    deadline = time.monotonic() + READY_SECONDS
    while True:
        resource = json.loads(cluster.kubectl("--namespace", namespace, "get", "infd", name, "--output=json"))
        status = resource.get("status", {})
        if (
            status.get("readyReplicas") == status.get("replicas") == count
            and len(pods(cluster, name, namespace=namespace)) == count
        ):
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"{name} has {status.get('ready')} engines ready after {READY_SECONDS} s")
        time.sleep(POLL_SECONDS)


def pods(cluster: Cluster, name: str, component: str = "engine", namespace: str = "default") -> dict[str, str]:
    """The pods of a component, also those that are stopping: name and address."""
    selector = f"inference-operator.dev/name={name},app.kubernetes.io/component={component}"
    found = json.loads(cluster.kubectl("--namespace", namespace, "get", "pods", "-l", selector, "--output=json"))
    return {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in found["items"]}


def address(cluster: Cluster, name: str, namespace: str = "default") -> str:
    """Where the Service of an InferenceDeployment answers, from this machine: `IP:port`."""
    ip = cluster.kubectl("--namespace", namespace, "get", "service", name, "--output=jsonpath={.spec.clusterIP}")
    return f"{ip}:80"


def _repository(image: str) -> str:
    return images.reference(image).rpartition(":")[0]


def _tag(image: str) -> str:
    return images.reference(image).rpartition(":")[2]


def _load(cluster: LocalCluster, image: str) -> None:
    """Stream an image into the node unless it has this very build."""
    record = cache_root() / "images" / "loaded" / f"{cluster.name}.json"
    loaded: dict[str, list[str]] = json.loads(record.read_text()) if record.exists() else {}
    reference = images.reference(image)
    if loaded.get(reference) == [images.identity(image), cluster.images().get(reference, "")]:
        return
    with step(f"loading {reference} into the node"):
        _stream(cluster, image)
    loaded[reference] = [images.identity(image), cluster.images()[reference]]
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps(loaded, indent=2))


def _stream(cluster: LocalCluster, image: str) -> None:
    """From the builder into the node through a pipe, so that no copy lies on the disk in between."""
    command = [sys.executable, "-m", "e2e.images", "archive", image]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        try:
            cluster.load_image(cast("BinaryIO", writer.stdout))
        except BaseException:
            writer.kill()
            raise
    if writer.returncode != 0:
        raise ClusterError(f"the archive of {image} broke off; its builder's message is above")
