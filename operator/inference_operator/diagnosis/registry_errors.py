"""What registries of images answer, by the words that container runtimes and Go's clients pass on, and what helps."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.views.pod import PodProblem

_WAIT = re.compile(r"retry-after: ?(\d{1,6}(?:\.\d{1,6})?(?:[mµn]?s|m|h)?)\b", re.IGNORECASE)
"""As GitHub's registry tells it in its message; a client shows no header."""


@dataclass(frozen=True, slots=True)
class RegistryError:
    """Answers with one cause."""

    words: re.Pattern[str]
    problem: str
    on_node: str
    """What helps where the node's container runtime pulls the image."""
    in_job: str
    """What helps where a Job asks the registry."""


_SECRET = "a pull Secret of the namespace's default ServiceAccount or of `spec.podTemplate.imagePullSecrets`"  # noqa: S105 - text of a message
_JOB_SECRET = "a Secret in the operator's `settings.engineDefaults.imagePullSecrets`"  # noqa: S105 - text of a message
_RATE = "or take the image from a mirror (`imageRegistry` of the operator's chart)."
_DENIED = (
    "Give that account the right to read the repository, and check its name: registries say this of missing ones too."
)
_NAME = "Check the image name and its tag or digest; of a mirror, that it has or fetches this repository."

ERRORS: Sequence[RegistryError] = (
    RegistryError(
        re.compile(r"TOOMANYREQUESTS|429 Too Many Requests|status code 429", re.IGNORECASE),
        "the registry receives too many requests from this address or account",
        f"Wait{{wait}}: the kubelet tries again. Name an account with a higher limit in {_SECRET}, {_RATE}",
        f"Wait{{wait}}: the Job tries again. Name an account with a higher limit in {_JOB_SECRET}, {_RATE}",
    ),
    RegistryError(
        re.compile("x509: "),
        "the certificate of the registry or of the proxy is not trusted",
        "Give the node's container runtime the certificate of its authority (containerd: `ca` in"
        " `/etc/containerd/certs.d/HOST/hosts.toml`), and check the node's clock.",
        "Name a file with the certificate of its authority in `SSL_CERT_FILE`, which `spec.engine.env` may set.",
    ),
    RegistryError(
        re.compile("server gave HTTP response to HTTPS client"),
        "the registry speaks no TLS",
        "Serve it with a certificate, or allow plain HTTP for it in the node's container runtime (containerd:"
        " `/etc/containerd/certs.d/HOST/hosts.toml`).",
        "Serve it with a certificate.",
    ),
    RegistryError(
        re.compile(r"UNAUTHORIZED|401 Unauthorized|status code 401|no basic auth credentials", re.IGNORECASE),
        "the registry asks for an account, or refuses the password",
        f"Name a user and a password for this host in {_SECRET}.",
        f"Name a user and a password for this host in {_JOB_SECRET}.",
    ),
    RegistryError(
        re.compile(
            r"(?<!permission )\bdenied:|pull access denied|403 Forbidden|status code 403|insufficient_scope",
            re.IGNORECASE,
        ),
        "the registry does not let this account read the image",
        f"{_DENIED} The account is that of {_SECRET}.",
        f"{_DENIED} The account is that of {_JOB_SECRET}.",
    ),
    RegistryError(
        re.compile(r"/referrers/\S{1,300}: (?:UNSUPPORTED|unexpected status code)"),
        "the registry neither has the referrers API nor says so with 404",
        "",
        "Use a registry of OCI distribution 1.1, or one that answers 404: signatures are then found by their tag.",
    ),
    RegistryError(
        re.compile(
            r"MANIFEST_UNKNOWN|NAME_UNKNOWN|manifest unknown|repository name not known|404 Not Found|: not found$"
        ),
        "the registry has no such image",
        _NAME,
        _NAME,
    ),
    RegistryError(
        re.compile(
            r"i/o timeout|TLS handshake timeout|connection (?:refused|reset)|no such host|server misbehaving"
            r"|no route to host|network is unreachable"
            r"|(?:request canceled|deadline exceeded) .{0,80}awaiting headers",
            re.IGNORECASE,
        ),
        "the registry is not reached",
        "Check the network path from the nodes to the registry (DNS, proxy, firewall), or set `imageRegistry` of the"
        " operator's chart to a registry that they reach.",
        "Check the network path from this namespace to the registry (DNS, proxy, NetworkPolicies), or set"
        " `imageRegistry` of the operator's chart to a registry that it reaches.",
    ),
)
"""Codes of OCI distribution specification 1.1, "Error Codes"; words of containerd 2.1 (`core/remotes/docker`), of Go's
net, net/http and crypto/x509, and of go-containerregistry 0.21 (`pkg/v1/remote/transport/error.go`). The first that
matches counts."""


def registry_error(text: str) -> RegistryError | None:
    return next((error for error in ERRORS if error.words.search(text)), None)


def pull_cure(text: str) -> str:
    """What helps after a failed pull on a node; empty for another cause."""
    error = registry_error(text)
    return with_wait(error.on_node, text) if error else ""


def problem_cure(problem: PodProblem) -> str:
    """What helps against a problem of a pod by its message; empty if the message does not tell."""
    return problem.cure or (pull_cure(problem.cause) if problem.reason is Reason.IMAGE_PULL_FAILED else "")


def with_wait(cure: str, text: str) -> str:
    wait = _WAIT.search(text)
    return cure.replace("{wait}", f" {wait[1]}" if wait else "")
