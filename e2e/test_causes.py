"""What stops an engine is said as the kubelet knows it, in one sentence. No engine is started here."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e import images, stack
from e2e.cluster.handle import LocalCluster
from e2e.served import Served
from tests.apiserver.waiting import eventually

NAMESPACE = "causes"
SAID_SECONDS = 60
SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "nosuch", "key": "token"}}}
MODEL = f"oci://{images.reference('tiny-llama')}"


@pytest.fixture(scope="module")
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """A namespace for what will never run."""
    cluster.kubectl("create", "namespace", NAMESPACE)
    yield NAMESPACE
    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=true")


@pytest.mark.parametrize(
    ("name", "source", "engine", "reason", "words"),
    [
        ("no-image", MODEL, {"image": "localhost/nosuch:1"}, "ImagePullFailed", "localhost/nosuch:1"),
        ("no-model-image", "oci://localhost/nosuch-model:1", {}, "ImagePullFailed", "localhost/nosuch-model:1"),
        ("no-claim", "pvc://nosuch/llama", {}, "VolumeUnavailable", 'persistentvolumeclaim "nosuch" not found'),
        ("no-secret", MODEL, {"env": [SECRET]}, "ContainerConfigError", 'secret "nosuch" not found'),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(
    cluster: LocalCluster, namespace: str, name: str, source: str, engine: dict[str, Any], reason: str, words: str
) -> None:
    served = Served(cluster, name, namespace)
    apply(served, source, engine)

    def said() -> dict[str, Any] | None:
        found = stack.conditions(cluster, name, namespace).get("Reconciling", {})
        return found if found.get("reason") == reason else None

    condition = eventually(
        said, seconds=SAID_SECONDS, what=lambda: f"{reason}: {stack.conditions(cluster, name, namespace)}"
    )
    assert condition is not None
    assert condition["status"] == "True"
    assert words in condition["message"]
    assert "\n" not in condition["message"]
    assert stack.conditions(cluster, name, namespace)["Ready"]["status"] == "False"


def apply(served: Served, source: str, engine: dict[str, Any]) -> None:
    """Ask for a model on CPUs; engines that cannot start cost nothing."""
    resources = {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "1Gi"}}
    resource = {
        "apiVersion": "inference-operator.dev/v1alpha1",
        "kind": "InferenceDeployment",
        "metadata": {"name": served.name},
        "spec": {
            "model": {"source": source},
            "hardware": {"device": "CPU"},
            "engine": {"resources": resources, **engine},
            "router": {"replicas": 1},
        },
    }
    served.kubectl("apply", "--filename=-", input=yaml.safe_dump(resource))
