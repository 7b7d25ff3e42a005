"""Attacks of people who may write Secrets or ConfigMaps, on objects by which the operator decides."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.manifest import CONFIG_MAP, SECRET, Key, Manifest, Owner
from inference_operator.objects.engine_key import KEY_TYPE, key_secret_name
from inference_operator.objects.gateway_key import GATEWAY_KEY_SECRET
from inference_operator.objects.names import INSPECTION, labels, record_name
from tests.testing.operated_cluster import new_workspace
from tests.testing.workspace import Workspace

WRITER, READER, POD_MAKER, JOB_MAKER = "writer", "key-reader", "pod-and-map-maker", "job-and-map-maker"
"""May write Secrets and ConfigMaps, and: nothing else; get Secrets; create pods; create Jobs."""
WRITES = ["--verb=create,update,patch", "--resource=secrets,configmaps"]
MORE: dict[str, list[str]] = {
    WRITER: [],
    READER: ["--verb=get", "--resource=secrets"],
    POD_MAKER: ["--verb=create", "--resource=pods"],
    JOB_MAKER: ["--verb=create", "--resource=jobs.batch"],
}
KEY_NAME = key_secret_name(Owner(Key("models", "qwen"), "0f8e3b1c-6d4a-4c58-9c2e-8a7d2f1b5e60"))
RECORD = record_name("qwen", INSPECTION, "0123456789abcdef")


@pytest.fixture(scope="module")
def there(kubernetes: LocalCluster, operator: Any) -> Iterator[Workspace]:  # noqa: ANN401 - the session's fixture
    assert operator.is_running()
    workspace = new_workspace(kubernetes, "children")
    for user, rule in MORE.items():
        for number, role in enumerate([WRITES, *([rule] if rule else [])]):
            workspace.kubectl("create", "role", f"{user}-{number}", *role)
            workspace.kubectl("create", "rolebinding", f"{user}-{number}", f"--role={user}-{number}", f"--user={user}")
    eventually(lambda: refusal(workspace, JOB_MAKER, record()) == "", seconds=30, what="the rights are known")
    eventually(lambda: refusal(workspace, WRITER, record()) != "", seconds=30, what="the policies are in force")
    yield workspace
    kubernetes.kubectl("delete", "namespace", workspace.namespace, "--wait=false")


def secret(name: str, kind: str = "Opaque") -> Manifest:
    content = {"type": kind, "stringData": {"key": "known"}}
    return {"apiVersion": SECRET.api_version, "kind": SECRET.name, "metadata": {"name": name}, **content}


def record(name: str = RECORD, **meta: object) -> Manifest:
    whole = {"name": name, "labels": labels("qwen", INSPECTION), **meta}
    return {"apiVersion": CONFIG_MAP.api_version, "kind": CONFIG_MAP.name, "metadata": whole, "data": {"result": "{}"}}


def refusal(workspace: Workspace, user: str, made: Manifest, verb: str = "create") -> str:
    """What the API server answers to a try to write an object; empty if it accepts it."""
    how = ["--server-side", "--force-conflicts"] if verb == "apply" else []
    arguments = (f"--as={user}", verb, "--dry-run=server", "--filename=-", *how)
    try:
        workspace.kubectl(*arguments, input=json.dumps(made))
    except ClusterError as error:
        return str(error)
    return ""


def test_a_secret_with_the_name_of_an_engines_key_is_written_only_by_who_may_get_it(there: Workspace) -> None:
    for user in (WRITER, POD_MAKER):
        for attack in (secret(KEY_NAME), secret(KEY_NAME, KEY_TYPE), secret(GATEWAY_KEY_SECRET)):
            refused = refusal(there, user, attack)
            assert "ValidatingAdmissionPolicy 'engine-keys.inferencedeployments.inference-operator.dev'" in refused
            assert "Only the operator may write it, and who may get it." in refused
        for honest in ("database", "search-engine-key-prod", f"{KEY_NAME}-old", f"my-{GATEWAY_KEY_SECRET}"):
            assert not refusal(there, user, secret(honest))
    assert not refusal(there, READER, secret(KEY_NAME))
    assert not refusal(there, READER, secret(GATEWAY_KEY_SECRET))
    there.kubectl("create", "--filename=-", input=json.dumps(secret(KEY_NAME)))
    assert "engine-keys" in refusal(there, WRITER, secret(KEY_NAME), "apply")
    assert not refusal(there, READER, secret(KEY_NAME), "apply")


def test_a_config_map_of_the_operator_is_written_only_by_who_may_create_pods_or_jobs(there: Workspace) -> None:
    refused = refusal(there, WRITER, record())
    assert "ValidatingAdmissionPolicy 'records.inferencedeployments.inference-operator.dev'" in refused
    assert "requires the right to create pods or Jobs" in refused
    assert not refusal(there, WRITER, record(labels={}))
    for user in (POD_MAKER, JOB_MAKER):
        assert not refusal(there, user, record())
    there.kubectl("create", "--filename=-", input=json.dumps(record("theirs", labels={})))
    assert "records" in refusal(there, WRITER, record("theirs"), "apply")
    assert not refusal(there, POD_MAKER, record("theirs"), "apply")
