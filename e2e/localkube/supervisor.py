"""One process that starts a cluster's components in order and lives as long as all of them.

It talks to the tool that started it through two pipes. On its standard input it is told to `start`; on its
standard output it reports progress, one line a component, and at last `ready`. The input is also the lifeline:
until `keep` arrives there, its end (the tool or the test run ended, however it ended) ends the cluster.
A cluster is never half there: when one component ends, all end, and the file `failure` says which and why.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from e2e.localkube.errors import ClusterError
from e2e.localkube.processes import last_lines
from e2e.localkube.state import Layout

START = b"start"
KEEP = b"keep"
READY = "ready"
READY_DEADLINE_S = 120.0
"""Every component is ready within seconds on an idle machine; a busy one with two cores may take a minute."""
_POLL_S = 0.05


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Component:
    """A command that runs as long as the cluster, and how to see that it works."""

    name: str
    command: Sequence[str]
    is_ready: Callable[[], bool] = _always
    environment: Mapping[str, str] | None = None


class Deserted(Exception):  # noqa: N818 (not an error: the expected end of a cluster that nobody keeps)
    """Nobody needs this cluster: it was told to end, or its owner ended without saying that it shall stay."""


class Supervisor:
    """Starts components and watches them."""

    def __init__(self, layout: Layout) -> None:
        signal.signal(signal.SIGTERM, _desert)
        self._layout = layout
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def expect(self, word: bytes) -> None:
        """Wait until the tool says this word."""
        if os.read(sys.stdin.fileno(), len(word)) != word:
            raise Deserted

    def start(self, *components: Component) -> None:
        """Start these together, and return when all of them are ready."""
        began = time.monotonic()
        for component in components:
            self._running[component.name] = self._spawn(component)
        for component in components:
            self._await(component, began + READY_DEADLINE_S)
            self.report(f"{component.name} {time.monotonic() - began:.1f} s")

    def end(self) -> None:
        """End every component and collect it, so that not even its entry in the process table stays."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()

    def report(self, line: str) -> None:
        """Tell the tool."""
        try:
            print(line, flush=True)
        except BrokenPipeError:
            raise Deserted from None

    def watch(self) -> None:
        """Return when a component ends (with the reason recorded) or when nobody needs the cluster any more."""
        inner, outer = socket.socketpair()
        outer.settimeout(0)  # a wake-up must never block
        signal.signal(signal.SIGCHLD, _do_nothing)
        signal.set_wakeup_fd(outer.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(inner, selectors.EVENT_READ)
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            self._close_output()
            while (ended := self._reap()) is None:
                for key, _ in selector.select():
                    if key.fileobj is inner:
                        inner.recv(1 << 10)
                    elif os.read(sys.stdin.fileno(), len(KEEP)) == KEEP:
                        selector.unregister(sys.stdin.fileno())
                    else:
                        raise Deserted
        self._layout.failure.write_text(ended)

    def _spawn(self, component: Component) -> subprocess.Popen[bytes]:
        log = self._layout.log(component.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            # The kernel kills the component with this process, so that no death of ours leaves it behind.
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *component.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._layout.directory,
                env={**os.environ, **(component.environment or {})},
            )

    def _await(self, component: Component, deadline: float) -> None:
        process, log = self._running[component.name], self._layout.log(component.name)
        while not component.is_ready():
            if process.poll() is not None:
                raise ClusterError(_ended(component.name, process.returncode, log))
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"{component.name} is not ready after {READY_DEADLINE_S:.0f} s; last lines of {log}:\n"
                    f"{last_lines(log)}"
                )
            self._check_lifeline()
            time.sleep(_POLL_S)

    def _check_lifeline(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            if selector.select(timeout=0):
                raise Deserted

    def _reap(self) -> str | None:
        """Collect what ended: as the first process of a namespace, this one inherits every orphan."""
        names = {process.pid: name for name, process in self._running.items()}
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                number, status = ended
                if number in names:
                    name = names[number]
                    return _ended(name, os.waitstatus_to_exitcode(status), self._layout.log(name))
        return None

    def _close_output(self) -> None:
        """Let the tool see the end of the reports; later lines go to the log."""
        sys.stdout.flush()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def _ended(name: str, code: int, log: Path) -> str:
    how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
    return f"{name} {how}; last lines of {log}:\n{last_lines(log)}"


def _desert(_signal: int, _frame: FrameType | None) -> None:
    raise Deserted


def _do_nothing(_signal: int, _frame: FrameType | None) -> None:
    """A handler must exist for the wake-up to be written."""
