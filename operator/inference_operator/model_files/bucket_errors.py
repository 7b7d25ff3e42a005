"""Why a bucket cannot be read: causes and cures by the code, the status and the words of the store's answer."""

import re

from obstore.exceptions import InvalidPathError, PreconditionError

from inference_operator.jobs.result import Cause, Failure
from inference_operator.models.config import NotUnderstood
from inference_operator.models.source import BucketModel
from inference_operator.text_tables import blocks

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
