"""The result of the copy of an adapter to a claim, as the Job reports it and as its ConfigMap keeps it."""

from dataclasses import asdict, dataclass

from inference_operator.jobs.download_result import CLAIM_KEY, MODEL_KEY
from inference_operator.jobs.record import result_in
from inference_operator.jobs.result import Failure, is_commit, line, parsed
from inference_operator.manifest import Manifest
from inference_operator.models.adapter import AdapterFacts
from inference_operator.views.raw import mapping

RESULT_FILE = "adapter.json"
"""Key of the ConfigMap with the result."""


@dataclass(frozen=True, slots=True)
class StoredAdapter:
    """An adapter whose files are complete on a claim."""

    commit: str
    """The commit of the hub, or the digest of its source and content."""
    size_bytes: int
    facts: AdapterFacts


def adapter_text(result: StoredAdapter) -> str:
    return line({"adapter": asdict(result)})


def parsed_adapter(text: str) -> StoredAdapter | Failure | None:
    """Read the line, or the line of a failure; None if it is invalid in any way."""
    return parsed(text, _adapter)


def record_data(result: StoredAdapter, *, claim: str, source: str) -> dict[str, str]:
    return {RESULT_FILE: adapter_text(result), CLAIM_KEY: claim, MODEL_KEY: source}


def recorded_adapter(data: Manifest) -> StoredAdapter | None:
    return result_in(RESULT_FILE, parsed_adapter, data)


def _adapter(fields: Manifest) -> StoredAdapter | None:
    adapter = mapping(fields, "adapter")
    facts = mapping(adapter, "facts")
    sizes = {name: int(facts[name]) for name in ("rank", "hidden_size", "layers")}
    result = StoredAdapter(
        str(adapter["commit"]), int(adapter["size_bytes"]), AdapterFacts(base=str(facts["base"]), **sizes)
    )
    is_valid = result.size_bytes > 0 and result.facts.rank > 0 and is_commit(result.commit)
    return result if is_valid else None
