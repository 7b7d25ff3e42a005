"""etcd, the API server, the controller manager and the scheduler: their files and their command lines."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template

from e2e.localkube.certificates import Authority, Identity
from e2e.localkube.health import is_ready
from e2e.localkube.network import Network, joined
from e2e.localkube.ports import Ports
from e2e.localkube.state import Layout
from e2e.localkube.supervisor import Component

CONFIGURATION = Path(__file__).parent / "configuration"
LOOPBACK = "127.0.0.1"
REQUESTS_PER_SECOND = 1_000
"""Client rate of the controller manager and the scheduler: their defaults (20 and 50) would be what benches
measure."""
BURST = 2 * REQUESTS_PER_SECOND
STORE_BYTES = 8 << 30
"""The largest size that etcd's documentation suggests ("System limits"). With the default of 2 GiB, writes are refused
when about 3,000 InferenceDeployments have been created within the five minutes between two compactions."""

POLICY_TYPES_CONTROLLER = "validatingadmissionpolicy-status-controller"
WITHOUT_CONTROLLERS = ("endpoints-controller", "endpointslice-mirroring-controller", POLICY_TYPES_CONTROLLER)
"""Controllers that do not run. Nothing reads Endpoints, which mirror EndpointSlices: they were a tenth of all writes in
the tests. The check of types of admission policies took a minute of CPU for each installation."""

AUTOSCALER_SECONDS = 2
"""Between two looks of the HorizontalPodAutoscaler controller; tests wait for it. Its default is 15."""

ADMINISTRATOR = Identity("admin", "cluster-admin", "system:masters")
CONTROLLER_MANAGER = Identity("controller-manager", "system:kube-controller-manager")
SCHEDULER = Identity("scheduler", "system:kube-scheduler")
_API_SERVER = Identity("apiserver", "kube-apiserver")
_FRONT_PROXY = Identity("front-proxy", "front-proxy")
_TO_KUBELET = Identity("apiserver-to-kubelet", "kube-apiserver-to-kubelet", "system:masters")


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Where one control plane listens and what it hands out."""

    layout: Layout
    binaries: Path
    host: str
    ports: Ports
    services: tuple[Network, ...]
    """One range for each family of addresses, the primary one first."""

    @property
    def server(self) -> str:
        """The API server's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.ports.api_server}"

    def certificate(self, name: str) -> Path:
        """One of the files of the certificate authority."""
        return self.layout.certificates / name

    def kubeconfig(self, identity: Identity) -> Path:
        """The client configuration of an identity."""
        if identity is ADMINISTRATOR:
            return self.layout.kubeconfig
        return self.layout.configuration / f"{identity.file}.kubeconfig"

    def binary(self, name: str) -> str:
        """The path of a command."""
        return str(self.binaries / name)


def write_files(plane: ControlPlane, *others: Identity) -> None:
    """Write certificates, client configurations and component configurations; `others` get client ones too."""
    authority = Authority(plane.layout.certificates)
    hosts = ("localhost", LOOPBACK, plane.host, str(plane.services[0][1]))
    names = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    authority.issue(Identity(_API_SERVER.file, _API_SERVER.user, hosts=(*dict.fromkeys(hosts), *names)))
    for identity in (_FRONT_PROXY, _TO_KUBELET):
        authority.issue(identity)
    authority.issue_key("service-accounts")
    plane.layout.configuration.mkdir(parents=True, exist_ok=True)
    for identity in (ADMINISTRATOR, CONTROLLER_MANAGER, SCHEDULER, *others):
        authority.issue(identity)
        write_kubeconfig(plane, identity)
    write_configuration(plane.layout, "audit.yaml")
    write_configuration(
        plane.layout,
        "scheduler.yaml",
        kubeconfig=str(plane.kubeconfig(SCHEDULER)),
        requests_per_second=str(REQUESTS_PER_SECOND),
        burst=str(BURST),
    )


def write_configuration(layout: Layout, file: str, **values: str) -> None:
    """Fill in one of the files kept beside this module and write it into the cluster's folder."""
    (layout.configuration / file).write_text(filled_in(file, values))


def filled_in(file: str, values: Mapping[str, str]) -> str:
    """One of the files kept beside this module, with its variables replaced."""
    return Template((CONFIGURATION / file).read_text()).substitute(values)


def write_kubeconfig(plane: ControlPlane, identity: Identity) -> None:
    """Write a client configuration that carries its certificates, so that the file alone is enough."""

    def content(file: str) -> str:
        return base64.b64encode(plane.certificate(file).read_bytes()).decode()

    name = plane.layout.directory.name
    cluster = {"server": plane.server, "certificate-authority-data": content("ca.crt")}
    user = {
        "client-certificate-data": content(f"{identity.file}.crt"),
        "client-key-data": content(f"{identity.file}.key"),
    }
    path = plane.kubeconfig(identity)
    path.touch(mode=0o600)
    # JSON is YAML: the standard library writes it, and every Kubernetes client reads it.
    configuration = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": identity.user, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": identity.user}}],
        "current-context": name,
    }
    path.write_text(json.dumps(configuration, indent=2))


