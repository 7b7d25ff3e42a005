"""A claim of a folder on the node's disk, as somebody has it who keeps models in volumes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from e2e.cluster.handle import LocalCluster

OBJECTS = Path(__file__).with_name("claim.yaml")


@contextmanager
def claim_of(cluster: LocalCluster, name: str, path: Path) -> Iterator[str]:
    """A claim of this name, for as long as it is needed."""
    objects = Template(OBJECTS.read_text()).substitute(name=name, path=path)
    cluster.kubectl("apply", "--filename=-", input=objects)
    try:
        yield name
    finally:
        cluster.kubectl("delete", "--filename=-", "--wait=true", input=objects)
