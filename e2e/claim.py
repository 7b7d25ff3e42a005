"""A PersistentVolumeClaim of a folder on the node's disk, for models in volumes."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from e2e.cluster.handle import LocalCluster
from e2e.model.tiny_llama import model_folder

OBJECTS = Path(__file__).with_name("claim.yaml")


@contextmanager
def claim_of(cluster: LocalCluster, name: str, path: Path) -> Iterator[str]:
    """Create a claim and its volume; deleted at the end of the block."""
    objects = Template(OBJECTS.read_text()).substitute(name=name, path=path)
    cluster.kubectl("apply", "--filename=-", input=objects)
    try:
        yield name
    finally:
        cluster.kubectl("delete", "--filename=-", "--wait=true", input=objects)


@contextmanager
def claim_of_model(cluster: LocalCluster, name: str, folder: str) -> Iterator[str]:
    """A claim of a local folder that holds the tiny model's files, in a subfolder."""
    disk = cluster.volumes / name
    shutil.copytree(model_folder(), disk / folder, dirs_exist_ok=True)
    with claim_of(cluster, name, disk) as claim:
        yield claim
