"""Pushes the operator's and the router's image and the charts to a registry: `python -m e2e.deploy.push REGISTRY`.

The images are for amd64 and arm64 (`images/assembly.py`). The pushed chart names them in this registry by their
digests, and vLLM's images in vLLM's own. So an installation from the pushed chart sets no image.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from e2e import images
from e2e.deploy.stack import CHART
from e2e.images.assembly import DOCKER_HUB, Assembled, assemble
from e2e.images.builder import LOCAL_HOSTS, registry_host
from e2e.localkube.binaries import ensure_command
from e2e.localkube.errors import ClusterError

CRDS_CHART = CHART.with_name("inference-operator-crds")
"""The CRD alone."""
IMAGES = ("operator", "router")


def main(arguments: Sequence[str]) -> int:
    """Assemble and push; an error is one message, and the status is 1."""
    parser = argparse.ArgumentParser(prog="python -m e2e.deploy.push", description=__doc__)
    parser.add_argument("registry", help="host, with an optional port and path, such as registry.example/team")
    add_bases(parser)
    options = parser.parse_args(arguments)
    try:
        for pushed in push(options.registry, options.bases):
            print(pushed)
    except (images.ImageError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def add_bases(parser: argparse.ArgumentParser) -> None:
    """Add the option for a mirror of the base images."""
    told = f"registry, with an optional path, that has the base images (default: {DOCKER_HUB})"
    parser.add_argument("--bases", default=DOCKER_HUB, help=told)


def push(registry: str, bases: str = DOCKER_HUB) -> list[str]:
    """Push the images and the charts; returns their names."""
    pushed = push_images(registry, bases)
    charts = (push_own_chart(registry, pushed), push_chart(registry, CRDS_CHART))
    return [*(image.target for image in pushed.values()), *(f"oci://{name}" for name, _ in charts)]


def push_images(registry: str, bases: str) -> dict[str, Assembled]:
    """Push the images; returns them by their names in the chart."""
    return {name: assemble(name, target(name, registry), bases) for name in IMAGES}


def target(name: str, registry: str) -> str:
    """The name of an image in the registry: that of the chart's values, with this registry."""
    return f"{registry}/{repository(name).partition('/')[2]}:{chart()['appVersion']}"


def repository(name: str) -> str:
    """The repository of an image in the chart's values."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    found: str = {"operator": values["image"], "router": values["router"]["image"]}[name]["repository"]
    return found


def push_own_chart(registry: str, pushed: Mapping[str, Assembled] | None = None) -> tuple[str, str]:
    """Push a copy of the chart that names the images of this registry; returns its name and its digest.

    Args:
        registry: host, with an optional port and path.
        pushed: the images in it, whose digests the chart then names.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / CHART.name
        shutil.copytree(CHART, copy)
        text = (CHART / "values.yaml").read_text()
        for name in IMAGES:
            own = target(name, registry).rpartition(":")[0]
            digest = pushed[name].digest if pushed else ""
            named = re.compile(rf'(repository: ){repository(name)}$(.*?digest: )""', re.MULTILINE | re.DOTALL)
            text = named.sub(rf'\g<1>{own}\g<2>"{digest}"', text, count=1)
        (copy / "values.yaml").write_text(text)
        return push_chart(registry, copy)


def push_chart(registry: str, source: Path) -> tuple[str, str]:
    """Package a chart and push it; returns its name, without `oci://`, and its digest."""
    helm, described = str(ensure_command("helm")), chart(source)
    plain = ["--plain-http"] if registry_host(registry) in LOCAL_HOSTS else []
    with tempfile.TemporaryDirectory() as folder:
        _run(helm, "package", str(source), f"--destination={folder}")
        (package,) = Path(folder).glob("*.tgz")
        said = _run(helm, "push", str(package), f"oci://{registry}/charts", *plain)
    digest = re.search(r"sha256:[0-9a-f]{64}", said)
    if digest is None:
        raise ClusterError(f"helm push names no digest: {said}")
    return f"{registry}/charts/{described['name']}:{described['version']}", digest[0]


def chart(source: Path = CHART) -> dict[str, str]:
    """Chart.yaml."""
    described: dict[str, str] = yaml.safe_load((source / "Chart.yaml").read_text())
    return described


def _run(*command: str) -> str:
    """All that a command prints."""
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if answer.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed: {answer.stdout.strip()}")
    return answer.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
