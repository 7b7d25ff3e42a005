"""Serve a model with vLLM until the file `stop` appears.

Runs inside the engine image: run_served.py FOLDER. FOLDER holds `job.json` and gets `log`, what vLLM prints.
"""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

LONGEST_SECONDS = 900
POLL_SECONDS = 0.2


def main() -> None:
    """Serve."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    deadline = time.monotonic() + LONGEST_SECONDS
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            job["command"], env={**os.environ, **job["env"]}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while process.poll() is None and not (folder / "stop").exists() and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    main()
