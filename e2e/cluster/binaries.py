"""Builds the cluster's commands once, from a pinned Go module, into the user's cache folder.

The folder's name is a digest of everything that decides the result: the module's files (`go.mod`, `go.sum` and
the small programs beside them) and the build's flags. Same key, same commands: nothing is built twice.
"""

import fcntl
import hashlib
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from e2e.cache import cache_root
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import step
from e2e.cluster.toolchain import GO_ENVIRONMENT, go_command, go_environment

MODULE = Path(__file__).parent / "binaries"
PREVIOUS_MODULE = Path(__file__).parent / "previous"
"""Of the Kubernetes before, for what an upgrade of the cluster is like."""
REGISTRY_MODULE = Path(__file__).parents[1] / "registry"
"""Of an image registry, for the tests that push to one."""
CRANE_MODULE = Path(__file__).parents[1] / "crane"
"""Of the command that copies and assembles images between registries."""
ACTIONLINT_MODULE = Path(__file__).parents[1] / "actionlint"
"""Of the checker of workflow files."""
SIGNER_MODULE = Path(__file__).parents[1] / "signer"
"""Of the command that signs releases."""
S3_MODULE = Path(__file__).parents[1] / "s3"
"""Of a server that speaks S3, for the tests of models in buckets."""
KARPENTER_MODULE = Path(__file__).parents[1] / "karpenter"
"""Of Karpenter with its provider `kwok`, for the test that runs it."""
KEDA_MODULE = Path(__file__).parents[1] / "keda"
"""Of KEDA's operator and metrics adapter, for the tests that run them, and of its CRDs."""
COSCHEDULING_MODULE = Path(__file__).parents[1] / "coscheduling"
"""Of a scheduler with the plugin Coscheduling, for the test that runs it, and of the CRD of its groups."""
LWS_MODULE = Path(__file__).parents[1] / "lws"
"""Of LeaderWorkerSet's controller and its CRDs, for the benchmark that runs groups of it."""
KUEUE_MODULE = Path(__file__).parents[1] / "kueue"
"""Of Kueue's controller, its CRDs and its webhooks, for the test that queues groups with it."""
VOLCANO_MODULE = Path(__file__).parents[1] / "volcano"
"""Of a generator of CRDs and of the types of Volcano, for the tests of objects for it."""
PROMETHEUS_MODULE = Path(__file__).parents[1] / "prometheus"
"""Of Prometheus and promtool, for the tests of metrics, rules and dashboards."""
COLLECTOR_MODULE = Path(__file__).parents[1] / "collector"
"""Of a collector of OpenTelemetry, for the test of spans."""
HELM_3_MODULE = Path(__file__).parents[1] / "helm3"
"""Of the Helm before, for the tests that install with it."""
KUSTOMIZE_MODULE = Path(__file__).parents[1] / "kustomize"
"""Of kustomize as a command of its own, for the test of the plain manifests."""
KSTATUS_MODULE = Path(__file__).parents[1] / "kstatus"
"""Of a command that applies kstatus to recorded objects."""
ARGO_CD_MODULE = Path(__file__).parents[1] / "argo_cd"
"""Of a command that runs customizations, syncs and compares with Argo CD's own code."""
ETCD_MODULE = Path(__file__).parents[1] / "etcd"
"""Of the command that restores snapshots of etcd, for the test that does so."""
KIND_MODULE = Path(__file__).parents[1] / "kind"
"""Of kind, and of what an image of a node for it needs beside the commands here."""
KEY_DIGITS = 16
"""Length of a key: 64 bits of the digest, far more than the few builds of one machine need."""
STAGES = Path("kwok-stages")
"""Beside the commands: the stages that KWOK's own module ships, since the command carries none."""
_KWOK_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")


class Level(StrEnum):
    """How much of Kubernetes runs."""

    CONTROL_PLANE = "control-plane"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Command:
    """A command and the Go package it is built from."""

    name: str
    package: str


