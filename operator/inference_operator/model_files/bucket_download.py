"""Downloads from a bucket, in parts: continued after a death, and compared with the ETag where it is a hash."""

import hashlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import obstore

from inference_operator.jobs.result import Failure
from inference_operator.model_files.bucket import ERRORS, changed, failure_of, listing_digest, needed_files, open_bucket
from inference_operator.model_files.claim import ModelFolder, Say, digest_of
from inference_operator.model_files.files import InspectionError
from inference_operator.model_files.listing import ListedFile, wrong_content
from inference_operator.models.source import BucketModel

if TYPE_CHECKING:
    from obstore import GetOptions

PART_BYTES = 32 * 2**20
"""One request's share of a file. Four files are downloaded at once, so memory holds four parts."""
UPLOAD_PART_BYTES = tuple(size * 2**20 for size in (8, 5, 16, 32, 50, 64, 100, 128, 256, 512, 1024))
"""Usual parts of an upload: 8 MiB of AWS CLI and boto3, 5 MiB of rclone and the least that S3 takes, 50 MiB of s5cmd
(2.3, `command/cp.go`, `defaultCopyPartSize`)."""
_MD5_DIGITS = 32


class BucketOrigin:
    errors = ERRORS

    def __init__(self, model: BucketModel, say: Say, *, allow_pickle: bool = False) -> None:
        self.model = self.source = model.name
        self._bucket, self._say, self._allow_pickle = model, say, allow_pickle
        self._listed: Sequence[ListedFile] = ()

    def commit(self, revision: str | None) -> str:
        """The digest of the present listing; it must be equal to a requested revision."""
        self._store = open_bucket(self._bucket)
        files = needed_files(self._bucket, self._store, allow_pickle=self._allow_pickle)
        if isinstance(files, Failure):
            raise InspectionError(files)
        self._listed, digest = files, listing_digest(self._bucket, files)
        if revision and revision != digest:
            raise InspectionError(changed(self._bucket, digest))
        return digest

    def listed(self, commit: str) -> Sequence[ListedFile]:  # noqa: ARG002 - a bucket has one listing
        """The files as they were when the revision was determined."""
        return self._listed

    def fetch(self, folder: ModelFolder, commit: str, file: ListedFile) -> None:
        blob = folder.blobs / file.blob
        if not (blob.is_file() and blob.stat().st_size == file.size_bytes):
            self._fetch_content(folder.partial(file), file)
            folder.partial(file).replace(blob)
        folder.link(file, commit)

    def _fetch_content(self, partial: Path, file: ListedFile) -> None:
        """Download one file, and compare it with its ETag.

        1. An ETag that is a hash of the content is right.
        2. If it should be one and is none, or if an earlier process has written a part, which may be lost in a fault of
           its node: a second download has to give the same content. The ETag is then none of the content: the store
           encrypts with a key of its own (Amazon S3 API reference, "Object"), or parts have an unusual size.
        3. Otherwise the ETag tells nothing, and only the size counts.
        """
        continued = partial.is_file()
        self._fetch_parts(partial, file)
        if content_etag(partial, file) == file.etag:
            return
        if not continued and len(file.etag) != _MD5_DIGITS and not _part_sizes(file):
            self._say(f"{file.path}: only its size was checked, since its ETag is no hash that can be computed again.")
            return
        first = _md5(partial)
        partial.unlink()
        self._fetch_parts(partial, file)
        if content_etag(partial, file) == file.etag:
            return
        if _md5(partial) != first:
            partial.unlink()
            raise InspectionError(wrong_content(self.source, file.path, "MD5"))
        self._say(f"{file.path}: its ETag is no hash of it; it was downloaded twice with the same content.")

    def _fetch_parts(self, partial: Path, file: ListedFile) -> None:
        """Download the missing part. The store refuses it if the file has another ETag by now."""
        with partial.open("ab") as content:
            if content.tell() > file.size_bytes:
                content.truncate(0)
                content.seek(0)
            while (start := content.tell()) < file.size_bytes:
                end = min(start + PART_BYTES, file.size_bytes)
                options: GetOptions = {"range": (start, end)}
                if file.etag:
                    options["if_match"] = f'"{file.etag}"'
                part = obstore.get(self._store, file.path, options=options).bytes()
                if len(part) != end - start:
                    raise InspectionError(wrong_content(self.source, file.path, "size"))
                content.write(part)

    def finish(self, folder: ModelFolder, revision: str | None, commit: str) -> None:
        """Nothing: engines get the path of the snapshot."""

    def failure(self, revision: str | None, error: Exception) -> Failure:  # noqa: ARG002 - a bucket has one listing
        return failure_of(self._bucket, error)


def content_etag(path: Path, file: ListedFile) -> str:
    """The ETag that a store without encryption gives to this content.

    - An upload in one part: the MD5 of the content.
    - An upload in N parts: the MD5 of all parts' MD5, `-`, and N. The size of the parts is not known, so the usual
      sizes that make N parts are tried. Empty if there is none.
    """
    if "-" not in file.etag:
        return _md5(path)
    return next((etag for size in _part_sizes(file) if (etag := _md5_of_parts(path, size)) == file.etag), "")


def _part_sizes(file: ListedFile) -> Sequence[int]:
    """The usual sizes of parts with which an upload of this file has as many parts as its ETag says, in bytes."""
    count = file.etag.partition("-")[2]
    return [size for size in UPLOAD_PART_BYTES if count.isdigit() and -(-file.size_bytes // size) == int(count)]


def _md5(path: Path) -> str:
    return digest_of(path, partial(hashlib.md5, usedforsecurity=False))


def _md5_of_parts(path: Path, size: int) -> str:
    digests = []
    with path.open("rb") as file:
        while part := file.read(size):
            digests.append(hashlib.md5(part, usedforsecurity=False).digest())
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"
