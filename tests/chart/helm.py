"""Rendering and installing the chart with a real Helm."""

import copy
import subprocess
from collections.abc import Collection
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path

import yaml

from inference_operator.manifest import Manifest

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "inference-operator"
CRDS_CHART = REPOSITORY / "charts" / "inference-operator-crds"
RELEASE = "inference-operator"
NAMESPACE = "inference-operator-system"
Values = tuple[tuple[str, ...], tuple[str, ...]]
"""Values of the chart, and contents of files of values."""


@dataclass(frozen=True, slots=True)
class Helm:
    """Renders the chart with a given Helm binary, offline and with a home of its own.

    The same values are rendered and parsed once. Each caller gets objects of its own, which it may change.
    """

    binary: Path
    home: Path
    _rendered: dict[Values, subprocess.CompletedProcess[str]] = field(default_factory=dict)
    _parsed: dict[Values, list[Manifest]] = field(default_factory=dict)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One Helm command; the caller judges its exit status."""
        return subprocess.run(
            [str(self.binary), *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
        )

    def text(self, *sets: str, files: Collection[Path] = ()) -> str:
        """What `helm template` prints for values and files of values, without the objects of `helm test`."""
        done = self._template(*sets, files=files)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, *sets: str, files: Collection[Path] = ()) -> list[Manifest]:
        """The rendered objects."""
        return copy.deepcopy(self._objects(*sets, files=files))

    def one(self, kind: str, *sets: str, files: Collection[Path] = ()) -> Manifest:
        """The only object of a kind."""
        objects = [rendered for rendered in self._objects(*sets, files=files) if rendered["kind"] == kind]
        assert len(objects) == 1, f"{len(objects)} objects of kind {kind}"
        return copy.deepcopy(objects[0])

    def tests(self, *flags: str) -> list[Manifest]:
        """The objects that only `helm test` creates, by kind."""
        template = ("template", RELEASE, str(CHART), "--namespace", NAMESPACE, *flags)
        every, others = (
            [*yaml.safe_load_all(self.run(*one).stdout)] for one in (template, (*template, "--skip-tests"))
        )
        return sorted((found for found in every if found not in others), key=itemgetter("kind"))

    def refusal(self, *sets: str) -> str:
        """What Helm says about values that it must refuse."""
        done = self._template(*sets)
        assert done.returncode != 0, f"Helm accepted {sets}"
        return done.stderr

    def _objects(self, *sets: str, files: Collection[Path] = ()) -> list[Manifest]:
        values, text = _values(sets, files), self.text(*sets, files=files)
        if values not in self._parsed:
            self._parsed[values] = [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]
        return self._parsed[values]

    def _template(self, *sets: str, files: Collection[Path] = ()) -> subprocess.CompletedProcess[str]:
        values = _values(sets, files)
        if values not in self._rendered:
            flags = [*(f"--values={path}" for path in files), *(flag for value in sets for flag in ("--set", value))]
            command = ("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--skip-tests", *flags)
            self._rendered[values] = self.run(*command)
        return self._rendered[values]


def _values(sets: tuple[str, ...], files: Collection[Path]) -> Values:
    """What decides what Helm renders: each test writes its file of values into a folder of its own."""
    return sets, tuple(path.read_text() for path in files)
