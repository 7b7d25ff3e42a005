"""The result of a download, as the Job reports it and as its ConfigMap keeps it for operator and `infd cache`."""

from dataclasses import asdict, dataclass

from inference_operator.jobs.record import result_in
from inference_operator.jobs.result import Failure, is_commit, line, parsed
from inference_operator.manifest import Manifest
from inference_operator.views.raw import mapping

RESULT_FILE, CLAIM_KEY, MODEL_KEY, DRAFT_KEY = "download.json", "claim", "model", "draft"
"""Keys of the ConfigMap: the result, the claim's name, the model's source, and the repository of its draft if any."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    """A model that is complete on a claim."""

    commit: str
    size_bytes: int
    """Of all its files."""
    files: int


def downloaded_text(result: Downloaded) -> str:
    return line({"downloaded": asdict(result)})


def parsed_download(text: str) -> Downloaded | Failure | None:
    """Read the line, or the line of a failure; None if it is invalid in any way."""
    return parsed(text, _downloaded)


def record_data(result: Downloaded, *, claim: str, model: str, draft: str = "") -> dict[str, str]:
    data = {RESULT_FILE: downloaded_text(result), CLAIM_KEY: claim, MODEL_KEY: model}
    return {**data, DRAFT_KEY: draft} if draft else data


def recorded_download(data: Manifest) -> Downloaded | None:
    return result_in(RESULT_FILE, parsed_download, data)


def _downloaded(fields: Manifest) -> Downloaded | None:
    downloaded = mapping(fields, "downloaded")
    result = Downloaded(str(downloaded["commit"]), int(downloaded["size_bytes"]), int(downloaded["files"]))
    return result if result.size_bytes > 0 and result.files > 0 and is_commit(result.commit) else None
