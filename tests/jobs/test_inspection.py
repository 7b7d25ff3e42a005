"""The Job that inspects a model, and the ConfigMap with its result."""

import copy
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.api.model import ModelSpec
from inference_operator.api.spec import MAX_NAME_LENGTH
from inference_operator.jobs.attempts import job_attempt
from inference_operator.jobs.inspection import MODEL_FILE, inspection_task, model_record
from inference_operator.manifest import CONFIG_MAP, JOB, Key, Manifest, Owner, Ref
from inference_operator.models.checkpoint import Weights
from inference_operator.models.entry import Entry
from inference_operator.objects.names import INSPECTION, job_name
from inference_operator.settings import Settings
from tests.jobs.shared import shared_context
from tests.testing.builders import KEY, UID, inference_deployment
from tests.testing.collected import entry
from tests.testing.everything import POD_TEMPLATE, SCHEDULING
from tests.testing.schemas import validate

SETTINGS = Settings(operator_image="example.com/operator:1", image_pull_policy="Never")
OWNER = Owner(KEY, UID)
ENV = [
    {"name": "HF_ENDPOINT", "value": "http://mirror.example"},
    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hugging-face", "key": "token"}}},
    {"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"},
    {"name": "VLLM_LOGGING_LEVEL", "value": "DEBUG"},
]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
SOURCES = ["hf://org/model", "pvc://models/a/b", "oci://ghcr.io/org/model:1"]


def job(source: str = "hf://org/model", *, number: int = 1, owner: Owner = OWNER, **more: object) -> Manifest:
    raw = inference_deployment(source=source)
    return inspection_task(shared_context({**raw, "spec": {**raw["spec"], **more}}, owner, SETTINGS)).job(number, None)


def pod(manifest: Manifest) -> Manifest:
    pod_spec: Manifest = manifest["spec"]["template"]["spec"]
    return pod_spec


def container(manifest: Manifest) -> Manifest:
    (main_container,) = pod(manifest)["containers"]
    assert isinstance(main_container, dict)
    return main_container


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("more", [{}, {"podTemplate": POD_TEMPLATE, "scheduling": SCHEDULING, "engine": {"env": ENV}}])
def test_an_inspection_job_is_valid_restricted_and_bounded(source: str, more: dict[str, Any]) -> None:
    made = job(source, **more)
    assert Ref.of(made).kind == JOB
    validate(copy.deepcopy(made), "1.36")
    assert made["spec"]["backoffLimit"] == 0
    assert made["spec"]["activeDeadlineSeconds"] > 0
    assert pod(made)["automountServiceAccountToken"] is False
    assert pod(made)["securityContext"]["runAsNonRoot"] is True
    assert container(made)["securityContext"]["readOnlyRootFilesystem"] is True
    assert set(container(made)["resources"]["requests"]) == set(container(made)["resources"]["limits"])
    assert container(made)["image"] == "example.com/operator:1"


@pytest.mark.parametrize("source", SOURCES)
def test_an_inspection_job_mounts_the_model_as_the_engine_does(source: str) -> None:
    made = job(source)
    assert container(made)["command"] == ["infd", "inspect", source]
    assert ("--folder=/models" in container(made)["args"]) is not source.startswith("hf://")
    volumes = {volume["name"]: volume for volume in pod(made)["volumes"]}
    mounts = {mount["name"]: mount for mount in container(made)["volumeMounts"]}
    assert volumes.keys() == mounts.keys()
    assert mounts.get("model", {"readOnly": True})["readOnly"] is True


def test_an_inspection_job_has_the_engines_environment_for_the_hub() -> None:
    env = {one["name"]: one for one in container(job(engine={"env": ENV}))["env"]}
    assert env["HF_TOKEN"] == ENV[1]
    assert env["HF_HOME"]["value"].startswith(env["HOME"]["value"])
    assert {"HF_ENDPOINT", "HTTPS_PROXY"} <= env.keys()
    assert not [name for name in env if name.startswith("VLLM")]


def test_an_inspection_job_reads_the_engines_revision() -> None:
    assert "--revision=v2" in container(job(model={"source": "hf://org/model", "revision": "v2"}))["args"]


