"""Builds the operator's and the router's image, and pushes them and the chart: `python -m e2e.push REGISTRY`.

The images are of this machine's architecture. Their names are those of the chart's values with another registry, so the
chart's value `imageRegistry` is all that an installation sets.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from e2e import images
from e2e.cluster.binaries import ensure_command
from e2e.cluster.errors import ClusterError
from e2e.images.builder import LOCAL_HOSTS, registry_host
from e2e.stack import CHART

IMAGES = ("operator", "router")


def main(arguments: Sequence[str]) -> int:
    """Build and push; an error is one message, and the status is 1."""
    parser = argparse.ArgumentParser(prog="python -m e2e.push", description=__doc__)
    parser.add_argument("registry", help="host, with an optional port and path, such as registry.example/team")
    try:
        for pushed in push(parser.parse_args(arguments).registry):
            print(pushed)
    except (images.ImageError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def push(registry: str) -> list[str]:
    """Push the images and the chart; returns their names."""
    images.build(IMAGES)
    names = [target(name, registry) for name in IMAGES]
    for name, pushed in zip(IMAGES, names, strict=True):
        images.push(name, pushed)
    return [*names, push_chart(registry)]


def target(name: str, registry: str) -> str:
    """The name of an image in the registry: that of the chart's values, with this registry."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    repository = {"operator": values["image"], "router": values["router"]["image"]}[name]["repository"]
    return f"{registry}/{repository.partition('/')[2]}:{chart()['appVersion']}"


def push_chart(registry: str) -> str:
    """Package the chart and push it; returns its name, as `helm install` takes it."""
    helm, described = str(ensure_command("helm")), chart()
    plain = ["--plain-http"] if registry_host(registry) in LOCAL_HOSTS else []
    with tempfile.TemporaryDirectory() as folder:
        _run(helm, "package", str(CHART), f"--destination={folder}")
        (package,) = Path(folder).glob("*.tgz")
        _run(helm, "push", str(package), f"oci://{registry}/charts", *plain)
    return f"oci://{registry}/charts/{described['name']}:{described['version']}"


def chart() -> dict[str, str]:
    """Chart.yaml."""
    described: dict[str, str] = yaml.safe_load((CHART / "Chart.yaml").read_text())
    return described


def _run(*command: str) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ClusterError(f"`{' '.join(command)}` failed: {answer.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
