"""The how-to for caches on a claim: its manifests are valid, and its mount is the parent of every cache of vLLM."""

import re
from pathlib import Path

import yaml

from inference_operator.engines.vllm.vllm import ENVIRONMENT
from inference_operator.manifest import JOB, Manifest
from inference_operator.pipeline.decide import outcome
from tests.testing.builders import ENGINES, inputs, planned

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "caches.md").read_text()


def manifests() -> tuple[Manifest, Manifest, Manifest, Manifest]:
    """The claim, the resource with `cache.claimName`, that of a bucket, and the one with a mount of its own."""
    claim, cached, bucket, resource = (
        yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    )
    return claim, cached, bucket, resource


def test_the_claim_is_mounted_over_every_cache_of_the_engine() -> None:
    claim, _, _, resource = manifests()
    metadata = {**resource["metadata"], "namespace": "default", "uid": "a"}
    pod = planned({**resource, "metadata": metadata}).desired[ENGINES]["spec"]["template"]["spec"]
    assert {"name": "caches", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} in pod["volumes"]
    (container,) = pod["containers"]
    paths = [mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "caches"]
    assert paths == ["/home/vllm/.cache"]
    names = [name for name in ENVIRONMENT if "CACHE" in name or name == "HF_HOME"]
    assert len(names) >= 5
    assert all(ENVIRONMENT[name].startswith(paths[0]) for name in names)


def test_the_request_of_ephemeral_storage_can_be_lowered_as_the_page_says() -> None:
    *_, resource = manifests()
    engine = {"resources": {"requests": {"ephemeral-storage": "10Gi"}}}
    metadata = {**resource["metadata"], "namespace": "default", "uid": "a"}
    spec = {**resource["spec"], "engine": engine}
    pod = planned({**resource, "metadata": metadata, "spec": spec}).desired[ENGINES]["spec"]["template"]["spec"]
    assert pod["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "10Gi"


def test_the_page_names_the_claim_to_which_a_job_downloads_the_model() -> None:
    claim, cached, *_ = manifests()
    metadata = {**cached["metadata"], "namespace": "default", "uid": "a"}
    result = planned({**cached, "metadata": metadata})
    (job,) = [one for ref, one in result.desired.items() if ref.kind == JOB]
    volumes = job["spec"]["template"]["spec"]["volumes"]
    assert {"name": "model-cache", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}} in volumes
    assert ENGINES not in result.desired


def test_the_model_of_a_bucket_is_inspected_with_the_keys_of_the_secret_that_the_page_creates() -> None:
    _, _, bucket, _ = manifests()
    created = re.findall(r"kubectl create secret generic (\S+)", PAGE)
    metadata = {**bucket["metadata"], "namespace": "default", "uid": "a"}
    decided = outcome(inputs({**bucket, "metadata": metadata}))
    (job,) = [one for ref, one in decided.desired.items() if ref.kind == JOB]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    keys = [one["valueFrom"]["secretKeyRef"] for one in container["env"] if "valueFrom" in one]
    assert {one["name"] for one in keys} == set(created)
    written = set(re.findall(r"--from-literal=(\w+)=", PAGE))
    assert written == {one["key"] for one in keys if not one.get("optional")}
