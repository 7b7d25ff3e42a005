"""Rules for the Dockerfiles, and the inputs of each that the builder must know."""

import json
import re
from pathlib import Path

import pytest

from e2e import images
from e2e.images.builder import BASE
from e2e.images.catalogue import ROOT, Dockerfile

NODE = "kind-node"
"""A machine that runs systemd as root, and no container of the operator; `e2e/deploy/kind_node_image.py` builds it."""
OFFICIAL = {"router": ["haproxy"], "router-3.2": ["haproxy"], "stock-python": []}
"""Images in the layout of an official one, with its users: pods name the numbers."""
FILES = sorted(path.parent.name for path in ROOT.glob("images/*/Dockerfile") if path.parent.name != NODE)


def instructions(name: str) -> list[tuple[str, str]]:
    """Instruction and argument of each logical line."""
    text = (ROOT / "images" / name / "Dockerfile").read_text()
    lines = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]


def test_each_dockerfile_is_an_image_that_can_be_built() -> None:
    assert sorted(name for name, image in images.IMAGES.items() if isinstance(image, Dockerfile)) == FILES


@pytest.mark.parametrize("name", FILES)
class TestDockerfile:
    def test_dockerfile_starts_from_the_base_image(self, name: str) -> None:
        stages = set[str]()
        for argument in (argument for word, argument in instructions(name) if word == "FROM"):
            source, _, stage = argument.partition(" AS ")
            assert source in {BASE} | stages
            stages.add(stage)

    def test_dockerfile_ends_with_a_numeric_user_that_is_not_root(self, name: str) -> None:
        users = [argument for word, argument in instructions(name) if word == "USER"]
        if name in OFFICIAL:
            assert users == OFFICIAL[name]
            return
        assert re.fullmatch(r"[1-9]\d*:\d+", users[-1]), "a number, or Kubernetes cannot tell that it is not root"

    def test_dockerfile_starts_its_program_without_a_shell(self, name: str) -> None:
        started = [argument for word, argument in instructions(name) if word in {"CMD", "ENTRYPOINT"}]
        assert len(started) == (2 if name.startswith("router") else 1)
        assert all(isinstance(json.loads(one), list) for one in started)

    def test_a_dockerfile_copies_only_inputs_known_to_the_builder(self, name: str) -> None:
        image = images.IMAGES[name]
        assert isinstance(image, Dockerfile)
        counted = [ROOT / entry for entry in image.inputs]
        for word, argument in instructions(name):
            if word == "COPY" and not argument.startswith("--from"):
                for source in argument.split()[:-1]:
                    path = ROOT / source
                    assert path.exists()
                    assert any(path.is_relative_to(entry) for entry in counted), source

    def test_every_input_of_a_dockerfile_exists(self, name: str) -> None:
        image = images.IMAGES[name]
        assert isinstance(image, Dockerfile)
        assert all((ROOT / entry).exists() for entry in image.inputs)


def test_all_images_install_with_the_same_uv() -> None:
    versions = {
        version
        for name in FILES
        for version in re.findall(r"uv==(\S+)", (ROOT / f"images/{name}/Dockerfile").read_text())
    }
    assert len(versions) == 1


class TestEngineRequirements:
    folder: Path = ROOT / "images" / "engine-cpu"

    def pinned(self) -> dict[str, str]:
        lines = (self.folder / "requirements.txt").read_text().splitlines()
        return dict(line.split("==") for line in lines if not line.startswith("#"))

    def test_pinned_engine_requirements_match_requirements_in(self) -> None:
        for line in (self.folder / "requirements.in").read_text().splitlines():
            name, version = line.split("==")
            assert self.pinned()[name] == version

    def test_nixl_is_installed_only_with_its_hash(self) -> None:
        lines = [line for line in (self.folder / "nixl.txt").read_text().splitlines() if not line.startswith("#")]
        assert [re.sub(r"[0-9a-f]{64}", "X", line) for line in lines] == [
            "nixl==1.5.0 --hash=sha256:X",
            "nixl-cu13==1.5.0 --hash=sha256:X",
        ]

    def test_pinned_engine_requirements_contain_nothing_that_overrides_exclude(self) -> None:
        overrides = (self.folder / "overrides.txt").read_text()
        left_out = re.findall(r'^(\S+); sys_platform == "never"', overrides, re.MULTILINE)
        assert left_out
        assert not set(left_out) & set(self.pinned())
        assert not [name for name in self.pinned() if name.startswith(("nvidia-", "cuda-"))]
