"""A real server that speaks S3, over a folder of this machine."""

import hashlib
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.store import S3Store

from e2e.go_modules import ensure_s3_server
from e2e.localkube.waiting import eventually

if TYPE_CHECKING:
    from obstore.store import ClientConfig

KEY, SECRET, REGION = "test-key", "test-secret", "eu-test-1"
BUCKET = "models"
PART_BYTES = 8 * 2**20
"""Parts of an upload, as AWS CLI has them."""


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server with one bucket."""

    address: str
    folder: Path
    access_log: Path
    authority: Path | None = None
    """The certificate of its authority; None without TLS."""

    @property
    def endpoint(self) -> str:
        """Its URL."""
        return f"{'https' if self.authority else 'http'}://{self.address}"

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client needs."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    @property
    def store(self) -> S3Store:
        """The bucket."""
        options: ClientConfig = {"allow_http": True, "timeout": timedelta(seconds=60)}
        if self.authority:
            options["root_certificate"] = self.authority.read_bytes()
        return S3Store(
            BUCKET,
            endpoint=self.endpoint,
            region=REGION,
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options=options,
        )

    def put(self, path: str, content: bytes) -> None:
        """Store an object, in parts if it is large."""
        obstore.put(self.store, path, content, chunk_size=PART_BYTES)

    def put_folder(self, path: str) -> None:
        """Store an empty object whose key ends with a slash, as consoles make one for a folder."""
        folder = self.folder / path
        folder.mkdir(parents=True, exist_ok=True)
        os.setxattr(folder, "user.etag", hashlib.md5(b"", usedforsecurity=False).hexdigest().encode())

    def requests(self, method: str = "REST.GET.OBJECT") -> int:
        """Number of requests of a kind so far."""
        return self.access_log.read_text().count(method) if self.access_log.exists() else 0


@contextmanager
def s3_server(folder: Path, *, host: str = "127.0.0.1", tls: Path | None = None) -> Iterator[S3Server]:
    """Run a server on an address of this machine; its buckets are folders in `folder`.

    Args:
        folder: for its content and its log.
        host: the address.
        tls: a folder with `ca.crt`, `tls.crt` and `tls.key`; None for plain HTTP.
    """
    with closing(socket.create_server((host, 0))) as probe:
        port: int = probe.getsockname()[1]
    content, log = folder / "content", folder / "access.log"
    (content / BUCKET).mkdir(parents=True)
    server = S3Server(f"{host}:{port}", content / BUCKET, log, tls / "ca.crt" if tls else None)
    command: list[str | Path] = [
        ensure_s3_server(),
        f"--port={host}:{port}",
        f"--region={REGION}",
        f"--access-log={log}",
        "--quiet",
        *((f"--cert={tls / 'tls.crt'}", f"--key={tls / 'tls.key'}") if tls else ()),
    ]
    environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with subprocess.Popen([*command, "posix", content], env=environment, stdout=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: _listens(host, port), seconds=30, what="the S3 server listens")
            yield server
        finally:
            process.terminate()


def _listens(host: str, port: int) -> bool:
    with closing(socket.socket()) as client:
        client.settimeout(1)
        return client.connect_ex((host, port)) == 0
