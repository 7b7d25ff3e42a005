"""A package index on this machine, for pods that reach no other one: it has the operator's libraries."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from e2e.deploy.program import requirements
from e2e.deploy.uv import uv
from e2e.images.assembly import PYTHON_VERSION


class _Files(SimpleHTTPRequestHandler):
    """Files and their lists, without a log."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's own name
        """Print nothing."""


@contextmanager
def package_index(folder: Path, address: str) -> Iterator[dict[str, str]]:
    """Serve the operator's libraries on an address of this machine; yields the variables by which pip finds them.

    Each project has a folder with its wheels (PEP 503, "Simple Repository API").
    """
    folder.mkdir()
    locked = folder.with_suffix(".txt")
    locked.write_bytes(requirements("--no-dev"))
    wheels = ("--only-binary=:all:", f"--python-version={PYTHON_VERSION}", f"--dest={folder}")
    uv("tool", "run", "pip", "download", "--no-deps", "--require-hashes", *wheels, f"--requirement={locked}")
    for wheel in folder.glob("*.whl"):
        project = folder / re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
        project.mkdir(exist_ok=True)
        wheel.rename(project / wheel.name)
    server = ThreadingHTTPServer((address, 0), partial(_Files, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {"PIP_INDEX_URL": f"http://{address}:{server.server_port}/", "PIP_TRUSTED_HOST": address}
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
