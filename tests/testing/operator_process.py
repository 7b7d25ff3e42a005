"""The operator process: the console script with only the rights of its ServiceAccount."""

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlencode

from e2e.helpers.free_ports import free_port
from e2e.localkube.waiting import eventually
from tests.testing.forks import ROOT, Fork

READY_SECONDS, STOP_SECONDS = 120, 60
ANSWER_SECONDS = 60
"""Limit of an answer with metrics. A machine that simulates thousands of pods is busy."""
"""Bounds of waits, long enough on a machine that does much else."""
COMMAND = (str(Path(sys.executable).with_name("inference-operator")),)


class OperatorProcess:
    """One process of the operator; start and stop it as often as a test likes.

    Args:
        kubeconfig: of its account.
        log: the file to which it writes.
        settings: by their names without the prefix.
        command: what to run.
        forked: whether to fork it off a process that has imported the operator. Otherwise it starts as users start it.
    """

    def __init__(
        self,
        kubeconfig: Path,
        log: Path,
        settings: Mapping[str, str],
        command: Sequence[str] = COMMAND,
        *,
        forked: bool = True,
    ) -> None:
        self._command = command
        self._forked = forked
        self._kubeconfig = kubeconfig
        self._log = log
        self._settings = settings
        self._process: subprocess.Popen[bytes] | Fork | None = None
        self.port = 0

    def start(self) -> None:
        """Start it, and wait until it holds the Lease."""
        self.start_beside()
        eventually(self.is_leading, seconds=READY_SECONDS, what=lambda: f"the operator leads; its log:\n{self.log()}")

    def start_beside(self) -> None:
        """Start it, and wait until it is ready, at work or as a standby."""
        self.launch()
        eventually(self.is_ready, seconds=READY_SECONDS, what=lambda: f"the operator is ready; its log:\n{self.log()}")

    def launch(self) -> None:
        """Start it, and wait for nothing."""
        self.port = free_port()
        settings = {f"INFERENCE_OPERATOR_{name}": value for name, value in self._settings.items()}
        environment = {**os.environ, "KUBECONFIG": str(self._kubeconfig), **settings}
        environment["INFERENCE_OPERATOR_HTTP_PORT"] = str(self.port)
        if self._forked:
            self._process = Fork(self._command, environment, self._log, self._log)
            return
        # Its image has its bytecode compiled (images/operator/Dockerfile); here the first start does that.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def stop(self) -> int:
        """Stop it as the kubelet does; returns its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self._end(signal.SIGKILL)

    @property
    def pid(self) -> int:
        """The process, while it runs."""
        if self._process is None:
            raise AssertionError("the operator does not run")
        return self._process.pid

    def is_leading(self) -> bool:
        """Whether it holds the Lease."""
        if not self.is_running():
            raise AssertionError(f"the operator ended:\n{self.log()}")
        return "\ninfd_leader 1.0\n" in self.metrics(("infd_leader",))

    def tell_to_stop(self) -> None:
        """SIGTERM, and no wait."""
        self._signal(signal.SIGTERM)

    def pause(self) -> None:
        """Let it stand still, as on a machine that has no time for it."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        self._signal(signal.SIGCONT)

    def set_clock(self) -> None:
        """Set its clock, where `wrong_clock` runs it."""
        self._signal(signal.SIGUSR1)

    def exit_status(self) -> int | None:
        """Its exit status, once it has ended by itself."""
        return self._process.poll() if self._process else None

    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """What it has told so far."""
        return self._log.read_text()

    def metrics(self, names: Sequence[str] = ()) -> str:
        """Its metrics, as Prometheus reads them: all, or those of the names."""
        query = urlencode([("name[]", name) for name in names])
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics?{query}", timeout=ANSWER_SECONDS) as answer:
            text: bytes = answer.read()
        return text.decode()

    def _signal(self, signum: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(signum)

    def _end(self, signum: signal.Signals) -> int:
        if self._process is None:
            return 0
        self._process.send_signal(signum)
        try:
            return self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()
            self._process = None

    def is_ready(self) -> bool:
        if not self.is_running():
            raise AssertionError(f"the operator ended:\n{self.log()}")
        return answers(f"http://127.0.0.1:{self.port}/readyz")


def answers(url: str) -> bool:
    """Whether a URL answers with a status of success."""
    try:
        with urllib.request.urlopen(url, timeout=1):  # noqa: S310 - a process of the test
            return True
    except (urllib.error.URLError, OSError):
        return False
