"""Buckets, stores and claims with something odd or wrong, against a real server that speaks S3."""

import json
import os
import re
import shutil
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import obstore
import pytest

from e2e.helpers.s3_server import S3Server, s3_server
from e2e.localkube.waiting import eventually
from inference_operator.cli.main import main
from inference_operator.jobs.download_result import Downloaded
from inference_operator.jobs.inspection_result import InspectionResult
from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.bucket import inspect_bucket
from inference_operator.model_files.bucket_download import BucketOrigin
from inference_operator.model_files.claim import ModelFolder
from inference_operator.model_files.download import download
from inference_operator.model_files.listing import ListedFile
from inference_operator.models.entry import Entry
from inference_operator.models.source import BucketModel
from tests.testing.metrics_api import certificates

MODEL = BucketModel("models", "org/tiny")
CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "intermediate_size": 128,
}
FILES = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": os.urandom(4096)}
ODD_NAMES = ("a b.txt", "ü.txt", "100%20x.txt", "p+q.txt", "h#?.txt", "sub dir/x=1&y.json", "e\u0301.txt", "empty.txt")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that this module's tests share."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The model, and variables with which it is read."""
    put(server, monkeypatch)
    yield server
    shutil.rmtree(server.folder / "org")


def put(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Store the model, and set the variables of its readers."""
    for name, content in FILES.items():
        server.put(f"{MODEL.path}/{name}", content)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


def downloaded(claim: Path, origin: BucketOrigin | None = None) -> Downloaded | Failure:
    """The result of a download."""
    return download(origin or BucketOrigin(MODEL, print), None, claim, say=print)


def both(claim: Path) -> Sequence[InspectionResult | Downloaded]:
    """The results of an inspection and of a download."""
    return inspect_bucket(MODEL), downloaded(claim)


def snapshot(claim: Path) -> dict[str, bytes]:
    """What engines find, by path."""
    (root,) = (claim / "hub/s3--models--org--tiny/snapshots").iterdir()
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def assert_whole(claim: Path) -> None:
    inspected, stored = both(claim)
    assert isinstance(inspected, Entry)
    assert isinstance(stored, Downloaded)
    assert snapshot(claim) == FILES


def test_empty_objects_for_the_folder_of_the_model_and_those_below_it_are_no_files(
    bucket: S3Server, tmp_path: Path
) -> None:
    bucket.put_folder(MODEL.path)
    bucket.put_folder(f"{MODEL.path}/sub")
    bucket.put(f"{MODEL.path}/sub/a.json", b"1")
    assert isinstance(inspect_bucket(MODEL), Entry)
    assert downloaded(tmp_path) == Downloaded(inspect_bucket(MODEL).commit, sum(map(len, FILES.values())) + 1, 3)  # type: ignore[union-attr]
    assert snapshot(tmp_path) == {**FILES, "sub/a.json": b"1"}


def test_names_with_spaces_and_other_characters_arrive_as_they_are(bucket: S3Server, tmp_path: Path) -> None:
    odd = {name: b"" if name == "empty.txt" else name.encode() for name in ODD_NAMES}
    for name, content in odd.items():
        bucket.put(f"{MODEL.path}/{name}", content)
    assert isinstance(downloaded(tmp_path), Downloaded)
    assert snapshot(tmp_path) == {**FILES, **odd}


def test_a_name_that_no_path_can_have_is_refused_with_its_cause(bucket: S3Server, tmp_path: Path) -> None:
    (bucket.folder / MODEL.path / "a\nb").write_text("x")
    for found in both(tmp_path):
        assert isinstance(found, Failure)
        assert (found.cause, "control character" in found.why.problem) == (Cause.DAMAGED, True)


@pytest.mark.parametrize("count", [1100, pytest.param(10_000, marks=pytest.mark.full)])
def test_a_model_of_more_files_than_one_page_of_the_listing_is_whole(
    bucket: S3Server, tmp_path: Path, count: int
) -> None:
    """A page has at most 1,000 (Amazon S3 API reference, ListObjectsV2). These files have no ETag at all."""
    for number in range(count):
        (bucket.folder / MODEL.path / f"{number}.json").write_text(str(number))
    found = downloaded(tmp_path)
    assert isinstance(found, Downloaded)
    assert found.files == count + len(FILES)
    assert snapshot(tmp_path)[f"{count - 1}.json"] == str(count - 1).encode()


def test_a_safetensors_file_without_a_header_is_inspected(bucket: S3Server) -> None:
    for content in (b"", b"abc", bytes(8), (100).to_bytes(8, "little") + b"{}"):
        bucket.put(f"{MODEL.path}/model.safetensors", content)
        assert isinstance(inspect_bucket(MODEL), Entry)


def test_a_file_that_vanishes_during_the_download_is_said_to_have_changed(bucket: S3Server, tmp_path: Path) -> None:
    class Vanishing(BucketOrigin):
        def listed(self, commit: str) -> Sequence[ListedFile]:
            obstore.delete(bucket.store, f"{MODEL.path}/model.safetensors")
            return super().listed(commit)

    found = downloaded(tmp_path, Vanishing(MODEL, print))
    assert isinstance(found, Failure)
    assert found.why.problem == "a file was changed in the bucket while it was downloaded."


@dataclass(frozen=True)
class Wrong:
    """Variables with which a bucket cannot be read, and what is said of it."""

    env: dict[str, str]
    cause: Cause
    problem: str
    cure: str


WRONG = {
    **{
        f"endpoint {url!r}": Wrong({name: url}, Cause.GATED, f"`{name}` is no URL.", "https://")
        for name, url in (
            ("AWS_ENDPOINT_URL", "minio:9000"),
            ("AWS_ENDPOINT_URL", ""),
            ("AWS_ENDPOINT_URL_S3", "http://a:99999"),
            ("AWS_ENDPOINT", "https://[::1"),
        )
    },
    **{
        f"line break in {name}": Wrong({name: "value\n"}, Cause.GATED, f"`{name}` contains", "s3.credentialsSecretRef")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION")
    },
    "region": Wrong({"AWS_REGION": "us-east-1"}, Cause.NOT_FOUND, "is in another region", "`spec.model.s3.region`"),
    "token": Wrong(
        {"AWS_SESSION_TOKEN": "old"}, Cause.GATED, "refuses the key", "`spec.model.s3.credentialsSecretRef`"
    ),
    "half a key": Wrong(
        {"AWS_ACCESS_KEY_ID": ""}, Cause.GATED, "none of `AWS_ACCESS_KEY_ID`", "s3.credentialsSecretRef"
    ),
    "no such host": Wrong(
        {"AWS_ENDPOINT_URL": "http://store.invalid:9000"}, Cause.UNREACHABLE, "cannot be reached", "s3.endpoint"
    ),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.usefixtures("bucket")
def test_variables_with_which_the_store_cannot_be_read_are_named(
    case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong = WRONG[case]
    for name, value in wrong.env.items():
        monkeypatch.setenv(name, value)
    for found in both(tmp_path):
        assert isinstance(found, Failure)
        assert (found.cause, found.why.field) == (wrong.cause, MODEL.name)
        assert wrong.problem in found.why.problem
        assert wrong.cure in found.why.cure
        assert "test-secret" not in found.message


@pytest.mark.parametrize("name", ["AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3"])
def test_each_name_of_the_endpoint_may_be_plain_http(
    name: str, bucket: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setenv(name, bucket.endpoint)
    assert_whole(tmp_path)


IDENTITIES = {
    "web identity": {"AWS_ROLE_ARN": "arn:aws:iam::1:role/a", "AWS_ENDPOINT_URL_STS": "https://127.0.0.1:9"},
    "pod identity": {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/v1/credentials"},
}
"""Variables of IAM roles for service accounts, and of EKS Pod Identity (Amazon EKS user guide), beside their token."""


@pytest.mark.parametrize("case", IDENTITIES)
@pytest.mark.usefixtures("bucket")
def test_without_a_key_the_identity_of_the_pod_is_asked_for_one(
    case: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("a token")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "token"))
    for name, value in IDENTITIES[case].items():
        monkeypatch.setenv(name, value)
    found = inspect_bucket(MODEL)
    assert isinstance(found, Failure)
    assert (found.cause, "the ServiceAccount of the pods" in found.why.cure) == (Cause.GATED, True)


class _Redirect(BaseHTTPRequestHandler):
    """Amazon's response for a bucket in another region: 301 without a location."""

    def do_GET(self) -> None:
        body = b"<Error><Code>PermanentRedirect</Code></Error>"
        self.send_response(301)
        self.send_header("x-amz-bucket-region", "eu-central-1")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.usefixtures("bucket")
def test_a_redirect_of_amazon_to_another_region_names_the_field(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Redirect) as amazon:
        Thread(target=amazon.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{amazon.server_port}")
        for found in both(tmp_path):
            assert isinstance(found, Failure)
            assert found.why.cure == "Set `spec.model.s3.region`."
        amazon.shutdown()


def test_a_store_with_a_certificate_of_its_own_authority_needs_that_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with s3_server(tmp_path / "s3", tls=certificates(tmp_path / "tls")) as server:
        put(server, monkeypatch)
        for wrong in (None, "/nonexistent"):
            if wrong:
                monkeypatch.setenv("SSL_CERT_FILE", wrong)
            for found in both(tmp_path / "claim"):
                assert isinstance(found, Failure)
                assert re.search(r"certificate .* is not trusted.*`SSL_CERT_FILE`", found.message)
        monkeypatch.setenv("SSL_CERT_FILE", str(server.authority))
        assert_whole(tmp_path / "claim")


@pytest.mark.usefixtures("bucket")
def test_a_claim_that_cannot_be_used_is_not_taken_for_a_store_that_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "hub").write_text("a file, not a folder")
    found = downloaded(tmp_path)
    assert isinstance(found, Failure)
    assert (found.cause, found.why.problem) == (
        Cause.DAMAGED,
        "the claim in `spec.cache` cannot be used: File exists.",
    )


@pytest.mark.usefixtures("bucket")
def test_a_store_that_never_answers_ends_the_inspection_at_its_time_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(SystemExit) as ended:
            main(["inspect", MODEL.name, "--time-limit=1"])
    assert ended.value.code == 1
    assert "could not be read within 1 s" in capsys.readouterr().err


@pytest.fixture
def next_revision(bucket: S3Server, tmp_path: Path) -> S3Server:
    """A bucket with other weights than the revision that is on the claim."""
    assert isinstance(downloaded(tmp_path), Downloaded)
    bucket.put(f"{MODEL.path}/model.safetensors", os.urandom(4096))
    return bucket


@pytest.mark.usefixtures("next_revision")
def test_the_progress_of_a_revision_does_not_count_what_a_former_one_has_on_the_claim(tmp_path: Path) -> None:
    said: list[str] = []

    class Slow(BucketOrigin):
        def fetch(self, folder: ModelFolder, commit: str, file: ListedFile) -> None:
            eventually(lambda: said, seconds=60, what="the first step of the progress")
            super().fetch(folder, commit, file)

    assert isinstance(download(Slow(MODEL, print), None, tmp_path, say=said.append), Downloaded)
    assert said[0].startswith("Downloading 0 %")


def test_room_for_a_revision_is_not_what_a_former_one_has_on_the_claim(
    next_revision: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = next_revision.requests()
    free = shutil.disk_usage(tmp_path)._replace(free=4095)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    found = downloaded(tmp_path)
    assert isinstance(found, Failure)
    assert (found.cause, next_revision.requests()) == (Cause.DISK_FULL, asked)
