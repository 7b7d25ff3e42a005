"""A service on two nodes with a gateway before it, and every fault that a local cluster can have."""

import asyncio
import json
import os
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from random import Random
from secrets import token_urlsafe
from typing import Any

from e2e import images
from e2e.deploy import stack
from e2e.helpers.container_processes import container_processes
from e2e.helpers.fake_engines import resource_of_stand_ins
from e2e.helpers.faults import cut_off, kill_container, stopped, without_room
from e2e.helpers.served_deployment import Served
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.network import IpFamily
from e2e.localkube.processes import processes
from e2e.localkube.second_node import second_node
from e2e.localkube.state import layout
from e2e.localkube.waiting import eventually
from inference_operator.cli.drill import DRILLED
from inference_operator.cli.drill.faults import DrilledService, NotHealedError, ObstacleError
from inference_operator.cli.drill.promises import Fault
from inference_operator.cli.drill.report import FaultRecord
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import INFERENCE_DEPLOYMENT, Ref

NAME, GATEWAY = "available", "all-models"
ENGINES, ROUTERS = 3, 2
SECONDS = 20.0
"""Of a component that does not answer: less than until a node is NotReady (50 s, `--node-monitor-grace-period` of
Kubernetes 1.36), and more than the operator's Lease lasts (15 s)."""
HEAL_SECONDS = 300
SYNC_SECONDS = 240
"""The kubelet updates a mounted Secret within its sync period of a minute and its cache's lifetime; and a margin."""
BYTES_PER_SECOND = 64 * 1024
"""Of a slow disk: a hundredth of the slowest that clouds sell."""
BLKIO = Path("/sys/fs/cgroup/blkio")
TLS_PORT = 443
USER = "client"


