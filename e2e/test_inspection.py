"""A model in a volume that is in no catalogue: an inspection Job with the operator's image reads its files.

The first test runs every pod as a user that the platform chooses, so that inspection, engine, routers and operator are
proved to run so.
"""

import json
from collections.abc import Iterator

import pytest
import yaml

from e2e import images
from e2e.deploy import stack
from e2e.helpers.arbitrary_user import USER, identities, users_from_platform
from e2e.helpers.node_status_gpus import gpus_of_kind
from e2e.helpers.served_deployment import Served
from e2e.helpers.volume_claim import claim_of_model
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from e2e.model.tiny_llama import model_folder

NAME, FOLDER = "arbitrary", "llamas/tiny"
INSPECTED = "--selector=app.kubernetes.io/component=inspection"
INSPECTED_SECONDS = 180
"""Limit for a Job's first result on two busy cores."""


@pytest.fixture(scope="module")
def claim(cluster: LocalCluster) -> Iterator[str]:
    """A claim of a local disk that holds the tiny model's files."""
    with claim_of_model(cluster, "inspected", FOLDER) as name:
        yield name


@pytest.fixture
def served(cluster: LocalCluster) -> Iterator[Served]:
    """The InferenceDeployment that is served, deleted after its test."""
    served = Served(cluster, NAME)
    yield served
    served.leave()


@pytest.fixture
def missing(cluster: LocalCluster) -> Iterator[Served]:
    """The InferenceDeployment without a model, deleted after its test."""
    served = Served(cluster, "missing-folder")
    yield served
    served.leave()


def test_an_unknown_model_in_a_volume_is_inspected_sized_and_served_by_pods_of_an_arbitrary_user(
    cluster: LocalCluster, claim: str, served: Served
) -> None:
    resource = yaml.safe_load(stack.SAMPLE.read_text())
    resource["metadata"]["name"] = NAME
    resource["spec"]["model"]["source"] = f"pvc://{claim}/{FOLDER}"
    resource["spec"]["hardware"] = {"device": "GPU"}
    resource["spec"]["engine"]["image"] = images.reference("engine-cpu")
    resource["spec"]["router"] = {"replicas": 1}
    with users_from_platform(cluster), gpus_of_kind(cluster, 1, "NVIDIA-L4"):
        served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
        stack.wait_ready(cluster, NAME)
        conditions = stack.conditions(cluster, NAME)
        assert (conditions["ModelResolved"]["reason"], conditions["Sized"]["reason"]) == ("ModelKnown", "Fits")
        (config_map,) = json.loads(served.kubectl("get", "configmaps", INSPECTED, "--output=json"))["items"]
        result = json.loads(config_map["data"]["model.json"])
        weights = (model_folder() / "model.safetensors").stat().st_size
        assert result["weights"] == {"gib": weights / 2**30, "source": "model.safetensors", "exact": True}
        assert result["source"] == f"pvc://{claim}/{FOLDER}:config.json"
        assert not served.kubectl("get", "jobs,pods", INSPECTED, "--output=name")
        assert len(served.complete(max_tokens=8).split()) == 8
        for component in ("engine", "router"):
            (pod,) = served.pods(component)
            assert identities(cluster, pod) == {(USER, 0)}
        assert identities(cluster, stack.leader(cluster), stack.SYSTEM) == {(USER, 0)}


def test_a_missing_model_folder_in_a_volume_is_reported(cluster: LocalCluster, claim: str, missing: Served) -> None:
    resource = {
        "apiVersion": "inference-operator.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": missing.name},
        "spec": {"model": {"source": f"pvc://{claim}/nosuch"}},
    }
    missing.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
    words = f"pvc://{claim}/nosuch: there is no such directory."
    eventually(
        lambda: words in stack.conditions(cluster, missing.name).get("Stalled", {}).get("message", ""),
        seconds=INSPECTED_SECONDS,
        what=lambda: f"`{words}`: {stack.conditions(cluster, missing.name)}",
    )
    assert stack.conditions(cluster, missing.name)["Stalled"]["reason"] == "ModelNotFound"
