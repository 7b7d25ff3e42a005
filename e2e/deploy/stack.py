"""The whole stack on a real node: a cluster with the project's images, the operator, and a served model.

The demo, the tests and the benchmarks start it with these functions.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from e2e import images
from e2e.deploy import install, kind_node_image
from e2e.localkube import kind, local
from e2e.localkube.binaries import Level
from e2e.localkube.cache import cache_root
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster, LocalCluster
from e2e.localkube.kind import KindCluster
from e2e.localkube.network import IpFamily
from e2e.localkube.progress import step
from e2e.localkube.second_node import SecondNode

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "inference-operator"
SAMPLE = ROOT / "manifests" / "samples" / "cpu-oci.yaml"
SAMPLE_NAME = "tiny"
TESTS, FAULTS = "e2e", "faults"
RELEASE, SYSTEM = "inference-operator", "inference-operator-system"
LOCAL_DNS = {"settings.dnsStalenessSeconds": 15}
"""Records of the local cluster's DNS live for 5 s, and engines need not serve for longer than needed when they stop."""
LOCAL = {**LOCAL_DNS, "settings.surgeWaitSeconds": 30}
"""Numbers of the chart on a cluster of this machine: no node is ever added, so a rollout need not wait for one long."""
RECORD_SECONDS = 1
"""How long records of DNS live in the tests' cluster. There are dozens of engines that start and stop in a run."""
TESTS_NUMBERS = {"settings.dnsStalenessSeconds": 8, "settings.scrapeSeconds": 5}
"""Numbers of the chart in the tests' cluster: engines that stop serve for the lifetime of a record and for 7 s until a
busy machine has changed it, and the operator sees sooner what engines and routers do."""
READY_SECONDS = 600
"""Limit for the start of an engine on two busy cores; on two idle ones it takes about one minute."""
POLL_SECONDS = 0.5


def bring_up(name: str, *, ip_family: IpFamily = IpFamily.IPV4, owned: bool = False) -> LocalCluster:
    """Start a cluster with a node, and load the images of the stack; changed images are built first."""
    images.build(images.STACK)
    cluster = local.up(name, Level.NODE, ip_family=ip_family, owned=owned)
    for image in images.STACK:
        load(cluster, image)
    return cluster


def bring_up_kind(name: str, built: Sequence[str] = images.STACK) -> KindCluster:
    """Create a cluster of kind, and load images that are built here; kind's node image is pulled, or built here."""
    images.build(built)
    runtime = kind.found_runtime()
    image = "" if kind.has_image(runtime, kind.by_digest(kind.NODE_IMAGE)) else kind_node_image.ensure()
    if image and not kind.is_running(name):
        with step(f"loading {image} into {runtime}"):
            kind_node_image.give(runtime)
    cluster = kind.up(name, node_image=image)
    for image in built:
        load(cluster, image)
    return cluster


@contextmanager
def tests_cluster(ip_family: IpFamily, name: str = TESTS) -> Iterator[LocalCluster]:  # noqa: PT028 - no test
    """The tests' cluster with the operator. A cluster that runs already is used, and keeps running."""
    started_here = not local.is_running(name)
    try:
        cluster = bring_up(name, ip_family=ip_family, owned=True)
        set_record_seconds(cluster, RECORD_SECONDS)
        install_operator(cluster)
        yield cluster
    finally:
        if started_here:
            local.down(name)


@contextmanager
def tests_cluster_of_kind() -> Iterator[KindCluster]:
    """The same in a container of kind, with routes to its pods; one that runs already is used, and keeps running."""
    name = f"{TESTS}-kind"
    started_here = not kind.is_running(name)
    try:
        cluster = bring_up_kind(name)
        with kind.routed(cluster):
            install_operator(cluster)
            yield cluster
    finally:
        if started_here:
            kind.down(name)


