"""The installations that the documents show, rendered from a chart that `make push` has pushed."""

from collections.abc import Iterator

import pytest
import yaml

from e2e.deploy.local_registry import local_registry
from e2e.deploy.push import CRDS_CHART, chart, push_chart, push_own_chart
from inference_operator.manifest import Manifest
from inference_operator.settings import Settings
from tests.chart.documented import (
    INSTALL_PAGE,
    PAGES,
    SHOWN_REGISTRY,
    UPGRADE_PAGE,
    helm_commands,
    shell_commands,
    with_registry,
)
from tests.chart.helm import RELEASE, Helm

OPERATOR_CHART = f"oci://{SHOWN_REGISTRY}/team/charts/{RELEASE}"
PUSH = ["make", "push", f"REGISTRY={SHOWN_REGISTRY}/team"]
COMMANDS = [(page, words) for page in PAGES for words in helm_commands(page, "install")]
INSTALLATIONS = [(page, words) for page, words in COMMANDS if OPERATOR_CHART in words]
MIRRORED = f"imageRegistry={SHOWN_REGISTRY}"
VERSION = chart()["appVersion"]
DEFAULTS = Settings()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A registry with the charts as `make push` leaves them."""
    with local_registry(tmp_path_factory.mktemp("registry")) as found:
        push_own_chart(f"{found}/team")
        push_chart(f"{found}/team", CRDS_CHART)
        yield found


def rendered(helm: Helm, words: list[str], host: str) -> list[Manifest]:
    """What a documented `helm install` would create."""
    done = helm.run("template", *with_registry(words[1:], host))
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def images_of_pods(objects: list[Manifest]) -> set[str]:
    """The images of every container of every pod."""
    specs = [found["spec"]["template"]["spec"] for found in objects if found["kind"] in {"Deployment", "DaemonSet"}]
    specs += [found["spec"] for found in objects if found["kind"] == "Pod"]
    return {one["image"] for spec in specs for one in (*spec.get("initContainers", ()), *spec["containers"])}


def settings(objects: list[Manifest], patch: pytest.MonkeyPatch) -> Settings:
    """The settings of the operator that would run."""
    (deployment,) = (found for found in objects if found["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    for variable in container["env"]:
        if "value" in variable:
            patch.setenv(variable["name"], variable["value"])
    return Settings()


def test_each_page_pushes_to_the_registry_that_it_installs_from() -> None:
    for page in (INSTALL_PAGE, UPGRADE_PAGE):
        assert PUSH in shell_commands(page)
    (upgrade,) = helm_commands(UPGRADE_PAGE, "upgrade")
    assert OPERATOR_CHART in upgrade


@pytest.mark.parametrize(("page", "words"), INSTALLATIONS)
def test_a_documented_installation_uses_the_pushed_images(
    helm: Helm, host: str, monkeypatch: pytest.MonkeyPatch, page: str, words: list[str]
) -> None:
    objects = rendered(helm, words, host)
    own = f"{host}/team/inference-operator"
    assert images_of_pods(objects) == {f"{own}/operator:{VERSION}"}, page
    found = settings(objects, monkeypatch)
    assert (found.operator_image, found.router_image) == (f"{own}/operator:{VERSION}", f"{own}/router:{VERSION}")


@pytest.mark.parametrize(
    "words", [words for _, words in INSTALLATIONS if MIRRORED not in words], ids=lambda words: " ".join(words[2:5])
)
def test_other_images_come_from_their_own_registries_without_image_registry(
    helm: Helm, host: str, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    found = settings(rendered(helm, words, host), monkeypatch)
    for name in ("gpu_engine_image", "cpu_engine_image", "verifier_image"):
        assert getattr(found, name) == getattr(DEFAULTS, name)


def test_image_registry_takes_all_images_from_a_mirror(helm: Helm, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (words,) = (words for _, words in INSTALLATIONS if MIRRORED in words)
    found = settings(rendered(helm, words, host), monkeypatch)
    assert found.gpu_engine_image == f"{host}/vllm/vllm-openai:v0.32.0"
    assert found.cpu_engine_image == f"{host}/vllm/vllm-openai-cpu:v0.32.0-x86_64"
    assert found.verifier_image == f"{host}/sigstore/cosign/cosign:v3.1.3"


def test_images_that_are_pulled_on_nodes_before_are_those_of_the_pushed_chart(helm: Helm, host: str) -> None:
    words = next(words for _, words in INSTALLATIONS if MIRRORED not in words)
    (found,) = (
        one for one in rendered(helm, [*words, "--set=prePull.enabled=true"], host) if one["kind"] == "DaemonSet"
    )
    router = f"{host}/team/inference-operator/router:{VERSION}"
    assert images_of_pods([found]) == {DEFAULTS.gpu_engine_image, router}


def test_the_documented_chart_of_the_definitions_has_both_alone(helm: Helm, host: str) -> None:
    (words,) = (words for _, words in COMMANDS if OPERATOR_CHART not in words)
    assert [found["kind"] for found in rendered(helm, words, host)] == ["CustomResourceDefinition"] * 2
