"""Size and redirect limits for all HTTP responses that the hub client reads."""

from collections.abc import Iterator

import httpx2
from huggingface_hub import set_client_factory

MAX_BYTES = 40 * 2**20
"""Maximum size of a response: more than the largest file, and a list of many files."""
MAX_REDIRECTS = 10
"""The hub needs two: to a renamed repository, and to the storage of large files."""


class ResponseRejectedError(Exception):
    """A response that exceeds a limit; the rest of it is not read."""

    __match_args__ = ("problem",)

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def limit_responses() -> None:
    """Make the hub client read at most `MAX_BYTES` of a response and follow at most `MAX_REDIRECTS` redirects."""
    set_client_factory(_client)


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
    """A response stream of at most `MAX_BYTES`."""

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
