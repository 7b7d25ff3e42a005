"""A defect of HAProxy 3.2: a Lua service that waits with its request unread ends the process.

HAProxy 3.4 has mended it. Once that is the least version, docs/contributing/router.md ("Pages that wait") says what may
go.
"""

import re
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from e2e.helpers.free_ports import free_port
from e2e.localkube.waiting import eventually
from e2e.router.conftest import Root
from e2e.router.loopback import ROUTER_USER, START_SECONDS, cpu_seconds

PAGE = Path(__file__).parents[2] / "docs" / "contributing" / "router.md"
ABORTED = -4
"""SIGILL, with which HAProxy ends itself."""
KILLED = -9
MENDED = (3, 4)
READERS = 50
"""HAProxy does not notice that each of them has gone."""
WAIT_SECONDS = 0.2
BUSY_SECONDS = 1.0
"""CPU time that all these readers together do not cost a HAProxy without the defect."""


def reproduction() -> tuple[str, str]:
    """The configuration and the script of the report, which the page shows."""
    configuration, script = re.findall(r"```(?:haproxy|lua)\n(.*?\n) *```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return configuration, script


def test_the_report_has_twelve_lines() -> None:
    assert sum(text.count("\n") for text in reproduction()) == 12


def version(folder: Path) -> tuple[int, ...]:
    said = subprocess.run(["chroot", str(folder), "haproxy", "-v"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"version (\d+)\.(\d+)", said)
    assert found, said
    return tuple(map(int, found.groups()))


def test_haproxy_before_3_4_computes_on_for_readers_of_a_service_that_waits_until_it_ends_itself(root: Root) -> None:
    folder, port = root[0], free_port()
    configuration, script = reproduction()
    (folder / "wait.lua").write_text(script)
    (folder / "wait.cfg").write_text(configuration.replace(":8080", f":{port}"))
    command = ["chroot", f"--userspec={ROUTER_USER}", str(folder), "haproxy", "-db", "-f", "/wait.cfg"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as haproxy:
        try:
            eventually(lambda: _read_a_little(port), seconds=START_SECONDS, what="HAProxy listens")
            computes_on = any(_is_busy(haproxy) or not _read_a_little(port) for _ in range(READERS))
        finally:
            haproxy.kill()
    assert haproxy.returncode in {ABORTED, KILLED}
    assert computes_on is (version(folder) < MENDED)


def _is_busy(haproxy: "subprocess.Popen[bytes]") -> bool:
    return haproxy.poll() is not None or cpu_seconds(haproxy.pid) > BUSY_SECONDS


def _read_a_little(port: int) -> bool:
    """A reader that goes away while its page waits."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=WAIT_SECONDS) as reader:
            reader.sendall(b"GET / HTTP/1.1\r\nHost: haproxy\r\n\r\n")
            with suppress(TimeoutError):
                reader.recv(1)
    except OSError:
        return False
    return True
