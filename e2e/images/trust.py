"""Settings of this host that a build needs to reach package indexes; they do not become part of an image."""

import os
from pathlib import Path

_SYSTEM_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_INDEXES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX")


def certificates() -> Path | None:
    """The certificate authorities that this host trusts, with that of a TLS-inspecting proxy."""
    bundle = Path(os.environ.get("SSL_CERT_FILE") or _SYSTEM_BUNDLE)
    return bundle if bundle.is_file() else None


def indexes() -> dict[str, str]:
    """Package indexes that this host uses instead of PyPI, by environment variable."""
    return {name: os.environ[name] for name in _INDEXES if os.environ.get(name)}
