"""The result of a download, as one line of JSON in the Job's termination message."""

import json
from dataclasses import asdict, dataclass

from inference_operator.inspection.result import LIMIT, Failure, parsed_result


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A model that is complete on a claim."""

    commit: str
    size_bytes: int
    """Of all its files."""
    files: int
    """Number of files."""


def downloaded_text(result: Downloaded) -> str:
    """One line of JSON.

    Examples:
        >>> text = downloaded_text(Downloaded("1234", 5, 2))
        >>> text
        '{"downloaded":{"commit":"1234","size_bytes":5,"files":2}}'
        >>> parsed_download(text)
        Downloaded(commit='1234', size_bytes=5, files=2)
    """
    return json.dumps({"downloaded": asdict(result)}, separators=(",", ":"))


def parsed_download(text: str) -> Downloaded | Failure | None:
    """Reads the line, or that of a failure; None if it is invalid in any way.

    Examples:
        >>> parsed_download("Killed") is parsed_download('{"downloaded":{}}') is None
        True
    """
    failure = parsed_result(text)
    if isinstance(failure, Failure):
        return failure
    try:
        found = json.loads(text[: LIMIT + 1])["downloaded"]
        result = Downloaded(str(found["commit"]), int(found["size_bytes"]), int(found["files"]))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    return result if result.size_bytes > 0 and result.files > 0 else None
