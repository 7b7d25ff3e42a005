"""Every answer that the hub's client reads is limited here, where all of them pass."""

from collections.abc import Iterator

import httpx2
from huggingface_hub import set_client_factory

MOST_BYTES = 40 * 2**20
"""Of one answer: the largest file that is read, and some room for a list of many files."""
MOST_REDIRECTS = 10
"""The hub itself takes two: to a renamed repository, and to where large files are."""


class UnwantedAnswerError(Exception):
    """An answer that is not read to its end.

    Examples:
        >>> str(UnwantedAnswerError("is too large."))
        'is too large.'
    """

    __match_args__ = ("problem",)

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


def limit_answers() -> None:
    """Have the hub's client read no more than `MOST_BYTES` of an answer, and follow no more than a few redirects."""
    set_client_factory(_client)


def _client() -> httpx2.Client:
    return httpx2.Client(
        event_hooks={"request": [_ask_for_plain_bytes], "response": [_limit]},
        follow_redirects=True,
        max_redirects=MOST_REDIRECTS,
    )


def _ask_for_plain_bytes(request: httpx2.Request) -> None:
    """What is not compressed does not grow when it is read."""
    request.headers["Accept-Encoding"] = "identity"


def _limit(response: httpx2.Response) -> None:
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise UnwantedAnswerError("the hub compresses answers although it was asked not to.")
    if isinstance(response.stream, httpx2.SyncByteStream):
        response.stream = _Limited(response.stream)


class _Limited(httpx2.SyncByteStream):
    """A stream of at most `MOST_BYTES`."""

    def __init__(self, stream: httpx2.SyncByteStream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        left = MOST_BYTES
        for chunk in self._stream:
            left -= len(chunk)
            if left < 0:
                raise UnwantedAnswerError(f"an answer of the hub is larger than {MOST_BYTES // 2**20} MiB.")
            yield chunk

    def close(self) -> None:
        self._stream.close()
