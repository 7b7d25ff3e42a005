"""Downloads from a hub, with the hub's client; large files are continued, which the client does not do."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import HfApi, constants, get_hf_file_metadata, hf_hub_download, hf_hub_url
from huggingface_hub.errors import FileMetadataError, HfHubHTTPError
from huggingface_hub.file_download import http_get
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]  # documented, and not in `__all__`

from inference_operator.jobs.result import Failure
from inference_operator.model_files.claim import ModelFolder, digest_of
from inference_operator.model_files.files import InspectionError
from inference_operator.model_files.hub import TIMEOUT_SECONDS, commit_of, configure_client, failure_of
from inference_operator.model_files.listing import ListedFile, wrong_content


class HubOrigin:
    errors = (HfHubHTTPError, httpx2.HTTPError)

    def __init__(self, repository: str) -> None:
        configure_client()
        self.model = repository
        self.source = f"hf://{repository}"

    def commit(self, revision: str | None) -> str:
        info = HfApi().model_info(self.model, revision=revision, timeout=TIMEOUT_SECONDS)
        return commit_of(self.model, info.sha, revision)

    def listed(self, commit: str) -> Iterator[ListedFile]:
        for item in HfApi().list_repo_tree(self.model, recursive=True, revision=commit):
            if isinstance(item, RepoFile):
                large = item.lfs
                yield ListedFile(item.path, item.size, large.sha256 if large else "", "" if large else item.blob_id)

    def fetch(self, folder: ModelFolder, commit: str, file: ListedFile) -> None:
        if file.sha256:
            self._fetch_large(folder, commit, file)
        path = Path(
            hf_hub_download(self.model, file.path, revision=commit, cache_dir=folder.hub, etag_timeout=TIMEOUT_SECONDS)
        )
        content = path.resolve()
        if not content.is_relative_to(folder.path.resolve()):
            raise InspectionError(wrong_content(self.source, file.path, "place"))
        if wrong := _difference(content, file):
            path.unlink(missing_ok=True)
            content.unlink(missing_ok=True)
            raise InspectionError(wrong_content(self.source, file.path, wrong))

    def _fetch_large(self, folder: ModelFolder, commit: str, file: ListedFile) -> None:
        """Download a large file to the place where the hub's client then finds it, from where an earlier process ended.

        The client itself begins anew in each process (huggingface_hub 2.4.0, `_download_to_tmp_and_move`), since it
        cannot rely on locks of all file systems. Here the content is compared with its SHA-256 before it counts.
        """
        blob = folder.blobs / file.blob
        if blob.is_file() and blob.stat().st_size == file.size_bytes:
            return
        url = hf_hub_url(self.model, file.path, revision=commit)
        metadata = get_hf_file_metadata(url, timeout=TIMEOUT_SECONDS)
        if not metadata.size and file.size_bytes:
            raise FileMetadataError("Content-Length")
        if metadata.size != file.size_bytes:
            raise InspectionError(wrong_content(self.source, file.path, "size"))
        headers = build_hf_headers()
        if urlsplit(metadata.location).netloc != urlsplit(url).netloc:  # a storage gets no token
            headers.pop("authorization", None)
        partial = folder.partial(file)
        _continue(metadata.location, headers, partial, file.size_bytes)
        if wrong := _difference(partial, file):
            partial.unlink()
            raise InspectionError(wrong_content(self.source, file.path, wrong))
        partial.replace(blob)

    def finish(self, folder: ModelFolder, revision: str | None, commit: str) -> None:
        """Let an engine without a commit find the branch, as the hub's client stores it."""
        if revision == commit:
            return
        refs = folder.path / "refs"
        refs.mkdir(parents=True, exist_ok=True)
        (refs / (revision or "main").replace("/", "--")).write_text(commit, encoding="utf-8")

    def failure(self, revision: str | None, error: Exception) -> Failure:
        return failure_of(self.model, revision, error)


def _continue(url: str, headers: Mapping[str, str], partial: Path, size: int) -> None:
    """Append the missing part of a file.

    The client begins no file above 50 GB, since plain requests do not get it (huggingface_hub 2.4.0, `http_get`). It
    takes ranges, so such a file comes in ranges of at most as much. Other files come in one request: not every mirror
    knows ranges.
    """
    most = constants.MAX_HTTP_DOWNLOAD_SIZE
    with partial.open("ab") as content:
        if content.tell() > size:
            content.truncate(0)
            content.seek(0)
        try:
            while (start := content.tell()) < size:
                end = min(start + most, size)
                if size > most:
                    ranged = {**headers, "Range": f"bytes={start}-{end - 1}"}
                    http_get(url, content, headers=ranged, expected_size=end - start)
                else:
                    http_get(url, content, resume_size=start, headers=dict(headers), expected_size=size)
        except OSError as error:
            if error.errno is not None or content.tell() < size:
                raise  # of a short file, the next attempt asks for the rest; a long one differs from the listing


def _difference(content: Path, file: ListedFile) -> str:
    """How a content differs from the listing; empty if it does not. A checked large one is named by its hash."""
    size = content.stat().st_size
    if size != file.size_bytes:
        return "size"
    if file.sha256 and content.name != file.sha256 and digest_of(content, "sha256") != file.sha256:
        return "SHA-256"
    as_blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)  # git, "Git Internals - Git Objects"
    if file.git_sha1 and digest_of(content, as_blob.copy) != file.git_sha1:
        return "SHA-1"
    return ""
