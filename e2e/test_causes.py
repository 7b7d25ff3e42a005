"""The status says in one sentence what keeps an engine from starting, as the kubelet or the engine reports it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from e2e import images
from e2e.deploy import stack
from e2e.helpers.infd_command import infd
from e2e.helpers.served_deployment import Served
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually

REPORTED_SECONDS = 60
ENDED_SECONDS = 300
"""Until vLLM has read its configuration, on two busy cores."""
SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "nosuch", "key": "token"}}}
MODEL = f"oci://{images.reference('tiny-llama')}"


@dataclass(frozen=True, slots=True)
class Missing:
    """A resource that names something missing, and the expected reason and words of its condition."""

    name: str
    reason: str
    words: str
    source: str = MODEL
    engine: Mapping[str, Any] = field(default_factory=dict)


CASES = [
    Missing("no-image", "ImagePullFailed", "localhost/nosuch:1", engine={"image": "localhost/nosuch:1"}),
    Missing("no-model-image", "ImagePullFailed", "localhost/nosuch-model:1", "oci://localhost/nosuch-model:1"),
    Missing("no-claim", "VolumeUnavailable", 'persistentvolumeclaim "nosuch" not found', "pvc://nosuch/llama"),
    Missing("no-secret", "ContainerConfigError", 'secret "nosuch" not found', engine={"env": [SECRET]}),
]


@pytest.fixture(scope="module")
def applied(cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster with all cases applied at once, since each report takes a while."""
    for missing in CASES:
        apply(Served(cluster, missing.name), missing.source, missing.engine)
    yield cluster
    cluster.kubectl("delete", "infd", *(missing.name for missing in CASES))


@pytest.mark.parametrize("missing", CASES, ids=lambda missing: missing.name)
def test_a_missing_image_volume_or_secret_is_reported_in_one_sentence(applied: LocalCluster, missing: Missing) -> None:
    served = Served(applied, missing.name)

    def reported() -> dict[str, Any] | None:
        condition = stack.conditions(applied, served.name).get("Reconciling", {})
        return condition if condition.get("reason") == missing.reason else None

    condition = eventually(
        reported,
        seconds=REPORTED_SECONDS,
        what=lambda: f"{missing.reason}: {stack.conditions(applied, served.name)}",
    )
    assert condition is not None
    assert condition["status"] == "True"
    assert missing.words in condition["message"]
    assert "\n" not in condition["message"]
    assert stack.conditions(applied, served.name)["Ready"]["status"] == "False"


@pytest.fixture
def refused(cluster: LocalCluster) -> Iterator[Served]:
    """A name, whose resource is deleted after the test."""
    yield Served(cluster, "refused")
    cluster.kubectl("delete", "infd", "refused", "--ignore-not-found")


def test_the_error_of_an_engine_that_no_table_knows_is_the_cause_in_status_events_and_log(
    cluster: LocalCluster, refused: Served
) -> None:
    """A library refuses the argument: the model has no tokenizer of this kind."""
    served = refused
    apply(served, MODEL, {"args": ["--tokenizer-mode=mistral"], "resources": {"limits": {"memory": "4Gi"}}})

    def ended() -> dict[str, Any] | None:
        condition = stack.conditions(cluster, served.name).get("Reconciling", {})
        is_known = condition.get("reason") == "CrashLoop" and "is being read" not in condition["message"]
        return condition if is_known else None

    condition = eventually(ended, seconds=ENDED_SECONDS, what=lambda: f"{stack.conditions(cluster, served.name)}")
    cause = "ValueError: No tokenizer file found."
    assert condition is not None
    assert f"container `engine` ended with exit code 1: {cause} " in condition["message"]
    listed = json.loads(served.kubectl("get", "events.events.k8s.io", "--output=json"))["items"]
    own = [event for event in listed if event["regarding"].get("name") == served.name]
    assert [event["note"] for event in own if event["reason"] == "CrashLoop"] == [condition["message"]]
    status, output, _ = infd(cluster, "logs", "--previous", f"--namespace={served.namespace}", served.name)
    assert status == 0
    assert f" ended: CrashLoop: {cause}\n" in output.partition("\n\n")[0] + "\n"


def apply(served: Served, source: str, engine: Mapping[str, Any]) -> None:
    """Apply a resource for CPUs with small requests, so that many engines that cannot start fit on the node."""
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
