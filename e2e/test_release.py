"""`make release` with a real registry: architectures, bills of materials, signatures, and an installation from it."""

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import images
from e2e.deploy import push, stack
from e2e.deploy.local_registry import configuration, local_registry, manifest, put_manifest
from e2e.deploy.release import Released, main, release
from e2e.deploy.signing import Signer, cosign, plain
from e2e.deploy.stock_images import HAPROXY_VERSION, put_stock_images
from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import Served
from e2e.localkube.binaries import ensure_command
from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.state import layout, read_record
from e2e.localkube.waiting import eventually

pytestmark = pytest.mark.full
RENEW_SECONDS = 900
"""Limit of a renewal on two busy cores."""
PASSWORD = "COSIGN_PASSWORD"  # noqa: S105 - a name


@dataclass(frozen=True, slots=True)
class Stock:
    """A registry after a release."""

    registry: str
    operator: Released
    router: Released
    chart: Released
    crds: Released
    public: Path
    files: Path
    """The folder with the files of the release."""

    def verify(self, reference: str) -> None:
        """Fail unless the key has signed it."""
        cosign("verify", f"--key={self.public}", "--insecure-ignore-tlog", *plain(reference), reference)


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """A release by one command's function, with a new key."""
    folder = tmp_path_factory.mktemp("release")
    with pytest.MonkeyPatch.context() as patch, local_registry(folder) as registry:
        patch.setenv(PASSWORD, "of this test")
        cosign("generate-key-pair", f"--output-key-prefix={folder / 'key'}")
        put_stock_images(registry)
        signer, files = Signer(folder / "key.key"), folder / "files"
        operator, router, chart, crds = release(registry, signer, bases=registry, out=files)
        yield Stock(registry, operator, router, chart, crds, folder / "key.pub", files)


def repository(released: Released) -> str:
    return released.name.partition("/")[2].rpartition(":")[0]


def parts(stock: Stock, released: Released) -> dict[str, str]:
    """The digests of an index's images, by architecture."""
    index = manifest(stock.registry, repository(released), released.name.rpartition(":")[2])
    return {one["platform"]["architecture"]: one["digest"] for one in index["manifests"]}


def packages(stock: Stock, released: Released, digest: str) -> set[str]:
    """The packages in the bill of materials that the key has signed for an image."""
    image = f"{released.name.rpartition(':')[0]}@{digest}"
    trusted = (f"--key={stock.public}", "--insecure-ignore-tlog", "--type=cyclonedx")
    line = cosign("verify-attestation", *trusted, *plain(image), image).splitlines()[0]
    statement: dict[str, Any] = json.loads(base64.b64decode(json.loads(line)["payload"]))
    return {one["purl"] for one in statement["predicate"]["components"]}


def test_each_image_has_both_architectures_under_one_name(stock: Stock) -> None:
    for released in (stock.operator, stock.router):
        found = parts(stock, released)
        assert set(found) == {"amd64", "arm64"}
        for architecture, digest in found.items():
            assert configuration(stock.registry, repository(released), digest)["architecture"] == architecture


def test_each_image_has_a_signed_bill_of_its_own_packages(stock: Stock) -> None:
    for digest in parts(stock, stock.router).values():
        found = packages(stock, stock.router, digest)
        assert f"pkg:generic/haproxy@{HAPROXY_VERSION}" in found
        assert any(one.startswith("pkg:deb/debian/libc6@") for one in found)
    for digest in parts(stock, stock.operator).values():
        found = packages(stock, stock.operator, digest)
        assert any(one.startswith("pkg:pypi/kopf@") for one in found)
        assert any(one.startswith("pkg:oci/python@sha256") for one in found)
        assert any(one.startswith("pkg:pypi/inference-operator@") for one in found)


def test_signatures_verify_with_the_public_key_and_fail_for_changed_content(stock: Stock) -> None:
    for released in (stock.operator, stock.router, stock.chart, stock.crds):
        stock.verify(released.pinned)
    for digest in parts(stock, stock.router).values():
        stock.verify(f"{stock.registry}/{repository(stock.router)}@{digest}")
    index = manifest(stock.registry, repository(stock.router), stock.router.digest)
    changed = put_manifest(stock.registry, repository(stock.router), "changed", {**index, "annotations": {"a": "b"}})
    with pytest.raises(ClusterError, match="no signatures found"):
        stock.verify(f"{stock.registry}/{repository(stock.router)}@{changed}")


