"""The provider `kind`: its settings against kind's own source, and its node image against the local cluster's."""

import json
import re

import pytest

from e2e.localkube import kind
from e2e.localkube.__main__ import main
from e2e.localkube.binaries import KIND_MODULE, MODULE, kind_source, module_version
from e2e.localkube.errors import ClusterError


def test_the_node_image_is_the_one_that_this_version_of_kind_pulls_by_default() -> None:
    source = (kind_source() / "pkg" / "apis" / "config" / "defaults" / "image.go").read_text()
    assert re.findall(r'^const Image = "(.+)"$', source, re.MULTILINE) == [kind.NODE_IMAGE]


def test_the_configuration_names_only_fields_and_proxy_modes_that_kind_has() -> None:
    source = (kind_source() / "pkg" / "apis" / "config" / "v1alpha4" / "types.go").read_text()
    fields = set(re.findall(r'json:"(\w+)', source)) | {"kind", "apiVersion"}
    own = kind.configuration(own_network=True)
    networking = own["networking"]
    assert isinstance(networking, dict)
    assert {*own, *networking} <= fields
    modes = (kind_source() / "pkg" / "internal" / "apis" / "config" / "types.go").read_text()
    assert re.search(rf'ProxyMode\s+ProxyMode = "{networking["kubeProxyMode"]}"', modes)


def test_a_pulled_node_image_keeps_the_network_of_kind() -> None:
    assert kind.configuration(own_network=False)["networking"] == {}


def test_the_kubelet_of_a_node_starts_on_cgroup_v1_and_v2() -> None:
    patches = kind.configuration(own_network=False)["kubeadmConfigPatches"]
    assert isinstance(patches, list)
    assert json.loads(patches[0])["failCgroupV1"] is False


@pytest.mark.parametrize("module", ["k8s.io/kubernetes", "github.com/coredns/coredns"])
def test_the_node_image_has_the_same_versions_as_the_local_cluster(module: str) -> None:
    versions = {module_version((folder / "go.mod").read_text(), module) for folder in (KIND_MODULE, MODULE)}
    assert len(versions) == 1


def test_a_node_image_without_kind_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--name", "kind-test", "--node-image", "kindest/node:v1"]) == 1
    assert "use it with --provider kind" in capsys.readouterr().err


def test_without_docker_and_podman_the_message_says_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ClusterError, match="neither Docker nor Podman answers: start or install one"):
        kind.found_runtime()
