"""A real server that speaks S3, over a folder of this machine."""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import obstore
from obstore.store import S3Store

from e2e.cluster.binaries import ensure_s3_server
from e2e.waiting import eventually

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

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client needs."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    @property
    def store(self) -> S3Store:
        """The bucket."""
        return S3Store(
            BUCKET,
            endpoint=f"http://{self.address}",
            region=REGION,
            access_key_id=KEY,
            secret_access_key=SECRET,
            client_options={"allow_http": True, "timeout": timedelta(seconds=60)},
        )

    def put(self, path: str, content: bytes) -> None:
        """Store an object, in parts if it is large."""
        obstore.put(self.store, path, content, chunk_size=PART_BYTES)

    def requests(self, method: str = "REST.GET.OBJECT") -> int:
        """Number of requests of a kind so far."""
        return self.access_log.read_text().count(method) if self.access_log.exists() else 0


@contextmanager
def s3_server(folder: Path, *, host: str = "127.0.0.1") -> Iterator[S3Server]:
    """Run a server on an address of this machine; its buckets are folders in `folder`."""
    with closing(socket.create_server((host, 0))) as probe:
        port: int = probe.getsockname()[1]
    content, log = folder / "content", folder / "access.log"
    (content / BUCKET).mkdir(parents=True)
    server = S3Server(f"{host}:{port}", content / BUCKET, log)
    command: list[str | Path] = [
        ensure_s3_server(),
        f"--port={host}:{port}",
        f"--region={REGION}",
        f"--access-log={log}",
        "--quiet",
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
