"""`make push` with a real registry: the images and the chart are there under the names that an installation uses."""

import json
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from e2e import push
from e2e.cluster.binaries import ensure_command, ensure_registry
from e2e.waiting import eventually

pytestmark = pytest.mark.full
CONFIGURATION = """\
version: 0.1
log: {{level: error}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "localhost:{port}"}}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with closing(socket.create_server(("localhost", 0))) as probe:
        port: int = probe.getsockname()[1]
    configuration = tmp_path / "registry.yaml"
    configuration.write_text(CONFIGURATION.format(folder=tmp_path / "content", port=port))
    with subprocess.Popen([ensure_registry(), "serve", configuration]) as process:
        try:
            eventually(lambda: _answers(port), seconds=30, what="the registry answers")
            yield f"localhost:{port}"
        finally:
            process.terminate()


def test_images_and_chart_are_pushed_to_a_registry_under_the_names_of_the_chart(registry: str) -> None:
    operator, router, chart = push.push(registry)
    version = push.chart()["appVersion"]
    assert operator == f"{registry}/inference-operator/operator:{version}"
    assert _user(registry, "inference-operator/operator", version) == "65532:65532"
    assert router == f"{registry}/inference-operator/router:{version}"
    assert _user(registry, "inference-operator/router", version) == "99:99"
    helm = (str(ensure_command("helm")), "template", "x", chart.rpartition(":")[0], "--plain-http")
    rendered = subprocess.run(
        [*helm, f"--version={push.chart()['version']}"], capture_output=True, text=True, check=True
    )
    assert f"inference-operator/operator:{version}" in rendered.stdout


def _user(registry: str, repository: str, tag: str) -> str:
    """The user of an image, from its configuration in the registry."""
    manifest = json.loads(_get(f"http://{registry}/v2/{repository}/manifests/{tag}"))
    configuration = json.loads(_get(f"http://{registry}/v2/{repository}/blobs/{manifest['config']['digest']}"))
    user: str = configuration["config"]["User"]
    return user


def _get(url: str) -> bytes:
    accepted = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
    request = urllib.request.Request(url, headers={"Accept": accepted})  # noqa: S310 - a registry of this test
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - as above
        content: bytes = answer.read()
        return content


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port), timeout=1).close()
    except OSError:
        return False
    return True
