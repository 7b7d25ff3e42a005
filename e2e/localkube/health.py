"""Asks components whether they are ready."""

import http.client
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

_TIMEOUT_S = 2.0
"""A ready component answers within milliseconds; a slower answer is asked for again."""


def is_ready(url: str, authority: Path) -> bool:
    """Whether a GET of this address answers 200, with a certificate of this authority where it is HTTPS."""
    parts = urlsplit(url)
    if parts.hostname is None:
        raise ValueError(f"{url} names no host")
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S)
    if parts.scheme == "https":
        context = ssl.create_default_context(cafile=str(authority))
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=_TIMEOUT_S, context=context)
    try:
        try:
            connection.request("GET", parts.path)
            return connection.getresponse().status == http.HTTPStatus.OK
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False


def is_listening(path: Path) -> bool:
    """Whether somebody accepts connections on this Unix socket."""
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
