"""Releases the operator to a registry: `python -m e2e.release REGISTRY --key KEY`.

- Each image is built for amd64 and arm64, and has one name for both (an index). Programs of the architecture that this
  machine does not have run in QEMU.
- Each image has its bill of materials as a signed attestation.
- The chart names the images of this registry.
- Images, indexes and the chart are signed with the key.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e import images, push
from e2e.cluster.errors import ClusterError
from e2e.images.buildah import Buildah
from e2e.images.emulation import ARCHITECTURES
from e2e.sbom import bill_of_materials
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
    options = parser.parse_args(arguments)
    try:
        for one in release(options.registry, Signer(options.key)):
            print(f"{one.name}@{one.digest}")
    except (images.ImageError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def release(registry: str, signer: Signer) -> list[Released]:
    """Build, push and sign everything; returns the indexes of the images, the chart, and the chart of the CRD."""
    signer.check()
    released = [_image(name, push.target(name, registry), signer) for name in push.IMAGES]
    charts = [Released(*push.push_own_chart(registry)), Released(*push.push_chart(registry, push.CRDS_CHART))]
    for chart in charts:
        signer.sign(chart.pinned)
    return [*released, *charts]


def _image(name: str, target: str, signer: Signer) -> Released:
    """Build an image for every architecture, and push them with their index."""
    image, parts = images.IMAGES[name], []
    for architecture in ARCHITECTURES:
        builder = Buildah(architecture)
        image.ensure(builder)
        tagged = f"{target}-{architecture}"
        part = Released(tagged, builder.publish(name, image.reference, tagged))
        with builder.mounted(image.reference) as root:
            bill = bill_of_materials(root, name=target, version=part.digest)
        signer.attest(part.pinned, bill)
        parts.append(part)
    index = Released(target, Buildah().push_index(name, [part.pinned for part in parts], target))
    signer.sign(index.pinned)
    return index


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
