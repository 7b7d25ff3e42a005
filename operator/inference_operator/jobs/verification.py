"""The verification of images: a Job runs cosign, which checks that a key has signed an image.

1. The key is a user's, in a ConfigMap, or the owner's, in the setting `policy`. Without it the specification is
   refused.
2. A Job that has verified this image with this key is kept, and is the record: no other Job runs. It says itself what
   it has verified, and only who may create pods can make one. A ConfigMap, in which other Jobs' results are kept, could
   be written by users who may not.
3. While the key is unknown, such as after the operator's restart, such a Job counts with any key.
4. Otherwise a Job verifies the image with this key. A failed attempt is repeated with increasing delays. Until then
   other Jobs stay that have succeeded: the key or the image may be changed back.
5. Several verifications are complete when each of them is. They do not wait for each other. Each image has a Job of its
   own: cosign 3.1.3 takes the format of the first image's signatures for those of all.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.api.reasons import Reason
from inference_operator.api.refusal import Refusal
from inference_operator.diagnosis.registry_errors import registry_error, with_wait
from inference_operator.jobs.attempts import ATTEMPT_ANNOTATION, JOB_HASH_ANNOTATION, AttemptsProgress, job_attempt
from inference_operator.jobs.result import Cause, Failure, refusal_of
from inference_operator.jobs.state import JobState, ObservedJobs, is_job_of, job_state
from inference_operator.jobs.task import JobTask
from inference_operator.manifest import JOB, Manifest, Owner, Ref
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION, child
from inference_operator.objects.container import environment, process_fields
from inference_operator.objects.names import VERIFICATION
from inference_operator.roles.context import SharedContext
from inference_operator.sentences import sentences
from inference_operator.text_tables import blocks
from inference_operator.views.lookups import ConfigMapLookup, ConfigMapText, LookupResult, Unavailable
from inference_operator.views.raw import annotations, mapping, named, objects
from inference_operator.views.untrusted_text import one_line

_VARIABLE = re.compile(r"(?:HTTP|HTTPS|NO)_PROXY|SSL_CERT_(?:FILE|DIR)", re.IGNORECASE)
"""Variables that cosign's HTTP client reads (Go, net/http and crypto/x509)."""
_CREDENTIALS, _CREDENTIALS_PATH = "registry-credentials", "/registry"

_ERROR = re.compile(r"^Error: (?P<text>.+)$", re.MULTILINE)
"""The line with which cosign ends (cosign 3.1.3, cmd/cosign/main.go)."""

_ERRORS = [(re.compile(words), problem, cure) for words, problem, cure in blocks(__package__, "cosign-errors")]


def cosign_process(
    reference: str, variable: str, public_key: str, env: Sequence[EnvironmentVariable] = (), *, with_credentials: bool
) -> Manifest:
    """The fields of `process_fields` of a container that verifies an image with one key.

    The key alone counts: no transparency log, which clusters without access to the Internet could not ask. The list of
    signatures is not kept: the exit code tells all, and the termination message has room for errors.

    Args:
        reference: the image, with its digest. It stands after `--`: a user chooses it, and cosign takes options, such
            as another key, from anywhere before.
        public_key: the key, in PEM.
        env: variables of engines; those for proxies and certificates are taken.
    """
    credentials = [{"name": "DOCKER_CONFIG", "value": _CREDENTIALS_PATH}] if with_credentials else []
    own = [entry for entry in env if _VARIABLE.fullmatch(entry.name)]
    options = (f"--key=env://{variable}", "--insecure-ignore-tlog=true")
    return process_fields(
        args=["--output-file=/dev/null", "verify", *options, "--", reference],
        env=[{"name": variable, "value": public_key}, *credentials, *environment(own)],
    )


def credential_volumes(added: PodTemplateSpec) -> list[Manifest]:
    """The volume with the first pull Secret of engines, as the file that registry clients read; none without one."""
    secret = next(iter(added.image_pull_secrets), None)
    if secret is None:
        return []
    items = [{"key": ".dockerconfigjson", "path": "config.json"}]
    return [{"name": _CREDENTIALS, "secret": {"secretName": secret.name, "items": items, "optional": True}}]


