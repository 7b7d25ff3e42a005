"""Builds and stores images with buildah: no daemon, and a store of its own."""

import fcntl
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from e2e.images import debian, trust
from e2e.images.builder import KEY_LABEL
from e2e.images.errors import ImageError
from e2e.images.process import log_path, output, run_logged, succeeds
from e2e.images.progress import timed
from e2e.localkube.cache import cache_root

_CERTIFICATES = "/run/build-certificates.crt"
"""Mount point of the host's certificate authorities in a build; the image does not contain them."""
_STEP = re.compile(r"(\[\d/\d] )?STEP \d+/\d+: (FROM|RUN|COPY) ")
"""The build steps that take time."""
_SHOWN_COLUMNS = 100


class Buildah:
    """The `buildah` command with a store in the user's cache folder."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            raise ImageError("building images with buildah needs root: use sudo, or start Docker")
        self._home = cache_root() / "images"
        self._home.mkdir(parents=True, exist_ok=True)

    def ensure_base(self, reference: str) -> str:
        """Pull the base image, or make it from Debian packages; returns its ID."""
        with self._alone():
            if not self._exists(reference) and not succeeds(self._buildah("pull", reference)):
                log_path("base").unlink(missing_ok=True)
                with timed("base", f"no registry answers for {reference}, so it is made from Debian packages"):
                    self._make_base(reference)
            return output(self._buildah("images", "--quiet", "--no-trunc", reference)).strip()

    def key(self, reference: str) -> str | None:
        """The key in an image's label, or None without the image."""
        if not self._exists(reference):
            return None
        image = json.loads(output(self._buildah("inspect", "--type", "image", reference)))
        label: str | None = (image["OCIv1"]["config"].get("Labels") or {}).get(KEY_LABEL)
        return label

    def build(self, name: str, reference: str, dockerfile: Path, *, context: Path, key: str) -> None:
        """Build an image, with the key as a label."""
        log_path(name).unlink(missing_ok=True)
        options = ["--isolation", "chroot", "--pull-never", "--layers", "--label", f"{KEY_LABEL}={key}"]
        for argument, value in trust.indexes().items():
            options += ["--build-arg", f"{argument}={value}"]
        if bundle := trust.certificates():
            options += ["--volume", f"{bundle}:{_CERTIFICATES}:ro"]
            options += ["--build-arg", f"SSL_CERT_FILE={_CERTIFICATES}", "--build-arg", f"PIP_CERT={_CERTIFICATES}"]
        with self._alone(), timed(name, "building with buildah") as line:
            before = self._identity(reference)
            try:
                run_logged(
                    name,
                    self._buildah("bud", *options, "--tag", reference, "--file", str(dockerfile), str(context)),
                    lambda text: line(text[:_SHOWN_COLUMNS]) if _STEP.match(text) else None,
                )
            finally:
                self._remove_containers()
            if before and before != self._identity(reference):
                succeeds(self._buildah("rmi", before))

    def run(self, name: str, reference: str, command: Sequence[str], volumes: Mapping[Path, str]) -> None:
        """Run a command as root in a new container of an image, with folders and the network of the host."""
        mounts = [f"--volume={folder}:{target}" for folder, target in volumes.items()]
        with self._alone(), self._container(reference) as container:
            options = ("--isolation", "chroot", "--user", "0:0", *mounts)
            run_logged(name, self._buildah("run", *options, container, "--", *command))

    def write(self, reference: str, into: BinaryIO) -> None:
        """Write an image as an uncompressed archive."""
        # Not /dev/stdout: a push that is interrupted can remove its target, and root may remove that link.
        command = self._buildah("push", "--quiet", reference, "docker-archive:/proc/self/fd/1")
        # buildah writes a layer to a temporary file first. The folder of the store has the space for it.
        environment = os.environ | {"TMPDIR": str(self._home)}
        with subprocess.Popen(command, stdout=into, stderr=subprocess.PIPE, env=environment) as process:
            _, errors = process.communicate()
        if process.returncode:
            raise ImageError(f"{reference} could not be written: {errors.decode().strip()}")

    def _make_base(self, reference: str) -> None:
        with self._container("scratch") as container:
            root = Path(output(self._buildah("mount", container)).strip())
            debian.install(debian.suite(reference), root)
            output(self._buildah("umount", container))
            output(self._buildah("commit", "--quiet", "--disable-compression", container, reference))

    @contextmanager
    def _container(self, reference: str) -> Iterator[str]:
        container = output(self._buildah("from", "--pull-never", reference)).strip()
        try:
            yield container
        finally:
            output(self._buildah("rm", container))

    def _remove_containers(self) -> None:
        """Remove the containers of failed and killed builds. The lock is held, so no other build runs."""
        output(self._buildah("rm", "--all"))

    def _exists(self, reference: str) -> bool:
        return self._identity(reference) is not None

    def _identity(self, reference: str) -> str | None:
        answer = subprocess.run(
            self._buildah("images", "--quiet", "--no-trunc", reference), capture_output=True, text=True, check=False
        )
        return answer.stdout.strip() or None

    def _buildah(self, *arguments: str) -> list[str]:
        return ["buildah", f"--root={self._home}/storage", f"--runroot={self._home}/run", *arguments]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the store's lock: a second build waits, and then finds its image built."""
        with (self._home / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
