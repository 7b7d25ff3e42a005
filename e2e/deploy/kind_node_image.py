"""An image of a node for kind from the commands that the local cluster builds, for machines without a registry.

kind's own node images are of Docker Hub. Where that is out of reach, `ensure` builds one with the versions of
`e2e/localkube`: kind's base files, Debian packages, and the commands of Kubernetes, containerd and CoreDNS.
"""

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from e2e.images.builder import BASE
from e2e.images.catalogue import ROOT
from e2e.images.detect import found_builder
from e2e.images.errors import ImageError
from e2e.localkube.binaries import KIND_MODULE, Level, ensure_binaries, ensure_kind_node, module_version
from e2e.localkube.cache import cache_root
from e2e.localkube.oci import write_oci_archive

REFERENCE = "localhost/inference-operator/kind-node:dev"
COMMANDS = ("kubelet", "kube-proxy", "kubectl", "containerd", "containerd-shim-runc-v2", "ctr")
"""Commands of the local cluster that run on the node itself."""
SERVERS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")
"""Commands of the local cluster that kubeadm starts in static pods, each from an image that holds only it."""
PAUSE = "registry.k8s.io/pause:3.10"
"""The sandbox image that kind's containerd asks for (kind v0.33.0, images/base/files/etc/containerd/config.toml)."""
SOURCE = ROOT / "images" / "kind-node"


def ensure() -> str:
    """The name of the image, which is built if it is missing or its inputs have changed."""
    commands, kind = ensure_kind_node()
    cluster = ensure_binaries(Level.NODE)
    builder = found_builder()
    key = _key(builder.ensure_base(BASE), commands, cluster)
    if builder.key(REFERENCE) == key:
        return REFERENCE
    with tempfile.TemporaryDirectory(dir=cache_root() / "images") as folder:
        context = Path(folder)
        _assemble(context, commands, cluster, kind)
        builder.build("kind-node", REFERENCE, SOURCE / "Dockerfile", context=context, key=key)
    return REFERENCE


def give(runtime: str) -> None:
    """Load the built image into Docker or Podman.

    Raises:
        ImageError: the runtime's own message.
    """
    builder = found_builder()
    with tempfile.TemporaryFile(dir=cache_root() / "images") as archive:
        builder.write(REFERENCE, archive)
        archive.seek(0)
        answer = subprocess.run([runtime, "load"], stdin=archive, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ImageError(f"{runtime} load: {answer.stderr.strip()}")


def _key(base: str, *folders: Path) -> str:
    """A digest of what decides the image; the folders of built commands are named by their own digests."""
    digest = hashlib.sha256("\0".join([base, *(folder.name for folder in folders)]).encode())
    for path in (Path(__file__), *sorted(path for path in SOURCE.rglob("*") if path.is_file())):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _assemble(context: Path, commands: Path, cluster: Path, kind: Path) -> None:
    """Put everything that the Dockerfile copies into one folder."""
    shutil.copytree(SOURCE / "files", context / "files")
    # A Go module is read-only in its cache, and its files have lost their mode.
    shutil.copytree(kind / "images" / "base" / "files", context / "base", copy_function=shutil.copyfile)
    for path in (context / "base", *(context / "base").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (context / "base" / "kind" / "version").write_text(_version())
    for target, names in (("commands", COMMANDS), ("archives", ())):
        (context / target).mkdir()
        for name in names:
            shutil.copy(cluster / name, context / target)
    shutil.copy(commands / "kubeadm", context / "commands")
    for reference, command in _archives(commands, cluster).items():
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "usr" / "local" / "bin" / command.name
            program.parent.mkdir(parents=True)
            shutil.copy(command, program)
            archive = context / "archives" / f"{command.name}.tar"
            write_oci_archive(archive, name=reference, root=Path(folder), command=[f"/usr/local/bin/{command.name}"])


def _archives(commands: Path, cluster: Path) -> dict[str, Path]:
    """The images that kubeadm's manifests name, each with the command in it."""
    asked = [str(commands / "kubeadm"), "config", "images", "list", f"--kubernetes-version={_version()}"]
    listed = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    by_name = {reference.rpartition(":")[0].rpartition("/")[2]: reference for reference in listed}
    found = {by_name[name]: cluster / name for name in SERVERS}
    return {**found, by_name["coredns"]: commands / "coredns", PAUSE: cluster / "pause"}


def _version() -> str:
    return module_version((KIND_MODULE / "go.mod").read_text(), "k8s.io/kubernetes")