def test_the_pushed_chart_names_the_images_of_its_registry(stock: Stock) -> None:
    chart, _, version = stock.chart.name.rpartition(":")
    helm = (str(ensure_command("helm")), "template", "x", f"oci://{chart}", f"--version={version}", "--plain-http")
    rendered = subprocess.run(helm, capture_output=True, text=True, check=True).stdout
    for released in (stock.operator, stock.router):
        assert f"{released.name}@{released.digest}" in rendered
    assert "ghcr.io/inference-operator" not in rendered


def test_the_files_of_a_release_install_its_images_and_have_the_listed_hashes(stock: Stock) -> None:
    manifest_file = (stock.files / "install.yaml").read_text()
    for released in (stock.operator, stock.router):
        assert f"{released.name}@{released.digest}" in manifest_file
    assert "ghcr.io/inference-operator" not in manifest_file
    names = {path.name for path in stock.files.iterdir()}
    version = push.chart()["appVersion"]
    assert names >= {f"inference_operator-{version}-py3-none-any.whl", "operator-arm64.cdx.json", "images.txt"}
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=stock.files, check=True)
    listed = {line.split()[1] for line in (stock.files / "SHA256SUMS").read_text().splitlines()}
    assert listed == names - {"SHA256SUMS"}


def test_a_tag_of_another_version_is_refused(stock: Stock, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([stock.registry, f"--key={stock.public}", "--tag=v99.0.0"]) == 1
    assert "the tag is v99.0.0" in capsys.readouterr().err


@pytest.fixture
def reachable(cluster: LocalCluster, stock: Stock) -> Iterator[Stock]:
    """The node reaches the registry by the host's address, under the name that the chart has for it."""
    record = read_record(cluster.name)
    assert record is not None
    trusted = layout(cluster.name).registries / stock.registry
    trusted.mkdir(parents=True)
    address = stack.authority(str(record.subnets[0].outside), int(stock.registry.rpartition(":")[2]))
    (trusted / "hosts.toml").write_text(f'server = "http://{address}"\n')
    yield stock
    # The operator stays as installed: the kubelet does not take its image from the node under another name any more.
    shutil.rmtree(trusted)


def test_helm_install_of_the_pushed_chart_serves_with_images_of_its_registry(
    reachable: Stock, cluster: LocalCluster, tiny: Served
) -> None:
    cluster.helm("uninstall", stack.RELEASE, f"--namespace={stack.SYSTEM}", "--wait")
    chart, _, version = reachable.chart.name.rpartition(":")
    cluster.helm(
        *("install", stack.RELEASE, f"oci://{chart}", f"--version={version}", "--plain-http"),
        *(f"--namespace={stack.SYSTEM}", "--wait", "--timeout=180s"),
        # The registry has no image of vLLM: this one is in the node.
        f"--set-string=engine.images.cpu={images.reference('engine-cpu')}",
        *(f"--set={key}={value}" for key, value in stack.TESTS_NUMBERS.items()),
    )
    operators = json.loads(cluster.kubectl("--namespace", stack.SYSTEM, "get", "pods", "--output=json"))["items"]
    assert {one["spec"]["containers"][0]["image"] for one in operators} == {_named(reachable.operator)}
    outdated = '--output=jsonpath={.status.conditions[?(@.type=="RouterAvailable")].reason}'
    eventually(
        lambda: tiny.kubectl("get", "infd", tiny.name, outdated) == "RouterOutdated",
        seconds=120,
        what="the operator has the Lease, and keeps the routers that serve",
    )
    status, _, complaints = infd(cluster, "renew", "--routers", tiny.name, seconds=RENEW_SECONDS)
    assert status == 0, complaints
    eventually(
        lambda: tiny.router_images() == {_named(reachable.router)},
        seconds=300,
        what="all routers have the pushed image",
    )
    stack.wait_ready(cluster, tiny.name)
    assert tiny.complete()
    assert push.chart()["version"] == version


def _named(released: Released) -> str:
    """The name in the chart: with its tag and its digest."""
    return f"{released.name}@{released.digest}"
