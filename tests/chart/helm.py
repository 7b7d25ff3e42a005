"""Rendering and installing the chart with a real Helm."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import yaml

from inference_operator.manifest import Manifest

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "inference-operator"
CRDS_CHART = REPOSITORY / "charts" / "inference-operator-crds"
RELEASE = "inference-operator"
NAMESPACE = "inference-operator-system"


@dataclass(frozen=True, slots=True)
class Helm:
    """Renders the chart with a given Helm binary, offline and with a home of its own."""

    binary: Path
    home: Path

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

    def text(self, *sets: str, files: Iterable[Path] = ()) -> str:
        """What `helm template` prints for values and files of values, without the objects of `helm test`."""
        done = self._template(*sets, files=files)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, *sets: str, files: Iterable[Path] = ()) -> list[Manifest]:
        """The rendered objects."""
        return [document for document in yaml.safe_load_all(self.text(*sets, files=files)) if document]

    def one(self, kind: str, *sets: str, files: Iterable[Path] = ()) -> Manifest:
        """The only object of a kind."""
        found = [o for o in self.objects(*sets, files=files) if o["kind"] == kind]
        assert len(found) == 1, f"{len(found)} objects of kind {kind}"
        return found[0]

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

    def _template(self, *sets: str, files: Iterable[Path] = ()) -> subprocess.CompletedProcess[str]:
        flags = [*(f"--values={path}" for path in files), *(flag for value in sets for flag in ("--set", value))]
        return self.run("template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--skip-tests", *flags)
