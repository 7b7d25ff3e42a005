"""cosign, which verifies signatures: how a Job calls it, and the errors at the end of its log."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.diagnosis.registry_errors import registry_error, with_wait
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import Manifest
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.container import environment, process_fields
from inference_operator.objects.names import VERIFICATION
from inference_operator.views.raw import mapping, objects
from inference_operator.views.untrusted_text import one_line

_VARIABLE = re.compile(r"(?:HTTP|HTTPS|NO)_PROXY|SSL_CERT_(?:FILE|DIR)", re.IGNORECASE)
"""Variables that cosign's HTTP client reads (Go, net/http and crypto/x509)."""
_CREDENTIALS, _CREDENTIALS_PATH = "registry-credentials", "/registry"

_ERROR = re.compile(r"^Error: (?P<text>.+)$", re.MULTILINE)
"""The line with which cosign ends (cosign 3.1.3, cmd/cosign/main.go)."""


@dataclass(frozen=True, slots=True)
class _Case:
    words: re.Pattern[str]
    problem: str
    cure: str


_CASES: Sequence[_Case] = (
    _Case(re.compile("no signatures found"), "has no signature in its registry.", "Sign it with `cosign sign --key`."),
    _Case(
        re.compile("no matching (?:signatures|attestations)|invalid signature"),
        "is signed, but not with this key.",
        "Sign it with this key as well.",
    ),
    _Case(
        re.compile("loading public key|PEM"),
        "cannot be verified: the key is no public key in PEM.",
        "It has to be the `cosign.pub` of `cosign generate-key-pair`.",
    ),
)
"""Words of cosign 3.1.3, the first that match; those of registries come after them."""


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


def credential_mounts(volumes: Sequence[Manifest]) -> list[Manifest]:
    return [{"name": volume["name"], "mountPath": _CREDENTIALS_PATH, "readOnly": True} for volume in volumes]


def verifies(job: Manifest, reference: str, variable: str, public_key: str | None) -> bool:
    """Whether a Job on the cluster calls cosign for this image with this key, and for nothing else.

    Its end counts only then. A registry in its image's name and more variables may come from admission webhooks.

    Args:
        public_key: the key, in PEM; None for any key.
    """
    pod = mapping(mapping(mapping(job, "spec"), "template"), "spec")
    live = next((container for container in objects(pod, "containers") if container.get("name") == VERIFICATION), {})
    wanted = cosign_process(reference, variable, public_key or "", with_credentials=False)
    keys = [entry.get("value") for entry in objects(live, "env") if entry.get("name") == variable]
    is_key = len(keys) == 1 if public_key is None else keys == [wanted["env"][0]["value"]]
    return is_key and live.get("args") == wanted["args"] and not live.get("command")


def parsed_failure(text: str, reference: str) -> Failure | None:
    match = _ERROR.search(text)
    return _failure(reference, match["text"]) if match else None


def _failure(reference: str, error: str) -> Failure:
    case = next((case for case in _CASES if case.words.search(error)), None)
    if case:
        return Failure(Cause.UNVERIFIED, NotUnderstood(reference, case.problem, case.cure))
    if known := registry_error(error):
        cure = with_wait(known.in_job, error)
        return Failure(Cause.UNVERIFIED, NotUnderstood(reference, f"cannot be verified: {known.problem}.", cure))
    problem = f"cannot be verified: {one_line(error).rstrip('.')}."
    return Failure(Cause.UNVERIFIED, NotUnderstood(reference, problem, "Check that pods reach its registry."))
