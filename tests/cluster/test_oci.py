"""OCI image archives for the local cluster."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube.oci import write_oci_archive


def files(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {entry.name: extracted.read() for entry in tar if (extracted := tar.extractfile(entry))}


def document(content: bytes) -> Any:  # noqa: ANN401 (JSON of any shape)
    return json.loads(content)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "model").mkdir(parents=True)
    (root / "model" / "weights.safetensors").write_bytes(b"weights")
    (root / "model" / "weights.safetensors").chmod(0o600)
    (root / "link").symlink_to("model/weights.safetensors")
    return root


def archive_of(root: Path, **options: Any) -> bytes:  # noqa: ANN401 (passed through)
    out = io.BytesIO()
    write_oci_archive(out, name="localhost/inference-operator/thing:1", root=root, **options)
    return out.getvalue()


def test_every_oci_blob_is_named_by_its_digest_and_the_index_leads_to_the_layer(root: Path) -> None:
    content = files(archive_of(root, command=["/run"], environment=["A=b"]))
    for name in (name for name in content if name.startswith("blobs/")):
        assert name == "blobs/sha256/" + hashlib.sha256(content[name]).hexdigest()
    (descriptor,) = document(content["index.json"])["manifests"]
    assert descriptor["annotations"] == {
        "io.containerd.image.name": "localhost/inference-operator/thing:1",
        "org.opencontainers.image.ref.name": "1",
    }
    manifest = document(content["blobs/sha256/" + descriptor["digest"][7:]])
    configuration = document(content["blobs/sha256/" + manifest["config"]["digest"][7:]])
    assert configuration["config"]["Entrypoint"] == ["/run"]
    assert configuration["config"]["Env"][-1] == "A=b"
    assert configuration["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
    layer = content["blobs/sha256/" + manifest["layers"][0]["digest"][7:]]
    assert len(layer) == manifest["layers"][0]["size"]
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        assert tar.getnames() == ["link", "model", "model/weights.safetensors"]
        weights = tar.getmember("model/weights.safetensors")
        assert (weights.mode, weights.uid, weights.mtime) == (0o644, 0, 0)
        assert tar.getmember("link").linkname == "model/weights.safetensors"


def test_the_same_files_give_the_same_image_archive_in_a_stream_and_in_a_file(root: Path, tmp_path: Path) -> None:
    first = archive_of(root)
    (root / "model" / "weights.safetensors").touch()
    write_oci_archive(tmp_path / "thing.tar", name="localhost/inference-operator/thing:1", root=root)
    assert archive_of(root) == first == (tmp_path / "thing.tar").read_bytes()


def test_a_path_variable_of_an_image_environment_replaces_the_default(root: Path) -> None:
    with_default, without = archive_of(root), archive_of(root, environment=["PATH=/only"])
    assert b"PATH=/usr/local/sbin" in with_default
    assert b"PATH=/usr/local/sbin" not in without


def test_a_missing_source_directory_of_an_image_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match="absent is not a directory"):
        archive_of(tmp_path / "absent")
