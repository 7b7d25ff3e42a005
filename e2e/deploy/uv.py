"""Runs uv, the installer that the Makefile fetches."""

import os
import shutil
import subprocess
from pathlib import Path

from e2e.images.errors import ImageError

ROOT = Path(__file__).parents[2]


def uv(*arguments: str) -> str:
    """What a command of uv prints, in the repository's root."""
    command = os.environ.get("UV") or shutil.which("uv")
    if command is None:
        raise ImageError("there is no uv: use the commands of the Makefile, or `uv run`")
    answer = subprocess.run([command, *arguments, "--quiet"], cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ImageError(f"`uv {arguments[0]} …` failed: {answer.stderr.strip()}")
    return answer.stdout
