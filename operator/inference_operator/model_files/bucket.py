"""Reads a model in a bucket of S3 or a compatible store, with obstore and the environment variables of AWS's clients.

The revision of a model in a bucket is a digest of its listing: paths, sizes and ETags of the files that engines load.
"""

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from itertools import islice
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError, InvalidPathError, PreconditionError
from obstore.store import S3Store

from inference_operator.jobs.inspection_result import InspectionResult
from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.files import Files, InspectionError, inspect_files
from inference_operator.model_files.listing import MAX_FILES, ListedFile, folders_of, wanted_files
from inference_operator.models.checkpoint import gguf_parts
from inference_operator.models.config import NotUnderstood
from inference_operator.models.source import BucketModel
from inference_operator.text_tables import blocks

ERRORS = (BaseError,)
REQUEST_SECONDS = 120
"""Time limit of one request, for at most 32 MiB of a file."""
MAX_RETRIES, RETRY_SECONDS = 4, 60
"""A request is tried again after a broken connection or a status from 500, at most so often and for so long."""
DIGEST_DIGITS = 40
"""As many as a commit of a hub has, since both are revisions."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""Names of the store's URL, the strongest first (object_store 0.14, `aws/builder.rs`)."""
_ENDPOINT = re.compile(r"https?://([\w.-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/[\w./~-]*)?", re.ASCII)
_VIRTUAL_HOST, _TRUE = "AWS_VIRTUAL_HOSTED_STYLE_REQUEST", ("1", "true", "on", "yes", "y")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_TOKENS, _REGIONS = ("AWS_SESSION_TOKEN", "AWS_TOKEN"), ("AWS_REGION", "AWS_DEFAULT_REGION")
_PLAIN = re.compile("[!-~]*")
_MAX_OBJECTS = 2 * MAX_FILES
"""Objects that are listed at most: the files of a model, and as many folders."""


