"""Refusals of the API server with their messages, and refusals of the operator that the schema cannot express."""

import re
from functools import partial
from typing import Any

import pytest

from e2e.localkube.errors import ClusterError
from e2e.localkube.waiting import eventually
from tests.testing.invalid import INVALID
from tests.testing.workspace import Workspace

SOURCE = "hf://Qwen/Qwen3-8B"
FIXED = [
    {"source": SOURCE, "revision": "0" * 40},
    {"source": "pvc://models/a"},
    {"source": f"oci://registry.example/a@sha256:{'0' * 64}"},
]
"""Models whose files cannot change under their names."""


def spec(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """A valid spec with some fields replaced."""
    return {"model": {"source": SOURCE}, **fields}


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({}, "spec.model", "Required value"),
        ({"model": {}}, "spec.model.source", "Required value"),
        (spec(model={"source": "gs://bucket/model"}), "spec.model.source", "for example `hf://Qwen/Qwen3-8B`"),
        (spec(model={"source": "Qwen/Qwen3-8B"}), "spec.model.source", "must start with `hf://`"),
        (spec(parallelism={"tensor": 0}), "spec.parallelism.tensor", "greater than or equal to 1"),
        (spec(parallelism={"tensor": "two"}), "spec.parallelism.tensor", "must be of type integer"),
        (spec(replicas=-1), "spec.replicas", "greater than or equal to 0"),
        (spec(router={"replicas": 0}), "spec.router.replicas", "greater than or equal to 1"),
        (spec(hardware={"device": "TPU"}), "spec.hardware.device", '"GPU", "CPU"'),
        (spec(engine={"env": [{"name": "1A", "value": ""}]}), "spec.engine.env[0].name", "should match"),
        (
            spec(engine={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
            "spec.engine.env[1]",
            "Duplicate value",
        ),
        (
            spec(engine={"env": [{"name": "A", "valueFrom": {}}]}),
            "spec.engine.env[0].valueFrom",
            "exactly one of `secretKeyRef`, `configMapKeyRef` and `fieldRef`",
        ),
        (spec(engine={"resources": {"limits": {"cpu": "lots"}}}), "spec.engine.resources.limits.cpu", "should match"),
        (spec(engine={"args": [""]}), "spec.engine.args[0]", "at least 1 chars"),
        (spec(unknown=1), "spec.unknown", "unknown field"),
        (spec(cache={"pvc": "models"}), "spec.cache.pvc", "unknown field"),
        (spec(drainTimeout="0s"), "spec.drainTimeout", "at least `1s` and at most `1h`, for example `5m`"),
        (spec(drainTimeout="61m"), "spec.drainTimeout", "at least `1s` and at most `1h`, for example `5m`"),
        (spec(drainTimeout=300), "spec.drainTimeout", "must be of type string"),
        (spec(startupTimeout="soon"), "spec.startupTimeout", "for example `45m`"),
        (spec(startupTimeout="99999h99999h99999h"), "spec.startupTimeout", "Too long"),
        (spec(rollout={"progressDeadline": ""}), "spec.rollout.progressDeadline", "for example `30m`"),
        *((spec(**asked), field, words) for asked, field, words in INVALID.values()),
    ],
)
def test_the_api_server_refuses_an_invalid_spec_and_names_the_field(
    workspace: Workspace, asked: dict[str, Any], field: str, words: str
) -> None:
    said = workspace.refusal("qwen", asked)
    assert field in said
    assert words in said


@pytest.mark.parametrize("model", FIXED)
def test_the_api_server_accepts_pickle_files_that_cannot_change(workspace: Workspace, model: dict[str, str]) -> None:
    workspace.create("qwen", spec(model={**model, "allowPickle": True}))


def test_the_api_server_accepts_a_key_for_an_image_by_its_digest_and_has_a_default_for_its_name(
    workspace: Workspace,
) -> None:
    model = {"source": f"oci://registry.example/a@sha256:{'0' * 64}", "verify": {"configMapRef": {"name": "keys"}}}
    workspace.create("qwen", spec(model=model))
    assert (
        workspace.get("infd", "qwen")["spec"]["model"]["verify"]["configMapRef"].get("key", "cosign.pub")
        == "cosign.pub"
    )


@pytest.mark.parametrize("name", ["vllm", "1st", "has.dot", "x" * 56])
def test_a_resource_name_that_children_cannot_have_is_refused_with_an_example(workspace: Workspace, name: str) -> None:
    said = workspace.refusal(name, spec())
    assert "metadata.name" in said
    assert "for example `qwen3-8b`" in said


def test_a_resource_name_of_the_maximum_length_is_served(workspace: Workspace) -> None:
    name = "x" * 55
    workspace.create(name, spec())
    workspace.settled(name)


@pytest.mark.parametrize(
    ("asked", "reason", "field", "cure"),
    [
        (
            spec(engine={"args": ["--seed", "8", "--tensor_parallel=2"]}),
            "ManagedArgument",
            "spec.engine.args[2]",
            "Use `spec.parallelism.tensor`.",
        ),
        (
            spec(engine={"env": [{"name": "HOME", "value": "/"}]}),
            "ManagedArgument",
            "spec.engine.env[HOME]",
            "Remove it",
        ),
        (
            spec(engine={"resources": {"limits": {"nvidia.com/gpu": 4}}}),
            "ManagedArgument",
            "spec.engine.resources.limits[nvidia.com/gpu]",
            "Use `spec.parallelism`",
        ),
        (
            spec(engine={"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1G"}}}),
            "InvalidSpec",
            "spec.engine.resources.requests[memory]",
            "Lower the request or raise the limit.",
        ),
        (spec(model={"source": "hf://nobody"}), "InvalidModelSource", "spec.model.source", "hf://Qwen/Qwen3-8B"),
        (spec(model={"source": "pvc://a/../b"}), "InvalidModelSource", "spec.model.source", "pvc://models/qwen3-8b"),
    ],
)
def test_the_operator_reports_errors_that_the_schema_cannot_express(
    workspace: Workspace, asked: dict[str, Any], reason: str, field: str, cure: str
) -> None:
    workspace.create("qwen", asked)
    stalled = workspace.settled("qwen", "Stalled", "True", reason)
    assert field in stalled["message"]
    assert cure in stalled["message"]
    assert workspace.condition("qwen", "Ready")["status"] == "False"
    assert workspace.children("qwen") == set()


