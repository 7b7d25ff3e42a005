"""Writes OCI image archives from a directory: no daemon, no registry, nothing compressed.

The archive follows the OCI image layout specification 1.0: `oci-layout`, `index.json` and one blob each for
the manifest, the configuration and the single layer. The image's full name stands in containerd's own
annotation, so that `ctr images import` stores it under that name.
"""

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

CHUNK_BYTES = 1 << 20
"""Read size while a layer is digested: large enough to be bound by the disk, small enough to be no burden."""

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIGURATION = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class _Blob:
    """A piece of content known by its digest, as OCI descriptors name it."""

    media_type: str
    digest: str
    size: int

    @property
    def path(self) -> str:
        return "blobs/" + self.digest.replace(":", "/")

    def descriptor(self) -> dict[str, str | int]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def write_oci_archive(
    out: BinaryIO | Path,
    *,
    name: str,
    root: Path,
    command: Sequence[str] = (),
    environment: Sequence[str] = (),
) -> None:
    """Write the files below `root` as a one-layer image called `name` (a full reference with a tag) to `out`.

    Files belong to root in the image, what their owner may read or enter everybody may, and times are zero:
    the same files always give the same image. `command` becomes the entry point. `environment` holds
    `NAME=value` strings; PATH is set unless given.
    """
    if isinstance(out, Path):
        with out.open("wb") as stream:
            write_oci_archive(stream, name=name, root=root, command=command, environment=environment)
        return
    with layer_of(root) as (layer_file, layer):
        configuration = _json(_configuration(layer, command, environment))
        manifest = _json(_manifest(_blob(_CONFIGURATION, configuration), layer))
        with tarfile.open(fileobj=out, mode="w|") as archive:
            _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
            _add(archive, "index.json", _json(_index(_blob(_MANIFEST, manifest), name)))
            _add(archive, _blob(_CONFIGURATION, configuration).path, configuration)
            _add(archive, _blob(_MANIFEST, manifest).path, manifest)
            entry = tarfile.TarInfo(layer.path)
            entry.size = layer.size
            archive.addfile(entry, layer_file)


@contextmanager
def layer_of(root: Path) -> Iterator[tuple[IO[bytes], _Blob]]:
    """The tar of `root`, open at its beginning, and its descriptor; a stream needs both before its bytes."""
    if not root.is_dir():
        raise NotADirectoryError(f"{root} is not a directory, and an image's layer is made from one")
    with tempfile.TemporaryFile() as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            for path in sorted(root.rglob("*")):
                tar.add(path, arcname=str(path.relative_to(root)), recursive=False, filter=_reproducible)
        size = file.tell()
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        yield file, _Blob(_LAYER, f"sha256:{digest}", size)


def _reproducible(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    # Pods run as any user: what the owner may read or enter, everybody may (safetensors files come as 0600).
    entry.mode |= (entry.mode & 0o500) >> 3 | (entry.mode & 0o500) >> 6
    return entry


def _configuration(layer: _Blob, command: Sequence[str], environment: Sequence[str]) -> object:
    has_path = any(variable.startswith("PATH=") for variable in environment)
    return {
        "architecture": _ARCHITECTURES[platform.machine()],
        "os": "linux",
        "config": {
            "Entrypoint": list(command),
            "Env": [*([] if has_path else [DEFAULT_PATH]), *environment],
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
    }


def _manifest(configuration: _Blob, layer: _Blob) -> object:
    return {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": configuration.descriptor(),
        "layers": [layer.descriptor()],
    }


def _index(manifest: _Blob, name: str) -> object:
    annotations = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    return {"schemaVersion": 2, "manifests": [{**manifest.descriptor(), "annotations": annotations}]}


def _json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _blob(media_type: str, content: bytes) -> _Blob:
    return _Blob(media_type, f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
