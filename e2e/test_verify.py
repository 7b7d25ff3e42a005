"""The container that verifies a model's image, with real cosign and a real registry; no cluster runs."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from e2e.deploy.local_registry import local_registry, put_image
from e2e.deploy.signing import Signer, cosign
from e2e.go_modules import ensure_cosign
from inference_operator.jobs.result import Failure
from inference_operator.jobs.verification import cosign_process, parsed_failure
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.settings import Settings
from inference_operator.views.lookups import ConfigMapLookup, ConfigMapText
from tests.testing.builders import SETTINGS, inference_deployment, inputs
from tests.testing.inspected import job_of

KEY_LOOKUP = ConfigMapLookup("default", "keys", "cosign.pub")
LOG_END = 2048
"""Bytes of a log that a termination message gets (Kubernetes 1.36, `MaxContainerTerminationMessageLogLength`)."""
USER, PASSWORD = "reader", "of this test"
HASHED = "$2b$05$IV32RDHJIJhGy2opT.D6Qut3qsgx86rbGyr1RrzLpKIHd9kP7919."
"""Its bcrypt hash, as the registry reads it."""


@dataclass(frozen=True, slots=True)
class Stock:
    """A registry with a signed image and one without a signature, and two pairs of keys."""

    registry: str
    folder: Path
    signed: str
    unsigned: str

    def key(self, name: str = "own") -> str:
        return (self.folder / f"{name}.pub").read_text()


Verify = Callable[..., Failure | None]
"""None if cosign has ended with success."""


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stock]:
    """What this module's tests share."""
    folder = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as patch, local_registry(folder) as registry:
        patch.setenv("COSIGN_PASSWORD", PASSWORD)
        for name in ("own", "other"):
            cosign("generate-key-pair", f"--output-key-prefix={folder / name}")
        references = []
        for name in ("signed", "unsigned"):
            (folder / name).mkdir()
            (folder / name / "config.json").write_text(json.dumps({"name": name}))
            references.append(f"{registry}/{name}@{put_image(registry, name, '1', folder / name)}")
        Signer(folder / "own.key").sign(references[0])
        yield Stock(registry, folder, *references)


@pytest.fixture
def verify() -> Verify:
    """Run the Job's container as a process, and read the end of its log as the operator does."""

    def run(reference: str, key: str, settings: Settings = SETTINGS, **env: str) -> Failure | None:
        return verified_by(container_of(reference, key, settings), reference, **env)

    return run


def verified_by(container: Manifest, reference: str, **env: str) -> Failure | None:
    """The failure of the container; None if it ends with exit code 0, which is the Job's success."""
    given = {one["name"]: one["value"] for one in container["env"]}
    process = subprocess.run(
        [ensure_cosign(), *container["args"]],
        env={"PATH": os.defpath, **given, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    log = (process.stdout + process.stderr)[-LOG_END:]
    found = parsed_failure(log, reference)
    assert (process.returncode == 0) == (found is None), log
    return found


def container_of(reference: str, key: str, settings: Settings) -> Manifest:
    raw = inference_deployment(hardware={"device": "CPU"})
    model = {"source": f"oci://{reference}", "verify": {"configMapRef": {"name": "keys"}}}
    asked = inputs({**raw, "spec": {**raw["spec"], "model": model}}, settings=settings)
    job = job_of(outcome(replace(asked, lookups={KEY_LOOKUP: ConfigMapText(key)})).desired)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return dict(container)


def problem(found: Failure | None) -> str:
    assert found
    return found.why.problem


def test_a_signed_image_is_verified_with_its_key(stock: Stock, verify: Verify) -> None:
    assert verify(stock.signed, stock.key()) is None


def test_an_image_that_looks_like_an_option_verifies_nothing(stock: Stock) -> None:
    """cosign would take the key that it names instead of the one that it is given."""
    option = f"--key={stock.folder / 'other.pub'}"
    container = cosign_process(option, "COSIGN_PUBLIC_KEY", stock.key("other"), with_credentials=False)
    assert "reference" in problem(verified_by(container, option))


def test_an_image_without_a_signature_is_not_verified(stock: Stock, verify: Verify) -> None:
    assert problem(verify(stock.unsigned, stock.key())) == "has no signature in its registry."


def test_an_image_that_another_key_has_signed_is_not_verified(stock: Stock, verify: Verify) -> None:
    assert problem(verify(stock.signed, stock.key("other"))) == "is signed, but not with this key."


def test_a_signature_does_not_count_for_another_image_of_the_registry(stock: Stock, verify: Verify) -> None:
    other = f"{stock.signed.partition('@')[0]}@{stock.unsigned.rpartition('@')[2]}"
    assert problem(verify(other, stock.key())) == "has no signature in its registry."


def test_text_that_is_no_key_is_named(stock: Stock, verify: Verify) -> None:
    assert problem(verify(stock.signed, "not a key\n")) == "cannot be verified: the key is no public key in PEM."


def test_a_registry_that_does_not_answer_is_named(stock: Stock, verify: Verify) -> None:
    gone = f"localhost:1/signed@{stock.signed.rpartition('@')[2]}"
    assert "the registry is not reached" in problem(verify(gone, stock.key()))


def test_a_private_registry_needs_the_pull_secret_of_engines(stock: Stock, verify: Verify, tmp_path: Path) -> None:
    passwords, content = tmp_path / "htpasswd", tmp_path / "registry"
    passwords.write_text(f"{USER}:{HASHED}\n")
    content.mkdir()
    (content / "content").symlink_to(stock.folder / "content")
    private = f"auth: {{htpasswd: {{realm: models, path: {passwords}}}}}\n"
    with local_registry(content, more=private) as registry:
        reference = stock.signed.replace(stock.registry, registry)
        assert "asks for an account" in problem(verify(reference, stock.key()))
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {registry: {"auth": login}}}))
        with_secret = Settings.model_validate({"engine_defaults": {"imagePullSecrets": [{"name": "pull"}]}})
        assert verify(reference, stock.key(), with_secret, DOCKER_CONFIG=str(tmp_path)) is None
