"""The result of an inspection: the config and the sizes of a model's files, as far as sizing needs them."""

from typing import TypeAlias

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.jobs.result import LIMIT, Cause, Failure, failure_text, is_commit, line, parsed, refusal_of
from inference_operator.manifest import Manifest
from inference_operator.models.checkpoint import PickleWeights
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry, entry_document, entry_of

InspectionResult: TypeAlias = Entry | Failure


def inspection_refusal(failure: Failure) -> Refusal:
    return refusal_of(failure, timed_out=Reason.INSPECTION_FAILED, verb="read")


def unusable(why: NotUnderstood) -> Failure:
    return Failure(Cause.PICKLE if isinstance(why, PickleWeights) else Cause.UNUSABLE, why)


def result_text(result: InspectionResult) -> str:
    if isinstance(result, Failure):
        return failure_text(result)
    text = line(entry_document(result))
    if len(text) <= LIMIT:
        return text
    problem = f"the fields that sizing needs are longer than {LIMIT} bytes."
    return failure_text(unusable(NotUnderstood("config.json", problem, "Use a model of the usual form.")))


def parsed_result(text: str) -> InspectionResult | None:
    return parsed(text, _entry)


def _entry(fields: Manifest) -> Entry | None:
    entry = entry_of(fields)
    texts = (entry.name, entry.source, entry.commit, entry.weights.origin if entry.weights else "")
    valid = all(isinstance(text, str) for text in texts) and isinstance(entry.config, dict)
    valid = valid and (not entry.commit or is_commit(entry.commit))
    sized = entry.weights is not None and entry.weights.total_bytes > 0 and entry.download_bytes >= 0
    return entry if valid and sized else None