def test_an_inspection_job_has_the_token_of_the_models_secret() -> None:
    token = {"name": "hub", "key": "token"}
    env = container(job(model={"source": "hf://org/model", "tokenSecretRef": token}))["env"]
    assert {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": token}} in env


def test_an_inspection_job_has_the_node_selector_only_for_a_model_in_a_volume() -> None:
    asked = {"nodeSelector": {"pool": "a"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]}
    hub, claim = (pod(job(source, scheduling=asked)) for source in SOURCES[:2])
    assert hub["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert claim["nodeSelector"] == {"kubernetes.io/os": "linux", "pool": "a"}
    assert len(hub["tolerations"]) == len(claim["tolerations"]) == 2


def test_each_attempt_and_each_changed_content_has_a_separate_inspection_job() -> None:
    made = [job(), job(number=2), job(engine={"env": ENV}), job("hf://org/other"), job(owner=Owner(Key("a", "b"), UID))]
    assert len({one["metadata"]["name"] for one in made}) == len(made)
    assert job()["metadata"]["name"] == job(replicas=3)["metadata"]["name"]
    read = [job_attempt(one, ()) for one in made]
    assert [one.number for one in read] == [1, 2, 1, 1, 1]
    assert read[0].job_hash == read[1].job_hash != read[2].job_hash


@given(st.from_regex(f"[a-z]([-a-z0-9]{{0,{MAX_NAME_LENGTH - 2}}}[a-z0-9])?", fullmatch=True), st.integers(1, 9999))
def test_inspection_job_names_are_valid_with_the_suffix_of_the_pod(name: str, number: int) -> None:
    made = job_name(name, INSPECTION, "0123456789abcdef", number)
    assert len(f"{made}-abcde") <= 63
    assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", made)


def test_the_model_config_map_stores_the_inspection_result() -> None:
    inspected = Entry("org/model", "hf://org/model@1:config.json", {"num_hidden_layers": 2}, Weights(7, "one"), "1")
    record = model_record(ModelSpec(source="hf://org/model"), None, owner=OWNER)
    made = record.manifest(inspected)
    validate(copy.deepcopy(made), "1.36")
    assert Ref.of(made) == record.ref
    assert record.ref.kind == CONFIG_MAP
    assert record.stored({record.ref: made}) == inspected


def test_each_source_revision_and_consent_to_pickle_has_a_separate_model_config_map() -> None:
    one, other = ModelSpec(source="hf://a/b"), ModelSpec(source="hf://a/c")
    consented = ModelSpec.model_validate({"source": "hf://a/b", "revision": COMMIT, "allowPickle": True})
    asked = [(one, None), (one, "v1"), (other, None), (one, COMMIT), (consented, COMMIT)]
    assert len({model_record(model, revision, owner=OWNER).ref for model, revision in asked}) == len(asked)


def test_an_inspection_job_accepts_pickle_files_only_with_consent() -> None:
    consented = job(model={"source": "hf://org/model", "revision": COMMIT, "allowPickle": True})
    assert "--allow-pickle" in container(consented)["args"]
    assert "--allow-pickle" not in container(job(model={"source": "hf://org/model", "revision": COMMIT}))["args"]


@pytest.mark.parametrize("data", [None, {}, {MODEL_FILE: "edited"}, {MODEL_FILE: '{"error": {}}'}, [], {MODEL_FILE: 7}])
def test_a_missing_or_invalid_model_config_map_has_no_result(data: object) -> None:
    record = model_record(ModelSpec(source="hf://org/model"), None, owner=OWNER)
    assert record.stored({record.ref: {"data": data}}) is None
    assert record.stored({}) is None


def test_the_model_config_map_holds_the_largest_model_config() -> None:
    known = entry("deepseek-ai/DeepSeek-V3")
    assert known
    record = model_record(ModelSpec(source="hf://a/b"), None, owner=OWNER)
    assert record.stored({record.ref: record.manifest(Entry("a/b", "x", known.config, Weights(7, "one")))})
