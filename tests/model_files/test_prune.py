"""Pruning of a real folder: what is used, recent or half-loaded stays, and nothing outside is touched."""

import fcntl
import json
import os
import time
from pathlib import Path

import pytest

from inference_operator.cli.main import main
from inference_operator.model_files.prune import prune
from inference_operator.model_files.pruning import PruneReport, parsed_report
from inference_operator.model_files.uses import Use, Uses
from inference_operator.objects.cache_volume import folder_of
from tests.model_files.test_download import environment, words
from tests.testing.forked_infd import ForkedInfd
from tests.testing.hub import COMMIT, REPOSITORY, Hub, serving

A, B = "a" * 40, "b" * 40
LONG_AGO = 1000


def stored(
    root: Path, repository: str, commit: str, files: dict[str, str], *, complete: bool = True, used: float = LONG_AGO
) -> Path:
    """A snapshot in the layout of the hub's cache; `files` are names and contents of blobs."""
    stem = folder_of(repository).removeprefix("models--")
    path = root / "hub" / folder_of(repository)
    snapshot = path / "snapshots" / commit
    for folder in (snapshot, path / "blobs", path / "refs", root / "complete"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (path / "blobs" / content).write_text(content)
        (snapshot / name).symlink_to(f"../../blobs/{content}")
    if complete:
        (root / "complete" / f"{stem}@{commit}.json").write_text("{}")
    lock = root / "complete" / f"{stem}.lock"
    lock.touch()
    os.utime(lock, (used, used))
    return path


def kernels(root: Path, key: str, *, used: float = LONG_AGO) -> Path:
    path = root / "compiled" / key
    path.mkdir(parents=True)
    (path / "a.so").write_text("kernel")
    os.utime(path, (used, used))
    return path


def pruned(root: Path, *uses: Use, keys: tuple[str, ...] = (), dry_run: bool = False) -> PruneReport:
    return prune(root, Uses(uses, frozenset(keys)), now=time.time(), dry_run=dry_run)


def everything(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if not path.name.endswith(".lock"))


def actions(report: PruneReport) -> dict[str, str]:
    return {item.what: item.action for item in report.items}


def test_a_model_of_a_bucket_is_pruned_as_one_of_a_hub_is(tmp_path: Path) -> None:
    used, unused = "s3://bucket/org/used", "s3://bucket/org/unused"
    stored(tmp_path, used, A, {"config.json": "1"})
    stored(tmp_path, used, B, {"config.json": "2"})
    gone = stored(tmp_path, unused, A, {"config.json": "3"})
    report = pruned(tmp_path, Use(used, A, "Deployment x"))
    assert actions(report) == {f"{used}@{A}": "keep", f"{used}@{B}": "delete", f"{unused}@{A}": "delete"}
    assert not gone.exists()
    assert [one.name for one in (tmp_path / "hub/s3--bucket--org--used/snapshots").iterdir()] == [A]
    assert [one.name for one in (tmp_path / "hub/s3--bucket--org--used/blobs").iterdir()] == ["1"]


def test_an_unused_model_is_deleted_with_its_record_and_a_used_one_stays(tmp_path: Path) -> None:
    kept = stored(tmp_path, "org/used", A, {"w": "1234567"})
    gone = stored(tmp_path, "org/unused", A, {"w": "123"})
    (tmp_path / "hub/.locks/models--org--unused").mkdir(parents=True)
    report = pruned(tmp_path, Use("org/used", A, "Pod x"))
    assert actions(report) == {f"org/used@{A}": "keep", f"org/unused@{A}": "delete"}
    assert not gone.exists()
    assert not (tmp_path / "hub/.locks/models--org--unused").exists()
    assert [path.name for path in (tmp_path / "complete").glob("*.json")] == [f"org--used@{A}.json"]
    assert (kept / "snapshots" / A / "w").read_text() == "1234567"
    assert report.freed_bytes == len("123") + len("{}")


def test_a_former_commit_goes_with_the_files_that_only_it_has(tmp_path: Path) -> None:
    path = stored(tmp_path, "org/name", A, {"config": "same", "w": "old"})
    stored(tmp_path, "org/name", B, {"config": "same", "w": "new"})
    (path / "refs/main").write_text(A)
    (path / "refs/v2").write_text(B)
    report = pruned(tmp_path, Use("org/name", B, "Pod x"))
    assert report.freed_bytes == len("old") + len("{}") + len(A)
    assert sorted(one.name for one in (path / "blobs").iterdir()) == ["new", "same"]
    assert [one.name for one in (path / "refs").iterdir()] == ["v2"]
    assert {name: (path / "snapshots" / B / name).read_text() for name in ("config", "w")} == {
        "config": "same",
        "w": "new",
    }


@pytest.mark.parametrize("use", [Use("org/name", "", "Pod x"), Use("org/name", "c" * 40, "Pod x")])
def test_a_use_without_a_complete_commit_keeps_all_commits_and_parts(tmp_path: Path, use: Use) -> None:
    path = stored(tmp_path, "org/name", A, {"w": "old"})
    stored(tmp_path, "org/name", B, {}, complete=False)
    (path / "blobs/f.incomplete").write_text("part")
    before = everything(tmp_path)
    report = pruned(tmp_path, use)
    assert everything(tmp_path) == before
    assert report.freed_bytes == 0
    assert [item.state for item in report.items] == ["complete", "half-loaded", "half-loaded"]


def test_an_unused_half_loaded_model_is_deleted_with_its_parts(tmp_path: Path) -> None:
    path = stored(tmp_path, "org/name", A, {}, complete=False)
    (path / "blobs/f.incomplete").write_text("part")
    assert pruned(tmp_path).freed_bytes == len("part")
    assert not path.exists()


def test_a_dry_run_says_the_same_and_deletes_nothing(tmp_path: Path) -> None:
    stored(tmp_path, "org/a", A, {"w": "123"})
    stored(tmp_path, "org/b", A, {"w": "old"})
    stored(tmp_path, "org/b", B, {"w": "new"})
    kernels(tmp_path, "k")
    before, use = everything(tmp_path), Use("org/b", B)
    said = pruned(tmp_path, use, dry_run=True)
    assert everything(tmp_path) == before
    done = pruned(tmp_path, use)
    assert (said.items, said.freed_bytes) == (done.items, done.freed_bytes)


def test_what_a_job_used_lately_or_uses_now_stays(tmp_path: Path) -> None:
    stored(tmp_path, "org/recent", A, {"w": "1"}, used=time.time() - 60)
    stored(tmp_path, "org/busy", A, {"w": "2"})
    kernels(tmp_path, "k", used=time.time() - 60)
    before = everything(tmp_path)
    with (tmp_path / "complete/org--busy.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        report = pruned(tmp_path)
    assert everything(tmp_path) == before
    assert [item.why for item in report.items] == [
        "a Job downloads it now",
        "a Job used it less than 10 minutes ago",
        "a Job used it less than 10 minutes ago",
    ]


def test_unused_kernels_are_deleted_and_their_folder_stays(tmp_path: Path) -> None:
    used, unused = kernels(tmp_path, "used"), kernels(tmp_path, "unused")
    assert pruned(tmp_path, keys=("used",)).freed_bytes == len("kernel")
    assert ([one.name for one in used.iterdir()], list(unused.iterdir())) == (["a.so"], [])


def test_links_are_deleted_and_never_followed(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "claim"
    outside.mkdir()
    (outside / "file").write_text("precious")
    path = stored(root, "org/name", A, {"w": "1"})
    (path / "snapshots" / A / "link").symlink_to(outside)
    (path / "blobs/link").symlink_to(outside / "file")
    (path / "snapshots" / B).symlink_to(outside)
    (root / "hub/models--x--y").symlink_to(outside)
    folder = kernels(root, "k")
    (folder / "link").symlink_to(outside)
    os.utime(folder, (LONG_AGO, LONG_AGO))
    (root / "compiled/other").symlink_to(outside)
    pruned(root)
    assert (outside / "file").read_text() == "precious"
    assert not path.exists()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("folder", ["hub", "complete", "compiled"])
def test_a_linked_folder_of_the_claim_is_left_alone(tmp_path: Path, folder: str) -> None:
    outside, root = tmp_path / "outside", tmp_path / "claim"
    stored(outside, "org/name", A, {"w": "1"})
    kernels(outside, "k")
    root.mkdir()
    for name in ("hub", "complete", "compiled"):
        if name != folder:
            (outside / name).rename(root / name)
    (root / folder).symlink_to(outside / folder)
    before = everything(outside)
    pruned(root)
    assert everything(outside) == before


def test_names_with_dots_in_arguments_and_files_of_others_touch_nothing(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "claim"
    stored(outside, "org/name", A, {"w": "1"})
    stored(root, "org/name", A, {"w": "1"})
    path = root / "hub/models--org--name"
    (path / "refs/..evil").write_text("../../../outside")
    (path / "snapshots" / A / "up").symlink_to("../../../../../outside/hub/models--org--name/blobs/1")
    (root / "mine").mkdir()
    (root / "mine/notes").write_text("mine")
    (root / "hub/notes").write_text("mine")
    before = everything(outside)
    pruned(root, Use("../../outside", ".."), Use("..", "/"), keys=("../..",))
    assert everything(outside) == before
    assert (root / "mine/notes").read_text() == (root / "hub/notes").read_text() == "mine"


def test_an_empty_claim_has_nothing_to_prune(tmp_path: Path) -> None:
    assert pruned(tmp_path) == PruneReport((), 0, dry_run=False)


def test_the_command_of_the_job_prints_the_report_and_writes_its_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, message = tmp_path / "claim", tmp_path / "message"
    stored(root, "org/used", A, {"w": "1"})
    stored(root, "org/unused", A, {"w": "123"})
    with pytest.raises(SystemExit) as end:
        main(["prune", f"--cache={root}", f"--keep=org/used@{A}=Pod x", f"--to={message}"])
    report = parsed_report(capsys.readouterr().out)
    assert (end.value.code, report and actions(report)) == (
        0,
        {f"org/used@{A}": "keep", f"org/unused@{A}": "delete"},
    )
    assert json.loads(message.read_text())["pruned"]["dry_run"] is False


def test_a_downloaded_model_is_pruned_only_without_uses_and_can_then_be_downloaded_again(
    infd_server: ForkedInfd, tmp_path: Path
) -> None:
    """With the layout that the hub's real client makes."""
    claim, lock = tmp_path / "claim", tmp_path / "claim/complete/org--model.lock"
    claim.mkdir()
    with serving(Hub(large={"model.safetensors": b"x" * 1000}, files={"config.json": b"{}"})) as hub:
        infd_server.run(
            *words(claim, f"--revision={COMMIT}", "--kernels=key"), env=environment(hub, claim)
        ).check_returncode()
        assert pruned(claim).freed_bytes == 0, "a Job has just used it"
        os.utime(lock, (LONG_AGO, LONG_AGO))
        before = everything(claim)
        assert pruned(claim, Use(REPOSITORY, COMMIT)).freed_bytes == 0
        assert everything(claim) == before
        assert pruned(claim).freed_bytes > 1000
        assert not list((claim / "hub").glob("**/models--*"))
        infd_server.run(*words(claim, f"--revision={COMMIT}"), env=environment(hub, claim)).check_returncode()
    assert everything(claim) == before
    assert len(hub.offsets) == 2


def test_adapters_that_no_resource_lists_are_deleted_and_others_stay(tmp_path: Path) -> None:
    model = stored(tmp_path, "org/model", A, {"w": "1"})
    sources = ("org/used", "org/unused", "pvc://models/a", "oci://a.example/b:1", "s3://bucket/c")
    used = {source: stored(tmp_path / "adapters", source, A, {"adapter_config.json": "2"}) for source in sources}
    uses = (Use("org/used", "", "x"), Use("oci://a.example/b:1", "", "x"))
    report = prune(tmp_path, Uses((Use("org/model", "", "x"),), adapters=uses), now=time.time(), dry_run=False)
    assert {source: path.exists() for source, path in used.items()} == {
        "org/used": True,
        "org/unused": False,
        "pvc://models/a": False,
        "oci://a.example/b:1": True,
        "s3://bucket/c": False,
    }
    assert model.exists()
    assert actions(report)[f"adapters/org/unused@{A}"] == "delete"
    assert actions(report)[f"adapters/pvc--models--a@{A}"] == "delete"


@pytest.mark.parametrize(
    ("options", "stays"), [([], True), (["--adapters", "--keep-adapter=org/adapter=x"], True), (["--adapters"], False)]
)
def test_adapters_stay_where_nothing_is_known_of_their_uses(tmp_path: Path, options: list[str], *, stays: bool) -> None:
    folder = stored(tmp_path / "adapters", "org/adapter", A, {"adapter_config.json": "2"})
    with pytest.raises(SystemExit) as ended:
        main(["prune", f"--cache={tmp_path}", *options])
    assert ended.value.code == 0
    assert folder.exists() is stays