def set_record_seconds(cluster: LocalCluster, seconds: int) -> None:
    """Let records of the cluster's DNS live so long, at the server and in its cache; nothing if they do already."""
    system = ("--namespace", "kube-system")
    config = json.loads(cluster.kubectl(*system, "get", "configmap", "coredns", "--output=json"))
    text, places = re.subn(r"\b(ttl|cache) \d+\n", rf"\1 {seconds}\n", config["data"]["Corefile"])
    if places != len(("ttl", "cache")):
        raise ClusterError(f"the configuration of CoreDNS has {places} lifetimes")
    if text == config["data"]["Corefile"]:
        return
    patch = json.dumps({"data": {"Corefile": text}})
    cluster.kubectl(*system, "patch", "configmap", "coredns", "--type=merge", f"--patch={patch}")
    cluster.kubectl(*system, "rollout", "restart", "deployment/coredns")
    cluster.kubectl(*system, "rollout", "status", "deployment/coredns", "--timeout=120s")


def install_operator(
    cluster: Cluster, settings: Mapping[str, str] | None = None, numbers: Mapping[str, int] | None = None
) -> None:
    """Install or upgrade the chart with the images built here, and wait until the operator is ready."""
    values = {
        "image.repository": _repository("operator"),
        "image.tag": _tag("operator"),
        "router.image.repository": _repository("router"),
        "router.image.tag": _tag("router"),
        "engine.images.cpu": images.reference("engine-cpu"),
        "engine.images.kinds.LlamaCpp.CPU": images.reference("engine-llama-cpp"),
        # A rebuilt image has the same name. A changed annotation makes the Deployment replace its pods.
        "podAnnotations.built": images.identity("operator"),
        **(settings or {}),
    }
    given = [f"--set-string={key}={value}" for key, value in values.items()]
    given += [f"--set={key}={value}" for key, value in {**local_numbers(cluster), **(numbers or {})}.items()]
    namespace = [f"--namespace={SYSTEM}", "--create-namespace"]
    cluster.helm("upgrade", "--install", RELEASE, str(CHART), *namespace, "--wait", "--timeout=120s", *given)


def local_numbers(cluster: Cluster) -> Mapping[str, int]:
    """Numbers of the chart in a cluster of this machine."""
    return {**LOCAL, **TESTS_NUMBERS} if cluster.name in {TESTS, FAULTS} else LOCAL


def install_on_stock_images(cluster: Cluster, engine: str, environment: Mapping[str, str]) -> None:
    """Do what `make install` does.

    Args:
        cluster: its cluster.
        engine: image of engines on CPUs.
        environment: variables of the containers that install the program.
    """
    options = [f"--set-string=engine.images.cpu={engine}"]
    options += [f"--set={key}={value}" for key, value in local_numbers(cluster).items()]
    options += [f"--set-json=stock.environment.{name}={json.dumps(value)}" for name, value in environment.items()]
    tools = (str(cluster.binary(name).parent) for name in ("kubectl", "helm"))
    path = os.pathsep.join((*dict.fromkeys(tools), os.environ["PATH"]))
    install.install(SYSTEM, options, {**os.environ, "PATH": path, "KUBECONFIG": str(cluster.kubeconfig)})


def leader(cluster: Cluster) -> str:
    """The operator's pod that holds the Lease."""
    holder = ("--namespace", SYSTEM, "get", "lease", RELEASE, "--output=jsonpath={.spec.holderIdentity}")
    return cluster.kubectl(*holder).partition("_")[0]


def conditions(cluster: Cluster, name: str, namespace: str = "default") -> dict[str, dict[str, Any]]:
    """The conditions of an InferenceDeployment for its latest generation, by type."""
    resource = json.loads(cluster.kubectl("--namespace", namespace, "get", "infd", name, "--output=json"))
    listed = resource.get("status", {}).get("conditions", [])
    return {c["type"]: c for c in listed if c["observedGeneration"] == resource["metadata"]["generation"]}


