"""Where downloads, builds and running clusters live: outside the repository, in the user's cache folder."""

import os
from pathlib import Path


def cache_root() -> Path:
    """The project's folder in the user's cache folder (XDG base directory specification 0.8); not created here."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "inference-operator"
