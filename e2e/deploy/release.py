"""Releases the operator to a registry: `python -m e2e.deploy.release REGISTRY --key KEY`.

- Each image has one name for amd64 and arm64 (an index). It is assembled as for `make push`.
- Each image has its bill of materials as a signed attestation.
- The chart names the images of this registry.
- Images, indexes and the chart are signed with the key.
- With `--out`, a folder gets the files of the release: one manifest that installs the operator from this registry, the
  CRD and its JSON Schema, the wheel with `infd`, its archives with krew's manifest, the bills of materials, the names
  of all images and charts with their digests, and a list of hashes.
"""

import argparse
import hashlib
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e import images
from e2e.deploy import manifests, push
from e2e.deploy.archives import krew_manifest, write_archives
from e2e.deploy.sbom import PACKAGE_FILES, bill_of_materials
from e2e.deploy.signing import Signer
from e2e.images.assembly import DOCKER_HUB, Assembled, build_wheel, environment, extracted, pinned
from e2e.localkube.errors import ClusterError

NAMES, HASHES = "images.txt", "SHA256SUMS"
"""Files of a release: the names of everything in the registry, and the hashes of the other files."""


@dataclass(frozen=True, slots=True)
class Released:
    """Something in the registry."""

    name: str
    """With its tag."""
    digest: str

    @property
    def pinned(self) -> str:
        """The name with the digest instead of the tag."""
        return pinned(self.name, self.digest)


def main(arguments: Sequence[str]) -> int:
    """Release; an error is one message, and the status is 1."""
    parser = argparse.ArgumentParser(
        prog="python -m e2e.deploy.release", description="Release the images and the chart."
    )
    parser.add_argument("registry", help="host, with an optional port and path, such as registry.example/team")
    parser.add_argument("--key", type=Path, required=True, help="private key of cosign; password in COSIGN_PASSWORD")
    parser.add_argument("--tag", default="", help="refuse unless it is the version with a `v` before it")
    parser.add_argument("--out", type=Path, help="folder for the files of the release")
    parser.add_argument("--url", default="", help="where these files will be, for krew's manifest")
    push.add_bases(parser)
    options = parser.parse_args(arguments)
    try:
        _check_version(options.tag)
        for one in release(options.registry, Signer(options.key), options.bases, options.out, options.url):
            print(f"{one.name}@{one.digest}")
    except (images.ImageError, ClusterError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _check_version(tag: str) -> None:
    version = push.chart()["appVersion"]
    if tag and tag != f"v{version}":
        raise ClusterError(
            f"the tag is {tag}, and the version of the charts and the package is {version}: make them equal"
        )


def release(
    registry: str, signer: Signer, bases: str = DOCKER_HUB, out: Path | None = None, url: str = ""
) -> list[Released]:
    """Push and sign everything; returns the indexes of the images, the chart, and the chart of the CRD.

    Args:
        registry: host, with an optional port and path.
        signer: signs with the key of the release.
        bases: the registry that has the base images.
        out: the folder for the files of the release, if they are wanted.
        url: where these files will be; without it, krew gets no manifest.
    """
    signer.check()
    pushed = push.push_images(registry, bases)
    bills = {name: _signed(image, signer) for name, image in pushed.items()}
    released = [Released(image.target, image.digest) for image in pushed.values()]
    charts = [Released(*push.push_own_chart(registry, pushed)), Released(*push.push_chart(registry, push.CRDS_CHART))]
    for chart in charts:
        signer.sign(chart.pinned)
    if out is not None:
        _write_files(out, pushed, bills, [*released, *charts], url)
    return [*released, *charts]


def _write_files(
    out: Path,
    pushed: Mapping[str, Assembled],
    bills: Mapping[str, Mapping[str, str]],
    released: Sequence[Released],
    url: str,
) -> None:
    """Write the files of a release into an empty folder."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise ClusterError(f"{out} has files: name an empty folder")
    flags = [flag for name, image in pushed.items() for flag in _values(name, image)]
    (out / "install.yaml").write_text(manifests.install(*flags))
    for path in (manifests.CRD, manifests.CRD.with_name("inferencedeployment.schema.json")):
        shutil.copyfile(path, out / path.name)
    build_wheel(out)
    archives = write_archives(out)
    if url:
        (out / "infd.yaml").write_text(krew_manifest(url, push.chart()["appVersion"], archives))
    for name, of_architectures in bills.items():
        for architecture, bill in of_architectures.items():
            (out / f"{name}-{architecture}.cdx.json").write_text(bill)
    (out / NAMES).write_text("".join(f"{one.name}@{one.digest}\n" for one in released))
    hashed = [(hashlib.sha256(path.read_bytes()).hexdigest(), path.name) for path in sorted(out.iterdir())]
    (out / HASHES).write_text("".join(f"{digest}  {name}\n" for digest, name in hashed))


def _values(name: str, image: Assembled) -> list[str]:
    """The values of the chart that name an image in the registry."""
    key = {"operator": "image", "router": "router.image"}[name]
    return [
        f"--set-string={key}.repository={image.target.rpartition(':')[0]}",
        f"--set-string={key}.digest={image.digest}",
    ]


def _signed(image: Assembled, signer: Signer) -> dict[str, str]:
    """Sign the index of an image and the bill of materials for each architecture; returns these bills."""
    bills = dict[str, str]()
    for architecture, digest in image.parts.items():
        part = image.pinned(digest)
        with tempfile.TemporaryDirectory() as folder:
            extracted(part, Path(folder), PACKAGE_FILES)
            programs = _programs(part)
            bill = bill_of_materials(
                Path(folder), name=image.target, version=digest, base=image.base, programs=programs
            )
        signer.attest(part, bill)
        bills[architecture] = bill
    signer.sign(image.pinned(image.digest))
    return bills


def _programs(part: str) -> dict[str, str]:
    """The versions of programs that official images have compiled, from the variables that these set."""
    found = {name.removesuffix("_VERSION").lower(): value for name, value in environment(part).items()}
    return {name: found[name] for name in ("haproxy", "python") if name in found}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