def wait_ready(
    cluster: Cluster, name: str, namespace: str = "default", *, tell: Callable[[str], None] | None = None
) -> None:
    """Wait until an InferenceDeployment is Ready and not Reconciling; `tell` gets each new message until then."""
    deadline, last = time.monotonic() + READY_SECONDS, ""
    while True:
        current = conditions(cluster, name, namespace)
        ready, working, stalled = (current.get(kind, {}) for kind in ("Ready", "Reconciling", "Stalled"))
        if ready.get("status") == "True" and working.get("status") == "False":
            return
        state = working if working.get("status") == "True" else ready
        is_stalled = stalled.get("status") == "True"
        if is_stalled or time.monotonic() > deadline:
            raise ClusterError(f"{name} is not ready: {(stalled if is_stalled else state).get('message')}")
        message = f"{state['reason']}: {state['message']}" if state else "Waiting for the operator."
        if tell and message != last:
            tell(message)
        last = message
        time.sleep(POLL_SECONDS)


def wait_engines(cluster: Cluster, name: str, count: int, namespace: str = "default") -> None:
    """Wait until this number of engines is ready, and no other engine pod exists."""
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
            said = " ".join(f"{c['type']}={c['status']} ({c['reason']}): {c['message']}" for c in _unwell(status))
            raise ClusterError(
                f"{name} has {status.get('readyReplicas', 0)} of {status.get('replicas', 0)} engines ready after"
                f" {READY_SECONDS} s, and {count} were wanted. {said}"
            )
        time.sleep(POLL_SECONDS)


def _unwell(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The conditions that explain why the engines are not as wanted."""
    wanted = {"Ready": "True", "Reconciling": "False", "Stalled": "False", "ScalingActive": "True"}
    return [c for c in status.get("conditions", []) if c["status"] != wanted.get(c["type"], c["status"])]


def pods(cluster: Cluster, name: str, component: str = "engine", namespace: str = "default") -> dict[str, str]:
    """Addresses of a component's pods by name, with those that are terminating."""
    selector = f"inference-operator.dev/name={name},app.kubernetes.io/component={component}"
    listed = json.loads(cluster.kubectl("--namespace", namespace, "get", "pods", "-l", selector, "--output=json"))
    return {pod["metadata"]["name"]: pod["status"].get("podIP", "") for pod in listed["items"]}


def address(cluster: Cluster, name: str, namespace: str = "default") -> str:
    """Address of an InferenceDeployment's Service, reachable from this machine: `IP:port`."""
    ip = cluster.kubectl("--namespace", namespace, "get", "service", name, "--output=jsonpath={.spec.clusterIP}")
    return authority(ip, 80)


@contextmanager
def reached(cluster: Cluster, name: str) -> Iterator[str]:
    """Address of an InferenceDeployment's Service from this machine: `IP:port`.

    Without root there is no route into a container of kind, so `kubectl port-forward` is the way there.
    """
    if not isinstance(cluster, KindCluster):
        yield address(cluster, name)
        return
    kubectl = [str(cluster.binary("kubectl")), f"--kubeconfig={cluster.kubeconfig}"]
    command = [*kubectl, "port-forward", f"service/{name}", ":80"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarder:
        try:
            line = forwarder.stdout.readline() if forwarder.stdout else ""
            found = re.match(r"Forwarding from (127\.0\.0\.1:\d+)", line)
            if found is None:
                raise ClusterError(f"kubectl port-forward service/{name} ended: {line.strip()}")
            yield found[1]
        finally:
            forwarder.terminate()


def authority(address: str, port: int) -> str:
    """An IP address and a port in the form of a URL.

    Examples:
        >>> authority("10.0.0.1", 8000), authority("fd00::1", 8000)
        ('10.0.0.1:8000', '[fd00::1]:8000')
    """
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _repository(image: str) -> str:
    return images.reference(image).rpartition(":")[0]


def _tag(image: str) -> str:
    return images.reference(image).rpartition(":")[2]


def load(cluster: LocalCluster | KindCluster | SecondNode, image: str) -> None:
    """Stream a built image into the node unless the node has this build."""
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


def _stream(cluster: LocalCluster | KindCluster | SecondNode, image: str) -> None:
    """Stream an image from the builder into the node through a pipe, without a copy on the disk."""
    command = [sys.executable, "-m", "e2e.images", "archive", image]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as writer:
        try:
            cluster.load_image(cast("BinaryIO", writer.stdout))
        except BaseException:
            writer.kill()
            raise
    if writer.returncode != 0:
        raise ClusterError(f"the archive of {image} broke off; its builder's message is above")
