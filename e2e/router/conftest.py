"""Fixtures: the router's image as a root directory, and a router on loopback for each test."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from e2e.localkube import debian_packages
from e2e.router.loopback import NAME_SERVER, Loopback, unpacked
from e2e.router.names import Names
from inference_operator.router.entry import ROOM_FILE

Root = tuple[Path, list[str]]


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """The router's image as a directory, and the command of routers."""
    if shutil.which("curl") is None and debian_packages.can_install():
        debian_packages.install(["curl"])  # a client that no one here wrote
    folder = tmp_path_factory.mktemp("router") / "root"
    return folder, unpacked(folder)


@pytest.fixture
async def loopback(root: Root) -> AsyncIterator[Loopback]:
    """A name server; the test starts the router and engines."""
    names = Names()
    await names.listen(NAME_SERVER, 53)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        loopback = Loopback(*root, names=names, session=session)
        (loopback.root / "etc/haproxy" / ROOM_FILE).unlink(missing_ok=True)  # a test that failed left it to all others
        try:
            yield loopback
        finally:
            await loopback.close()
