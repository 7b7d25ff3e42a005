"""State of the verification of a model's image: a Job while it is not verified, then a ConfigMap that says so.

Rules:
1. The public key is read from the user's ConfigMap. Without it the specification is refused.
2. A recorded verification with this key and this image counts; no Job runs.
3. While the key is unknown, such as after the operator's restart, a recorded verification counts too.
4. Else a Job verifies the image with this key. A failed attempt is repeated with increasing delays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.inspection.attempts import AttemptsProgress
from inference_operator.inspection.job_attempt import JOB_HASH_ANNOTATION, Attempt
from inference_operator.inspection.job_progress import ObservedJobs, is_job, job_progress, next_change
from inference_operator.inspection.result import Cause, Failure, refusal_of
from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Ref
from inference_operator.objects.child import child, content_hash
from inference_operator.objects.names import VERIFICATION, verification_config_name
from inference_operator.verification.job import VerificationRequest, same_question, verification_job
from inference_operator.verification.result import Verified, parsed_verification, verified_by_exit
from inference_operator.views.lookups import ConfigMapLookup, ConfigMapText, Lookup, LookupResult, Unavailable
from inference_operator.views.raw import mapping

_FIELD = "spec.model.verify"
DIGEST, KEY_HASH = "digest", "key"
"""Keys of the ConfigMap with a verified signature."""


@dataclass(frozen=True, slots=True)
class VerificationState:
    """How far a verification is, and the objects that it needs."""

    progress: AttemptsProgress[Verified] = field(default_factory=AttemptsProgress)
    desired: Mapping[Ref, Manifest] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()
    """The public key, and Events that show why a Job makes no progress."""
    due: tuple[datetime, ...] = ()
    """When more lookups become necessary."""
    refusal: Refusal | None = None
    """Why the key cannot be used, or why the last attempt failed; None if it did not."""
    message: str = ""
    """Progress in one or two sentences; empty once the image is verified."""

    @property
    def complete(self) -> bool:
        """Whether the image is verified."""
        return self.progress.entry is not None

    def recheck_at(self, now: datetime) -> datetime | None:
        """When the state changes without an event."""
        has_job = any(ref.kind == JOB for ref in self.desired)
        return next_change(self.progress, self.due, now, has_job=has_job)


def verification_state(request: VerificationRequest, observed: ObservedJobs) -> VerificationState:
    """How far the verification is. The end of a Job is recorded before the Job is deleted."""
    ref = _record_ref(request)
    stored = _stored(observed.live.get(ref), request)
    look = ConfigMapLookup(request.owner.key.namespace, request.verify.config_map, request.verify.key)
    key = observed.results.get(look)
    waits = stored is None or (isinstance(key, ConfigMapText) and stored.key_hash != content_hash(key.text))
    look = replace(look, often=waits)
    if isinstance(key, ConfigMapText) and not key.text.strip():
        kept = {ref: _record(ref, stored, request)} if stored else {}
        return VerificationState(desired=kept, lookups=(look,), refusal=_no_key(request))
    if stored and not waits:
        return VerificationState(AttemptsProgress(entry=stored), {ref: _record(ref, stored, request)}, (look,))
    if not isinstance(key, ConfigMapText):
        return VerificationState(lookups=(look,), message=_unknown_key(request, key))
    return _by_job(request, observed, key.text, look)


def without_verification_jobs(live: Mapping[Ref, Manifest]) -> dict[Ref, Manifest]:
    """All objects but the Jobs of verifications."""
    return {ref: one for ref, one in live.items() if not is_job(one, VERIFICATION)}


def _by_job(request: VerificationRequest, observed: ObservedJobs, key: str, look: ConfigMapLookup) -> VerificationState:
    ref, key_hash = _record_ref(request), content_hash(key)
    asked = verification_job(request, key, attempt=1)
    job_hash = asked["metadata"]["annotations"][JOB_HASH_ANNOTATION]

    def parsed(text: str) -> Verified | Failure | None:
        return parsed_verification(text, request.image.reference, key_hash)

    def of_success(attempt: Attempt) -> Verified | None:
        job = observed.live.get(Ref(JOB, request.owner.key.namespace, attempt.job))
        asks = job is not None and same_question(job, asked)
        return verified_by_exit(attempt.message, request.image.reference, key_hash) if asks else None

    found = job_progress(observed, VERIFICATION, job_hash, wanted=True, parsed=parsed, of_success=of_success)
    progress = found.attempts
    jobs = [verification_job(request, key, attempt=number) for number in progress.jobs]
    record = [_record(ref, progress.entry, request)] if progress.entry else []
    return VerificationState(
        progress,
        {Ref.of(one): one for one in (*record, *jobs)},
        lookups=(look, *found.lookups),
        due=found.due,
        refusal=_failed(progress.failure),
        message="" if progress.entry else _progress(request, progress, jobs),
    )


def _progress(request: VerificationRequest, progress: AttemptsProgress[Verified], jobs: list[Manifest]) -> str:
    job = next((str(one["metadata"]["name"]) for one in jobs), "")
    why = f" Its pod does not run: {progress.waiting}" if progress.waiting else ""
    return f"Job {job} verifies the signature of the image with the key {_key(request)}.{why}"


def _unknown_key(request: VerificationRequest, found: LookupResult | None) -> str:
    why = f" It cannot be read: {found.why}." if isinstance(found, Unavailable) else ""
    return f"The key {_key(request)} is read to verify the image.{why}"


def _key(request: VerificationRequest) -> str:
    return f"`{request.verify.key}` of the ConfigMap `{request.verify.config_map}`"


def _no_key(request: VerificationRequest) -> Refusal:
    cure = "Create it with `kubectl create configmap NAME --from-file=cosign.pub`. It is read again every 15 seconds."
    return Refusal(Reason.VERIFICATION_FAILED, _FIELD, f"there is no key {_key(request)}.", cure)


def _failed(failure: Failure | None) -> Refusal | None:
    if failure is None:
        return None
    refusal = refusal_of(replace(failure, cause=Cause.UNVERIFIED))
    cure = f"{failure.why.cure} It is verified again, at least every 10 minutes."
    return replace(refusal, field=_FIELD, cure=cure)


def _record_ref(request: VerificationRequest) -> Ref:
    asked = content_hash([request.image.reference, request.verify.config_map, request.verify.key])
    return Ref(CONFIG_MAP, request.owner.key.namespace, verification_config_name(request.owner.key.name, asked))


def _record(ref: Ref, found: Verified, request: VerificationRequest) -> Manifest:
    data = {DIGEST: found.digest, KEY_HASH: found.key_hash}
    return child(ref.kind, ref.name, owner=request.owner, component=VERIFICATION, content={"data": data})


def _stored(config: Manifest | None, request: VerificationRequest) -> Verified | None:
    """The recorded verification of this image; None without one."""
    data = mapping(config or {}, "data")
    digest, key_hash = str(data.get(DIGEST) or ""), str(data.get(KEY_HASH) or "")
    return Verified(digest, key_hash) if key_hash and request.image.reference.endswith(f"@{digest}") else None
