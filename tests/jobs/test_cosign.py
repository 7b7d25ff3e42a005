"""What cosign says of an image that is not verified."""

import pytest

from inference_operator.jobs.verification import cosign_process, parsed_failure
from tests.testing.verified import REFERENCE, UNSIGNED

OTHER_KEY = "no matching attestations: failed to verify signature: could not verify envelope: accepted"
NO_PEM = "loading verifier from key opts: loading public key: pem to public key: PEM decoding failed"
NO_HOST = 'Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.1:53: no such host'
REFUSED = "GET https://registry.example/v2/m/manifests/sha256-0: UNAUTHORIZED: authentication required"


def test_a_reference_is_never_an_option_of_cosign() -> None:
    """A user's `oci://--key=https://...` would else verify with the user's key."""
    key = "--key=https://evil.example/k@sha256:0"
    args = cosign_process(key, "COSIGN_PUBLIC_KEY", "k", with_credentials=False)["args"]
    assert args[-2:] == ["--", key]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (UNSIGNED, "has no signature in its registry."),
        (f"Error: {OTHER_KEY}\n", "is signed, but not with this key."),
        (f"Error: {NO_PEM}\n", "cannot be verified: the key is no public key in PEM."),
        (f"Error: {REFUSED}\n", "cannot be verified: the registry asks for an account, or refuses the password."),
        (f"Error: {NO_HOST}\n", "cannot be verified: the registry is not reached."),
    ],
)
def test_each_error_of_cosign_names_the_image_the_problem_and_a_cure(said: str, problem: str) -> None:
    found = parsed_failure(said, REFERENCE)
    assert found
    assert (found.why.field, found.why.problem) == (REFERENCE, problem)
    assert found.why.cure


@pytest.mark.parametrize("text", ["", "Killed", "[]", '[{"critical":[]}]', "WARNING: Error: none"])
def test_anything_else_is_no_error_of_cosign(text: str) -> None:
    assert parsed_failure(text, REFERENCE) is None
