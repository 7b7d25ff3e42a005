"""`infd` in processes that have imported its libraries already: one process does so once, and forks for each command.

The hub's client is none of them: it reads its environment when it is imported, so each command imports it anew.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SECONDS = 600
"""Limit of one command, on a machine that does much else."""
SERVER = """
import json, os, sys
import filelock, httpx2, idna, tqdm.auto, truststore, yaml
import inference_operator.cli.job.download, inference_operator.cli.job.inspect, inference_operator.engines.registry
from inference_operator.cli.main import main

assert not [name for name in sys.modules if name.startswith("huggingface_hub")]
for line in sys.stdin:
    words, environment, folder = json.loads(line)
    if pid := os.fork():
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        continue
    os.environ.clear()
    os.environ.update(environment)
    for number, file in enumerate((os.devnull, f"{folder}/out", f"{folder}/err")):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT), number)
    main(words)
"""


class ForkedInfd:
    """The process that forks.

    Args:
        folder: for what commands print.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=own,
            start_new_session=True,
        )

    def run(self, *words: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Run `infd` with these words, as `subprocess.run` does."""
        for name in ("out", "err"):
            (self._folder / name).unlink(missing_ok=True)
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps([words, dict(env), str(self._folder)]).encode() + b"\n")
        self._server.stdin.flush()
        assert select.select([self._server.stdout], [], [], SECONDS)[0], words
        status = int(self._server.stdout.readline())
        out, err = ((self._folder / name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(words, status, out, err)

    def close(self) -> None:
        """End it, with a command that a failed test has left behind."""
        os.killpg(self._server.pid, signal.SIGKILL)
        self._server.communicate()


@contextmanager
def forked_infd(folder: Path) -> Iterator[ForkedInfd]:
    """The process, for the time of the block."""
    server = ForkedInfd(folder)
    try:
        yield server
    finally:
        server.close()
