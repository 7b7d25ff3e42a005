"""Downloads a hub repository to a claim, with the hub's client: one process at a time, and nothing half-done is marked.

A large file is continued where an earlier process ended. `flock` keeps other processes away from the same model on
the same claim; the kernel, or the NFS server, releases it when the process or its node dies.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented, and not in `__all__`

from inference_operator.inspection.result import Failure
from inference_operator.inspector.hub import TIMEOUT_SECONDS, configure_client, failure_of
from inference_operator.inspector.kernels import Kernels, prepare_kernels
from inference_operator.inspector.listing import ListedFile, disk_full, wanted_files, wrong_content
from inference_operator.model_cache.result import Downloaded
from inference_operator.objects.cache_volume import HUB_FOLDER

RECORDS = "complete"
"""Folder of the claim with one record for each complete download, and the locks."""
PARTIAL = ".incomplete"
"""End of the name of a file that is not complete, as the hub's client has it."""
AT_ONCE = 4
"""Files that are downloaded at the same time."""
STEP_PERCENT = 5
"""Progress is said at each step, since every step becomes a write of the status."""
LOOK_SECONDS = 1.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_PART_BYTES = 2**20

Say = Callable[[str], None]


class _DamagedError(Exception):
    """A file differs from the listing."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Claim:
    """The folders of a claim."""

    root: Path

    @property
    def hub(self) -> Path:
        """Models in the layout of the hub's cache."""
        return self.root / HUB_FOLDER

    def repository(self, repository: str) -> Path:
        """The folder of one model in the hub's cache."""
        return self.hub / f"models--{repository.replace('/', '--')}"

    def blobs(self, repository: str) -> Path:
        """The folder of its files' contents."""
        return self.repository(repository) / "blobs"

    def partial(self, repository: str, file: ListedFile) -> Path:
        """The part of a large file that has been downloaded."""
        return self.blobs(repository) / f"{file.sha256}{PARTIAL}"

    def record(self, repository: str, commit: str) -> Path:
        """The record that a download is complete."""
        return self.root / RECORDS / f"{repository.replace('/', '--')}@{commit}.json"

    def lock(self, repository: str) -> Path:
        """The lock of one model."""
        return self.root / RECORDS / f"{repository.replace('/', '--')}.lock"


def download(
    repository: str, revision: str | None, root: Path, *, kernels: Kernels | None, say: Say
) -> Downloaded | Failure:
    """Make the model complete on the claim, and create the folder of its compiled kernels.

    Args:
        repository: `org/name`.
        revision: branch, tag or commit; None is the default branch.
        root: mount path of the claim.
        kernels: the folder of compiled kernels; None for none.
        say: called with each step of the progress.
    """
    configure_client()
    claim = Claim(root)
    try:
        for folder in (claim.hub, root / RECORDS):
            folder.mkdir(parents=True, exist_ok=True)
        for line in prepare_kernels(root, kernels) if kernels else ():
            say(line)
        with _locked(claim.lock(repository), say):
            return _complete(claim, repository, revision, say)
    except _DamagedError as error:
        return error.failure
    except (HfHubHTTPError, httpx2.HTTPError, OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return disk_full(repository, 1, shutil.disk_usage(root).free)
        return failure_of(repository, revision, error)


@contextmanager
def _locked(path: Path, say: Say) -> Iterator[None]:
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another Job that downloads this model to the same claim.")
            fcntl.flock(file, fcntl.LOCK_EX)
        os.utime(path)  # `infd prune` keeps what a Job has just used
        yield


def _complete(claim: Claim, repository: str, revision: str | None, say: Say) -> Downloaded | Failure:
    if revision and (done := _recorded(claim, repository, revision)):
        return done
    commit = str(HfApi().model_info(repository, revision=revision, timeout=TIMEOUT_SECONDS).sha)
    if done := _recorded(claim, repository, commit):
        return done
    files = wanted_files(repository, _listed(repository, commit))
    if isinstance(files, Failure):
        return files
    claim.blobs(repository).mkdir(parents=True, exist_ok=True)
    _delete_leftovers(claim, repository, files)
    total, before = sum(file.size_bytes for file in files), _stored_bytes(claim, repository)
    free = shutil.disk_usage(claim.root).free
    if total - before > free:
        return disk_full(repository, total - before, free)
    with _progress(lambda: _stored_bytes(claim, repository), total, say), ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda file: _fetch(claim, repository, commit, file), files))
    if (revision and revision != commit) or not revision:
        _remember_branch(claim, repository, revision or "main", commit)
    result = Downloaded(commit, total, len(files))
    for file in files:
        _store_safely(claim.repository(repository) / "snapshots" / commit / file.path)
    _record(claim.record(repository, commit), result, files)
    return result


def _listed(repository: str, commit: str) -> Iterator[ListedFile]:
    for item in HfApi().list_repo_tree(repository, recursive=True, revision=commit):
        if isinstance(item, RepoFile):
            yield ListedFile(item.path, item.size, item.lfs.sha256 if item.lfs else "")


