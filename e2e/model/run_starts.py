"""Make a model, start vLLM several times, and record when it wrote each line of its log.

Runs inside the engine image: run_starts.py FOLDER. FOLDER holds `job.json` and gets `starts.json`.
"""

# run_kinds is beside this file in the container, and torch in the engine's image:
# mypy: disable-error-code="import-not-found"

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from run_kinds import make, started

REQUEST_SECONDS = 300
PROGRAM = Path("/opt/vllm")
FILE_SIZE = "300MB"
"""Largest file of the weights. With one file, several threads would have nothing to share."""


def main() -> None:
    """Start it as often as the job says, each time in its way."""
    folder = Path(sys.argv[1])
    job = json.loads((folder / "job.json").read_text())
    model = Path(job["model"])
    make(job["config"], model, file_size=FILE_SIZE)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, model)
    os.sync()
    starts = []
    for way in job["ways"]:
        if way["cold"]:
            for place in (model, PROGRAM):
                forget(place)
        starts.append(start(job, way["args"]))
        print(f"{'cold' if way['cold'] else 'warm'} {way['args']}: {starts[-1]['ready']:.1f} s", flush=True)
    (folder / "starts.json").write_text(json.dumps(starts))


def forget(place: Path) -> None:
    """Drop the files of a folder from the page cache, as on a node that has never read them."""
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with suppress(OSError), path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def start(job: dict[str, Any], args: list[str]) -> dict[str, Any]:
    """One start with these arguments too: the lines of the log with their seconds, readiness, and the first answer."""
    lines: list[tuple[float, str]] = []
    began = time.monotonic()
    process = subprocess.Popen(
        [*job["command"], *args],
        env={**os.environ, **job["env"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )

    def read() -> None:
        output = process.stdout or ()
        lines.extend((time.monotonic() - began, line.decode(errors="replace")) for line in output)

    reader = Thread(target=read, daemon=True)
    reader.start()
    try:
        if not started(process, job["url"]):
            sys.exit(f"vLLM did not start:\n{''.join(text for _, text in lines)[-3000:]}")
        ready = time.monotonic() - began
        ask(job)
        answered = time.monotonic() - began
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
    return {"lines": lines, "ready": ready, "answered": answered}


def ask(job: dict[str, Any]) -> None:
    """One token."""
    address = urlsplit(job["url"])
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=REQUEST_SECONDS)
    body = {"model": job["served"], "prompt": [5, 6, 7], "max_tokens": 1}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != http.HTTPStatus.OK:
        sys.exit(f"vLLM answers {response.status}: {response.read().decode()}")
    response.read()
    connection.close()


if __name__ == "__main__":
    main()
