"""`infd download` against a simulated hub, through the real hub client."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.localkube.waiting import eventually
from inference_operator.jobs.download_result import Downloaded, parsed_download
from tests.testing.forked_infd import ForkedInfd
from tests.testing.hub import BRANCH, COMMIT, REPOSITORY, Hub, serving

WEIGHTS = {f"{number}.safetensors": bytes([number]) * 400_000 for number in range(1, 4)}
TOTAL = sum(map(len, WEIGHTS.values())) + len(b"{}")
SNAPSHOT = f"hub/models--org--model/snapshots/{COMMIT}"
PART_BYTES = 10 * 2**20
"""What the client writes at once (huggingface_hub 2.4.0, constants.py, `DOWNLOAD_CHUNK_SIZE`)."""
Infd = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub(large=dict(WEIGHTS), files={"config.json": b"{}"})) as served:
        yield served


def environment(hub: Hub, claim: Path) -> dict[str, str]:
    own = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**own, "HF_ENDPOINT": hub.endpoint, "HF_HOME": f"{claim}.home"}


def words(claim: Path, *arguments: str, source: str = f"hf://{REPOSITORY}") -> list[str]:
    return ["download", source, f"--cache={claim}", f"--to={claim}.message", *arguments]


def command(hub: Hub, claim: Path, *arguments: str) -> dict[str, Any]:
    """What a process of its own needs, since the hub's client reads its environment once."""
    infd = str(Path(sys.executable).with_name("infd"))
    return {"args": [infd, *words(claim, *arguments)], "env": environment(hub, claim)}


@pytest.fixture
def download(hub: Hub, tmp_path: Path, infd_server: ForkedInfd) -> Infd:
    """Run `infd download`; returns status and result."""

    def run(*arguments: str, claim: str = "claim") -> tuple[int, dict[str, Any]]:
        folder = tmp_path / claim
        folder.mkdir(exist_ok=True)
        done = infd_server.run(*words(folder, *arguments), env=environment(hub, folder))
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(Path(f"{folder}.message").read_text())

    return run


@contextmanager
def listed(hub: Hub, entries: list[dict[str, object]]) -> Iterator[None]:
    """The hub lists these files."""
    hub.tree = lambda: json.dumps(entries).encode()  # type: ignore[method-assign]
    yield


def outside(tmp_path: Path) -> set[str]:
    """Everything beside the claim and what the test itself wrote."""
    return {one.name for one in tmp_path.iterdir()} - {"claim", "claim.message", "claim.home"}


def test_a_model_is_downloaded_with_its_hashes_and_marked_complete_last(
    hub: Hub, download: Infd, tmp_path: Path
) -> None:
    status, document = download(f"--revision={COMMIT}", "--kernels=abc")
    assert (status, parsed_download(json.dumps(document))) == (0, Downloaded(COMMIT, TOTAL, 4))
    for name, content in WEIGHTS.items():
        stored = (tmp_path / "claim" / SNAPSHOT / name).read_bytes()
        assert hashlib.sha256(stored).digest() == hashlib.sha256(content).digest()
    assert (tmp_path / "claim/compiled/abc").is_dir()
    assert (tmp_path / f"claim/complete/org--model@{COMMIT}.json").is_file()
    assert len(hub.offsets) == len(WEIGHTS)


def test_a_complete_model_is_not_asked_for_again_and_a_deleted_file_is_downloaded_again(
    hub: Hub, download: Infd, tmp_path: Path
) -> None:
    download(f"--revision={COMMIT}")
    asked = len(hub.asked)
    assert download(f"--revision={COMMIT}", "--kernels=other")[0] == 0
    assert len(hub.asked) == asked
    (tmp_path / "claim" / SNAPSHOT / "1.safetensors").resolve().unlink()
    assert download(f"--revision={COMMIT}")[0] == 0
    assert len(hub.offsets) == len(WEIGHTS) + 1


def test_of_several_gguf_models_only_those_are_downloaded_that_were_asked_for(
    hub: Hub, infd_server: ForkedInfd, tmp_path: Path
) -> None:
    names = ("q4", "q8-00001-of-00002", "q8-00002-of-00002", "q2")
    hub.files, hub.sizes = {}, {}
    hub.large = {f"{name}.gguf": name.encode() * 1000 for name in names}
    claim = tmp_path / "claim"
    claim.mkdir()

    def status(source: str) -> int:
        asked = words(claim, f"--revision={COMMIT}", source=source)
        return infd_server.run(*asked, env=environment(hub, claim)).returncode

    for name, offsets in (("q4", 1), ("q8-00001-of-00002", 3), ("q4", 3)):
        assert status(f"hf://{REPOSITORY}/{name}.gguf") == 0
        assert len(hub.offsets) == offsets
    stored = {path.name for path in (claim / SNAPSHOT).iterdir()}
    assert stored == {"q4.gguf", "q8-00001-of-00002.gguf", "q8-00002-of-00002.gguf"}
    assert status(f"hf://{REPOSITORY}") == 0
    assert len(hub.offsets) == 4, "a part is no whole model"
    (claim / SNAPSHOT / "q2.gguf").resolve().unlink()
    for name, offsets in (("q4", 4), ("q8-00001-of-00002", 4), ("q2", 5)):
        assert status(f"hf://{REPOSITORY}/{name}.gguf") == 0
        assert len(hub.offsets) == offsets
    assert status(f"hf://{REPOSITORY}") == 0
    assert len(hub.offsets) == 5, "it is whole again"


