"""Starts SGLang as a child, since the first process of a container is special.

1. It hears no SIGTERM without a handler. SGLang has one once it serves; before, while it loads a model, the child ends
   at once, as any process does.
2. SGLang ends itself by SIGKILL when one of its processes fails, which the first process of a container ignores; it
   would end with status 0 then, and Kubernetes would call that no error (0.5.23, `srt/utils/common.py`,
   `kill_process_tree`). So every end that nobody asked for has a status that is not 0.
3. It is the parent of processes whose own parents have ended, and takes note of their ends.
"""

import os
import signal
import subprocess
import sys
from types import FrameType

SERVER = (sys.executable, "-m", "sglang.launch_server")
FAILED, BY_SIGNAL = 1, 128


def main() -> int:
    """Run SGLang to its end; returns the exit status of the container."""
    with subprocess.Popen([*SERVER, *sys.argv[1:]]) as server:  # noqa: S603 - the arguments of the container
        asked: list[int] = []

        def stop(signum: int, _: FrameType | None) -> None:
            asked.append(signum)
            server.send_signal(signum)

        signal.signal(signal.SIGTERM, stop)
        status = _ended(server.pid)
        server.returncode = status
    code = status if status >= 0 else BY_SIGNAL - status
    return code or (0 if asked else FAILED)


def _ended(server: int) -> int:
    """The exit code of the server, once it has ended; negative for a signal."""
    while True:
        pid, status = os.wait()
        if pid == server:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
