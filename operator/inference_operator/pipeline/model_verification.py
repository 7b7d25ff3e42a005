"""The verification of a model's signature: its objects, and which workloads wait for it."""

from inference_operator.api.reasons import Reason
from inference_operator.inspection.job_progress import ObservedJobs
from inference_operator.models.source import ImageModel
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_wait import after_task
from inference_operator.pipeline.outcomes import Planned, Refused
from inference_operator.verification.job import VerificationRequest
from inference_operator.verification.verification import verification_state, without_verification_jobs


def with_verification(inputs: Inputs, planned: Planned) -> Planned | Refused:
    """The outcome with the objects of the verification; until it has ended, workloads stay as they are."""
    context = planned.roles[0].context
    image, effective = context.source, context.spec.effective
    verify = effective.model.verify
    if verify is None or not isinstance(image, ImageModel) or not inputs.jobs:
        return planned
    access = context.engine.access(effective.engine, effective.model)
    request = VerificationRequest(effective, image, verify, access, inputs.owner, inputs.settings)
    observed = ObservedJobs(inputs.children, inputs.pods, inputs.now, inputs.lookups)
    state = verification_state(request, observed)
    kept = without_verification_jobs(inputs.children)
    return after_task(inputs, planned, state, Reason.VERIFYING_MODEL, kept=kept)
