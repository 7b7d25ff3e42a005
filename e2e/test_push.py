"""`make push` with a real registry: the images and the chart are there under the names that an installation uses."""

import re
import subprocess
from pathlib import Path

import pytest

from e2e.deploy import push
from e2e.deploy.local_registry import configuration, local_registry, manifest
from e2e.deploy.stock_images import put_stock_images
from e2e.images.assembly import ARCHITECTURES, crane, extracted
from e2e.images.errors import ImageError
from e2e.localkube.binaries import ensure_command
from e2e.localkube.cache import cache_root


def test_images_of_both_architectures_and_the_chart_are_pushed_under_the_names_of_the_chart(tmp_path: Path) -> None:
    """Only the stand-ins of the official images are built; all else needs neither Docker nor root."""
    with local_registry(tmp_path) as registry:
        put_stock_images(registry)
        operator, router, chart, crds = push.push(f"{registry}/team", bases=registry)
        version = push.chart()["appVersion"]
        own = {operator: ("team/inference-operator/operator", "65532:65532")}
        for pushed, (name, user) in {**own, router: ("team/inference-operator/router", "99:99")}.items():
            assert pushed == f"{registry}/{name}:{version}"
            index = manifest(registry, name, version)
            told = manifest(registry, name, f"{version}-amd64")["annotations"]
            base = told["org.opencontainers.image.base.name"]
            assert base.startswith(f"{registry}/library/")
            assert told["org.opencontainers.image.base.digest"] == crane("digest", base).strip()
            assert {one["platform"]["architecture"] for one in index["manifests"]} == set(ARCHITECTURES)
            assert configuration(registry, name, f"{version}-amd64")["config"]["User"] == user
            assert f"{pushed}@{crane('digest', pushed).strip()}" in rendered(chart)
        assert "ghcr.io/inference-operator" not in rendered(chart)
        assert "kind: CustomResourceDefinition" in rendered(crds)
        for architecture, machine in MACHINES.items():
            folder = tmp_path / architecture
            extracted(f"{operator}-{architecture}", folder, [re.compile(r"opt/inference-operator/lib/.*\.so")])
            libraries = list(folder.rglob("*.so"))
            assert libraries
            assert {machine_of(library) for library in libraries} == {machine}


def test_a_registry_without_the_base_images_is_refused_with_a_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with local_registry(tmp_path) as registry:
        assert push.main([f"{registry}/team", f"--bases={registry}/nothing"]) == 1
    said = capsys.readouterr().err
    assert f"there is no base image {registry}/nothing/library/python" in said
    assert "BASES=" in said


USER, PASSWORD, HASH = "pusher", "of-this-test", "$2b$05$abcdefghijklmnopqrstuudhs.Xjv0oyAcMzJ3HXuv8bN5.FMqNhi"
"""A user of a registry; the hash is bcrypt's."""


def test_a_login_of_helm_is_enough_to_push_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_root().parent))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HELM_REGISTRY_CONFIG", str(tmp_path / "helm.json"))
    passwords, layer = tmp_path / "passwords", tmp_path / "layer.tar"
    passwords.write_text(f"{USER}:{HASH}\n")
    layer.write_bytes(bytes(TAR_BLOCK))
    with local_registry(tmp_path, more=f"auth: {{htpasswd: {{realm: team, path: {passwords}}}}}\n") as registry:
        append = ("append", f"--new_layer={layer}", f"--new_tag={registry}/team/empty:1")
        with pytest.raises(ImageError, match="helm registry login"):
            crane(*append)
        login = (ensure_command("helm"), "registry", "login", registry, "--plain-http")
        subprocess.run([*login, f"--username={USER}", f"--password={PASSWORD}"], check=True)
        assert crane(*append).startswith(f"{registry}/team/empty")


TAR_BLOCK = 10240
"""An empty tar archive: zeros of one record."""
MACHINES = {"amd64": 62, "arm64": 183}
"""Numbers of the machines in ELF files (elf.h, `EM_X86_64` and `EM_AARCH64`)."""


def machine_of(library: Path) -> int:
    """The machine that a shared library is for."""
    return int.from_bytes(library.read_bytes()[18:20], "little")


def rendered(chart: str) -> str:
    """What Helm renders from a chart in the registry."""
    helm = (str(ensure_command("helm")), "template", "x", chart.rpartition(":")[0], "--plain-http")
    command = [*helm, f"--version={push.chart()['version']}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
