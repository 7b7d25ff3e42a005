"""Builds and stores images with a Docker daemon."""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from e2e.images import debian, trust
from e2e.images.builder import KEY_LABEL
from e2e.images.errors import ImageError
from e2e.images.process import log_path, output, run_logged, succeeds
from e2e.images.progress import timed
from e2e.localkube.cache import cache_root


class Docker:
    """The `docker` command; images are in the daemon's own store."""

    def ensure_base(self, reference: str) -> str:
        """Pull the base image, or make it from Debian packages; returns its ID."""
        if not self._exists(reference) and not succeeds(["docker", "pull", "--quiet", reference]):
            log_path("base").unlink(missing_ok=True)
            with timed("base", f"no registry answers for {reference}, so it is made from Debian packages"):
                self._import_base(reference)
        return output(["docker", "image", "inspect", "--format", "{{.Id}}", reference]).strip()

    def key(self, reference: str) -> str | None:
        """The key in an image's label, or None without the image."""
        if not self._exists(reference):
            return None
        template = f'{{{{index .Config.Labels "{KEY_LABEL}"}}}}'
        return output(["docker", "image", "inspect", "--format", template, reference]).strip() or None

    def build(self, name: str, reference: str, dockerfile: Path, *, context: Path, key: str) -> None:
        """Build an image, with the key as a label."""
        log_path(name).unlink(missing_ok=True)
        options = ["--label", f"{KEY_LABEL}={key}", "--tag", reference, "--file", str(dockerfile)]
        for argument, value in trust.indexes().items():
            options += ["--build-arg", f"{argument}={value}"]
        with timed(name, "building with Docker"):
            run_logged(name, ["docker", "build", *options, str(context)])

    def run(self, name: str, reference: str, command: Sequence[str], volumes: Mapping[Path, str]) -> None:
        """Run a command as root in a new container of an image, with folders and the network of the host."""
        mounts = [f"--volume={folder}:{target}" for folder, target in volumes.items()]
        entry, *arguments = command
        options = ("--rm", "--network=host", "--user", "0:0", "--entrypoint", entry, *mounts)
        run_logged(name, ["docker", "run", *options, reference, *arguments])

    def write(self, reference: str, into: BinaryIO) -> None:
        """Write an image as an uncompressed archive."""
        answer = subprocess.run(["docker", "save", reference], stdout=into, stderr=subprocess.PIPE, check=False)
        if answer.returncode:
            raise ImageError(f"{reference} could not be written: {answer.stderr.decode().strip()}")

    def _import_base(self, reference: str) -> None:
        folder = cache_root() / "images"
        with tempfile.TemporaryDirectory(dir=folder) as root, tempfile.TemporaryFile(dir=folder) as archive:
            debian.install(debian.suite(reference), Path(root))
            subprocess.run(["tar", "-C", root, "--numeric-owner", "-c", "."], stdout=archive, check=True)
            archive.seek(0)
            subprocess.run(["docker", "import", "-", reference], stdin=archive, capture_output=True, check=True)

    def _exists(self, reference: str) -> bool:
        return succeeds(["docker", "image", "inspect", reference])