def etcd(plane: ControlPlane) -> Component:
    """The store; its data lives as long as the cluster, so nothing is flushed to the disk."""
    client = f"http://{LOOPBACK}:{plane.ports.etcd}"
    peer = f"http://{LOOPBACK}:{plane.ports.etcd_peer}"
    command = (
        plane.binary("etcd"),
        f"--data-dir={plane.layout.directory / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        f"--quota-backend-bytes={STORE_BYTES}",
        "--log-level=warn",
    )
    return Component("etcd", command, partial(is_ready, f"{client}/health", plane.certificate("ca.crt")))


def api_server(plane: ControlPlane) -> Component:
    """The API server, with an audit log; it advertises itself to pods only where it has an address for them."""
    certificates, layout = plane.layout.certificates, plane.layout
    command = (
        plane.binary("kube-apiserver"),
        f"--etcd-servers=http://{LOOPBACK}:{plane.ports.etcd}",
        f"--bind-address={plane.host}",
        f"--secure-port={plane.ports.api_server}",
        f"--advertise-address={plane.host}",
        *(["--endpoint-reconciler-type=none"] if plane.host == LOOPBACK else []),
        f"--service-cluster-ip-range={joined(plane.services)}",
        f"--tls-cert-file={certificates}/apiserver.crt",
        f"--tls-private-key-file={certificates}/apiserver.key",
        f"--client-ca-file={certificates}/ca.crt",
        f"--service-account-key-file={certificates}/service-accounts.key",
        f"--service-account-signing-key-file={certificates}/service-accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--requestheader-client-ca-file={certificates}/ca.crt",
        f"--requestheader-allowed-names={_FRONT_PROXY.user}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={certificates}/front-proxy.crt",
        f"--proxy-client-key-file={certificates}/front-proxy.key",
        "--enable-aggregator-routing",
        f"--kubelet-certificate-authority={certificates}/ca.crt",
        f"--kubelet-client-certificate={certificates}/apiserver-to-kubelet.crt",
        f"--kubelet-client-key={certificates}/apiserver-to-kubelet.key",
        "--kubelet-preferred-address-types=InternalIP",
        f"--audit-policy-file={layout.configuration}/audit.yaml",
        f"--audit-log-path={layout.audit_log}",
        "--audit-log-maxsize=0",  # one file: counting would miss what was rotated away
        "--allow-privileged",
    )
    return Component(
        "kube-apiserver", command, partial(is_ready, f"{plane.server}/readyz", plane.certificate("ca.crt"))
    )


def controller_manager(plane: ControlPlane) -> Component:
    """The controllers, each with its own service account."""
    certificates = plane.layout.certificates
    command = (
        plane.binary("kube-controller-manager"),
        f"--kubeconfig={plane.kubeconfig(CONTROLLER_MANAGER)}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={plane.ports.controller_manager}",
        *_serving(plane),
        "--use-service-account-credentials",
        f"--service-account-private-key-file={certificates}/service-accounts.key",
        f"--root-ca-file={certificates}/ca.crt",
        f"--cluster-signing-cert-file={certificates}/ca.crt",
        f"--cluster-signing-key-file={certificates}/ca.key",
        "--leader-elect=false",
        "--controllers=" + ",".join(("*", *(f"-{name}" for name in WITHOUT_CONTROLLERS))),
        f"--kube-api-qps={REQUESTS_PER_SECOND}",
        f"--kube-api-burst={BURST}",
        f"--horizontal-pod-autoscaler-sync-period={AUTOSCALER_SECONDS}s",
    )
    return _local("kube-controller-manager", command, plane, plane.ports.controller_manager)


def scheduler(plane: ControlPlane) -> Component:
    """The scheduler."""
    command = (
        plane.binary("kube-scheduler"),
        f"--config={plane.layout.configuration}/scheduler.yaml",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={plane.ports.scheduler}",
        *_serving(plane),
    )
    return _local("kube-scheduler", command, plane, plane.ports.scheduler)


def _serving(plane: ControlPlane) -> tuple[str, str]:
    certificates = plane.layout.certificates
    return f"--tls-cert-file={certificates}/apiserver.crt", f"--tls-private-key-file={certificates}/apiserver.key"


def _local(name: str, command: tuple[str, ...], plane: ControlPlane, port: int) -> Component:
    return Component(
        name, command, partial(is_ready, f"https://{LOOPBACK}:{port}/healthz", plane.certificate("ca.crt"))
    )