def test_an_engine_without_a_commit_finds_the_default_branch(download: Infd, tmp_path: Path) -> None:
    assert download()[0] == 0
    assert (tmp_path / "claim/hub/models--org--model/refs/main").read_text() == COMMIT


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.full)])
def test_a_download_that_is_killed_continues_and_ends_with_the_right_hashes(
    hub: Hub, download: Infd, tmp_path: Path, kills: int
) -> None:
    """The hub falls silent in the middle of a file; then the process is killed."""
    content = os.urandom((kills + 1) * PART_BYTES)
    hub.large = {"model.safetensors": content}
    hub.silent_after = PART_BYTES + 1000
    claim = tmp_path / "claim"
    claim.mkdir()
    blobs = claim / "hub/models--org--model/blobs"

    def stored() -> int:
        return max((one.stat().st_size for one in blobs.iterdir()), default=0) if blobs.is_dir() else 0

    for number in range(1, kills + 1):
        process = subprocess.Popen(**command(hub, claim, f"--revision={COMMIT}"), stdout=subprocess.DEVNULL)
        try:
            least = number * PART_BYTES
            eventually(lambda least=least: stored() >= least, seconds=60, what=lambda: f"{stored()} bytes")  # type: ignore[misc]
        finally:
            process.kill()
            process.wait()
        assert not list((claim / "complete").glob("*.json"))
    hub.silent_after = 0
    status, _ = download(f"--revision={COMMIT}")
    assert status == 0
    assert hub.offsets == [number * PART_BYTES for number in range(kills + 1)]
    assert not list(blobs.glob("*.incomplete"))
    assert (claim / SNAPSHOT / "model.safetensors").read_bytes() == content


def test_two_jobs_at_once_on_one_claim_download_the_model_once(hub: Hub, tmp_path: Path) -> None:
    claim = tmp_path / "claim"
    claim.mkdir()
    both = [
        subprocess.Popen(**command(hub, claim, f"--revision={COMMIT}"), stdout=subprocess.DEVNULL) for _ in range(2)
    ]
    assert [one.wait(120) for one in both] == [0, 0]
    assert len(hub.offsets) == len(WEIGHTS)


@pytest.mark.parametrize("what", ["size", "sha256"])
def test_a_file_that_differs_from_the_listing_is_deleted_and_the_model_not_marked(
    hub: Hub, download: Infd, tmp_path: Path, what: str
) -> None:
    content = WEIGHTS["1.safetensors"]
    digest, size = hashlib.sha256(content).hexdigest(), len(content)
    listed_as = {"size": (digest, size + 1), "sha256": ("0" * 64, size)}[what]
    lfs = {"oid": listed_as[0], "size": listed_as[1], "pointerSize": 134}
    entry = {"type": "file", "path": "1.safetensors", "size": listed_as[1], "oid": "0" * 40, "lfs": lfs}
    with listed(hub, [entry]):
        status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "Damaged")
    assert not list((tmp_path / "claim/complete").glob("*.json"))
    assert not (tmp_path / "claim" / SNAPSHOT / "1.safetensors").exists()


def test_a_small_file_with_another_content_than_listed_is_deleted_and_the_model_not_marked(
    hub: Hub, download: Infd, tmp_path: Path
) -> None:
    as_it_was = hub.tree()
    hub.tree = lambda: as_it_was  # type: ignore[method-assign]
    hub.files["config.json"] = b"[]"
    status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "Damaged")
    assert "`config.json` was downloaded with another SHA-1 than listed" in document["error"]["problem"]
    assert not (tmp_path / "claim" / SNAPSHOT / "config.json").exists()


@pytest.mark.parametrize("changed", [False, True])
def test_what_a_mirror_with_other_etags_links_is_compared_too(
    hub: Hub, download: Infd, tmp_path: Path, *, changed: bool
) -> None:
    """The client then downloads a second time, to a name that is no hash."""
    content = WEIGHTS["1.safetensors"]
    hub.large, hub.linked_etag = {"1.safetensors": content}, "of-a-mirror"
    hub.changed = {"1.safetensors": content[::-1][1:] + b"x"} if changed else {}
    status, _ = download(f"--revision={COMMIT}")
    assert status == (1 if changed else 0)
    assert (tmp_path / "claim" / SNAPSHOT / "1.safetensors").exists() != changed


def test_a_mirror_that_does_not_tell_the_size_of_large_files_is_named(hub: Hub, download: Infd) -> None:
    hub.linked_size = False
    _, document = download(f"--revision={COMMIT}")
    assert document["error"]["problem"] == "the mirror's answers have no header `Content-Length` or `X-Linked-Size`."


