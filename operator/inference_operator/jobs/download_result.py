"""Results of a download and of an adapter's copy, as the Job reports them, and as ConfigMaps keep them."""

from dataclasses import asdict, dataclass

from inference_operator.jobs.record import result_in
from inference_operator.jobs.result import Failure, is_commit, line, parsed
from inference_operator.manifest import Manifest
from inference_operator.models.adapter import AdapterFacts
from inference_operator.views.raw import mapping

RESULT_FILE, ADAPTER_FILE, CLAIM_KEY, MODEL_KEY, DRAFT_KEY = "download.json", "adapter.json", "claim", "model", "draft"
"""Keys of the ConfigMap: the result, the claim's name, the source, and the repository of the model's draft if any."""


@dataclass(frozen=True, slots=True)
class Downloaded:
    commit: str
    size_bytes: int
    """Of all its files."""
    files: int


def downloaded_text(result: Downloaded) -> str:
    return line({"downloaded": asdict(result)})


def parsed_download(text: str) -> Downloaded | Failure | None:
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


@dataclass(frozen=True, slots=True)
class StoredAdapter:
    commit: str
    """The commit of the hub, or the digest of its source and content."""
    size_bytes: int
    facts: AdapterFacts


def adapter_text(result: StoredAdapter) -> str:
    return line({"adapter": asdict(result)})


def parsed_adapter(text: str) -> StoredAdapter | Failure | None:
    return parsed(text, _adapter)


def adapter_record_data(result: StoredAdapter, *, claim: str, source: str) -> dict[str, str]:
    return {ADAPTER_FILE: adapter_text(result), CLAIM_KEY: claim, MODEL_KEY: source}


def recorded_adapter(data: Manifest) -> StoredAdapter | None:
    return result_in(ADAPTER_FILE, parsed_adapter, data)


def _adapter(fields: Manifest) -> StoredAdapter | None:
    adapter = mapping(fields, "adapter")
    facts = mapping(adapter, "facts")
    sizes = {name: int(facts[name]) for name in ("rank", "hidden_size", "layers")}
    result = StoredAdapter(
        str(adapter["commit"]), int(adapter["size_bytes"]), AdapterFacts(base=str(facts["base"]), **sizes)
    )
    is_valid = result.size_bytes > 0 and result.facts.rank > 0 and is_commit(result.commit)
    return result if is_valid else None
