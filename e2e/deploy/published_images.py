"""The stack of the demo on kind, from published images: what the container runtime can pull is not built here.

1. Official images of HAProxy and Python replace the router's and the operator's image: `make install` uses them.
2. vLLM's image for CPUs replaces the engine's.
3. The tiny model has no published image.
"""

import os
import subprocess
from dataclasses import asdict, dataclass
from typing import BinaryIO, cast

import yaml

from e2e import images
from e2e.deploy import stack
from e2e.localkube import kind
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import Cluster
from e2e.localkube.kind import KindCluster
from e2e.localkube.progress import step

VARIABLES = ("PIP_INDEX_URL", "PIP_TRUSTED_HOST", "HTTPS_PROXY", "NO_PROXY")
"""Variables of this machine by which pods find the package index too."""


@dataclass(frozen=True, slots=True)
class Published:
    """The published images that the container runtime has; empty names for those that it cannot pull."""

    python: str = ""
    haproxy: str = ""
    engine: str = ""

    @property
    def stock(self) -> bool:
        """Whether the operator and the routers need no image of their own."""
        return bool(self.python and self.haproxy)

    @property
    def pulled(self) -> tuple[str, ...]:
        """The images to load into the node."""
        stock = (self.python, self.haproxy) if self.stock else ()
        return (*stock, *([self.engine] if self.engine else []))

    @property
    def built(self) -> tuple[str, ...]:
        """The images that are built here."""
        replaced = {*(("operator", "router") if self.stock else ()), *(("engine-cpu",) if self.engine else ())}
        return tuple(name for name in images.STACK if name not in replaced)


def named_by_chart() -> Published:
    """All published images, by the names that the chart has for them."""
    values = yaml.safe_load((stack.CHART / "values.yaml").read_text())
    return Published(values["stock"]["python"], values["stock"]["haproxy"], values["engine"]["images"]["cpu"])


def pulled() -> Published:
    """The published images that the container runtime has, after it has tried to pull each."""
    runtime, found = kind.found_runtime(), {}
    for name, image in asdict(named_by_chart()).items():
        with step(f"{image}, if a registry answers"):
            found[name] = image if kind.has_image(runtime, image) else ""
    return Published(**found)


def load(cluster: KindCluster, image: str) -> None:
    """Stream an image of the container runtime into the node, unless the node has it.

    Raises:
        ClusterError: the runtime's own message.
    """
    if image in cluster.images():
        return
    with (
        step(f"loading {image} into the node"),
        subprocess.Popen([cluster.runtime, "save", image], stdout=subprocess.PIPE) as saving,
    ):
        cluster.load_image(cast("BinaryIO", saving.stdout))
    if saving.returncode:
        raise ClusterError(f"{cluster.runtime} save {image} failed: {saving.returncode}")


def install(cluster: Cluster, published: Published) -> None:
    """Install the operator on the images that were pulled or built."""
    engine = published.engine or images.reference("engine-cpu")
    if not published.stock:
        stack.install_operator(cluster, {"engine.images.cpu": engine})
        return
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    stack.install_on_stock_images(cluster, engine, environment)
