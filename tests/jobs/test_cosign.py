"""What cosign says of an image that is not verified."""

import pytest

from inference_operator.jobs.cosign import parsed_failure
from tests.testing.verified import REFERENCE, UNSIGNED

OTHER_KEY = "no matching attestations: failed to verify signature: could not verify envelope: accepted"
NO_PEM = "loading verifier from key opts: loading public key: pem to public key: PEM decoding failed"
NO_HOST = 'Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.1:53: no such host'
REFUSED = "GET https://registry.example/v2/m/manifests/sha256-0: UNAUTHORIZED: authentication required"


def test_the_image_after_the_last_verified_one_is_named() -> None:
    others = [f"registry.example/models/{name}@sha256:{digit * 64}" for name, digit in (("a", "a"), ("b", "b"))]
    header = f"\nVerification for {others[0]} --\nThe following checks were performed on each of these signatures:\n"
    for said, named in ((UNSIGNED, others[0]), (header + UNSIGNED, others[1])):
        found = parsed_failure(said, others)
        assert found
        assert found.why.field == named
    hub = ["docker.io/library/a@sha256:0", "registry.example/a@sha256:0"]
    unsigned = parsed_failure(f"Verification for index.{hub[0]} --\n{UNSIGNED}", hub)
    assert unsigned
    assert unsigned.why.field == hub[1]
    unknown = parsed_failure(header.replace("aaaa", "cccc") + UNSIGNED, others)
    assert unknown
    assert unknown.why.field == others[0]


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
    found = parsed_failure(said, [REFERENCE])
    assert found
    assert (found.why.field, found.why.problem) == (REFERENCE, problem)
    assert found.why.cure


@pytest.mark.parametrize("text", ["", "Killed", "[]", '[{"critical":[]}]', "WARNING: Error: none"])
def test_anything_else_is_no_error_of_cosign(text: str) -> None:
    assert parsed_failure(text, [REFERENCE]) is None
