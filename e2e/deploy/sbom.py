"""The bill of materials of an image, in the form of CycloneDX: its base, Debian packages and Python distributions."""

import re
from collections.abc import Iterator, Mapping
from email.parser import HeaderParser
from pathlib import Path

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

_DPKG = Path("var/lib/dpkg/status")
_INSTALLED = "install ok installed"
FLOATS = "inference-operator.dev:floats"
"""Property of what another build may have in another version: the name by which it was asked for."""
PACKAGE_FILES = (re.compile(str(_DPKG)), re.compile(r".*\.dist-info/METADATA"))
"""Patterns of the files that the bill is made from, below the root of an image."""


def bill_of_materials(
    root: Path, *, name: str, version: str, base: str, programs: Mapping[str, str] | None = None
) -> str:
    """The packages of an image as a CycloneDX 1.6 document in JSON.

    Args:
        root: the root folder of the image.
        name: the name of the image.
        version: its digest.
        base: the base image, with its tag and its digest. Debian's packages and the programs are in it, so their
            versions follow its tag; Python's distributions are locked by this repository.
        programs: versions of programs that no package brought.
    """
    bom = Bom()
    image = Component(name=name, version=version, type=ComponentType.CONTAINER)
    compiled = [_library("generic", None, program, found, {}) for program, found in (programs or {}).items()]
    floating, locked = [*compiled, *_debian(root)], [*_python(root)]
    below = _base(base)
    bom.metadata.component = image
    bom.components.update([below, *floating, *locked])
    bom.register_dependency(image, [below, *locked])
    bom.register_dependency(below, floating)
    document: str = JsonV1Dot6(bom).output_as_string(indent=1)
    return document


def _base(image: str) -> Component:
    """The base image (purl-spec, types/oci-definition.json)."""
    tagged, _, digest = image.partition("@")
    repository, _, tag = tagged.rpartition(":")
    name = repository.rpartition("/")[2]
    url = PackageURL("oci", None, name, digest, {"repository_url": repository, "tag": tag})
    floats = Property(name=FLOATS, value=f"the tag {tag}")
    return Component(
        name=tagged,
        version=digest,
        purl=url,
        bom_ref=url.to_string(),
        type=ComponentType.CONTAINER,
        properties=[floats],
    )


def _debian(root: Path) -> Iterator[Component]:
    """The installed packages of dpkg's database (deb-control(5))."""
    database = root / _DPKG
    text = database.read_text() if database.exists() else ""
    for paragraph in re.split(r"\n\n+", text.strip()):
        package = HeaderParser().parsestr(paragraph)
        if package["Status"] == _INSTALLED:
            qualifiers = {"arch": package["Architecture"]}
            yield _library("deb", "debian", package["Package"], package["Version"], qualifiers)


def _python(root: Path) -> Iterator[Component]:
    """The installed distributions (Python's core metadata)."""
    for metadata in sorted(root.glob("**/*.dist-info/METADATA")):
        distribution = HeaderParser().parsestr(metadata.read_text(errors="replace"))
        name = re.sub(r"[-_.]+", "-", distribution["Name"]).lower()
        yield _library("pypi", None, name, distribution["Version"], {})


def _library(kind: str, namespace: str | None, name: str, version: str, qualifiers: dict[str, str]) -> Component:
    url = PackageURL(kind, namespace, name, version, qualifiers)
    return Component(name=name, version=version, purl=url, bom_ref=url.to_string(), type=ComponentType.LIBRARY)
