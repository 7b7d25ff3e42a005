"""What Go's client of registries says of each answer of one, and the cause that the operator reads from it.

The client is crane, which has the library of cosign (go-containerregistry).
"""

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from e2e.go_modules import ensure_crane
from inference_operator.diagnosis.registry_errors import registry_error, with_wait
from tests.router.test_tls import FORMATS, KEY, certificate

DIGEST = "sha256:" + "403429401" * 7 + "4"
ANSWERS: Mapping[str, tuple[int, str, str, str]] = {
    "a limit with its wait": (429, "TOOMANYREQUESTS", "retry-after: 30s, allowed: 1/minute", "too many requests"),
    "a limit in words of a proxy": (429, "", "<html>", "too many requests"),
    "no account": (401, "UNAUTHORIZED", "", "asks for an account"),
    "another account": (403, "DENIED", "", "does not let this account"),
    "a proxy that refuses": (403, "", "", "does not let this account"),
    "no manifest": (404, "MANIFEST_UNKNOWN", "", "no such image"),
    "no repository": (404, "NAME_UNKNOWN", "", "no such image"),
}
"""Status, code, message, and words of the cause."""


@contextmanager
def registry(status: int, code: str, message: str, tls: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port of a registry that gives this answer to everything but the question for its version."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing."""

        def do_GET(self) -> None:
            errors = json.dumps({"errors": [{"code": code, "message": message}]}) if code else message
            is_version = self.path == "/v2/"
            self.send_response(200 if is_version else status)
            self.send_header("Content-Length", "0" if is_version else str(len(errors)))
            self.end_headers()
            if not is_version:
                self.wfile.write(errors.encode())

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def said(host: str) -> str:
    """What the client says at its end."""
    command = [str(ensure_crane()), "manifest", f"{host}/models@{DIGEST}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("case", ANSWERS)
def test_the_cause_of_an_answer_is_named(case: str) -> None:
    status, code, message, words = ANSWERS[case]
    with registry(status, code, message) as port:
        text = said(f"localhost:{port}")
    found = registry_error(text)
    assert found, text
    assert words in found.problem, text
    assert ("30s" in with_wait(found.in_job, text)) == ("30s" in message)


def test_a_certificate_that_nobody_trusts_is_named(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_bytes(certificate(datetime.now(UTC) + timedelta(days=1)))
    (tmp_path / "key.pem").write_bytes(
        KEY.private_bytes(serialization.Encoding.PEM, FORMATS["PKCS 8"], serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with registry(200, "", "{}", context) as port:
        text = said(f"localhost:{port}")
    found = registry_error(text)
    assert found, text
    assert "certificate" in found.problem