def verifies(job: Manifest, reference: str, variable: str, public_key: str | None) -> bool:
    """Whether a Job on the cluster calls cosign for this image with this key (None: any), and for nothing else.

    Its end counts only then. A registry in its image's name and more variables may come from admission webhooks.
    """
    pod = mapping(job, "spec", "template", "spec")
    live = named(objects(pod, "containers"), VERIFICATION)
    wanted = cosign_process(reference, variable, public_key or "", with_credentials=False)
    keys = [entry.get("value") for entry in objects(live, "env") if entry.get("name") == variable]
    is_key = len(keys) == 1 if public_key is None else keys == [wanted["env"][0]["value"]]
    return is_key and live.get("args") == wanted["args"] and not live.get("command")


def parsed_failure(text: str, reference: str) -> Failure | None:
    match = _ERROR.search(text)
    if match is None:
        return None
    error = match["text"]
    for words, problem, cure in _ERRORS:
        if words.search(error):
            return Failure(Cause.UNVERIFIED, NotUnderstood(reference, problem, cure))
    if known := registry_error(error):
        cure = with_wait(known.in_job, error)
        return Failure(Cause.UNVERIFIED, NotUnderstood(reference, f"cannot be verified: {known.problem}.", cure))
    problem = f"cannot be verified: {one_line(error).rstrip('.')}."
    return Failure(Cause.UNVERIFIED, NotUnderstood(reference, problem, "Check that pods reach its registry."))


DEADLINE_SECONDS = 600
"""Time limit of the Job: for a node, cosign's image, and a few requests to the registry."""

