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

from e2e.localkube.cache import cache_root
from e2e.localkube.errors import ClusterError
from e2e.localkube.progress import step
from e2e.localkube.toolchain import GO_ENVIRONMENT, go_command, go_environment

MODULE = Path(__file__).parent / "binaries"
PREVIOUS_MODULE = Path(__file__).parent / "previous"
"""Of the Kubernetes before, for what an upgrade of the cluster is like."""
KIND_MODULE = Path(__file__).parent / "kind"
"""Of kind, and of what an image of a node for it needs beside the commands here."""
FLAGS = ("-trimpath", "-ldflags", "-s -w")
"""Of every build: without paths of this machine and without symbols."""
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
    """The folder that holds the commands of this level, built where they are missing."""
    return ensure(COMMANDS[level], MODULE, _flags(MODULE))


def ensure_previous_api_server() -> Path:
    """The API server of the minor version before, built if it is missing."""
    return ensure((API_SERVER,), PREVIOUS_MODULE, _flags(PREVIOUS_MODULE)) / API_SERVER.name


def ensure_kind() -> Path:
    """The command kind, built if it is missing."""
    return ensure((KIND,), KIND_MODULE, _flags(KIND_MODULE)) / KIND.name


def ensure_kind_node() -> tuple[Path, Path]:
    """The folder with what an image of kind's node needs of its own, built if missing, and kind's module."""
    return ensure((KUBEADM, KIND_COREDNS), KIND_MODULE, _flags(KIND_MODULE)), kind_source()


def kind_source() -> Path:
    """The folder with the source of kind, fetched if it is missing."""
    return module_folder(KIND_MODULE, "sigs.k8s.io/kind")


def ensure(commands: Sequence[Command], module: Path, flags: Sequence[str]) -> Path:
    """The folder that holds the commands; builds the missing ones and says so."""
    directory = cache_root() / "bin" / build_key(module, flags)
    directory.mkdir(parents=True, exist_ok=True)
    if not _missing(commands, directory):
        return directory
    with exclusive(directory / ".lock"):
        missing = _missing(commands, directory)  # another process may have built them meanwhile
        if missing:
            go = go_command(module / "go.mod")
            if KWOK in commands:
                _copy_stages(directory)
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
    return (*FLAGS[:-1], " ".join([FLAGS[-1], *(f"-X {name}={value}" for name, value in variables.items())]))


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


def _copy_stages(directory: Path) -> None:
    """Copy the node and pod life cycles that KWOK plays out of its module's folder."""
    source = module_folder(MODULE, "sigs.k8s.io/kwok")
    (directory / STAGES).mkdir(exist_ok=True)
    for folder in _KWOK_STAGES:
        for stage in (source / "kustomize" / "stage" / folder).glob("*.yaml"):
            if stage.name != "kustomization.yaml":
                shutil.copyfile(stage, directory / STAGES / stage.name)


def module_folder(module: Path, name: str) -> Path:
    """The folder with the source of a module that `module` requires, in Go's module cache."""
    go = go_command(module / "go.mod")
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
def exclusive(lock: Path) -> Iterator[None]:
    """Hold the lock for the block, against other processes."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
