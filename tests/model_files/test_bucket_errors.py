"""What a store answers, by its code, and the cause and cure that `infd inspect` names. The client is the real one."""

import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.testing.forked_infd import ForkedInfd

SOURCE = "s3://models/qwen"
EMPTY = "<ListBucketResult><Name>models</Name><KeyCount>0</KeyCount><IsTruncated>false</IsTruncated></ListBucketResult>"


@dataclass
class Store:
    """A store, and the proxy by which its names are reached: it answers whatever host a request names."""

    status: int = 403
    code: str = ""
    message: str = ""
    asked: list[str] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Nothing: the test reads `asked`."""

        def do_GET(self) -> None:
            made.asked.append(self.path)
            error = f"<Error><Code>{made.code}</Code><Message>{made.message}</Message></Error>"
            body = (error if made.code else EMPTY).encode()
            self.send_response(made.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def inspected(store: Store, infd_server: ForkedInfd, folder: Path, **more: str) -> tuple[str, str, str]:
    """Cause, problem and cure."""
    environment = {
        "PATH": os.environ["PATH"],
        "HTTP_PROXY": f"http://127.0.0.1:{store.port}",
        "AWS_ENDPOINT_URL": "http://store.example",
        "AWS_REGION": "eu-1",
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "secret",
        **more,
    }
    answer = infd_server.run("inspect", SOURCE, "-o", "json", "--to", str(folder / "message"), env=environment)
    assert answer.returncode == 1, answer.stderr
    assert answer.stdout, answer.stderr
    error = json.loads(answer.stdout)["error"]
    return error["cause"], error["problem"], error["cure"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((403, "SecondLevelDomainForbidden", ""), ("Unreachable", "addressing: VirtualHost")),
        ((403, "PathStyleDomainForbidden", ""), ("Unreachable", "addressing: VirtualHost")),
        ((403, "RequestTimeTooSkewed", ""), ("Unreachable", "clock")),
        (
            (403, "AccessDenied", "no VPC endpoint policy allows the s3:ListBucket action"),
            ("Unreachable", "VPC endpoint"),
        ),
        ((403, "AccessDenied", ""), ("Gated", "credentialsSecretRef")),
        ((403, "InvalidAccessKeyId", ""), ("Gated", "credentialsSecretRef")),
        ((429, "TooManyRequests", ""), ("Unreachable", "too many requests")),
        ((400, "SlowDown", ""), ("Unreachable", "too many requests")),
        ((301, "PermanentRedirect", ""), ("NotFound", "s3.region")),
        ((404, "NoSuchBucket", ""), ("NotFound", "there are no files")),
        ((400, "Surprise", ""), ("Unreachable", "400 (Surprise)")),
    ],
)
def test_each_answer_has_its_own_cause_and_cure(
    store: Store, infd_server: ForkedInfd, tmp_path: Path, answer: tuple[int, str, str], expected: tuple[str, str]
) -> None:
    store.status, store.code, store.message = answer
    got, problem, cure = inspected(store, infd_server, tmp_path)
    assert got == expected[0]
    assert expected[1] in f"{problem} {cure}"


def test_the_bucket_is_named_in_the_path_or_in_the_host(store: Store, infd_server: ForkedInfd, tmp_path: Path) -> None:
    store.status = 200
    inspected(store, infd_server, tmp_path)
    inspected(store, infd_server, tmp_path, AWS_VIRTUAL_HOSTED_STYLE_REQUEST="true")
    inspected(
        store,
        infd_server,
        tmp_path,
        AWS_VIRTUAL_HOSTED_STYLE_REQUEST="true",
        AWS_ENDPOINT_URL="http://models.store.example",
    )
    assert [path.partition("?")[0] for path in store.asked] == [
        "http://store.example/models",
        "http://models.store.example/",
        "http://models.store.example/",
    ]
