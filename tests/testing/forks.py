"""Python commands that are forked off a process which has imported the operator: importing it takes 2 s of CPU.

The text of a console script or of a module runs as `__main__`, with its own arguments, environment and output. Two
things differ from a start by the shell: what is imported by then, and all forks share one seed of hashes.
"""

import ctypes
import importlib
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG (Linux, `include/uapi/linux/prctl.h`)."""
FIRST_OTHER_FILE = 3
"""The lowest number of an open file after standard input, output and error."""
MODULE = "-m"
READ_AT_IMPORT = ("kubernetes.aio.config.kube_config", "kubernetes.config.kube_config")
"""Modules that keep the value which `KUBECONFIG` had when they were imported (kubernetes 37)."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, "inference_operator.app"])


class Fork:
    """A running command, with the methods of `subprocess.Popen`. It ends at the latest with the process that began it.

    Args:
        command: a console script of this environment, or this Python with `-m` and a module; then the arguments.
        environment: all of its variables.
        output: the file to which its standard output is appended.
        errors: the same for standard error.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path) -> None:
        for file in (output, errors):
            file.touch()  # whoever looks at once reads an empty file
        arguments = (tuple(command), dict(environment), output, errors)
        self._process = _CONTEXT.Process(target=_become, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit status; negative is the signal that ended it, and None means that it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended."""
        self._process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0)
        return status

    def send_signal(self, signum: int) -> None:
        """Send a signal, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        """End it in the middle of whatever it does."""
        self.send_signal(signal.SIGKILL)


def _become(command: Sequence[str], environment: Mapping[str, str], output: Path, errors: Path) -> None:
    """In the fork: run the command."""
    ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    for file, target in ((output, sys.stdout), (errors, sys.stderr)):
        with file.open("ab") as opened:
            os.dup2(opened.fileno(), target.fileno())
    # One of them tells the server of forks that the process which began it lives.
    os.closerange(FIRST_OTHER_FILE, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(environment)
    for name in READ_AT_IMPORT:
        importlib.reload(sys.modules[name])
    os.chdir(ROOT)
    program, *arguments = command
    if (program, arguments[:1]) == (sys.executable, [MODULE]):
        _, module, *sys.argv[1:] = arguments
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        runpy.run_path(program, run_name="__main__")
