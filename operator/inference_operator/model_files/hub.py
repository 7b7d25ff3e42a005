"""Inspects a model on the Hugging Face Hub or a mirror, with the hub's client and its environment variables.

Endpoint, token, proxy and cache are those of engines. The client reads its environment at import and is large, so only
`infd inspect` imports this module.
"""

import logging
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import httpx2
from huggingface_hub import (
    HfApi,
    constants,
    get_session,
    hf_hub_download,
    hf_hub_url,
    set_client_factory,
    try_to_load_from_cache,
)
from huggingface_hub.errors import (
    DisabledRepoError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import build_hf_headers, disable_progress_bars, hf_raise_for_status  # type: ignore[attr-defined]  # documented, and not in `__all__`

from inference_operator.jobs.inspection_result import InspectionResult, unusable
from inference_operator.jobs.result import Cause, Failure
from inference_operator.model_files.files import CONFIG, Files, InspectionError, inspect_files
from inference_operator.model_files.folder import inspect_folder
from inference_operator.model_files.listing import MAX_FILES, ListedFile, wanted_files
from inference_operator.models.config import NotUnderstood
from inference_operator.models.source import COMMIT

TIMEOUT_SECONDS = 10.0
"""Timeout of the hub's responses, as in the client's other requests (huggingface_hub 2.4.0, `constants.py`)."""
_TOKEN = "`HF_TOKEN`, in a cluster by a Secret in `spec.model.tokenSecretRef`."  # noqa: S105 - text of a message
_SECONDS = re.compile("[0-9]{1,6}")
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's word in the message of an exception, which has no type of its own."""
_MIRROR_CURE = (
    "Let the mirror pass on the hub's answers with all of their fields and headers, or serve the model from an `s3://`,"
    " `pvc://` or `oci://` source."
)
_HEADERS = {"ETag": "`ETag` or `X-Linked-ETag`", "Content-Length": "`Content-Length` or `X-Linked-Size`"}
"""Headers by the client's words for what it misses; without such a word, it misses the commit."""
_NETWORK_CURE = "Check the network, the proxy and `HF_ENDPOINT`, or serve the model from a `pvc://` or `oci://` source."


def inspect_hub(
    repository: str, revision: str | None = None, *, allow_pickle: bool = False, file: str = ""
) -> InspectionResult:
    configure_client()
    set_client_factory(_client)
    try:
        if constants.is_offline_mode():
            return _cached(repository, revision, allow_pickle=allow_pickle, file=file)
        return inspect_files(replace(_files(repository, revision), allow_pickle=allow_pickle), file)
    except InspectionError as error:
        return error.failure
    except (HfHubHTTPError, httpx2.HTTPError, OSError, ValueError, KeyError, TypeError, ResponseRejectedError) as error:
        return failure_of(repository, revision, error)


def configure_client() -> None:
    """Disable Xet, telemetry and all output of the client; failures are reported once, with a message for users."""
    constants.HF_HUB_DISABLE_XET = True  # so that files come through the client with limits
    constants.HF_HUB_DISABLE_TELEMETRY = True
    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    warnings.filterwarnings("ignore", module="huggingface_hub")


def commit_of(repository: str, listed: str | None, revision: str | None) -> str:
    """The commit that the listing names, or that was asked for: a mirror may leave it out."""
    if commit := listed or (revision if COMMIT.fullmatch(revision or "") else None):
        return commit
    cure = f"{_MIRROR_CURE} Or name a commit of 40 digits in `spec.model.revision`."
    raise InspectionError(_of_mirror(repository, "the mirror names no commit.", cure))


def _of_mirror(repository: str, problem: str, cure: str = _MIRROR_CURE) -> Failure:
    return Failure(Cause.UNREACHABLE, NotUnderstood(f"hf://{repository}", problem, cure))


def _cached(repository: str, revision: str | None, *, allow_pickle: bool, file: str) -> InspectionResult:
    cached = try_to_load_from_cache(repository, file or CONFIG, revision=revision)
    if not isinstance(cached, str):
        problem = "`HF_HUB_OFFLINE` is set, and the model is not in the cache."
        cure = "Add the model to the cache at `HF_HOME`, or unset `HF_HUB_OFFLINE`."
        return Failure(Cause.UNREACHABLE, NotUnderstood(f"hf://{repository}", problem, cure))
    folder = Path(cached).parents[(file or CONFIG).count("/")]
    source = f"hf://{repository}@{folder.name}"
    return inspect_folder(
        folder, name=repository, source=source, commit=folder.name, allow_pickle=allow_pickle, file=file
    )


def _files(repository: str, revision: str | None) -> Files:
    info = HfApi().model_info(repository, revision=revision, files_metadata=True, timeout=TIMEOUT_SECONDS)
    listed, commit = info.siblings or [], commit_of(repository, info.sha, revision)
    if len(listed) > MAX_FILES:
        problem = f"has more than {MAX_FILES:,} files."
        raise InspectionError(unusable(NotUnderstood(f"hf://{repository}", problem, "Use a repository of one model.")))
    sizes = {str(file.rfilename): file.size for file in listed if isinstance(file.size, int)}
    if listed and not sizes:
        raise InspectionError(_of_mirror(repository, "the mirror lists files without their sizes."))

    def local(name: str) -> Path:
        try:
            return Path(hf_hub_download(repository, name, revision=commit, etag_timeout=TIMEOUT_SECONDS))
        except LocalEntryNotFoundError as error:  # an `OSError`, but no file of this machine is the cause
            raise InspectionError(failure_of(repository, commit, error)) from error

    def head(name: str, length: int) -> bytes:
        headers = {**build_hf_headers(), "Range": f"bytes=0-{length - 1}"}
        url = hf_hub_url(repository, name, revision=commit)
        with get_session().stream("GET", url, headers=headers, timeout=TIMEOUT_SECONDS) as response:
            hf_raise_for_status(response)
            content = bytearray()
            for chunk in response.iter_bytes():  # a mirror may ignore the range
                content += chunk
                if len(content) >= length:
                    break
            return bytes(content[:length])

    source, total = f"hf://{repository}", _download_bytes(repository, sizes)
    return Files(repository, f"{source}@{commit}", sizes, local, head, commit, download_bytes=total)


def _download_bytes(repository: str, sizes: Mapping[str, int]) -> int:
    """The bytes of a download; 0 of a listing that it would refuse, since only the download says why."""
    files = wanted_files(repository, (ListedFile(*item) for item in sizes.items()), allow_pickle=True)
    return 0 if isinstance(files, Failure) else sum(file.size_bytes for file in files)


def failure_of(repository: str, revision: str | None, error: Exception) -> Failure:
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        return failure_of(repository, revision, error.__cause__)  # why the file was not found on the hub
    match error:
        case GatedRepoError():
            failure = Cause.GATED, "the hub gives this gated model only to accounts that accepted its licence."
            cure = f"Accept the licence on the hub, and set {_TOKEN}"
        case DisabledRepoError():
            failure, cure = (Cause.NOT_FOUND, "is disabled on the hub."), "Use another model."
        case RevisionNotFoundError():
            failure = Cause.NOT_FOUND, f"has no revision `{revision or 'main'}`."
            cure = "Check the revision on the hub."
        case RepositoryNotFoundError():
            failure = Cause.NOT_FOUND, "does not exist on the hub, or this account may not see it."
            cure = f"Check `spec.model.source`; for a private model set {_TOKEN}"
        case HfHubHTTPError() if error.response.url.netloc != httpx2.URL(constants.ENDPOINT).netloc:
            # a storage, whose addresses expire: the next attempt gets another one
            problem = f"the storage of the hub's files returned the error {error.response.status_code}."
            failure, cure = (Cause.UNREACHABLE, problem), _NETWORK_CURE
        case HfHubHTTPError():
            failure, cure = _of_status(error.response.status_code, error.response.headers.get("Retry-After", ""))
        case _:
            failure, cure = _of_network(error)
    cause, problem = failure
    return Failure(cause, NotUnderstood(f"hf://{repository}", problem, cure))


def _of_status(status: int, retry_after: str) -> tuple[tuple[Cause, str], str]:
    match status:
        case 401:
            return (Cause.GATED, "the hub rejects the token or requires one (401)."), f"Set {_TOKEN}"
        case 403:
            problem = "this account may not read the model (403)."
            return (Cause.GATED, problem), f"Give the account access on the hub, and set {_TOKEN}"
        case 404:
            problem = "does not exist at `HF_ENDPOINT` (404)."
            return (Cause.NOT_FOUND, problem), "Check `spec.model.source` and `HF_ENDPOINT`."
        case 429:
            problem = "the hub received too many requests from this address (429)."
            wait = f"Wait {retry_after} s" if _SECONDS.fullmatch(retry_after) else "Wait"
            return (Cause.UNREACHABLE, problem), f"{wait}, or set {_TOKEN}"
        case _:
            return (Cause.UNREACHABLE, f"the hub returned the error {status}."), _NETWORK_CURE


def _of_network(error: Exception) -> tuple[tuple[Cause, str], str]:
    match error:
        case ResponseRejectedError(problem):
            message = problem
        case FileMetadataError():
            missing = next((header for word, header in _HEADERS.items() if word in str(error)), "`X-Repo-Commit`")
            return (Cause.UNREACHABLE, f"the mirror's answers have no header {missing}."), _MIRROR_CURE
        case httpx2.TooManyRedirects():
            message = "the hub redirects without end."
        case httpx2.TimeoutException():
            message = f"the hub did not answer within {TIMEOUT_SECONDS:g} s."
        case httpx2.RemoteProtocolError():
            message = "the response of the hub ended early."
        case httpx2.ConnectError() if _UNTRUSTED in str(error):
            cure = (
                "Name a file with the certificate of its authority in `SSL_CERT_FILE`, which `spec.engine.env` may set."
            )
            return (Cause.UNREACHABLE, "the certificate of the hub or of the proxy is not trusted."), cure
        case httpx2.TransportError() | OfflineModeIsEnabled() | LocalEntryNotFoundError() | ConnectionError():
            message = "the hub cannot be reached."
        case OSError() if error.errno is None:  # the client's own, for a file that is shorter than its header said
            message = "the response of the hub ended early."
        case OSError():
            message = "`HF_HOME` is not writable."
        case _:
            message = "the response is not from a hub."
    return (Cause.UNREACHABLE, message), _NETWORK_CURE


MAX_BYTES = 40 * 2**20
"""Maximum size of a response: more than the largest file, and a list of many files."""
MAX_REDIRECTS = 10
"""The hub needs two: to a renamed repository, and to the storage of large files."""


class ResponseRejectedError(Exception):
    __match_args__ = ("problem",)

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def _client() -> httpx2.Client:
    return httpx2.Client(
        event_hooks={"request": [_request_no_compression], "response": [_limit]},
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
    )


def _request_no_compression(request: httpx2.Request) -> None:
    """Request no compression, since the limit applies to the bytes that are read."""
    request.headers["Accept-Encoding"] = "identity"


def _limit(response: httpx2.Response) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise ResponseRejectedError("the hub sends a compressed response although none was requested.")
    if isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = _Limited(response.stream)


class _Limited(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        remaining = MAX_BYTES
        for chunk in self._stream:
            remaining -= len(chunk)
            if remaining < 0:
                raise ResponseRejectedError(f"a response of the hub is larger than {MAX_BYTES // 2**20} MiB.")
            yield chunk

    def close(self) -> None:
        self._stream.close()
