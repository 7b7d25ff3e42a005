"""Signatures of images and charts in a registry, made with a key by cosign."""

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.go_modules import ensure_cosign
from e2e.images.builder import LOCAL_HOSTS, registry_host
from e2e.localkube.errors import ClusterError

_KEY_ALONE = {
    "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
    "rekorTlogConfig": {},
    "tsaConfig": {},
}
"""A signing configuration of cosign without services: no transparency log and no timestamps, the key alone counts."""


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs with a private key of cosign. Its password is in the environment variable COSIGN_PASSWORD."""

    key: Path

    def check(self) -> None:
        """Fail unless the key exists."""
        if not self.key.is_file():
            command = f"{ensure_cosign()} generate-key-pair"
            raise ClusterError(f"there is no key {self.key}: create a pair with `{command}`, and keep the private key")

    def sign(self, reference: str) -> None:
        """Sign an image, an index with its images, or a chart: `NAME@DIGEST`."""
        with self._configuration() as configuration:
            cosign("sign", "--yes", "--recursive", f"--key={self.key}", configuration, *plain(reference), reference)

    def attest(self, reference: str, bill: str) -> None:
        """Attach a bill of materials to an image, and sign that it belongs to it."""
        with self._configuration() as configuration, tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(bill)
            file.flush()
            statement = ("--type=cyclonedx", f"--predicate={file.name}")
            cosign("attest", "--yes", *statement, f"--key={self.key}", configuration, *plain(reference), reference)

    @contextmanager
    def _configuration(self) -> Iterator[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(_KEY_ALONE))
            file.flush()
            yield f"--signing-config={file.name}"


def plain(reference: str) -> list[str]:
    """The option for a registry without TLS, if the registry is on this machine."""
    return ["--allow-http-registry"] if registry_host(reference) in LOCAL_HOSTS else []


def cosign(*arguments: str) -> str:
    """The standard output of cosign."""
    answer = subprocess.run([ensure_cosign(), *arguments], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ClusterError(f"`cosign {' '.join(arguments)}` failed: {answer.stderr.strip()}")
    return answer.stdout
