"""The verification of a model's image: a Job runs cosign, which checks the image's signature with the user's key.

1. The public key is read from the user's ConfigMap. Without it the specification is refused.
2. A recorded verification with this key and this image counts; no Job runs.
3. While the key is unknown, such as after the operator's restart, a recorded verification counts too.
4. Otherwise a Job verifies the image with this key. A failed attempt is repeated with increasing delays.
"""

from dataclasses import dataclass, replace
from functools import partial

from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.api.verify import VerifySpec
from inference_operator.jobs.attempt import Attempt
from inference_operator.jobs.cosign import (
    Verified,
    asks_the_same,
    cosign_process,
    credential_mounts,
    credential_volumes,
    parsed_verification,
    verified_by_exit,
)
from inference_operator.jobs.record import Record
from inference_operator.jobs.result import refusal_of
from inference_operator.jobs.state import JobState, ObservedJobs, job_state, recorded
from inference_operator.jobs.task import JobInputs, JobTask
from inference_operator.manifest import JOB, Manifest, Ref
from inference_operator.models.source import ImageModel
from inference_operator.objects.child import content_hash
from inference_operator.objects.names import VERIFICATION
from inference_operator.views.lookups import ConfigMapLookup, ConfigMapText, LookupResult, Unavailable

DEADLINE_SECONDS = 600
"""Time limit of the Job: for a node, cosign's image, and a few requests to the registry."""

RESOURCES: Manifest = {
    "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
    "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "64Mi"},
}
"""cosign 3.1.3 uses about 60 MiB of memory to verify one signature; the image itself is not downloaded."""

DIGEST, KEY_HASH = "digest", "key"
"""Keys of the record."""
_FIELD = "spec.model.verify"


@dataclass(frozen=True, slots=True)
class VerificationInputs:
    """An image, and the key that must have signed it."""

    job: JobInputs
    image: ImageModel
    verify: VerifySpec


def verification_state(inputs: VerificationInputs, observed: ObservedJobs) -> JobState[Verified]:
    """How far the verification is."""
    record = _record(inputs)
    stored = record.stored(observed.live)
    look = ConfigMapLookup(
        inputs.job.owner.key.namespace, inputs.verify.config_map_ref.name, inputs.verify.config_map_ref.key
    )
    key = observed.results.get(look)
    waits = stored is None or (isinstance(key, ConfigMapText) and stored.key_hash != content_hash(key.text))
    state: JobState[Verified] = JobState() if stored is None else recorded(record, stored)
    if isinstance(key, ConfigMapText) and not key.text.strip():
        state = JobState(desired=state.desired, refusal=_no_key(inputs))
    elif waits and isinstance(key, ConfigMapText):
        state = job_state(verification_task(inputs, key.text, observed), observed)
    elif waits:
        state = JobState(message=_unknown_key(inputs, key))
    return replace(state, lookups=(replace(look, often=waits), *state.lookups))


def verification_task(inputs: VerificationInputs, public_key: str, observed: ObservedJobs) -> JobTask[Verified]:
    """The verification as a task. Its Job has the key itself, so another one in the ConfigMap changes no result."""
    settings, reference, key_hash = inputs.job.settings, inputs.image.reference, content_hash(public_key)
    credentials = credential_volumes(inputs.job.spec.pod_template)
    process = cosign_process(reference, public_key, inputs.job.spec.engine.env, with_credentials=bool(credentials))

    def parse_success(attempt: Attempt) -> Verified | None:
        job = observed.live.get(Ref(JOB, inputs.job.owner.key.namespace, attempt.job))
        asks = job is not None and asks_the_same(job, process)
        return verified_by_exit(attempt.message, reference, key_hash) if asks else None

    return JobTask(
        inputs=inputs.job,
        component=VERIFICATION,
        purpose=f"verifies the signature of the image with the key {_key(inputs)}",
        image=settings.verifier_image,
        process=process,
        resources=RESOURCES,
        deadline_seconds=DEADLINE_SECONDS,
        volumes=credentials,
        mounts=credential_mounts(credentials),
        record=_record(inputs, key_hash),
        parse=partial(parsed_verification, reference=reference, key_hash=key_hash),
        parse_success=parse_success,
        refuse=partial(refusal_of, timed_out=Reason.VERIFICATION_FAILED, verb="verified", field=_FIELD),
    )


def _record(inputs: VerificationInputs, wanted: str = "") -> Record[Verified]:
    """The record of this image, verified with the key of this hash; with any key if that is empty."""
    reference, verify = inputs.image.reference, inputs.verify

    def read(data: Manifest) -> Verified | None:
        digest, key_hash = str(data.get(DIGEST) or ""), str(data.get(KEY_HASH) or "")
        same = key_hash and wanted in ("", key_hash) and reference.endswith(f"@{digest}")
        return Verified(digest, key_hash) if same else None

    asked = content_hash([reference, verify.config_map_ref.name, verify.config_map_ref.key])
    return Record(inputs.job.owner, VERIFICATION, asked, _record_data, read)


def _record_data(found: Verified) -> dict[str, str]:
    return {DIGEST: found.digest, KEY_HASH: found.key_hash}


def _unknown_key(inputs: VerificationInputs, found: LookupResult | None) -> str:
    why = f" It cannot be read: {found.why}." if isinstance(found, Unavailable) else ""
    return f"The key {_key(inputs)} is read to verify the image.{why}"


def _key(inputs: VerificationInputs) -> str:
    return f"`{inputs.verify.config_map_ref.key}` of the ConfigMap `{inputs.verify.config_map_ref.name}`"


def _no_key(inputs: VerificationInputs) -> Refusal:
    cure = "Create it with `kubectl create configmap NAME --from-file=cosign.pub`. It is read again every 15 seconds."
    return Refusal(Reason.VERIFICATION_FAILED, _FIELD, f"there is no key {_key(inputs)}.", cure)