API_SERVER = Command("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver")
KUSTOMIZE = Command("kustomize", "sigs.k8s.io/kustomize/kustomize/v5")
REGISTRY = Command("registry", "github.com/distribution/distribution/v3/cmd/registry")
COSIGN = Command("cosign", "github.com/sigstore/cosign/v3/cmd/cosign")
CRANE = Command("crane", "github.com/google/go-containerregistry/cmd/crane")
ACTIONLINT = Command("actionlint", "github.com/rhysd/actionlint/cmd/actionlint")
S3_SERVER = Command("versitygw", "github.com/versity/versitygw/cmd/versitygw")
KARPENTER = Command("karpenter-kwok", "sigs.k8s.io/karpenter/kwok")
KEDA_OPERATOR = Command("keda-operator", "github.com/kedacore/keda/v2/cmd/operator")
KEDA_ADAPTER = Command("keda-adapter", "github.com/kedacore/keda/v2/cmd/adapter")
COSCHEDULER = Command("coscheduler", ".")
LWS = Command("lws", "sigs.k8s.io/lws/cmd")
KUEUE = Command("kueue", "sigs.k8s.io/kueue/cmd/kueue")
CONTROLLER_GEN = Command("controller-gen", "sigs.k8s.io/controller-tools/cmd/controller-gen")
PROMETHEUS = Command("prometheus", "github.com/prometheus/prometheus/cmd/prometheus")
PROMTOOL = Command("promtool", "github.com/prometheus/prometheus/cmd/promtool")
COLLECTOR = Command("collector", ".")
HELM_3 = Command("helm3", "helm.sh/helm/v3/cmd/helm")
KSTATUS = Command("kstatus", ".")
ARGO_CD = Command("argo-cd", ".")
ETCDUTL = Command("etcdutl", "go.etcd.io/etcd/etcdutl/v3")
KIND = Command("kind", "sigs.k8s.io/kind")
KUBEADM = Command("kubeadm", "k8s.io/kubernetes/cmd/kubeadm")
KIND_COREDNS = Command("coredns", "./coredns")
KWOK = Command("kwok", "sigs.k8s.io/kwok/cmd/kwok")
CONTROL_PLANE = (
    Command("etcd", "go.etcd.io/etcd/server/v3"),
    API_SERVER,
    Command("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Command("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Command("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    KWOK,
    Command("helm", "helm.sh/helm/v4/cmd/helm"),
)
NODE = (
    Command("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    Command("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    Command("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
    Command("containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"),
    Command("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
    Command("coredns", "./coredns"),
    Command("pause", "./pause"),
)
COMMANDS = {Level.CONTROL_PLANE: CONTROL_PLANE, Level.NODE: CONTROL_PLANE + NODE}


def ensure_binaries(level: Level) -> Path:
    """The folder that holds the commands of this level; builds the missing ones and says so."""
    return _ensure(COMMANDS[level], MODULE)


def ensure_kustomize() -> Path:
    """The command kustomize, built if it is missing."""
    return _ensure((KUSTOMIZE,), KUSTOMIZE_MODULE) / KUSTOMIZE.name


def ensure_previous_api_server() -> Path:
    """The API server of the minor version before, built if it is missing."""
    return _ensure((API_SERVER,), PREVIOUS_MODULE) / API_SERVER.name


def ensure_registry() -> Path:
    """A registry of images and charts, built if it is missing."""
    return _ensure((REGISTRY,), REGISTRY_MODULE) / REGISTRY.name


def ensure_crane() -> Path:
    """The command that copies and assembles images between registries, built if it is missing (half a minute)."""
    return _ensure((CRANE,), CRANE_MODULE) / CRANE.name


def ensure_actionlint() -> Path:
    """The checker of workflow files, built if it is missing (half a minute)."""
    return _ensure((ACTIONLINT,), ACTIONLINT_MODULE) / ACTIONLINT.name


def ensure_cosign() -> Path:
    """The command that signs images and charts, built if it is missing."""
    return _ensure((COSIGN,), SIGNER_MODULE) / COSIGN.name


def ensure_s3_server() -> Path:
    """A server that speaks S3 over a folder, built if it is missing (a minute on two cores)."""
    return _ensure((S3_SERVER,), S3_MODULE) / S3_SERVER.name


def ensure_karpenter() -> tuple[Path, list[Path]]:
    """Karpenter with its provider `kwok`, built if it is missing, and the files with its CRDs."""
    command = _ensure((KARPENTER,), KARPENTER_MODULE) / KARPENTER.name
    folder = _module_folder(go_command(KARPENTER_MODULE / "go.mod"), KARPENTER_MODULE, "sigs.k8s.io/karpenter")
    return command, [*(folder / "pkg/apis/crds").glob("*.yaml"), *(folder / "kwok/apis/crds").glob("*.yaml")]


def ensure_keda() -> Path:
    """The folder with KEDA's operator and metrics adapter, built if they are missing (ten minutes on two cores)."""
    return _ensure((KEDA_OPERATOR, KEDA_ADAPTER), KEDA_MODULE)


def keda_definitions() -> list[Path]:
    """The files with KEDA's CRDs, in Go's module cache; Go downloads the module if it is missing (3 MB)."""
    folder = _module_folder(go_command(KEDA_MODULE / "go.mod"), KEDA_MODULE, "github.com/kedacore/keda/v2")
    return sorted((folder / "config/crd/bases").glob("*.yaml"))


def ensure_coscheduler() -> Path:
    """A scheduler with the plugin Coscheduling, built if it is missing (half an hour on two busy cores)."""
    return _ensure((COSCHEDULER,), COSCHEDULING_MODULE) / COSCHEDULER.name


def coscheduling_definition() -> Path:
    """The file with the CRD of Coscheduling's groups, in Go's module cache."""
    go = go_command(COSCHEDULING_MODULE / "go.mod")
    folder = _module_folder(go, COSCHEDULING_MODULE, "sigs.k8s.io/scheduler-plugins")
    return folder / "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"


def ensure_lws() -> tuple[Path, Path]:
    """LeaderWorkerSet's controller, built if missing (five minutes), and the folder of its configuration."""
    command = _ensure((LWS,), LWS_MODULE) / LWS.name
    return command, _module_folder(go_command(LWS_MODULE / "go.mod"), LWS_MODULE, "sigs.k8s.io/lws") / "config"


def ensure_kueue() -> tuple[Path, Path]:
    """Kueue's controller, built if it is missing (ten minutes), and the folder of its CRDs and webhooks."""
    command = _ensure((KUEUE,), KUEUE_MODULE) / KUEUE.name
    folder = _module_folder(go_command(KUEUE_MODULE / "go.mod"), KUEUE_MODULE, "sigs.k8s.io/kueue")
    return command, folder / "config" / "components"


def volcano_definition() -> Path:
    """The file with the CRD of Volcano's groups, generated from its types as Volcano does it: it ships none as module.

    The generator is built if it is missing (two minutes on two cores).
    """
    commands = _ensure((CONTROLLER_GEN,), VOLCANO_MODULE)
    made = commands / "volcano" / "scheduling.volcano.sh_podgroups.yaml"
    with _exclusive(commands / ".lock"):
        if not made.exists():
            types = "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
            command = [str(commands / CONTROLLER_GEN.name), "crd", f"paths={types}", f"output:crd:dir={made.parent}"]
            environment = go_environment(go_command(VOLCANO_MODULE / "go.mod"))
            subprocess.run(command, cwd=VOLCANO_MODULE, env=environment, capture_output=True, check=True)
    return made


def ensure_prometheus() -> Path:
    """The folder with Prometheus and promtool, built if they are missing."""
    return _ensure((PROMTOOL, PROMETHEUS), PROMETHEUS_MODULE)


def ensure_collector() -> Path:
    """A collector of OpenTelemetry, built if it is missing (a minute on two cores)."""
    return _ensure((COLLECTOR,), COLLECTOR_MODULE) / COLLECTOR.name


def ensure_helm_3() -> Path:
    """Helm 3, built if it is missing."""
    return _ensure((HELM_3,), HELM_3_MODULE) / HELM_3.name


def ensure_kstatus() -> Path:
    """The command that applies kstatus to a list of objects, built if it is missing."""
    return _ensure((KSTATUS,), KSTATUS_MODULE) / KSTATUS.name


def ensure_argo_cd() -> Path:
    """The command that runs customizations, syncs and compares with Argo CD's own code, built if it is missing."""
    return _ensure((ARGO_CD,), ARGO_CD_MODULE) / ARGO_CD.name


def ensure_etcdutl() -> Path:
    """The command that restores snapshots of etcd, built if it is missing (a minute on two cores)."""
    return _ensure((ETCDUTL,), ETCD_MODULE) / ETCDUTL.name


def ensure_kind() -> Path:
    """The command kind, built if it is missing."""
    return _ensure((KIND,), KIND_MODULE) / KIND.name


def ensure_kind_node() -> tuple[Path, Path]:
    """The folder with what an image of kind's node needs of its own, built if missing, and kind's module."""
    return _ensure((KUBEADM, KIND_COREDNS), KIND_MODULE), kind_source()


def kind_source() -> Path:
    """The folder with the source of kind, fetched if it is missing."""
    return _module_folder(go_command(KIND_MODULE / "go.mod"), KIND_MODULE, "sigs.k8s.io/kind")


def _ensure(commands: Sequence[Command], module: Path) -> Path:
    flags = _flags(module)
    directory = cache_root() / "bin" / build_key(module, flags)
    directory.mkdir(parents=True, exist_ok=True)
    if not _missing(commands, directory):
        return directory
    with _exclusive(directory / ".lock"):
        missing = _missing(commands, directory)  # another process may have built them meanwhile
        if missing:
            go = go_command(module / "go.mod")
            if KWOK in commands:
                _copy_stages(go, directory)
            for number, command in enumerate(missing, start=1):
                with step(f"[{number}/{len(missing)}] {command.name}"):
                    _build(go, flags, command, module, directory)
    return directory


def ensure_command(name: str) -> Path:
    """One command, built if it is missing; for tools that are useful without a cluster (helm, kubectl)."""
    level = Level.CONTROL_PLANE if name in {command.name for command in CONTROL_PLANE} else Level.NODE
    if name not in {command.name for command in COMMANDS[level]}:
        raise ClusterError(f"there is no command {name}; there are: {', '.join(c.name for c in COMMANDS[level])}")
    return ensure_binaries(level) / name


def build_key(module: Path, flags: Sequence[str]) -> str:
    """The digest of everything that decides the built commands."""
    digest = hashlib.sha256()
    for path in sorted(path for path in module.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(module)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    settings = [*flags, *(f"{name}={value}" for name, value in GO_ENVIRONMENT.items()), platform.machine()]
    digest.update("\0".join(settings).encode())
    return digest.hexdigest()[:KEY_DIGITS]


def module_version(go_mod: str, module: str) -> str:
    r"""The version that a go.mod requires of a module.

    >>> module_version("require (\n\tk8s.io/kubernetes v1.36.3\n)", "k8s.io/kubernetes")
    'v1.36.3'
    """
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterError(f"go.mod does not require {module}; run `go mod tidy` in its folder")
    return found[1]


def _flags(module: Path) -> tuple[str, ...]:
    """The build's flags; versions are set because clients refuse a server that calls itself v0.0.0."""
    if module == PROMETHEUS_MODULE:
        # Of service discovery only Kubernetes: the rest brings clients of 20 clouds. And without the web interface.
        return ("-trimpath", "-tags", "remove_all_sd,enable_kubernetes_sd", "-ldflags", "-s -w")
    if module not in (MODULE, PREVIOUS_MODULE, KIND_MODULE):
        return ("-trimpath", "-ldflags", "-s -w")
    go_mod = (module / "go.mod").read_text()
    kubernetes = module_version(go_mod, "k8s.io/kubernetes")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    variables = {
        "k8s.io/component-base/version.gitVersion": kubernetes,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/component-base/version.gitTreeState": "clean",
    }
    if module == MODULE:
        variables["helm.sh/helm/v4/internal/version.version"] = module_version(go_mod, "helm.sh/helm/v4")
    return ("-trimpath", "-ldflags", " ".join(["-s -w", *(f"-X {name}={value}" for name, value in variables.items())]))


def _missing(commands: Sequence[Command], directory: Path) -> list[Command]:
    return [command for command in commands if not (directory / command.name).is_file()]


def _build(go: Path, flags: Sequence[str], command: Command, module: Path, directory: Path) -> None:
    partial = directory / f".{command.name}.partial"
    answer = subprocess.run(
        [go, "build", *flags, "-o", partial, command.package],
        cwd=module,
        env=go_environment(go),
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise ClusterError(f"{command.name} did not build from {command.package}:\n{answer.stderr.strip()}")
    partial.rename(directory / command.name)


def _copy_stages(go: Path, directory: Path) -> None:
    """Copy the node and pod life cycles that KWOK plays out of its module's folder."""
    source = _module_folder(go, MODULE, "sigs.k8s.io/kwok")
    (directory / STAGES).mkdir(exist_ok=True)
    for folder in _KWOK_STAGES:
        for stage in (source / "kustomize" / "stage" / folder).glob("*.yaml"):
            if stage.name != "kustomization.yaml":
                shutil.copyfile(stage, directory / STAGES / stage.name)


def _module_folder(go: Path, module: Path, name: str) -> Path:
    """The folder with the source of a module that `module` requires."""
    answer = subprocess.run(
        [go, "mod", "download", "-json", name],
        cwd=module,
        env=go_environment(go),
        capture_output=True,
        text=True,
        check=False,
    )
    source = re.search(r'"Dir": "(.+)"', answer.stdout)
    if source is None:
        raise ClusterError(f"the module {name} could not be fetched: {answer.stderr.strip()}")
    return Path(source[1])


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