def test_an_invalid_edit_does_not_change_a_serving_model(workspace: Workspace) -> None:
    workspace.create("qwen", spec())
    workspace.settled("qwen")
    before = workspace.versions("qwen")
    workspace.patch("qwen", {"engine": {"args": ["--port=1"]}})
    workspace.settled("qwen", "Stalled", "True", "ManagedArgument")
    assert workspace.condition("qwen", "Ready")["status"] == "True"
    assert workspace.versions("qwen") == before
    workspace.patch("qwen", {"engine": {"args": []}})
    workspace.settled("qwen", "Stalled", "False")


def test_a_child_that_the_api_server_rejects_is_reported_with_its_message(workspace: Workspace) -> None:
    workspace.create("qwen", spec(engine={"resources": {"requests": {"nosuch": "1"}}}))
    stalled = workspace.settled("qwen", "Stalled", "True", "ChildRejected")
    assert f"Deployment {workspace.namespace}/qwen-engine was rejected" in stalled["message"]
    assert "nosuch" in stalled["message"]


def test_an_engine_pod_that_a_quota_refuses_is_reported(workspace: Workspace) -> None:
    workspace.kubectl("create", "quota", "none", "--hard=requests.nvidia.com/gpu=0")
    workspace.create("qwen", spec())
    workspace.settled("qwen", "Reconciling", "True", "QuotaExceeded", saying="exceeded quota")


def test_a_missing_volume_claim_is_reported(workspace: Workspace) -> None:
    workspace.create("qwen", spec(model={"source": "pvc://nosuch/llama"}, hardware={"device": "CPU"}))
    workspace.settled(
        "qwen", "Reconciling", "True", "VolumeUnavailable", saying='persistentvolumeclaim "nosuch" not found'
    )


def test_an_unschedulable_engine_is_reported_with_the_closest_nodes(workspace: Workspace) -> None:
    workspace.create("qwen", spec(model={"source": "hf://nobody/unknown"}, parallelism={"tensor": 64}))
    workspace.settled("qwen", "Reconciling", "True", "Unschedulable", saying="have too little free `nvidia.com/gpu`")

    def message() -> str:
        return str(workspace.condition("qwen", "Reconciling")["message"])

    closest = r"It needs 64 `nvidia\.com/gpu` on one node and is \d+ short: the most free are \d of \d+ on `[\w-]+`"
    eventually(lambda: re.search(closest, message()), seconds=20, what=message)


def test_stored_resources_that_break_the_schema_do_not_stop_the_operator(workspace: Workspace) -> None:
    """Objects from before a rule existed, as a loosened schema lets them in."""
    crd = "inferencedeployments.inference-operator.dev"
    original = workspace.kubectl("get", "crd", crd, "--output=yaml")
    loose = (
        '[{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value":'
        ' {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}]'
    )
    workspace.kubectl("patch", "crd", crd, "--type=json", f"--patch={loose}")
    # The owner's policy refuses what it cannot read.
    owner = ("validatingadmissionpolicybinding", "owner.inference-operator-system.inference-operator")
    binding = workspace.kubectl("get", *owner, "--output=yaml")
    workspace.kubectl("delete", *owner)
    try:
        strange = [{"model": []}, {"model": {"source": 7}}, {}, {"model": {"source": "x"}, "engine": {"args": {}}}]
        for number, value in enumerate(strange):
            accepted = partial(_accepted, workspace, f"strange-{number}", value)
            eventually(accepted, seconds=20, what=f"{value} is stored")
        for number in range(len(strange)):
            workspace.settled(f"strange-{number}", "Stalled", "True")
        workspace.create("sound", spec())
        workspace.settled("sound")
    finally:
        workspace.kubectl("delete", "infd", "--all", "--wait=true")
        workspace.kubectl("replace", "--filename=-", input=_without_version(original))
        workspace.kubectl("apply", "--filename=-", input=_without_version(binding))


def _accepted(workspace: Workspace, name: str, value: Any) -> bool:  # noqa: ANN401 - any JSON
    try:
        workspace.create(name, value)
    except ClusterError:
        return False
    return True


def _without_version(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "resourceVersion:" not in line)
