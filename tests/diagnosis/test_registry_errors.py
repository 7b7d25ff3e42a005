"""What helps after an answer of a registry, by the words of containerd and of Go's client of registries."""

import pytest

from inference_operator.diagnosis.registry_errors import ERRORS, pull_cure, registry_error, with_wait

DIGEST = "sha256:" + "403429401" * 7 + "4"
"""Digits of a digest are no status."""
GET = f"GET https://registry.example/v2/models/manifests/{DIGEST}: "
PULL = f'failed to pull and unpack image "registry.example/models@{DIGEST}": failed to resolve reference: '
HEAD = f"unexpected status from HEAD request to https://registry.example/v2/models/manifests/{DIGEST}: "
NO_HOST = "dial tcp: lookup registry.example on 10.0.0.1:53: no such host"
CASES = {
    "too many requests": (
        f"{PULL}{HEAD}429 Too Many Requests",
        f"{GET}TOOMANYREQUESTS: You have reached your pull rate limit.",
        f"{GET}unexpected status code 429 Too Many Requests: <html>",
        f"{PULL}toomanyrequests: retry-after: 30s, allowed: 44000/minute",
    ),
    "certificate": (f"{PULL}failed to do request: Head: x509: certificate signed by unknown authority",),
    "speaks no TLS": (f"{PULL}failed to do request: Head: http: server gave HTTP response to HTTPS client",),
    "asks for an account": (
        f"{PULL}{HEAD}401 Unauthorized",
        f"{GET}UNAUTHORIZED: authentication required",
        (
            f"{PULL}failed to authorize: failed to fetch oauth token: unexpected status from GET request to"
            " https://auth.example/token: 401 Unauthorized"
        ),
    ),
    "does not let this account": (
        f"{PULL}{HEAD}403 Forbidden",
        f"{GET}DENIED: requested access to the resource is denied",
        (
            f"{PULL}pull access denied, repository does not exist or may require authorization: server message:"
            " insufficient_scope: authorization failed"
        ),
    ),
    "referrers API": (
        f"GET https://registry.example/v2/models/referrers/{DIGEST}: unexpected status code 405 Method Not Allowed",
    ),
    "no such image": (f"{PULL}registry.example/models@{DIGEST}: not found", f"{GET}MANIFEST_UNKNOWN: manifest unknown"),
    "is not reached": (NO_HOST, "dial tcp: lookup ghcr.io on 10.0.0.10:53: read udp: i/o timeout"),
}


@pytest.mark.parametrize("words", CASES)
def test_an_answer_of_a_registry_has_its_cause_and_cures(words: str) -> None:
    for text in CASES[words]:
        found = registry_error(text)
        assert found
        assert words in found.problem, text
        assert with_wait(found.in_job, text).endswith(".")


def test_every_cause_has_a_case() -> None:
    assert [registry_error(texts[0]) for texts in CASES.values()] == list(ERRORS)


@pytest.mark.parametrize(
    "text",
    [
        f"{GET}unexpected status code 500 Internal Server Error",
        "open /var/lib/containerd/tmpmounts/a: permission denied",
        "",
    ],
)
def test_another_error_has_none(text: str) -> None:
    assert (registry_error(text), pull_cure(text)) == (None, "")


def test_the_wait_is_told_if_the_registry_tells_it() -> None:
    told, untold = CASES["too many requests"][3], CASES["too many requests"][0]
    assert pull_cure(told).startswith("Wait 30s: the kubelet tries again.")
    assert pull_cure(untold).startswith("Wait: the kubelet tries again.")
    assert pull_cure("toomanyrequests: retry-after: 99999999999s").startswith("Wait: ")
