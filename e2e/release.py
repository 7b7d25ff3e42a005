"""Releases the operator to a registry: `python -m e2e.release REGISTRY --key KEY`.

- Each image has one name for amd64 and arm64 (an index). It is assembled as for `make push`.
- Each image has its bill of materials as a signed attestation.
- The chart names the images of this registry.
- Images, indexes and the chart are signed with the key.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e import images, push
from e2e.cluster.errors import ClusterError
from e2e.images.assembly import DOCKER_HUB, Assembled, environment, extracted
from e2e.sbom import PACKAGE_FILES, bill_of_materials
from e2e.signing import Signer


@dataclass(frozen=True, slots=True)
class Released:
    """Something in the registry."""

    name: str
    """With its tag."""
    digest: str

    @property
    def pinned(self) -> str:
        """The name with the digest instead of the tag."""
        return f"{self.name.rpartition(':')[0]}@{self.digest}"


def main(arguments: Sequence[str]) -> int:
    """Release; an error is one message, and the status is 1."""
    parser = argparse.ArgumentParser(prog="python -m e2e.release", description="Release the images and the chart.")
    parser.add_argument("registry", help="host, with an optional port and path, such as registry.example/team")
    parser.add_argument("--key", type=Path, required=True, help="private key of cosign; password in COSIGN_PASSWORD")
    push.add_bases(parser)
    options = parser.parse_args(arguments)
    try:
        for one in release(options.registry, Signer(options.key), options.bases):
            print(f"{one.name}@{one.digest}")
    except (images.ImageError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def release(registry: str, signer: Signer, bases: str = DOCKER_HUB) -> list[Released]:
    """Push and sign everything; returns the indexes of the images, the chart, and the chart of the CRD."""
    signer.check()
    pushed = push.push_images(registry, bases)
    released = [_signed(image, signer) for image in pushed.values()]
    charts = [Released(*push.push_own_chart(registry, pushed)), Released(*push.push_chart(registry, push.CRDS_CHART))]
    for chart in charts:
        signer.sign(chart.pinned)
    return [*released, *charts]


def _signed(image: Assembled, signer: Signer) -> Released:
    """Sign the index of an image, and the bill of materials of the image for each architecture."""
    for digest in image.parts.values():
        part = image.pinned(digest)
        with tempfile.TemporaryDirectory() as folder:
            extracted(part, Path(folder), PACKAGE_FILES)
            bill = bill_of_materials(Path(folder), name=image.target, version=digest, programs=_programs(part))
        signer.attest(part, bill)
    index = Released(image.target, image.digest)
    signer.sign(index.pinned)
    return index


def _programs(part: str) -> dict[str, str]:
    """The versions of programs that official images have compiled, from the variables that these set."""
    found = {name.removesuffix("_VERSION").lower(): value for name, value in environment(part).items()}
    return {name: found[name] for name in ("haproxy", "python") if name in found}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
