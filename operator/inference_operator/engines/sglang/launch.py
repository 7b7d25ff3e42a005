"""Starts SGLang in the container's first process, which would not hear SIGTERM without a handler.

SGLang has its own handler once it serves. Until then, while it loads the model, the process ends at once.
"""

import runpy
import signal
import sys
from types import FrameType

TOLD_TO_STOP = 128 + signal.SIGTERM


def stop(_signum: int, _frame: FrameType | None) -> None:
    """End the process."""
    sys.exit(TOLD_TO_STOP)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, stop)
    runpy.run_module("sglang.launch_server", run_name="__main__", alter_sys=True)
