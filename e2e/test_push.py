"""`make push` with a real registry: the images and the chart are there under the names that an installation uses."""

import subprocess
from pathlib import Path

import pytest

from e2e import push
from e2e.cluster.binaries import ensure_command
from e2e.local_registry import configuration, local_registry

pytestmark = pytest.mark.full


def test_images_and_chart_are_pushed_to_a_registry_under_the_names_of_the_chart(tmp_path: Path) -> None:
    with local_registry(tmp_path) as registry:
        operator, router, chart, crds = push.push(registry)
        version = push.chart()["appVersion"]
        assert operator == f"{registry}/inference-operator/operator:{version}"
        assert configuration(registry, "inference-operator/operator", version)["config"]["User"] == "65532:65532"
        assert router == f"{registry}/inference-operator/router:{version}"
        assert configuration(registry, "inference-operator/router", version)["config"]["User"] == "99:99"
        assert operator in rendered(chart)
        assert router in rendered(chart)
        assert "ghcr.io/inference-operator" not in rendered(chart)
        assert "kind: CustomResourceDefinition" in rendered(crds)


def rendered(chart: str) -> str:
    """What Helm renders from a chart in the registry."""
    helm = (str(ensure_command("helm")), "template", "x", chart.rpartition(":")[0], "--plain-http")
    command = [*helm, f"--version={push.chart()['version']}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
