"""Why a bucket cannot be read: causes and cures by the code, the status and the words of the store's answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from obstore.exceptions import InvalidPathError, PreconditionError

from inference_operator.jobs.result import Cause, Failure
from inference_operator.models.config import NotUnderstood
from inference_operator.models.source import BucketModel

SECRET = "the Secret in `spec.model.s3.credentialsSecretRef`"  # noqa: S105 - text of a message


@dataclass(frozen=True, slots=True)
class StoreError:
    """Answers of a store that have one cause. `{code}` in the problem is the code of the answer, or its status."""

    cause: Cause
    problem: str
    cure: str
    codes: Sequence[str] = ()
    statuses: Sequence[str] = ()
    words: Sequence[str] = ()

    def matches(self, code: str, status: str, text: str) -> bool:
        return code in self.codes or status in self.statuses or any(words in text for words in self.words)


_CHANGED = StoreError(
    Cause.DAMAGED,
    "a file was changed in the bucket while it was downloaded.",
    "Download it again when the bucket is complete.",
    ("NoSuchKey",),
)
_REFUSED = StoreError(
    Cause.GATED,
    "the store refuses the key, or it may not read the bucket ({code}).",
    f"Check {SECRET}, and that its user may list the bucket and read its objects.",
    ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "Forbidden"),
    ("401", "403"),
)
_ERRORS = (
    _CHANGED,
    # Amazon S3 API reference, "List of error codes". The words are the client's for Amazon's response without a code
    # (object_store 0.14, `client/retry.rs`).
    StoreError(
        Cause.NOT_FOUND,
        "the bucket is in another region{in_parentheses}.",
        "Set `spec.model.s3.region`.",
        ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"),
        words=("Received redirect without LOCATION",),
    ),
    # Codes of Alibaba Cloud OSS and Tencent Cloud COS.
    StoreError(
        Cause.UNREACHABLE,
        "the store does not accept the bucket in the path of a request ({code}).",
        "Set `spec.model.s3.addressing: VirtualHost`.",
        ("SecondLevelDomainForbidden", "PathStyleDomainForbidden"),
    ),
    StoreError(
        Cause.UNREACHABLE,
        "the clocks of the node and of the store differ ({code}).",
        "Correct the node's clock, for example with chrony.",
        ("RequestTimeTooSkewed",),
    ),
    # Amazon's words for a key that is right (Amazon VPC, "Control access to VPC endpoints using endpoint policies").
    StoreError(
        Cause.UNREACHABLE,
        "the policy of the network's VPC endpoint refuses the request ({code}).",
        "Allow the bucket in that policy; the key is not what is refused.",
        words=("VPC endpoint policy",),
    ),
    StoreError(
        Cause.UNREACHABLE,
        "the store receives too many requests ({code}).",
        "Wait: the next attempt comes by itself. Raise the limit of the store, or start fewer models at once.",
        ("SlowDown", "SlowDownRead", "SlowDownWrite", "TooManyRequests", "RequestLimitExceeded"),
        ("429",),
    ),
    # In requests for a key: addresses of machines' and pods' metadata, and the token service, whose URL is not shown.
    StoreError(
        Cause.GATED,
        "there is no key, and the pod has no identity, or it was refused.",
        f"Add `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` to {SECRET},"
        " or give the ServiceAccount of the pods a role.",
        words=("http://169.254.", "AssumeRoleWithWebIdentity", "POST REDACTED", "/v1/credentials"),
    ),
    _REFUSED,
    StoreError(
        Cause.UNREACHABLE,
        "the certificate of the store or of the proxy is not trusted.",
        "Name a readable file with the certificate of its authority in `SSL_CERT_FILE`.",
        words=("InvalidCertificate", "No CA certificates"),
    ),
)
"""The first that matches counts."""


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
    known = _CHANGED if isinstance(error, PreconditionError) else _known(code, status, text)
    if known is None:
        cure = "Check the network, the proxy and `spec.model.s3.endpoint`."
        return Failure(Cause.UNREACHABLE, NotUnderstood(model.name, _unreachable(status, code), cure))
    problem = known.problem.format(code=code or status, in_parentheses=f" ({code})" if code else "")
    return Failure(known.cause, NotUnderstood(model.name, problem, known.cure))


def _known(code: str, status: str, text: str) -> StoreError | None:
    known = next((error for error in _ERRORS if error.matches(code, status, text)), None)
    return known or (_REFUSED if code and status == "404" else None)


def _unreachable(status: str, code: str) -> str:
    if status:
        return f"the store returned the error {status}{f' ({code})' if code else ''}."
    return "the store cannot be reached, or its response ended early."