def open_bucket(model: BucketModel) -> S3Store:
    """The store, below the model's path. Nothing is asked yet. Raises `InspectionError` for variables of no use."""
    if why := _unusable_variables():
        problem, cure = why
        raise InspectionError(Failure(Cause.GATED, NotUnderstood(model.name, problem, cure)))
    endpoint = next((os.environ[name] for name in _ENDPOINTS if name in os.environ), "")
    is_virtual_host = endpoint and os.environ.get(_VIRTUAL_HOST, "").lower() in _TRUE
    return S3Store(
        model.bucket,
        prefix=model.path or None,
        config={"endpoint": _with_bucket(endpoint, model.bucket)} if is_virtual_host else None,
        client_options={"timeout": timedelta(seconds=REQUEST_SECONDS), "allow_http": endpoint.startswith("http://")},
        retry_config={"max_retries": MAX_RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
    )


def _with_bucket(endpoint: str, bucket: str) -> str:
    """The URL with the bucket in its host: the client expects that where it does not name the bucket in the path."""
    scheme, host = endpoint.split("://", 1)
    return endpoint if host.startswith(f"{bucket}.") else f"{scheme}://{bucket}.{host}"


def _unusable_variables() -> tuple[str, str] | None:
    """Problem and cure of variables at which the client would end the process. Values may be secrets: none is shown."""
    for name in (*_KEYS, *_TOKENS, *_REGIONS):
        if not _PLAIN.fullmatch(os.environ.get(name, "")):
            return f"`{name}` contains a space or a line break.", f"Take it out of the value, for example in {SECRET}."
    for name in _ENDPOINTS:
        if name in os.environ and not _is_url(os.environ[name]):
            return f"`{name}` is no URL.", "Write `https://host:port`."
    given = [name for name in _KEYS if os.environ.get(name)]
    if len(given) == 1:
        (missing,) = set(_KEYS) - set(given)
        return f"there is a value of `{given[0]}` but none of `{missing}`.", f"Check {SECRET}."
    return None


def _is_url(text: str) -> bool:
    try:
        return _ENDPOINT.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:  # no such port
        return False


def needed_files(model: BucketModel, store: S3Store, *, allow_pickle: bool) -> Sequence[ListedFile] | Failure:
    listed, only = _listed_files(store), gguf_parts(model.file)
    return wanted_files(model.name, listed, allow_pickle=allow_pickle, only=only) if listed else missing(model)


def _listed_files(store: S3Store) -> Sequence[ListedFile]:
    """All files, without the empty objects that some tools create for folders; or more files than a model may have."""
    every = (entry for chunk in obstore.list(store) for entry in chunk if entry["path"])
    files = {
        str(entry["path"]): ListedFile(str(entry["path"]), int(entry["size"]), etag=(entry["e_tag"] or "").strip('"'))
        for entry in islice(every, _MAX_OBJECTS)
    }
    if len(files) == _MAX_OBJECTS:
        return list(files.values())
    folders = {parent for path in files for parent in folders_of(path)}
    return [file for path, file in files.items() if path not in folders or file.size_bytes]


def listing_digest(model: BucketModel, files: Sequence[ListedFile]) -> str:
    """The revision: a digest of the model's location and of the path, size and ETag of each file.

    Examples:
        >>> digest = listing_digest(BucketModel("b", "m"), [ListedFile("config.json", 2, etag="a")])
        >>> digest == listing_digest(BucketModel("b", "m"), [ListedFile("config.json", 2, etag="b")])
        False
        >>> len(digest)
        40
    """
    lines = (f"{file.path}\n{file.size_bytes}\n{file.etag}\n" for file in sorted(files, key=lambda file: file.path))
    return sha256(f"{model.name}\n{''.join(lines)}".encode()).hexdigest()[:DIGEST_DIGITS]


def inspect_bucket(model: BucketModel, revision: str | None = None, *, allow_pickle: bool = False) -> InspectionResult:
    try:
        store = open_bucket(model)
        files = needed_files(model, store, allow_pickle=allow_pickle)
        if isinstance(files, Failure):
            return files
        digest = listing_digest(model, files)
        if revision and revision != digest:
            return changed(model, digest)
        with tempfile.TemporaryDirectory() as folder:
            downloaded = _files(model, store, files, digest, Path(folder))
            return inspect_files(replace(downloaded, allow_pickle=allow_pickle), model.file)
    except InspectionError as error:
        return error.failure
    except (*ERRORS, OSError, ValueError, KeyError, TypeError) as error:
        return failure_of(model, error)


def _files(model: BucketModel, store: S3Store, listed: Sequence[ListedFile], digest: str, folder: Path) -> Files:
    sizes = {file.path: file.size_bytes for file in listed}

    def local(name: str) -> Path:
        path = folder / sha256(name.encode()).hexdigest()
        path.write_bytes(obstore.get(store, name).bytes())
        return path

    def head(name: str, length: int) -> bytes:
        return bytes(obstore.get_range(store, name, start=0, length=min(length, sizes[name]))) if sizes[name] else b""

    total = sum(sizes.values())
    return Files(model.name, f"{model.name}@{digest}", sizes, local, head, digest, download_bytes=total)


def changed(model: BucketModel, digest: str) -> Failure:
    problem = f"has other files than those of the revision: the bucket's listing has the digest {digest} now."
    cure = "Set `spec.model.revision` to that digest to take the new files, or put the former files back."
    return Failure(Cause.NOT_FOUND, NotUnderstood(model.name, problem, cure))


SECRET = "the Secret in `spec.model.s3.credentialsSecretRef`"  # noqa: S105 - text of a message
_CHANGED, _REFUSED = "<Code>NoSuchKey</Code>", "<Code>AccessDenied</Code>"
_ERRORS = [
    (Cause(cause), re.compile(words), problem, cure)
    for cause, words, problem, cure in blocks(__package__, "bucket-errors")
]


def missing(model: BucketModel) -> Failure:
    cure = "Check the bucket and the path in `spec.model.source`."
    return Failure(Cause.NOT_FOUND, NotUnderstood(model.name, "there are no files.", cure))


def failure_of(model: BucketModel, error: Exception) -> Failure:
    text = str(error)
    code = next(iter(re.findall(r"<Code>(\w+)</Code>", text)), "")
    status = next(iter(re.findall(r"status code: (\d{3})", text)), "")
    if code == "NoSuchBucket" or (isinstance(error, FileNotFoundError) and code != "NoSuchKey"):
        return missing(model)
    if isinstance(error, InvalidPathError):
        problem = "a file's name has an empty part, a `..` or a control character."
        return Failure(Cause.DAMAGED, NotUnderstood(model.name, problem, "Rename it, or use a path without it."))
    told = _CHANGED if isinstance(error, PreconditionError) else text
    other = _REFUSED if code and status == "404" else ""
    for cause, _, problem, cure in (row for said in (told, other) for row in _ERRORS if row[1].search(said)):
        shown = problem.format(code=code or status, in_parentheses=f" ({code})" if code else "")
        return Failure(cause, NotUnderstood(model.name, shown, cure.format(secret=SECRET)))
    cure = "Check the network, the proxy and `spec.model.s3.endpoint`."
    return Failure(Cause.UNREACHABLE, NotUnderstood(model.name, _unreachable(status, code), cure))


def _unreachable(status: str, code: str) -> str:
    if status:
        return f"the store returned the error {status}{f' ({code})' if code else ''}."
    return "the store cannot be reached, or its response ended early."
