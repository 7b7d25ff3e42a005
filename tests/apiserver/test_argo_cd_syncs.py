"""Argo CD's own engine syncs models: waves wait for their health, and what the operator does is no difference."""

import json
from datetime import datetime

import pytest
import yaml

from e2e.localkube.waiting import eventually
from inference_operator.manifest import Manifest
from tests.apiserver.test_gitops import REFUSED, SAMPLES, samples
from tests.testing.argo_cd import out_of_sync, sync, waved
from tests.testing.workspace import SETTLE_SECONDS, Workspace, manifest

pytestmark = pytest.mark.full
MODEL, CLIENT = "InferenceDeployment/qwen", "ConfigMap/client"


def placed(workspace: Workspace, text: str) -> Manifest:
    found: Manifest = yaml.safe_load(text)
    found["metadata"]["namespace"] = workspace.namespace
    return found


def client(workspace: Workspace) -> Manifest:
    """What needs a model that serves."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "client", "namespace": workspace.namespace},
        "data": {"url": "http://qwen"},
    }


def test_a_wave_begins_once_the_model_of_the_wave_before_serves(workspace: Workspace) -> None:
    model = placed(workspace, (SAMPLES / "quickstart.yaml").read_text())
    done = sync(workspace.cluster, [waved(client(workspace), 1), waved(model, 0)])
    assert done == {MODEL: "Synced", CLIENT: "Synced"}
    created = workspace.get("configmap", "client")["metadata"]["creationTimestamp"]
    ready = workspace.condition("qwen", "Ready")
    assert ready["status"] == "True"
    assert datetime.fromisoformat(created) >= datetime.fromisoformat(ready["lastTransitionTime"])


def test_a_sync_ends_at_once_if_waiting_for_the_model_of_a_wave_does_not_help(workspace: Workspace) -> None:
    model = placed(workspace, manifest("qwen", REFUSED))
    done = sync(workspace.cluster, [waved(model, 0), waved(client(workspace), 1)])
    assert set(done) == {MODEL}
    assert done[MODEL] == workspace.condition("qwen", "Stalled")["message"]
    assert "client" not in workspace.kubectl("get", "configmap", "--output=name")


def test_argo_cd_shows_no_sample_as_out_of_sync_after_the_operator_has_worked_on_it(workspace: Workspace) -> None:
    objects = [placed(workspace, text) for text in samples(workspace).values()]
    assert set(sync(workspace.cluster, objects).values()) == {"Synced"}

    def reported() -> bool:
        found = json.loads(workspace.kubectl("get", "infd", "--output=json"))["items"]
        return all(one.get("status", {}).get("conditions") for one in found)

    eventually(reported, seconds=4 * SETTLE_SECONDS, what="the operator reports on every sample")
    assert out_of_sync(workspace.cluster, objects) == []
    edited = {**objects[0], "spec": {**objects[0]["spec"], "replicas": 7}}
    assert out_of_sync(workspace.cluster, [edited, *objects[1:]]) == [
        f"InferenceDeployment/{edited['metadata']['name']}"
    ]


def test_replicas_of_an_autoscaler_and_fields_of_actions_are_in_sync_and_survive_another_sync(
    workspace: Workspace,
) -> None:
    model = placed(workspace, manifest("qwen", {"model": {"source": "hf://Qwen/Qwen3-8B"}}))
    sync(workspace.cluster, [model])
    workspace.kubectl("scale", "infd/qwen", "--replicas=3")
    actions = {"paused": True, "podTemplate": {"annotations": {"renewed-at-generation": "2"}}}
    workspace.patch("qwen", actions)
    assert out_of_sync(workspace.cluster, [model]) == []
    sync(workspace.cluster, [model])
    kept = workspace.get("infd", "qwen")["spec"]
    assert {name: kept[name] for name in ("replicas", *actions)} == {"replicas": 3, **actions}
