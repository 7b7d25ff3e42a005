"""States while the signature of a model's image is verified, and after that has failed."""

from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.inputs import Inputs
from tests.status.sizing_states import Settled
from tests.testing.inspected import job_of
from tests.testing.verified import UNSIGNED, asked_for, ended, with_key


def _unsigned() -> Inputs:
    begun = with_key(asked_for())
    return ended(begun, job_of(outcome(begun).desired), UNSIGNED)


VERIFICATION_STATES: dict[str, Settled] = {
    "first start, the signature is verified": (
        with_key(asked_for()),
        [],
        ("False VerifyingModel", "True VerifyingModel", "False NotStalled"),
    ),
    "first start, the image is not signed": (
        _unsigned(),
        [],
        ("False VerificationFailed", "False Settled", "True VerificationFailed"),
    ),
}