def _fetch(claim: Claim, repository: str, commit: str, file: ListedFile) -> None:
    """Download one file, and compare it with the listing."""
    if file.sha256:
        _fetch_large(claim, repository, commit, file)
    path = Path(
        hf_hub_download(repository, file.path, revision=commit, cache_dir=claim.hub, etag_timeout=TIMEOUT_SECONDS)
    )
    content = path.resolve()
    if not content.is_relative_to(claim.repository(repository).resolve()):
        raise _DamagedError(wrong_content(repository, file.path, "place"))
    if content.stat().st_size != file.size_bytes:
        path.unlink(missing_ok=True)
        content.unlink(missing_ok=True)
        raise _DamagedError(wrong_content(repository, file.path, "size"))


def _fetch_large(claim: Claim, repository: str, commit: str, file: ListedFile) -> None:
    """Download a large file to the place where the hub's client then finds it, from where an earlier process ended.

    The client itself begins anew in each process (huggingface_hub 2.4.0, `_download_to_tmp_and_move`), since it cannot
    rely on locks of all file systems. Here the content is compared with its SHA-256 before it counts.
    """
    blob = claim.blobs(repository) / file.sha256
    if blob.is_file() and blob.stat().st_size == file.size_bytes:
        return
    url = hf_hub_url(repository, file.path, revision=commit)
    found = get_hf_file_metadata(url, timeout=TIMEOUT_SECONDS)
    if found.size != file.size_bytes:
        raise _DamagedError(wrong_content(repository, file.path, "size"))
    headers = build_hf_headers()
    if urlsplit(found.location).netloc != urlsplit(url).netloc:  # a storage gets no token
        headers.pop("authorization", None)
    partial = claim.partial(repository, file)
    with partial.open("ab") as content:
        if content.tell() > file.size_bytes:
            content.truncate(0)
        http_get(found.location, content, resume_size=content.tell(), headers=headers, expected_size=file.size_bytes)
    wrong = "size" if partial.stat().st_size != file.size_bytes else ""
    if not wrong and _sha256(partial) != file.sha256:
        wrong = "SHA-256"
    if wrong:
        partial.unlink()
        raise _DamagedError(wrong_content(repository, file.path, wrong))
    partial.replace(blob)


def _delete_leftovers(claim: Claim, repository: str, files: Sequence[ListedFile]) -> None:
    """Delete the parts of files that earlier processes left and no download continues."""
    continued = {claim.partial(repository, file) for file in files}
    for part in claim.blobs(repository).glob(f"*{PARTIAL}"):
        if part not in continued:
            part.unlink(missing_ok=True)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(_PART_BYTES):
            digest.update(part)
    return digest.hexdigest()


def _stored_bytes(claim: Claim, repository: str) -> int:
    """Bytes of the model that are on the claim, also of files that are not complete."""
    total = 0
    try:
        for entry in os.scandir(claim.blobs(repository)):
            try:
                total += entry.stat(follow_symlinks=False).st_size
            except FileNotFoundError:  # it was renamed, now that it is complete
                continue
    except FileNotFoundError:
        return 0
    return total


@contextmanager
def _progress(stored: Callable[[], int], total: int, say: Say) -> Iterator[None]:
    """Say each step while the body runs."""
    over = threading.Event()

    def watch() -> None:
        started, first, said = time.monotonic(), stored(), -1
        while not over.wait(LOOK_SECONDS):
            now = min(stored(), total)
            step = 100 * now // total // STEP_PERCENT * STEP_PERCENT
            if step > said:
                said = step
                say(progress_line(step, now, total, now - first, time.monotonic() - started))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def progress_line(percent: int, now: int, total: int, received: int, seconds: float) -> str:
    """One step of the progress.

    Examples:
        >>> progress_line(40, 62 * 10**9, 146 * 10**9, 62 * 10**9, 120)
        'Downloading 40 %, 62.0 of 146.0 GB, 3 min left'
        >>> progress_line(0, 0, 146 * 10**9, 0, 1)
        'Downloading 0 %, 0.0 of 146.0 GB'
    """
    left = f", {max(1, round((total - now) * seconds / received / 60))} min left" if received > 0 else ""
    return f"Downloading {percent} %, {now / 1e9:.1f} of {total / 1e9:.1f} GB{left}"


def _recorded(claim: Claim, repository: str, commit: str) -> Downloaded | None:
    """The record of a complete download; None if there is none, or if one of its files has gone."""
    try:
        record = json.loads(claim.record(repository, commit).read_text(encoding="utf-8"))
        sizes = {str(path): int(size) for path, size in record["sizes"].items()}
        folder = claim.repository(repository) / "snapshots" / commit
        if any((folder / path).stat().st_size != size for path, size in sizes.items()):
            return None
        return Downloaded(**record["downloaded"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _store_safely(path: Path) -> None:
    """Wait until the content of a file is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _record(path: Path, result: Downloaded, files: Sequence[ListedFile]) -> None:
    """Write the record in one step."""
    text = json.dumps({"downloaded": asdict(result), "sizes": {file.path: file.size_bytes for file in files}})
    partial = path.with_suffix(".partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def _remember_branch(claim: Claim, repository: str, branch: str, commit: str) -> None:
    """Let an engine without a commit find the branch, as the hub's client stores it."""
    folder = claim.repository(repository) / "refs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / branch.replace("/", "--")).write_text(commit, encoding="utf-8")
