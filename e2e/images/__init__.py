"""The project's images without a registry: built when their inputs change, streamed into a cluster's node.

`build` builds missing and outdated images. `stream` writes an image as an uncompressed archive for `ctr images import`
and `docker load`, without a copy on the disk:

    from e2e import images
    images.build(["operator", "router"])
    images.stream("router", into=process.stdin)
"""

from collections.abc import Iterable
from typing import BinaryIO

from e2e.images.catalogue import Dockerfile
from e2e.images.detect import found_builder
from e2e.images.errors import ImageError
from e2e.images.image import Image
from e2e.model.tiny_llama import TinyLlama

__all__ = ["IMAGES", "STACK", "ImageError", "build", "identity", "reference", "stream"]

_ENGINE = Dockerfile("engine-cpu", inputs=("images/engine-cpu",))
_OPERATOR_INPUTS = ("images/operator", "operator", "pyproject.toml", "uv.lock", "README.md", "LICENSE")
_SIMULATOR_INPUTS = ("images/simulator", "e2e/simulator", "pyproject.toml", "uv.lock")

IMAGES: dict[str, Image] = {
    "operator": Dockerfile("operator", inputs=_OPERATOR_INPUTS),
    "router": Dockerfile("router", inputs=("images/router",)),
    "engine-cpu": _ENGINE,
    "engine-llama-cpp": Dockerfile("engine-llama-cpp", inputs=("images/engine-llama-cpp",)),
    "tiny-llama": TinyLlama(engine=_ENGINE),
    "simulator": Dockerfile("simulator", inputs=_SIMULATOR_INPUTS),
    "stock-python": Dockerfile("stock-python", inputs=("images/stock-python",)),
    "router-3.2": Dockerfile("router-3.2", inputs=("images/router-3.2", "images/router/docker-entrypoint.sh")),
}
STACK = ("operator", "router", "engine-cpu", "tiny-llama")
"""What the demo and the tests' cluster need; `stack.load` brings another image to a cluster."""


def build(names: Iterable[str]) -> None:
    """Build these images if they are missing or their inputs have changed."""
    chosen = [_image(name) for name in names]
    builder = found_builder()
    for image in chosen:
        image.ensure(builder)


def stream(name: str, into: BinaryIO) -> None:
    """Write a built image to a pipe or file, uncompressed."""
    _image(name).write(found_builder(), into)


def identity(name: str) -> str:
    """A string that differs between builds of the same name."""
    return _image(name).identity(found_builder())


def reference(name: str) -> str:
    """The full name with tag of an image in a node that imported it."""
    return _image(name).reference


def _image(name: str) -> Image:
    if name not in IMAGES:
        raise ImageError(f"there is no image {name!r}: choose from {', '.join(IMAGES)}")
    return IMAGES[name]