RESOURCES: Manifest = {
    "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "16Mi"},
    "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "64Mi"},
}
"""cosign 3.1.3 uses about 60 MiB of memory to verify one signature; the image itself is not downloaded."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    name: str
    text: str | ConfigMapLookup
    """The key in PEM, or where it is read."""
    variable: str = "COSIGN_PUBLIC_KEY"
    """The variable of the container that has the key. By it Jobs for the user's and the administrator's key differ."""
    demand: str = ""
    """Who requires the signature, if it is not the user: begins refusals."""
    message: str = ""
    """Sentence of the administrator, which ends refusals."""


@dataclass(frozen=True, slots=True)
class Verification:
    shared: SharedContext
    reference: str
    """The image, with its digest."""
    what: str
    field: str
    """The field that asks for the verification, for refusals."""
    key: PublicKey


Succeeded = Mapping[Ref, Manifest]
"""The Jobs of a resource that have verified something."""


def succeeded_jobs(live: Mapping[Ref, Manifest], owner: Owner) -> Succeeded:
    jobs = ((ref, live[ref]) for ref in sorted(live) if is_job_of(live[ref], VERIFICATION))
    return {ref: _as_written(job, owner) for ref, job in jobs if _succeeded(job)}


def all_verified(states: Sequence[JobState[Ref]], succeeded: Succeeded, now: datetime) -> JobState[Ref]:
    """State of several verifications: the first that is refused leads, else the first that is not complete."""
    leading = min(states, key=lambda state: (not state.refusal, state.complete))
    former = {} if leading.complete else succeeded
    return replace(
        leading,
        desired={**former, **{ref: manifest for state in states for ref, manifest in state.desired.items()}},
        lookups=tuple(look for state in states for look in state.lookups),
        due=tuple(moment for state in states if (moment := state.recheck_at(now))),
    )


def verification_state(inputs: Verification, observed: ObservedJobs, succeeded: Succeeded) -> JobState[Ref]:
    """How far one verification is. Its result is the Job that has verified the image."""
    look = inputs.key.text if isinstance(inputs.key.text, ConfigMapLookup) else None
    key = ConfigMapText(inputs.key.text) if isinstance(inputs.key.text, str) else observed.results.get(inputs.key.text)
    public_key = key.text if isinstance(key, ConfigMapText) else None
    done = _verified(inputs, public_key, succeeded)
    state: JobState[Ref]
    if done:
        state = JobState(AttemptsProgress(result=next(iter(done))), done)
    elif public_key is None:
        state = JobState(message=_unknown_key(inputs, key))
    elif not public_key.strip():
        state = JobState(refusal=_no_key(inputs))
    else:
        state = job_state(verification_task(inputs, public_key), observed)
    return state if look is None else replace(state, lookups=(replace(look, often=not done), *state.lookups))


def verification_task(inputs: Verification, public_key: str) -> JobTask[Ref]:
    """The verification as a task. Its Job has the key itself, so another one in the ConfigMap changes no result."""
    spec, variable = inputs.shared.effective, inputs.key.variable
    credentials = credential_volumes(spec.pod_template)
    process = cosign_process(
        inputs.reference, variable, public_key, spec.engine.env, with_credentials=bool(credentials)
    )
    return JobTask(
        shared=replace(inputs.shared, effective=replace(spec, pod_template=_with_certificates(spec.pod_template))),
        component=VERIFICATION,
        subject=f"the signature of `{inputs.reference}`",
        purpose=f"verifies the signature of {inputs.what} with {inputs.key.name}",
        image=inputs.shared.settings.verifier_image,
        process=process,
        resources=RESOURCES,
        deadline_seconds=DEADLINE_SECONDS,
        volumes=credentials,
        mounts=[{"name": volume["name"], "mountPath": _CREDENTIALS_PATH, "readOnly": True} for volume in credentials],
        record=None,
        parse=partial(parsed_failure, reference=inputs.reference),
        refuse=partial(_refusal, inputs),
    )


def _with_certificates(added: PodTemplateSpec) -> PodTemplateSpec:
    """The additions to the pod with volumes of ConfigMaps and Secrets alone, which may have certificates.

    A claim may be on another node, and no image is mounted before it is verified.
    """
    kept = tuple(volume for volume in added.volumes if volume.config_map or volume.secret)
    names = {volume.name for volume in kept}
    mounts = tuple(mount for mount in added.volume_mounts if mount.name in names)
    return added.model_copy(update={"volumes": kept, "volume_mounts": mounts})


def _verified(inputs: Verification, public_key: str | None, succeeded: Succeeded) -> Succeeded:
    """A Job that has verified the image with this key, with any key if that is None; empty without one."""
    reference, variable = inputs.reference, inputs.key.variable
    verified = (item for item in succeeded.items() if verifies(item[1], reference, variable, public_key))
    return dict(islice(verified, 1))


def _succeeded(job: Manifest) -> bool:
    attempt = job_attempt(job, ())
    return attempt.finished is not None and not attempt.failure and "deletionTimestamp" not in job["metadata"]


def _as_written(job: Manifest, owner: Owner) -> Manifest:
    """The Job as it was written, so that it stays as it is; but with its owner, and no longer to be adopted."""
    written = child(JOB, job["metadata"]["name"], owner=owner, component=VERIFICATION, content={"spec": job["spec"]})
    notes = {name: value for name, value in annotations(job).items() if name in _OWN_ANNOTATIONS}
    return {**written, "metadata": {**written["metadata"], "annotations": notes}}


_OWN_ANNOTATIONS = (JOB_HASH_ANNOTATION, ATTEMPT_ANNOTATION, DESIRED_HASH_ANNOTATION)


def _refusal(inputs: Verification, failure: Failure) -> Refusal:
    refusal = refusal_of(failure, timed_out=Reason.VERIFICATION_FAILED, verb="verified", field=inputs.field)
    cure = sentences(refusal.cure, inputs.key.message)
    return replace(refusal, problem=sentences(inputs.key.demand, refusal.problem), cure=cure)


def _unknown_key(inputs: Verification, result: LookupResult | None) -> str:
    why = f" It cannot be read: {result.why}." if isinstance(result, Unavailable) else ""
    return f"{inputs.key.name[0].upper()}{inputs.key.name[1:]} is read to verify the image.{why}"


def _no_key(inputs: Verification) -> Refusal:
    cure = "Create it with `kubectl create configmap NAME --from-file=cosign.pub`. It is read again every 15 seconds."
    problem = f"{inputs.key.name} does not exist."
    return Refusal(Reason.VERIFICATION_FAILED, inputs.field, problem, cure)