@dataclass
class FaultBed:
    """What faults happen to."""

    served: Served
    folder: Path
    key: str = ""
    """Of a client of the gateway."""
    _edits: int = 0
    _gone: float | None = None
    _causes: Mapping[Fault, Callable[[Random], str]] = field(init=False)

    def __post_init__(self) -> None:
        self._causes = {
            **{fault: partial(drilled, self.served, fault, gateway=GATEWAY) for fault in DRILLED},
            Fault.BAD_ROLLOUT: self._bad_rollout,
            Fault.UPGRADE_OPERATOR: self._upgrade_operator,
            Fault.RENEW_CERTIFICATE: self._renew_certificate,
            Fault.CHANGE_KEYS: self._change_keys,
            Fault.STOP_KUBELET: partial(self._stop, "kubelet"),
            Fault.STOP_API_SERVER: partial(self._stop, "kube-apiserver"),
            Fault.STOP_ETCD: partial(self._stop, "etcd"),
            Fault.STOP_DNS: self._stop_dns,
            Fault.SLOW_DISK: self._slow_disk,
            Fault.FULL_DISK: self._full_disk,
            Fault.DROP_PACKETS: self._drop_packets,
            Fault.KILL_ENGINE: lambda random: self._kill(random, "engine"),
            Fault.KILL_ROUTER_PROCESS: lambda random: self._kill(random, "router", "gateway"),
            Fault.KILL_ROUTER: lambda random: self._kill(random, "router", "gateway", whole=True),
        }

    @property
    def cluster(self) -> LocalCluster:
        return self.served.cluster

    @property
    def gateway(self) -> Served:
        return Served(self.cluster, GATEWAY)

    @property
    def gateway_address(self) -> str:
        """Of the gateway's Service: with TLS."""
        return stack.authority(self.gateway.address.rpartition(":")[0], TLS_PORT)

    def caused(self, fault: Fault, random: Random) -> FaultRecord:
        """Cause a fault, and wait until it has healed; times are those of the monotonic clock."""
        begin, problem, what, self._gone = time.monotonic(), "", "not as it should be", None
        try:
            what = self._causes[fault](random)
            self.await_healed()
        except (NotHealedError, ObstacleError, ClusterError, AssertionError) as error:
            problem = " ".join(str(error).split()) or repr(error)
        return FaultRecord(fault, begin, time.monotonic(), what, problem, self._gone)

    def await_healed(self) -> None:
        stack.wait_engines(self.cluster, NAME, ENGINES)
        self.served.await_routers(ROUTERS)
        for namespace, name in (("default", f"{GATEWAY}-gateway"), (stack.SYSTEM, stack.RELEASE)):
            where = ("--namespace", namespace)
            self.cluster.kubectl(*where, "rollout", "status", f"deployment/{name}", f"--timeout={HEAL_SECONDS}s")
        eventually(lambda: len(self._pods("gateway")) == ROUTERS, seconds=HEAL_SECONDS, what="as many pods of gateways")

    def _pods(self, component: str) -> dict[str, str]:
        return (self.gateway if component == "gateway" else self.served).pods(component)

    def _patch(self, kind: str, name: str, spec: object) -> None:
        self.served.kubectl("patch", kind, name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")

    def _bad_rollout(self, _: Random) -> str:
        before = set(self.served.pods("engine"))
        image = self.served.kubectl("get", "infd", NAME, "--output=jsonpath={.spec.engine.image}") or None
        self._patch("infd", NAME, {"engine": {"image": "localhost/nosuch:1"}})
        try:
            eventually(
                lambda: set(self.served.pods("engine")) - before, seconds=HEAL_SECONDS, what="a pod without an image"
            )
            time.sleep(SECONDS)
            kept = before & set(self.served.pods("engine"))
        finally:
            self._patch("infd", NAME, {"engine": {"image": image}})
        return f"{len(kept)} of {len(before)} engines served on beside an image that is not there"

    def _upgrade_operator(self, _: Random) -> str:
        self._edits += 1
        leader = stack.leader(self.cluster)
        stack.install_operator(self.cluster, {"podAnnotations.edit": f"number-{self._edits}"})
        eventually(lambda: stack.leader(self.cluster) not in {"", leader}, seconds=HEAL_SECONDS, what="another leader")
        return f"{leader} was replaced"

    def _renew_certificate(self, _: Random) -> str:
        before = self._presented()
        self.write_certificate()
        eventually(lambda: self._presented() != before, seconds=SYNC_SECONDS, what="another certificate")
        return "clients get the new one"

    def _presented(self) -> str:
        host, port = self.gateway_address.rpartition(":")[::2]
        return ssl.get_server_certificate((host, int(port)), timeout=HEAL_SECONDS)

    def write_certificate(self) -> None:
        """Write a new certificate of the gateway into its Secret."""
        key, certificate = self.folder / "tls.key", self.folder / "tls.crt"
        made = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        where = ("-days", "30", "-subj", f"/CN={GATEWAY}", "-keyout", key, "-out", certificate)
        subprocess.run([*made, *where], check=True, capture_output=True)
        self._apply_secret("tls", f"{GATEWAY}-tls", f"--cert={certificate}", f"--key={key}")

    def write_keys(self, *lines: str) -> None:
        """Write the keys that the gateway takes."""
        self._apply_secret("generic", f"{GATEWAY}-keys", "--from-literal=keys=" + "\n".join(lines))

    def _apply_secret(self, *arguments: str) -> None:
        made = self.served.kubectl("create", "secret", *arguments, "--dry-run=client", "--output=yaml")
        self.served.kubectl("apply", "--filename=-", input=made)

    def _change_keys(self, _: Random) -> str:
        line, other = new_key("other")
        mine = new_key(USER, self.key)[0]
        self.write_keys(mine, line)
        asked = {"model": NAME, "prompt": "otters", "max_tokens": 1}

        def status() -> int:
            return self.gateway.post("/v1/completions", asked, key=other)[0]

        eventually(lambda: status() == HTTPStatus.OK, seconds=SYNC_SECONDS, what="the new key is taken")
        self.write_keys(mine)
        eventually(lambda: status() == HTTPStatus.UNAUTHORIZED, seconds=SYNC_SECONDS, what="the old key is refused")
        return "another key came and went"

    def _stop(self, program: str, random: Random) -> str:
        running = self._running(program)
        chosen = random.choice(running)
        with stopped([chosen]):
            time.sleep(SECONDS)
        return f"one of {len(running)} {program} stopped for {SECONDS:g} s"

    def _running(self, *programs: str) -> list[Path]:
        found = [Path(f"/proc/{number}") for number in processes(layout(self.cluster.name).directory)]
        return [process for process in found if comm(process) in {program[:15] for program in programs}]

    def _stop_dns(self, _: Random) -> str:
        system = "kube-system"
        pods = self.cluster.kubectl(
            "--namespace", system, "get", "pods", "--selector=k8s-app=kube-dns", "--output=name"
        )
        names = [line.removeprefix("pod/") for line in pods.split()]
        with stopped([one for name in names for one in container_processes(self.cluster, name, system)]):
            time.sleep(SECONDS)
        return f"{len(names)} servers of DNS stopped for {SECONDS:g} s"

    def _slow_disk(self, _: Random) -> str:
        """Limit what the control plane and the nodes write and read, for longer than other faults last."""
        device = layout(self.cluster.name).directory.stat().st_dev
        limit = f"{os.major(device)}:{os.minor(device)} {BYTES_PER_SECOND}"
        group = BLKIO / "slow-by-test"
        group.mkdir(exist_ok=True)
        running = self._running("etcd", "containerd", "kubelet")
        former = {process.name: group_of(process) for process in running}
        try:
            for name in ("read", "write"):
                (group / f"blkio.throttle.{name}_bps_device").write_text(limit)
            for number in former:
                (group / "cgroup.procs").write_text(number)
            time.sleep(2 * SECONDS)
        finally:
            for number, path in former.items():
                with suppress(OSError):
                    (path / "cgroup.procs").write_text(number)
            group.rmdir()
        return f"{BYTES_PER_SECOND // 1024} KiB/s for {2 * SECONDS:g} s"

    def _full_disk(self, _: Random) -> str:
        [etcd] = self._running("etcd")
        with without_room(etcd):
            time.sleep(SECONDS)
        return f"etcd refused to write for {SECONDS:g} s"

    def _drop_packets(self, random: Random) -> str:
        router = random.choice(sorted(self.served.pods("router")))
        engine, address = random.choice(sorted(self.served.pods("engine").items()))
        with cut_off(self.cluster, router, [address]):
            time.sleep(SECONDS)
        return f"those between {router} and {engine} for {SECONDS:g} s"

    def _kill(self, random: Random, *components: str, whole: bool = False) -> str:
        component = random.choice(components)
        pod = random.choice(sorted(self._pods(component)))
        containers = ("",) if not whole else self._containers(pod)
        for container in containers:
            kill_container(self.cluster, pod, container=container)
        self._gone = time.monotonic()
        return f"killed {pod}"

    def _containers(self, pod: str) -> Collection[str]:
        names = "--output=jsonpath={.spec.containers[*].name}"
        return self.served.kubectl("get", "pod", pod, names).split()


def drilled(served: Served, fault: Fault, random: Random, *, gateway: str) -> str:
    """Cause a fault as `infd drill` does, and wait until it has healed; returns what was done."""

    async def cause() -> str:
        client = await connect(served.cluster.kubeconfig)
        ref = Ref(INFERENCE_DEPLOYMENT, served.namespace, served.name)
        limits: dict[str, Any] = {"system": stack.SYSTEM, "limit_seconds": HEAL_SECONDS, "interrupts": True}
        try:
            return await DrilledService(KubeCluster(Api(client)), ref, random, gateway=gateway, **limits).cause(fault)
        finally:
            await client.close()  # type: ignore[no-untyped-call]

    return asyncio.run(cause())


def new_key(user: str, key: str = "") -> tuple[str, str]:
    """A line of a file of keys, and the key."""
    key = key or f"sk-{token_urlsafe(32)}"
    return f"{user}: {sha256(key.encode()).hexdigest()}", key


def comm(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return ""


def group_of(process: Path) -> Path:
    """The folder of its group of block devices."""
    lines = (line.split(":", 2) for line in (process / "cgroup").read_text().splitlines())
    return next(BLKIO / path.lstrip("/") for _, controllers, path in lines if "blkio" in controllers.split(","))


@contextmanager
def fault_bed() -> Iterator[FaultBed]:
    with ExitStack() as until:
        cluster = until.enter_context(stack.tests_cluster(IpFamily.IPV4, stack.FAULTS))
        second = until.enter_context(second_node(cluster))
        for image in images.STACK:
            stack.load(second, image)
        served = Served(cluster, NAME)
        bed = FaultBed(served, Path(until.enter_context(tempfile.TemporaryDirectory())))
        until.enter_context(resource_of_stand_ins(served, replicas=ENGINES, simulated=True))
        until.enter_context(gateway_of(bed))
        stack.wait_ready(cluster, NAME)
        bed.await_healed()
        yield bed


@contextmanager
def gateway_of(bed: FaultBed) -> Iterator[None]:
    """The gateway of the block, with TLS and keys."""
    line, bed.key = new_key(USER)
    bed.write_keys(line)
    bed.write_certificate()
    spec = {
        "keys": {"secretRef": {"name": f"{GATEWAY}-keys"}},
        "tls": {"secretRef": {"name": f"{GATEWAY}-tls"}},
    }
    api = {"apiVersion": "inference-operator.dev/v1alpha1", "kind": "ModelGateway"}
    bed.served.kubectl("apply", "--filename=-", input=json.dumps({**api, "metadata": {"name": GATEWAY}, "spec": spec}))
    try:
        bed.served.kubectl("wait", "--for=condition=Ready", f"mgw/{GATEWAY}", f"--timeout={HEAL_SECONDS}s")
        yield
    finally:
        bed.served.kubectl("delete", "mgw", GATEWAY, "--ignore-not-found")
        bed.served.kubectl("delete", "secret", f"{GATEWAY}-keys", f"{GATEWAY}-tls", "--ignore-not-found")
