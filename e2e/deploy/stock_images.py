"""Stand-ins of the official images in a registry, for the tests that assemble images from them.

They are made from Debian packages, with the paths, users and variables of the official ones. The image for the
architecture that this machine does not have says so in its configuration, and has the files of the other one.
"""

import tempfile
from pathlib import Path

from e2e import images
from e2e.images.assembly import BASES, crane

_STANDS_FOR = {"operator": "stock-python", "router": "router"}
"""Built images by the images that are assembled from them."""
HAPROXY_VERSION = "3.4"
"""The variable of the router's image (images/router/Dockerfile), as the official image has it."""


def put_stock_images(registry: str) -> None:
    """Build the stand-ins, and store them under the names of the official images."""
    images.build(_STANDS_FOR.values())
    for name, built in _STANDS_FOR.items():
        target = f"{registry}/{BASES[name]}"
        put_built_image(built, f"{target}-amd64")
        crane("mutate", f"{target}-amd64", "--set-platform=linux/amd64", f"--tag={target}-amd64")
        crane("mutate", f"{target}-amd64", "--set-platform=linux/arm64", f"--tag={target}-arm64")
        crane("index", "append", f"--manifest={target}-amd64", f"--manifest={target}-arm64", f"--tag={target}")


def put_built_image(built: str, target: str) -> None:
    """Store an image that was built here under a name in a registry."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "image.tar"
        with archive.open("wb") as file:
            images.stream(built, file)
        crane("push", str(archive), target)
