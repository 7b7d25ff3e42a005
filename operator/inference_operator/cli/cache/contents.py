"""The models on claims with their users and states, from records, Jobs and resources. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from inference_operator.jobs.download_result import recorded_download
from inference_operator.jobs.placement import mounted_claims
from inference_operator.manifest import Manifest
from inference_operator.model_files.uses import (
    claim_of,
    claim_uses,
    pod_of,
    record_claim,
    record_model,
    repository_of,
)
from inference_operator.models.source import COMMIT
from inference_operator.views.raw import condition, mapping, objects

COMPLETE, NOT_YET = "complete", "not downloaded yet"
_REVISION = "--revision="


@dataclass(frozen=True, slots=True)
class ClaimObjects:
    """The objects from which `infd cache` knows the models on claims and their users; of one namespace, or of all."""

    resources: list[Manifest]
    records: list[Manifest]
    jobs: list[Manifest]


@dataclass(frozen=True, slots=True, order=True)
class OnClaim:
    namespace: str
    claim: str
    model: str
    revision: str
    """The commit; or the branch, while it is downloaded; empty for the default branch."""
    size_bytes: int
    """0 if it is not known."""
    state: str
    """`complete`, the progress of its Job, or why there is none."""
    used_by: tuple[str, ...] = ()


def models_on_claims(seen: ClaimObjects, steps: Sequence[str]) -> list[OnClaim]:
    """The models on claims; `steps` has the last step that each Job has logged."""
    complete = [model for record in seen.records if (model := _complete(record))]
    begun = [_loading(job, step) for job, step in zip(seen.jobs, steps, strict=True)]
    loading = [model for model in begun if model and not _is_known(complete, model)]
    known = {(one.namespace, one.claim, one.model) for one in (*complete, *loading)}
    missing = [wanted for resource in seen.resources if (wanted := _missing(resource)) and wanted[:3] not in known]
    found = {(one.namespace, one.claim, one.model, one.revision): one for one in (*loading, *complete)}
    rows = [*found.values(), *(OnClaim(*one, size_bytes=0, state=NOT_YET) for one in missing)]
    return sorted(replace(one, used_by=_users(one, seen)) for one in rows)


def _complete(record: Manifest) -> OnClaim | None:
    result = recorded_download(mapping(record, "data"))
    model = record_model(record)
    if result is None or not model:
        return None
    namespace = record["metadata"]["namespace"]
    return OnClaim(namespace, record_claim(record), model, result.commit, result.size_bytes, COMPLETE)


def _loading(job: Manifest, step: str) -> OnClaim | None:
    pod, namespace = pod_of(job), job["metadata"]["namespace"]
    container = next(iter(objects(pod, "containers")), {})
    words = [str(word) for part in ("command", "args") for word in container.get(part) or ()]
    model = next((found for word in words if (found := repository_of(word))), "")
    claim = next(iter(mounted_claims(pod).values()), "")
    if not model or not claim:
        return None
    revision = next((word.removeprefix(_REVISION) for word in words if word.startswith(_REVISION)), "")
    return OnClaim(namespace, claim, model, revision, 0, _state(job, step))


def _state(job: Manifest, step: str) -> str:
    end, name = job_end(job), job["metadata"]["name"]
    if end == "Complete":
        return COMPLETE
    return f"half-loaded: Job {name} failed" if end else f"half-loaded: {step or f'Job {name} starts'}"


def job_end(job: Manifest) -> str:
    """`Complete` or `Failed`; empty for a Job that is not over."""
    status = mapping(job, "status")
    return next((end for end in ("Complete", "Failed") if condition(status, end).get("status") == "True"), "")


def _is_known(complete: Sequence[OnClaim], job: OnClaim) -> bool:
    """Whether the model of a Job has a record. The Job may name a branch where the record has the commit."""
    same = [one for one in complete if (one.namespace, one.claim, one.model) == (job.namespace, job.claim, job.model)]
    return any(one.revision == job.revision or job.state == COMPLETE for one in same)


def _missing(resource: Manifest) -> tuple[str, str, str, str] | None:
    model = mapping(resource, "spec", "model")
    claim, repository = claim_of(resource), repository_of(model.get("source"))
    if not claim or not repository:
        return None
    return resource["metadata"]["namespace"], claim, repository, str(model.get("revision") or "")


def _users(one: OnClaim, seen: ClaimObjects) -> tuple[str, ...]:
    here = [found for found in seen.resources if found["metadata"]["namespace"] == one.namespace]
    own = [found for found in seen.records if found["metadata"]["namespace"] == one.namespace]
    uses = claim_uses(one.claim, here, (), own).models
    commits = {"", one.revision} if COMMIT.fullmatch(one.revision) else {use.commit for use in uses}
    return tuple(sorted({use.by.split()[-1] for use in uses if use.repository == one.model and use.commit in commits}))
