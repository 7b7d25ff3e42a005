"""The bill of materials of an image's root folder."""

import json
from pathlib import Path

from e2e.deploy.sbom import bill_of_materials

STATUS = """\
Package: haproxy
Status: install ok installed
Architecture: arm64
Version: 3.0.11-1+deb13u1
Description: fast and reliable load balancing reverse proxy
 HAProxy is a TCP/HTTP reverse proxy.

Package: removed
Status: deinstall ok config-files
Architecture: arm64
Version: 1
"""
BASE = "pkg:oci/haproxy@sha256:1?repository_url=docker.io/library/haproxy&tag=3.2"


def test_a_bill_names_installed_debian_packages_and_python_distributions(tmp_path: Path) -> None:
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    distribution = tmp_path / "opt/app/lib/python3.13/site-packages/Some_Thing-1.2.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.4\nName: Some_Thing\nVersion: 1.2\n\nText.\n")
    base = "docker.io/library/haproxy:3.2@sha256:1"
    document = json.loads(bill_of_materials(tmp_path, name="registry.example/router:1", version="sha256:0", base=base))
    assert document["specVersion"] == "1.6"
    assert document["metadata"]["component"]["name"] == "registry.example/router:1"
    assert {one["purl"] for one in document["components"]} == {
        "pkg:deb/debian/haproxy@3.0.11-1%2Bdeb13u1?arch=arm64",
        "pkg:pypi/some-thing@1.2",
        BASE,
    }
    needs = {one["ref"]: one.get("dependsOn", []) for one in document["dependencies"]}
    assert needs[BASE] == ["pkg:deb/debian/haproxy@3.0.11-1%2Bdeb13u1?arch=arm64"]
    assert BASE in needs[document["metadata"]["component"]["bom-ref"]]
    (floats,) = (one["properties"] for one in document["components"] if "properties" in one)
    assert [one["value"] for one in floats] == ["the tag 3.2"]
