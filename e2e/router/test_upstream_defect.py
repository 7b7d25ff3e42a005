"""A defect of HAProxy, as it is reported upstream: a Lua service that waits with its request unread ends the process.

It fails once HAProxy mends the defect. Then docs/explanation/router.md ("Pages that wait") says what may go.
"""

import re
import socket
import subprocess
from pathlib import Path

import pytest

from e2e.free_ports import free_port
from e2e.router.conftest import Root
from e2e.router.loopback import ROUTER_USER, START_SECONDS
from e2e.waiting import eventually

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "router.md"
ABORTED = -4
"""SIGILL, with which HAProxy ends itself."""
SECONDS = 10.0
"""HAProxy's watchdog needs two on an idle machine."""


def reproduction() -> tuple[str, str]:
    """The configuration and the script of the report, which the page shows."""
    configuration, script = re.findall(r"```(?:haproxy|lua)\n(.*?\n) *```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return configuration, script


def test_the_report_has_twelve_lines() -> None:
    assert sum(text.count("\n") for text in reproduction()) == 12


@pytest.mark.parametrize("mended", [False, True])
def test_a_reader_of_a_service_that_waits_ends_haproxy(root: Root, *, mended: bool) -> None:
    folder, port = root[0], free_port()
    configuration, script = reproduction()
    if mended:
        script = script.replace("  core.sleep", "  applet:receive(1)\n  core.sleep")
    (folder / "wait.lua").write_text(script)
    (folder / "wait.cfg").write_text(configuration.replace(":8080", f":{port}"))
    command = ["chroot", f"--userspec={ROUTER_USER}", str(folder), "haproxy", "-db", "-f", "/wait.cfg"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as haproxy:
        try:
            eventually(lambda: _read_a_little(port), seconds=START_SECONDS, what="HAProxy listens")
            try:
                _, printed = haproxy.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                assert mended, "HAProxy has mended its defect: see the page"
                return
        finally:
            haproxy.kill()
        assert not mended
        assert (haproxy.returncode, "A bogus APPCTX" in printed) == (ABORTED, True)


def _read_a_little(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)) as reader:
            reader.sendall(b"GET / HTTP/1.1\r\nHost: haproxy\r\n\r\n")
    except OSError:
        return False
    return True