def test_a_file_name_that_leaves_the_cache_is_refused_before_any_download(
    hub: Hub, download: Infd, tmp_path: Path
) -> None:
    with listed(hub, [{"type": "file", "path": "../../../evil", "size": 3, "oid": "0" * 40}]):
        status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "Damaged")
    assert "unsafe name" in document["error"]["problem"]
    assert not hub.offsets
    assert not outside(tmp_path)


def test_a_model_larger_than_the_claim_is_reported_before_any_download(hub: Hub, download: Infd) -> None:
    lfs = {"oid": "0" * 64, "size": 2**60, "pointerSize": 134}
    with listed(hub, [{"type": "file", "path": "a.safetensors", "size": 2**60, "oid": "0" * 40, "lfs": lfs}]):
        status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "DiskFull")
    assert not hub.offsets


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ("gated", "Gated"),
        pytest.param("revision", "NotFound", marks=pytest.mark.full),  # one function; tests/model_files/test_hub.py
        pytest.param("gone", "Unreachable", marks=pytest.mark.full),
    ],
)
def test_a_model_that_the_hub_does_not_give_has_the_same_causes_as_its_inspection(
    hub: Hub, download: Infd, change: str, cause: str
) -> None:
    if change == "gated":
        hub.token = BRANCH
    if change == "gone":
        hub.endpoint = "http://127.0.0.1:9"
    status, document = download("--revision=nosuch" if change == "revision" else f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, cause)


def test_a_storage_that_refuses_a_file_is_unreachable_since_the_next_attempt_has_another_address(
    hub: Hub, download: Infd
) -> None:
    hub.storage_error = 403
    status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "Unreachable")
    assert document["error"]["problem"] == "the storage of the hub's files returned the error 403."
    hub.storage_error = 0
    assert download(f"--revision={COMMIT}")[0] == 0


def test_a_file_shorter_than_listed_ended_early_and_is_continued(hub: Hub, download: Infd, tmp_path: Path) -> None:
    content = WEIGHTS["1.safetensors"]
    hub.large, hub.damaged = {"1.safetensors": content}, {"1.safetensors": content[:-100]}
    status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "Unreachable")
    assert document["error"]["problem"] == "the response of the hub ended early."
    hub.damaged = {}
    assert download(f"--revision={COMMIT}")[0] == 0
    assert hub.offsets == [0, len(content) - 100]
    assert (tmp_path / "claim" / SNAPSHOT / "1.safetensors").read_bytes() == content


def test_a_file_longer_than_listed_is_deleted(hub: Hub, download: Infd, tmp_path: Path) -> None:
    content = WEIGHTS["1.safetensors"]
    hub.files, hub.large, hub.damaged = {}, {"1.safetensors": content}, {"1.safetensors": content + b"more"}
    status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "Damaged")
    assert "`1.safetensors` was downloaded with another size than listed" in document["error"]["problem"]
    assert not list((tmp_path / "claim/hub/models--org--model/blobs").iterdir())


@pytest.mark.parametrize("present", [0, 1000])
def test_a_file_above_the_limit_of_the_client_comes_in_ranges_and_is_continued(
    hub: Hub, tmp_path: Path, present: int
) -> None:
    """The limit, 50 GB in reality, is that of the client's own constant, which the process lowers."""
    content = os.urandom(400_000)
    hub.files, hub.large = {}, {"1.safetensors": content}
    run = "constants.MAX_HTTP_DOWNLOAD_SIZE = 150_000; sys.exit(main())"
    imports = "import sys; from huggingface_hub import constants; from inference_operator.cli.main import main"
    claim = tmp_path / "claim"
    claim.mkdir()
    started = command(hub, claim, f"--revision={COMMIT}")
    started["args"] = [sys.executable, "-c", f"{imports}; {run}", *started["args"][1:]]
    blobs = claim / "hub/models--org--model/blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{hashlib.sha256(content).hexdigest()}.incomplete").write_bytes(content[:present])
    assert subprocess.run(**started, check=False, capture_output=True, text=True).returncode == 0
    assert (claim / SNAPSHOT / "1.safetensors").read_bytes() == content
    assert hub.asked.count(f"GET /storage/{REPOSITORY}/1.safetensors") == 3


def test_pickle_weights_are_downloaded_only_with_consent(hub: Hub, download: Infd, tmp_path: Path) -> None:
    content = b"pickle" * 1000
    hub.large = {"pytorch_model.bin": content}
    status, document = download(f"--revision={COMMIT}")
    assert (status, document["error"]["cause"]) == (1, "Pickle")
    assert "set `spec.model.allowPickle: true`" in document["error"]["cure"]
    assert not (tmp_path / "claim" / SNAPSHOT).exists()
    assert download(f"--revision={COMMIT}", "--allow-pickle")[0] == 0
    assert (tmp_path / "claim" / SNAPSHOT / "pytorch_model.bin").read_bytes() == content
