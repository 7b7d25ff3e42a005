"""Detection of the image builder and other properties of the host."""

from pathlib import Path

import pytest

from e2e import images
from e2e.images import debian, detect, trust
from e2e.images.errors import ImageError


def test_a_host_without_an_image_builder_gets_an_error_that_names_packages_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="apt-get install buildah debootstrap"):
        detect.found_builder()


def test_docker_without_a_running_daemon_is_not_used_as_builder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImageError, match="no Docker daemon answers"):
        detect.found_builder()


def test_an_unknown_image_is_refused_with_the_names_of_known_images() -> None:
    with pytest.raises(ImageError, match="operator, router, engine-cpu, engine-llama-cpp, tiny-llama"):
        images.build(["nothing"])


def test_image_references_have_no_latest_tag() -> None:
    assert [images.reference(name) for name in images.IMAGES] == [
        "localhost/inference-operator/operator:dev",
        "localhost/inference-operator/router:dev",
        "localhost/inference-operator/engine-cpu:dev",
        "localhost/inference-operator/engine-llama-cpp:dev",
        "localhost/inference-operator/tiny-llama:1",
        "localhost/inference-operator/simulator:dev",
        "localhost/inference-operator/stock-python:dev",
        "localhost/inference-operator/router-3.2:dev",
    ]


def test_the_debian_release_is_read_from_the_image_tag() -> None:
    assert debian.suite("docker.io/library/debian:trixie-slim") == "trixie"


def test_certificates_of_the_user_have_priority_over_those_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = tmp_path / "ca.crt"
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert trust.certificates() is None
    bundle.touch()
    assert trust.certificates() == bundle


def test_only_configured_package_indexes_are_passed_to_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://packages.example/simple")
    monkeypatch.delenv("UV_DEFAULT_INDEX", raising=False)
    assert trust.indexes() == {"PIP_INDEX_URL": "https://packages.example/simple"}
