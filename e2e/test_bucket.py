"""`infd inspect` and `infd download` of a model in a bucket, from a real server that speaks S3."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import obstore
import pytest

from e2e import images
from e2e.helpers.adapter_files import write_adapter
from e2e.helpers.s3_server import PART_BYTES, S3Server, s3_server
from e2e.localkube.waiting import eventually
from inference_operator.model_files.bucket import DIGEST_DIGITS
from inference_operator.model_files.bucket_download import PART_BYTES as REQUEST_BYTES
from inference_operator.model_files.bucket_download import BucketOrigin
from inference_operator.model_files.claim import ModelFolder
from inference_operator.model_files.files import InspectionError
from inference_operator.model_files.listing import ListedFile
from inference_operator.models.source import BucketModel
from inference_operator.objects.cache_volume import folder_of

SOURCE, PATH = "s3://models/org/tiny", "org/tiny"
FOLDER = "hub/s3--models--org--tiny"
CONFIG = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "intermediate_size": 128,
}
WEIGHTS = {f"model-{number}.safetensors": os.urandom(size) for number, size in ((1, 4096), (2, 2 * PART_BYTES + 5))}
TOTAL = sum(map(len, WEIGHTS.values())) + len(json.dumps(CONFIG))
KILLS = 3
Infd = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A server that this module's tests share."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def bucket(server: S3Server) -> Iterator[S3Server]:
    """Two models: one with a file in several parts and one that engines do not load."""
    for name, content in {"config.json": json.dumps(CONFIG).encode(), **WEIGHTS, "pytorch_model.bin": b"x"}.items():
        server.put(f"{PATH}/{name}", content)
    server.put("org/tiny2/config.json", b"of another model")
    yield server
    obstore.delete(server.store, [one["path"] for chunk in obstore.list(server.store) for one in chunk])


@pytest.fixture
def infd(bucket: S3Server, tmp_path: Path) -> Infd:
    """Run `infd`; returns status, result and output."""

    def run(command: str, *arguments: str, source: str = SOURCE, **env: str) -> tuple[int, dict[str, Any], str]:
        result = tmp_path / "result"
        words = [*infd_command(command, source), f"--to={result}", *arguments]
        done = subprocess.run(words, env=variables(bucket, env), capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(result.read_text()), done.stdout + done.stderr

    return run


def infd_command(command: str, source: str) -> list[str]:
    return [str(Path(sys.executable).with_name("infd")), command, source]


def variables(server: S3Server, more: Mapping[str, str]) -> dict[str, str]:
    own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**own, **server.environment, **more}


def test_inspecting_a_bucket_reads_the_config_the_sizes_and_a_digest_of_the_listing(infd: Infd) -> None:
    status, document, _ = infd("inspect")
    assert status == 0
    assert document["commit"] == infd("inspect")[1]["commit"]
    assert len(document["commit"]) == DIGEST_DIGITS
    assert document["weights"]["gib"] * 2**30 == pytest.approx(sum(map(len, WEIGHTS.values())))
    assert document["source"] == f"{SOURCE}@{document['commit']}:config.json"


def test_a_downloaded_model_is_whole_recorded_and_not_downloaded_again(
    infd: Infd, bucket: S3Server, tmp_path: Path
) -> None:
    commit = infd("inspect")[1]["commit"]
    status, document, output = infd("download", f"--cache={tmp_path / 'claim'}", f"--revision={commit}")
    assert (status, document["downloaded"]) == (0, {"commit": commit, "size_bytes": TOTAL, "files": 3})
    assert "only its size" not in output, "the hash of the file in parts was computed"
    snapshot = tmp_path / "claim" / FOLDER / "snapshots" / commit
    assert {one.name: one.read_bytes() for one in snapshot.iterdir() if one.name in WEIGHTS} == WEIGHTS
    assert sorted(one.name for one in snapshot.iterdir()) == ["config.json", *sorted(WEIGHTS)]
    asked = bucket.requests()
    assert infd("download", f"--cache={tmp_path / 'claim'}", f"--revision={commit}")[0] == 0
    assert bucket.requests() == asked


def test_an_adapter_of_a_bucket_is_copied_and_checked(infd: Infd, bucket: S3Server, tmp_path: Path) -> None:
    images.build(["tiny-llama"])  # whose sizes the adapter has
    write_adapter(tmp_path / "sql", 1)
    for file in (tmp_path / "sql").iterdir():
        bucket.put(f"org/sql/{file.name}", file.read_bytes())
    claim = tmp_path / "claim"
    status, document, _ = infd("download", "--adapter", f"--cache={claim}", source="s3://models/org/sql")
    assert status == 0
    assert document["adapter"]["facts"]["rank"] == 8
    snapshot = claim / "adapters/hub/s3--models--org--sql/snapshots" / document["adapter"]["commit"]
    for file in (tmp_path / "sql").iterdir():
        assert (snapshot / file.name).read_bytes() == file.read_bytes()


def test_a_download_that_is_killed_continues_and_ends_with_the_right_content(
    infd: Infd, bucket: S3Server, tmp_path: Path
) -> None:
    content = os.urandom((KILLS + 3) * REQUEST_BYTES)
    bucket.put(f"{PATH}/model-3.safetensors", content)
    claim = tmp_path / "claim"
    command = [*infd_command("download", SOURCE), f"--cache={claim}"]

    def parts() -> int:
        found = list((claim / FOLDER / "blobs").glob("*.incomplete"))
        return max((one.stat().st_size for one in found), default=0) // REQUEST_BYTES

    for number in range(1, KILLS + 1):
        process = subprocess.Popen(command, env=variables(bucket, {}), stdout=subprocess.DEVNULL)
        try:
            eventually(lambda least=number: parts() >= least, seconds=60, what=lambda: f"{parts()} parts")  # type: ignore[misc]
        finally:
            process.kill()
            process.wait()
        assert not list((claim / "complete").glob("*.json")), "it was killed before its end"
    before = bucket.requests()
    status, document, _ = infd("download", f"--cache={claim}")
    assert status == 0
    snapshot = claim / FOLDER / "snapshots" / document["downloaded"]["commit"]
    assert (snapshot / "model-3.safetensors").read_bytes() == content
    assert bucket.requests() - before <= KILLS + 3, "less than all parts and files"


@dataclass(frozen=True)
class Unreadable:
    """A source or variables with which a bucket cannot be read, and what is said of it."""

    cause: str
    words: str
    source: str = SOURCE
    env: Mapping[str, str] = field(default_factory=dict)


UNREADABLE = {
    "no bucket": Unreadable("NotFound", "there are no files.", "s3://nosuch/a"),
    "no path": Unreadable("NotFound", "there are no files.", "s3://models/nosuch"),
    "wrong secret": Unreadable("Gated", "(SignatureDoesNotMatch)", env={"AWS_SECRET_ACCESS_KEY": "wrong"}),
    "unknown key": Unreadable("Gated", "the store refuses the key", env={"AWS_ACCESS_KEY_ID": "nobody"}),
    "no store": Unreadable(
        "Unreachable", "the store cannot be reached", env={"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
@pytest.mark.parametrize("command", ["inspect", "download"])
def test_a_bucket_that_cannot_be_read_is_refused_with_cause_and_cure(
    infd: Infd, tmp_path: Path, command: str, case: str
) -> None:
    one = UNREADABLE[case]
    claim = [f"--cache={tmp_path / 'claim'}"] if command == "download" else []
    status, document, _ = infd(command, *claim, source=one.source, **one.env)
    assert (status, document["error"]["cause"], document["error"]["field"]) == (1, one.cause, one.source)
    assert one.words in document["error"]["problem"]
    assert "spec.model." in document["error"]["cure"]


@pytest.mark.parametrize("command", ["inspect", "download"])
def test_a_bucket_with_other_files_than_those_of_the_revision_is_refused(
    infd: Infd, bucket: S3Server, tmp_path: Path, command: str
) -> None:
    commit = infd("inspect")[1]["commit"]
    bucket.put(f"{PATH}/generation_config.json", b"{}")
    changed = infd("inspect")[1]["commit"]
    claim = [f"--cache={tmp_path / 'claim'}"] if command == "download" else []
    status, document, _ = infd(command, *claim, f"--revision={commit}")
    assert (status, document["error"]["cause"]) == (1, "NotFound")
    assert changed in document["error"]["problem"]
    assert not list((tmp_path / "claim" / "complete").glob("*.json"))


@pytest.fixture
def origin(bucket: S3Server, monkeypatch: pytest.MonkeyPatch) -> tuple[BucketOrigin, list[str]]:
    """The bucket as a download reads it, and what it says."""
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    said: list[str] = []
    return BucketOrigin(BucketModel("models", PATH), said.append), said


def test_a_file_that_changes_during_the_download_is_refused(
    origin: tuple[BucketOrigin, list[str]], bucket: S3Server, tmp_path: Path
) -> None:
    bucket_origin, _ = origin
    folder = ModelFolder(tmp_path, folder_of(SOURCE))
    folder.blobs.mkdir(parents=True)
    commit = bucket_origin.commit(None)
    file = next(one for one in bucket_origin.listed(commit) if one.path == "model-1.safetensors")
    bucket.put(f"{PATH}/{file.path}", os.urandom(file.size_bytes))
    with pytest.raises(bucket_origin.errors) as raised:
        bucket_origin.fetch(folder, commit, file)
    failure = bucket_origin.failure(None, raised.value)
    assert (failure.cause.value, failure.why.problem) == (
        "Damaged",
        "a file was changed in the bucket while it was downloaded.",
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("model-1.safetensors", "its ETag is no hash of it; it was downloaded twice with the same content."),
        ("model-2.safetensors", "its ETag is no hash of it; it was downloaded twice with the same content."),
    ],
)
def test_an_etag_that_is_no_hash_of_the_content_is_said(
    origin: tuple[BucketOrigin, list[str]], bucket: S3Server, tmp_path: Path, name: str, words: str
) -> None:
    """As in a store that encrypts with a key of its own. Here the content changes behind the server's back."""
    bucket_origin, said = origin
    folder = ModelFolder(tmp_path, folder_of(SOURCE))
    folder.blobs.mkdir(parents=True)
    commit = bucket_origin.commit(None)
    file = next(one for one in bucket_origin.listed(commit) if one.path == name)
    with (bucket.folder / PATH / name).open("r+b") as content:
        content.write(b"other")
    bucket_origin.fetch(folder, commit, file)
    assert said == [f"{name}: {words}"]


def test_a_content_that_is_another_one_in_each_download_is_refused_and_deleted(
    origin: tuple[BucketOrigin, list[str]], tmp_path: Path
) -> None:
    class Spoiled(BucketOrigin):
        def _fetch_parts(self, partial: Path, file: ListedFile) -> None:
            super()._fetch_parts(partial, file)
            with partial.open("r+b") as content:
                content.write(os.urandom(8))

    spoiled = Spoiled(BucketModel("models", PATH), origin[1].append)
    folder = ModelFolder(tmp_path, folder_of(SOURCE))
    folder.blobs.mkdir(parents=True)
    commit = spoiled.commit(None)
    file = next(one for one in spoiled.listed(commit) if one.path == "model-1.safetensors")
    with pytest.raises(InspectionError) as raised:
        spoiled.fetch(folder, commit, file)
    assert "another MD5 than listed, and was deleted" in raised.value.failure.why.problem
    assert not list(folder.blobs.iterdir())
