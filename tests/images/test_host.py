"""What the builder finds out about its host."""

from pathlib import Path

import pytest

from e2e import images
from e2e.images import debian, detect, trust
from e2e.images.errors import ImageError


def test_a_host_without_any_builder_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="apt-get install buildah debootstrap"):
        detect.found_builder()


def test_a_docker_without_its_daemon_is_no_builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="no Docker daemon answers"):
        detect.found_builder()


def test_an_unknown_image_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ImageError, match="operator, router, engine-cpu, tiny-llama"):
        images.build(["nothing"])


def test_image_references_have_no_latest_tag() -> None:
    assert [images.reference(name) for name in images.IMAGES] == [
        "localhost/inference-operator/operator:dev",
        "localhost/inference-operator/router:dev",
        "localhost/inference-operator/engine-cpu:dev",
        "localhost/inference-operator/tiny-llama:1",
    ]


def test_a_release_of_debian_is_read_from_its_image_tag() -> None:
    assert debian.suite("docker.io/library/debian:trixie-slim") == "trixie"


def test_the_users_certificates_come_before_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tmp_path / "ca.crt"
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert trust.certificates() is None
    bundle.touch()
    assert trust.certificates() == bundle


def test_only_package_indexes_that_are_set_reach_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example/simple")
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    assert trust.indexes() == {"PIP_INDEX_URL": "https://packages.example/simple"}
