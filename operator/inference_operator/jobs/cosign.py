"""cosign, which verifies signatures: how a Job calls it, and its output in the termination message or the log's end."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.pod_template import PodTemplateSpec
from inference_operator.jobs.result import LIMIT, TERMINATION_MESSAGE, Cause, Failure
from inference_operator.manifest import Manifest
from inference_operator.models.config import NotUnderstood
from inference_operator.objects.container import environment, process_fields
from inference_operator.objects.names import VERIFICATION
from inference_operator.views.pod import one_line
from inference_operator.views.raw import mapping, objects

PUBLIC_KEY = "COSIGN_PUBLIC_KEY"
"""Variable of the container with the public key."""
_VARIABLE = re.compile(r"(?:HTTP|HTTPS|NO)_PROXY|SSL_CERT_(?:FILE|DIR)", re.IGNORECASE)
"""Variables that cosign's HTTP client reads (Go, net/http and crypto/x509)."""
_CREDENTIALS, _CREDENTIALS_PATH = "registry-credentials", "/registry"

_ERROR = re.compile(r"^Error: (?P<text>.+)$", re.MULTILINE)
"""The line with which cosign ends (cosign 3.1.3, cmd/cosign/main.go)."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A signature that cosign has verified."""

    digest: str
    """Of the image, `sha256:...`."""
    key_hash: str
    """Hash of the public key."""


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
        "Name the key that it was signed with, or sign it with this one.",
    ),
    _Case(
        re.compile("loading public key|PEM"),
        "cannot be verified: the key is no public key in PEM.",
        "Put the `cosign.pub` of `cosign generate-key-pair` into the ConfigMap.",
    ),
    _Case(
        re.compile("UNAUTHORIZED|DENIED|denied|40[13]"),
        "cannot be verified: the registry refuses access.",
        "Give the operator's `settings.engineDefaults.imagePullSecrets` a Secret with the right to read it.",
    ),
)
"""Words of cosign 3.1.3 and of registries (OCI distribution specification 1.1, "Error Codes"), the first that match."""


def cosign_process(
    reference: str, public_key: str, env: Sequence[EnvironmentVariable], *, with_credentials: bool
) -> Manifest:
    """The fields of `process_fields` of a container that verifies an image with one key.

    The key alone counts: no transparency log, which clusters without access to the Internet could not ask.

    Args:
        reference: the image, with its digest.
        public_key: the key, in PEM.
        env: variables of engines; those for proxies and certificates are taken.
        with_credentials: whether the container has `credential_mounts`.
    """
    credentials = [{"name": "DOCKER_CONFIG", "value": _CREDENTIALS_PATH}] if with_credentials else []
    own = [variable for variable in env if _VARIABLE.fullmatch(variable.name)]
    output, key = f"--output-file={TERMINATION_MESSAGE}", f"--key=env://{PUBLIC_KEY}"
    return process_fields(
        args=[output, "verify", key, "--insecure-ignore-tlog=true", reference],
        env=[{"name": PUBLIC_KEY, "value": public_key}, *credentials, *environment(own)],
    )


def credential_volumes(added: PodTemplateSpec) -> list[Manifest]:
    """The volume with the first pull Secret of engines, as the file that registry clients read; none without one."""
    secret = next(iter(added.image_pull_secrets), None)
    if secret is None:
        return []
    items = [{"key": ".dockerconfigjson", "path": "config.json"}]
    return [{"name": _CREDENTIALS, "secret": {"secretName": secret.name, "items": items, "optional": True}}]


def credential_mounts(volumes: Sequence[Manifest]) -> list[Manifest]:
    """The mounts of these volumes."""
    return [{"name": one["name"], "mountPath": _CREDENTIALS_PATH, "readOnly": True} for one in volumes]


def asks_the_same(job: Manifest, process: Manifest) -> bool:
    """Whether a Job on the cluster calls cosign as this process does: for the same image with the same key.

    Its exit code counts only then. A registry in the image's name and more variables may come from admission webhooks.
    """
    pod = mapping(mapping(mapping(job, "spec"), "template"), "spec")
    live = next((one for one in objects(pod, "containers") if one.get("name") == VERIFICATION), {})
    same = live.get("args") == process["args"] and not live.get("command")
    return same and _public_keys(live) == _public_keys(process)


def _public_keys(container: Manifest) -> list[object]:
    return [one.get("value") for one in objects(container, "env") if one.get("name") == PUBLIC_KEY]


def parsed_verification(text: str, reference: str, key_hash: str) -> Verified | Failure | None:
    """Read the output of cosign: a list of the signatures that it verified, or the error with which it ended.

    Args:
        text: the termination message: JSON, or the end of the log.
        reference: the image, with its digest.
        key_hash: hash of the public key that cosign had.

    Examples:
        >>> parsed_verification("Error: no signatures found", "registry/a@sha256:0", "k").message
        'registry/a@sha256:0: has no signature in its registry. Sign it with `cosign sign --key`.'
        >>> signed = '[{"critical":{"image":{"docker-manifest-digest":"sha256:0"}}}]'
        >>> parsed_verification(signed, "registry/a@sha256:0", "k")
        Verified(digest='sha256:0', key_hash='k')
        >>> parsed_verification(signed, "registry/a@sha256:1", "k") is None
        True
    """
    digest = reference.rpartition("@")[2]
    if digest in _digests(text):
        return Verified(digest, key_hash)
    said = _ERROR.search(text)
    return _failure(reference, said["text"]) if said else None


def verified_by_exit(text: str, reference: str, key_hash: str) -> Verified | None:
    """The result of cosign's exit code 0, with which it says that the image is signed with the key.

    The termination message cannot hold its list of many signatures, and has only the beginning then.

    Args:
        text: the termination message.
        reference: the image that cosign was called with, with its digest.
        key_hash: hash of the public key that cosign had.

    Examples:
        >>> verified_by_exit('[{"critical":{"ima', "registry/a@sha256:0", "k")
        Verified(digest='sha256:0', key_hash='k')
        >>> other = '[{"critical":{"image":{"docker-manifest-digest":"sha256:1"}}}]'
        >>> verified_by_exit(other, "registry/a@sha256:0", "k") is None
        True
    """
    digest = reference.rpartition("@")[2]
    return Verified(digest, key_hash) if _digests(text) <= {digest} else None


def _digests(text: str) -> set[str]:
    """The digests of the images whose signatures were verified; none if the text is anything else."""
    try:
        signatures = json.loads(text) if len(text) <= LIMIT else None
    except (ValueError, RecursionError):
        return set()
    found = signatures if isinstance(signatures, list) else []
    images = (mapping(mapping(one, "critical"), "image") for one in found if isinstance(one, dict))
    return {str(image.get("docker-manifest-digest", "")) for image in images}


def _failure(reference: str, said: str) -> Failure:
    case = next((case for case in _CASES if case.words.search(said)), None)
    if case:
        return Failure(Cause.UNVERIFIED, NotUnderstood(reference, case.problem, case.cure))
    problem = f"cannot be verified: {one_line(said).rstrip('.')}."
    return Failure(Cause.UNVERIFIED, NotUnderstood(reference, problem, "Check that pods reach its registry."))
