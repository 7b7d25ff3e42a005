"""A model in a bucket: its Jobs reach the store, and engines load the snapshot on the claim without any key."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from inference_operator.api.container import EnvironmentVariable
from inference_operator.api.pod_defaults import EngineDefaults
from inference_operator.api.reasons import Reason
from inference_operator.jobs.download_result import Downloaded, downloaded_text
from inference_operator.jobs.result import Cause, Failure
from inference_operator.manifest import CONFIG_MAP, JOB, Manifest, Ref
from inference_operator.models.config import NotUnderstood
from inference_operator.models.entry import Entry
from inference_operator.pipeline.decide import outcome
from inference_operator.pipeline.outcomes import NeedsInspection, Outcome, Planned, Refused
from inference_operator.settings import Settings
from tests.pipeline.test_model_files import ALWAYS, CPUS, inspected, later, qwen, with_weights
from tests.testing.builders import ENGINES, inference_deployment, inputs
from tests.testing.inspected import job_of

DIGEST = "89abcdef0123456789abcdef0123456789abcdef"
SOURCE = "s3://models/qwen/8b"
STORE = {"endpoint": "https://s3.eu-1.example.com", "region": "eu-1", "credentialsSecretRef": {"name": "store"}}
KEYS = [
    {"name": "store", "key": "AWS_ACCESS_KEY_ID"},
    {"name": "store", "key": "AWS_SECRET_ACCESS_KEY"},
    {"name": "store", "key": "AWS_SESSION_TOKEN", "optional": True},
]
UNREACHABLE = Failure(Cause.UNREACHABLE, NotUnderstood(SOURCE, "the store cannot be reached.", "Check."))


def asked(**model: object) -> Manifest:
    return {"model": {"source": SOURCE, **model}, "cache": {"claimName": "models"}}


def found_in_bucket() -> Entry:
    return replace(with_weights(qwen()), name=SOURCE, source=f"{SOURCE}@{DIGEST}:config.json", commit=DIGEST)


def container_of(found: Outcome) -> Manifest:
    (container,) = job_of(found.desired)["spec"]["template"]["spec"]["containers"]
    return dict(container)


def variables(container: Mapping[str, list[Mapping[str, str]]]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container["env"] if one["name"] != "HOME" and "value" in one}


def keys(container: Mapping[str, list[Mapping[str, Manifest]]]) -> list[Manifest]:
    return [one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one]


def test_the_inspection_of_a_bucket_has_the_store_of_the_spec_and_the_keys_of_the_secret() -> None:
    found = outcome(inputs(inference_deployment(**asked(s3=STORE)), settings=ALWAYS))
    assert isinstance(found, NeedsInspection)
    container = container_of(found)
    assert container["command"] == ["infd", "inspect", SOURCE]
    assert not [argument for argument in container["args"] if argument.startswith("--folder")]
    assert variables(container) == {"AWS_ENDPOINT_URL": "https://s3.eu-1.example.com", "AWS_REGION": "eu-1"}
    assert keys(container) == KEYS
    assert "envFrom" not in container


def test_variables_of_the_owner_reach_the_store_and_those_of_the_spec_come_first() -> None:
    defaults = (("AWS_REGION", "us-2"), ("AWS_SKIP_SIGNATURE", "true"), ("HF_TOKEN", "hf_1"))
    owner = EngineDefaults(env=tuple(EnvironmentVariable(name=name, value=value) for name, value in defaults))
    settings = Settings(model_inspection=ALWAYS.model_inspection, engine_defaults=owner)
    found = outcome(inputs(inference_deployment(**asked(s3={"region": "eu-1"})), settings=settings))
    container = container_of(found)
    assert variables(container) == {"AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "eu-1"}
    assert keys(container) == []
    assert "envFrom" not in container


def test_a_store_and_a_secret_of_the_spec_replace_all_that_the_owner_says_of_them() -> None:
    """The client has other names for an endpoint and for a key."""
    kept = ("AWS_PROXY_URL", "HTTPS_PROXY")
    names = ("AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_SKIP_SIGNATURE", "AWS_ENDPOINT_URL_S3", *kept)
    owner = EngineDefaults(env=tuple(EnvironmentVariable(name=name, value="owner") for name in names))
    settings = Settings(model_inspection=ALWAYS.model_inspection, engine_defaults=owner)
    container = container_of(outcome(inputs(inference_deployment(**asked(s3=STORE)), settings=settings)))
    assert keys(container) == KEYS
    assert variables(container) == {
        **dict.fromkeys(kept, "owner"),
        "AWS_ENDPOINT_URL": "https://s3.eu-1.example.com",
        "AWS_REGION": "eu-1",
    }


@pytest.mark.parametrize("hardware", [{}, CPUS], ids=["GPUs", "CPUs"])
def test_engines_load_the_snapshot_of_the_inspected_listing_and_get_no_key(hardware: Manifest) -> None:
    found = outcome(replace(inspected(found_in_bucket(), **asked(s3=STORE), hardware=hardware), jobs=False))
    assert isinstance(found, Planned)
    (engine,) = found.desired[ENGINES]["spec"]["template"]["spec"]["containers"]
    assert engine["args"][0] == f"/model-cache/s3--models--qwen--8b/snapshots/{DIGEST}"
    assert not [argument for argument in engine["args"] if "revision" in argument]
    assert "envFrom" not in engine
    assert not [one for one in engine["env"] if one["name"].startswith("AWS_")]
    assert {one["name"]: one.get("value") for one in engine["env"]}["HF_HUB_OFFLINE"] == "1"


def test_a_model_that_an_earlier_release_has_downloaded_is_neither_inspected_nor_downloaded_again() -> None:
    """That release gave its Jobs all keys of the Secret, so their names and hashes were others."""
    before = inspected(found_in_bucket(), **asked(s3=STORE))
    first = outcome(before)
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "qwen-cache-412f7085581a431c", "namespace": "default"},
        "data": {"download.json": downloaded_text(Downloaded(DIGEST, 16_381_470_720, 5))},
    }
    known = Ref(CONFIG_MAP, "default", "qwen-model-b946f757f63d4e01")
    children = {Ref.of(record): record, known: first.desired[known]}
    found = outcome(later(before, first, children))
    assert isinstance(found, Planned)
    assert JOB not in {ref.kind for ref in found.desired}
    assert ENGINES in found.desired


@pytest.mark.parametrize("hardware", [{}, CPUS], ids=["GPUs", "CPUs"])
def test_a_store_that_cannot_be_asked_is_refused_since_engines_need_the_digest_of_the_listing(
    hardware: Manifest,
) -> None:
    found = outcome(inspected(UNREACHABLE, **asked(), hardware=hardware, parallelism={"tensor": 1}))
    assert isinstance(found, Refused)
    assert found.refusal.reason is Reason.HUB_UNREACHABLE
    assert "the store cannot be reached" in found.refusal.message
    assert JOB in {ref.kind for ref in found.desired}
