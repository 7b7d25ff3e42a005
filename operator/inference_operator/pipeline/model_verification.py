"""The part of verifications: engines wait until the signatures of their images are verified."""

from collections.abc import Iterator

from inference_operator.admission.administrator_refusals import BEGIN
from inference_operator.admission.administrator_rules import SIGNATURES_KEY
from inference_operator.admission.named_parts import images
from inference_operator.api.reasons import Reason
from inference_operator.api.spec import Spec
from inference_operator.jobs.verification import (
    PublicKey,
    Verification,
    all_verified,
    succeeded_jobs,
    verification_state,
)
from inference_operator.models.source import ImageModel
from inference_operator.pipeline.inputs import Inputs
from inference_operator.pipeline.model_wait import ModelStep, observed_jobs, task_part
from inference_operator.pipeline.outcomes import Planned
from inference_operator.pipeline.part import Feature, Hold, Part
from inference_operator.roles.context import SharedContext
from inference_operator.views.lookups import ConfigMapLookup


def needs_verification(inputs: Inputs, spec: Spec) -> bool:
    return spec.model.verify is not None or bool(inputs.settings.policy.signatures.key)


def verification(inputs: Inputs, planned: Planned) -> ModelStep:
    """The objects of the verifications. Until all have ended, engines stay as they are.

    What the owner requires is like a rule of the policy that refuses: until it is verified nothing else changes either,
    and nothing new is made.
    """
    if not inputs.jobs:
        return ModelStep(Part(feature=Feature.VERIFICATION))
    observed, succeeded = observed_jobs(inputs), succeeded_jobs(inputs.children, inputs.owner)
    asked, demanded = _asked_by_user(planned.shared), _required_by_owner(planned)
    required = [verification_state(verification, observed, succeeded) for verification in demanded]
    states = [*(verification_state(verification, observed, succeeded) for verification in asked), *required]
    if not states:
        return ModelStep(Part(feature=Feature.VERIFICATION))
    state = all_verified(states, succeeded, inputs.now)
    part = task_part(inputs, planned, Feature.VERIFICATION, state, Reason.VERIFYING_MODEL)
    if state.refusal or not all(verification.complete for verification in required):
        return ModelStep(part, state.refusal, Hold.ALL)
    return ModelStep(part, hold=Hold.NOTHING if state.complete else Hold.ENGINES)


def _asked_by_user(shared: SharedContext) -> Iterator[Verification]:
    verify = shared.effective.model.verify
    if verify is None or not isinstance(shared.source, ImageModel):
        return
    ref = verify.config_map_ref
    look = ConfigMapLookup(shared.owner.key.namespace, ref.name, ref.key)
    key = PublicKey(f"the key `{ref.key}` of the ConfigMap `{ref.name}`", look)
    yield Verification(shared, shared.source.reference, "the image", "spec.model.verify", key)


def _required_by_owner(planned: Planned) -> Iterator[Verification]:
    """The verifications of all images that the specification of a role names with the key in the setting `policy`."""
    required = planned.shared.settings.policy.signatures
    if not required.key:
        return
    demand = BEGIN.format(SIGNATURES_KEY, "requires a signature.")
    key = PublicKey("the key of this cluster's policy", required.key, "COSIGN_POLICY_KEY", demand, required.message)
    named = {text: f"spec.{field}" for role in planned.roles for field, text in images(role.context.spec.stated)}
    for reference, field in named.items():
        yield Verification(planned.shared, reference, f"the image in `{field}`", field, key)
