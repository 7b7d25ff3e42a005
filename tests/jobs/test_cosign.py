"""What cosign says: a verified image, or why it is not verified."""

import pytest

from inference_operator.jobs.cosign import Verified, parsed_verification
from inference_operator.jobs.result import LIMIT, Failure
from tests.testing.verified import DIGEST, REFERENCE, SIGNED, UNSIGNED

OTHER_KEY = "no matching attestations: failed to verify signature: could not verify envelope: accepted"
NO_PEM = "loading verifier from key opts: loading public key: pem to public key: PEM decoding failed"
NO_HOST = 'Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.1:53: no such host'
REFUSED = "GET https://registry.example/v2/m/manifests/sha256-0: UNAUTHORIZED: authentication required"


def test_a_verified_signature_counts_for_its_digest_only() -> None:
    assert parsed_verification(f"\n{SIGNED}\n", REFERENCE, "k") == Verified(DIGEST, "k")
    assert parsed_verification(SIGNED, REFERENCE.replace("0123", "ffff", 1), "k") is None


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (UNSIGNED, "has no signature in its registry."),
        (f"Error: {OTHER_KEY}\n", "is signed, but not with this key."),
        (f"Error: {NO_PEM}\n", "cannot be verified: the key is no public key in PEM."),
        (f"Error: {REFUSED}\n", "cannot be verified: the registry refuses access."),
        (f"Error: {NO_HOST}\n", f"cannot be verified: {NO_HOST}."),
    ],
)
def test_each_error_of_cosign_names_the_image_the_problem_and_a_cure(said: str, problem: str) -> None:
    found = parsed_verification(said, REFERENCE, "k")
    assert isinstance(found, Failure)
    assert (found.why.field, found.why.problem) == (REFERENCE, problem)
    assert found.why.cure


@pytest.mark.parametrize(
    "text", ["", "Killed", "[]", "[1]", "{}", "[{}]", '[{"critical":[]}]', "[" * 2000, SIGNED + " " * LIMIT]
)
def test_anything_else_verifies_nothing(text: str) -> None:
    assert parsed_verification(text, REFERENCE, "k") is None
