"""How long `make demo CLUSTER=kind` takes where a registry has the images: `python -m bench.first_token`.

A registry on this machine has stand-ins of the official images of HAProxy and Python, and the project's engine image
under the name of vLLM's. Podman pulls them under their own names through a mirror. A package index on this machine has
the operator's libraries. kind's node image and the demo's tiny model are made before. Needs root and Podman.
"""

import math
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.figures import Figure, at_most, parser_of, shown
from e2e import images
from e2e.deploy import kind_node_image
from e2e.deploy.local_registry import local_registry
from e2e.deploy.package_index import package_index
from e2e.deploy.published_images import named_by_chart
from e2e.deploy.stock_images import put_built_image, put_stock_images

AIM_SECONDS = 300
_DEMO = (sys.executable, "-m", "e2e.deploy.demo")
_MIRROR = """\
[[registry]]
location = "docker.io"
[[registry.mirror]]
location = "{registry}"
insecure = true
"""
_TOOK = re.compile(r"^All of this took (\d+) s", re.MULTILINE)
_BUILT = re.compile(r"^(\S+): building", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Print the figures; returns the exit status."""
    asked = parser_of("python -m bench.first_token", "How long the demo on kind takes.").parse_args(arguments)
    kind_node_image.ensure()
    images.build(("engine-cpu", "tiny-llama"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with local_registry(folder) as registry, package_index(folder / "wheels", _address()) as variables:
            put_stock_images(registry)
            put_built_image("engine-cpu", f"{registry}/{named_by_chart().engine.partition('/')[2]}")
            _forget()
            mirror = folder / "registries.conf"
            mirror.write_text(_MIRROR.format(registry=registry))
            figures = _demo({**os.environ, **variables, "CONTAINERS_REGISTRIES_CONF": str(mirror)})
    print(shown(figures, asked.output))
    return int(any(figure.aim and not figure.aim.met_by(figure.value) for figure in figures))


def _demo(environment: Mapping[str, str]) -> list[Figure]:
    """Run the demo and end it; its output goes to standard error."""
    with subprocess.Popen([*_DEMO, "up", "--cluster=kind"], env=environment, stdout=-1, stderr=-2, text=True) as demo:
        said = []
        for line in demo.stdout or ():
            print(line, end="", file=sys.stderr, flush=True)
            said.append(line)
    subprocess.run([*_DEMO, "down"], check=True, env=environment, stdout=sys.stderr)
    printed = "".join(said)
    took = _TOOK.search(printed)
    return [
        Figure("demo on kind, until it has been used", float(took[1]) if took else math.nan, "s", at_most(AIM_SECONDS)),
        Figure("images built", len(_BUILT.findall(printed)), "images", at_most(0)),
    ]


def _forget() -> None:
    """Delete the published images from Podman's store, so that pulling them counts."""
    names = named_by_chart().pulled
    subprocess.run(["podman", "image", "rm", "--force", *names], check=False, capture_output=True)


def _address() -> str:
    """An address of this machine that containers can reach."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: it chooses a route
        address: str = probe.getsockname()[0]
        return address


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
