"""The container that verifies a model's image, with real cosign and a real registry; no cluster runs."""

import base64
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from e2e.cluster.binaries import ensure_cosign
from e2e.local_registry import local_registry, put_image
from e2e.signing import Signer, cosign
from inference_operator.jobs.cosign import Verified, parsed_verification
from inference_operator.jobs.result import Failure
from inference_operator.manifest import Manifest
from inference_operator.pipeline.decide import outcome
from inference_operator.settings import Settings
from inference_operator.views.lookups import ConfigMapLookup, ConfigMapText
from tests.testing.builders import SETTINGS, inference_deployment, inputs
from tests.testing.inspected import job_of

KEY_LOOKUP = ConfigMapLookup("default", "keys", "cosign.pub")
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


Verify = Callable[..., Verified | Failure | None]


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
def verify(tmp_path: Path) -> Verify:
    """Run the Job's container as a process, and read its termination message as the operator does."""

    def run(reference: str, key: str, settings: Settings = SETTINGS, **env: str) -> Verified | Failure | None:
        container = container_of(reference, key, settings)
        said = tmp_path / "termination-log"
        said.write_text("")
        given = {one["name"]: one["value"] for one in container["env"]}
        arguments = [one.replace("/dev/termination-log", str(said)) for one in container["args"]]
        process = subprocess.run(
            [ensure_cosign(), *arguments],
            env={"PATH": os.defpath, **given, **env},
            capture_output=True,
            text=True,
            check=False,
        )
        text = said.read_text() or process.stderr
        found = parsed_verification(text, reference, "key")
        assert (process.returncode == 0) == isinstance(found, Verified), text
        return found

    return run


def container_of(reference: str, key: str, settings: Settings) -> Manifest:
    raw = inference_deployment(hardware={"device": "CPU"})
    model = {"source": f"oci://{reference}", "verify": {"configMapRef": {"name": "keys"}}}
    asked = inputs({**raw, "spec": {**raw["spec"], "model": model}}, settings=settings)
    job = job_of(outcome(replace(asked, lookups={KEY_LOOKUP: ConfigMapText(key)})).desired)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return dict(container)


def problem(found: Verified | Failure | None) -> str:
    assert isinstance(found, Failure)
    return found.why.problem


def test_a_signed_image_is_verified_with_its_key(stock: Stock, verify: Verify) -> None:
    assert verify(stock.signed, stock.key()) == Verified(stock.signed.rpartition("@")[2], "key")


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
    assert "connection refused" in problem(verify(gone, stock.key()))


def test_a_private_registry_needs_the_pull_secret_of_engines(stock: Stock, verify: Verify, tmp_path: Path) -> None:
    passwords, content = tmp_path / "htpasswd", tmp_path / "registry"
    passwords.write_text(f"{USER}:{HASHED}\n")
    content.mkdir()
    (content / "content").symlink_to(stock.folder / "content")
    private = f"auth: {{htpasswd: {{realm: models, path: {passwords}}}}}\n"
    with local_registry(content, more=private) as registry:
        reference = stock.signed.replace(stock.registry, registry)
        assert problem(verify(reference, stock.key())) == "cannot be verified: the registry refuses access."
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        (tmp_path / "config.json").write_text(json.dumps({"auths": {registry: {"auth": login}}}))
        with_secret = Settings.model_validate({"engine_defaults": {"imagePullSecrets": [{"name": "pull"}]}})
        assert isinstance(verify(reference, stock.key(), with_secret, DOCKER_CONFIG=str(tmp_path)), Verified)
