"""Readers of a page that leave at any moment, send nonsense or read nothing, and what they leave behind in a server."""

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.localkube.waiting import eventually

STRANGER = "127.0.0.66"
"""The address from which they come. Honest readers have 127.0.0.1."""
READERS, STAYING = 25, 100
"""Of each kind that leaves, and of each that stays."""
SECONDS = 20.0
"""Limit of one step, on a machine that does much else."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER without a wait: `close` sends a reset."""
IDLE_SECONDS, IDLE_SHARE = 0.5, 0.1
"""A process is idle that computes for less than this share of this time."""


def _connection(port: int) -> socket.socket:
    connection = socket.socket()
    connection.settimeout(SECONDS)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    connection.bind((STRANGER, 0))
    connection.connect(("127.0.0.1", port))
    return connection


def _leaves(*sent: bytes, reads: int = 0, resets: bool = True) -> Callable[[socket.socket], None]:
    """Send this, read so many bytes, and leave."""

    def reader(connection: socket.socket) -> None:
        for part in sent:
            connection.sendall(part)
        if reads:
            connection.recv(reads)
        if resets:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.close()

    return reader


def leaving_readers(request: bytes) -> dict[str, Callable[[socket.socket], None]]:
    """What one connection does, by a name. The connection is closed at its end."""
    half = request[: len(request) // 2]
    return {
        "leaves at once": _leaves(),
        "leaves in mid-request": _leaves(half),
        "ends in mid-request": _leaves(half, resets=False),
        "leaves while it waits": _leaves(request),
        "ends while it waits": _leaves(request, resets=False),
        "leaves in mid-answer": _leaves(request, reads=1),
        "sends nonsense": _leaves(b"\x16\x03\x01\x00\xff{]\r\n\r\n\x00", resets=False),
        "sends too much": _leaves(b"GET /" + b"x" * 100_000, resets=False),
    }


def visit(port: int, requests: Sequence[bytes]) -> None:
    """Let `READERS` of each kind leave, for each of these requests."""
    for request in requests:
        for leave in leaving_readers(request).values():
            for _ in range(READERS):
                with suppress(OSError), _connection(port) as connection:
                    leave(connection)


@contextmanager
def staying_readers(port: int, requests: Sequence[bytes]) -> Iterator[None]:
    """`STAYING` that say nothing, and as many for each request that read nothing, and stay."""
    connections = []
    for request in (b"", *requests):
        for _ in range(STAYING):
            with suppress(OSError):
                connections.append(_connection(port))
                connections[-1].sendall(request)
    try:
        yield
    finally:
        for connection in connections:
            connection.close()


def _open(pid: int) -> tuple[int, int]:
    """Threads and open files of a process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir())), len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _grown(pid: int, before: tuple[int, int]) -> int:
    """How many threads or files, whichever are more, a process has more than before."""
    return max(now - then for now, then in zip(_open(pid), before, strict=True))


def _computed(pid: int) -> float:
    """CPU seconds of a process (proc_pid_stat(5), utime and stime)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_idle(pid: int) -> bool:
    before = _computed(pid)
    time.sleep(IDLE_SECONDS)  # what is measured
    return _computed(pid) - before < IDLE_SHARE * IDLE_SECONDS


def survives(
    pid: int, port: int, requests: Sequence[bytes], answers: Callable[[], bool], *, share: int, spare: int
) -> None:
    """Check that a server outlives all readers, answers an honest one beside them, and is idle and empty after them.

    Args:
        pid: its process.
        port: where it listens on 127.0.0.1.
        requests: one for each page.
        answers: whether an honest reader gets its answer.
        share: threads and files that the readers of one source may take.
        spare: threads and files that it may have more than before, such as those of its own pools.
    """
    assert answers()
    before = _open(pid)
    visit(port, requests)
    assert answers(), "after those that left"
    with staying_readers(port, requests):
        assert answers(), "beside those that stay"
        eventually(
            lambda: _grown(pid, before) <= share + spare, seconds=SECONDS, what=lambda: f"{_grown(pid, before)} more"
        )
        assert answers(), "beside those that stay"
    eventually(lambda: _grown(pid, before) <= spare, seconds=SECONDS, what=lambda: f"{_grown(pid, before)} more")
    eventually(lambda: _is_idle(pid), seconds=SECONDS, what="the process is idle")
    assert answers()
