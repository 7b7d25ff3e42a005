"""A PersistentVolumeClaim of a folder on the node's disk, for models in volumes."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

import yaml

from e2e.localkube.handle import LocalCluster
from e2e.model.tiny_llama import model_folder

OBJECTS = Path(__file__).with_name("volume_claim.yaml")
GONE_SECONDS = 200
"""Limit until the objects of a former claim of the same name are gone, which stay until its last pod has ended."""


@contextmanager
def claim_of(cluster: LocalCluster, name: str, path: Path, *, access: str = "ReadOnlyMany") -> Iterator[str]:
    """Create a claim and its volume with this access mode; deleted at the end of the block."""
    with _applied(cluster, _objects(name, path, access)):
        yield name


@contextmanager
def volume_for(cluster: LocalCluster, claim: str, path: Path, *, size: str) -> Iterator[None]:
    """Create a volume for a claim that the operator will create; deleted at the end of the block."""
    volume, _ = yaml.safe_load_all(_objects(claim, path, "ReadWriteOnce", size))
    with _applied(cluster, yaml.safe_dump(volume)):
        yield


def _objects(name: str, path: Path, access: str, size: str = "1Gi") -> str:
    return Template(OBJECTS.read_text()).substitute(name=name, path=path, access=access, size=size)


@contextmanager
def _applied(cluster: LocalCluster, objects: str) -> Iterator[None]:
    cluster.kubectl("wait", "--for=delete", "--filename=-", f"--timeout={GONE_SECONDS}s", input=objects)
    cluster.kubectl("apply", "--filename=-", input=objects)
    try:
        yield
    finally:
        cluster.kubectl("delete", "--filename=-", "--wait=false", input=objects)


@contextmanager
def claim_of_model(cluster: LocalCluster, name: str, folder: str) -> Iterator[str]:
    """A claim of a local folder that holds the tiny model's files, in a subfolder."""
    disk = cluster.volumes / name
    shutil.copytree(model_folder(), disk / folder, dirs_exist_ok=True)
    with claim_of(cluster, name, disk) as claim:
        yield claim
