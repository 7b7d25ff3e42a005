"""A ModelGateway on a real API server: with the rights and policies of the chart, beside models that come and go."""

import asyncio
import json
import subprocess
from random import SystemRandom

import pytest

from e2e.localkube.errors import ClusterError
from e2e.localkube.waiting import eventually
from inference_operator.cli.drill.faults import RESTARTED, DrilledService
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import API_VERSION, INFERENCE_DEPLOYMENT, Manifest, Ref
from tests.testing.workspace import QWEN, Workspace

SECONDS = 60
NAME = "models"


def apply(workspace: Workspace, **spec: object) -> None:
    manifest = {"apiVersion": API_VERSION, "kind": "ModelGateway", "metadata": {"name": NAME}, "spec": spec}
    workspace.kubectl("apply", "--filename=-", input=json.dumps(manifest))


def apply_as(workspace: Workspace, user: str, **spec: object) -> str:
    """What the API server answers to somebody who may write ModelGateways; empty if it accepts it."""
    manifest = {"apiVersion": API_VERSION, "kind": "ModelGateway", "metadata": {"name": NAME}, "spec": spec}
    try:
        workspace.kubectl("apply", "--dry-run=server", f"--as={user}", "--filename=-", input=json.dumps(manifest))
    except ClusterError as error:
        return str(error)
    return ""


def conditions(workspace: Workspace) -> dict[str, Manifest]:
    status = workspace.get("mgw", NAME).get("status", {})
    return {one["type"]: one for one in status.get("conditions", ())}


def listed(workspace: Workspace) -> str:
    text: str = workspace.get("configmap", f"{NAME}-models")["data"]["advertised"]
    return text


def test_a_gateway_gets_its_objects_lists_models_and_leaves_them(workspace: Workspace) -> None:
    apply(workspace)
    eventually(lambda: workspace.exists("deployment", f"{NAME}-gateway"), seconds=SECONDS, what="its pods")
    assert workspace.get("secret", "model-gateway-key")["type"] == "inference-operator.dev/gateway-key"
    assert listed(workspace) == ""
    workspace.create("qwen", QWEN)
    eventually(lambda: workspace.exists("service", "qwen"), seconds=SECONDS, what="the model has an address")
    address = workspace.get("service", "qwen")["spec"]["clusterIP"]
    eventually(lambda: f"qwen {address}|80|qwen\n" in listed(workspace), seconds=SECONDS, what="its address")
    apply(workspace, aliases=[{"name": "chat", "targets": [{"name": "qwen"}]}])
    eventually(
        lambda: conditions(workspace).get("NamesAccepted", {}).get("status") == "False", seconds=SECONDS, what="refusal"
    )
    assert "do not serve this name" in conditions(workspace)["NamesAccepted"]["message"]
    workspace.kubectl("delete", "mgw", NAME)
    eventually(lambda: not workspace.exists("deployment", f"{NAME}-gateway"), seconds=SECONDS, what="its pods are gone")
    assert workspace.exists("service", "qwen")


def test_a_gateway_that_a_drill_rolls_stays_as_it_is_rolled(workspace: Workspace) -> None:
    """The operator leaves the annotation, so no second rollout takes it back."""

    async def roll() -> None:
        client = await connect(workspace.cluster.kubeconfig)
        ref = Ref(INFERENCE_DEPLOYMENT, workspace.namespace, "qwen")
        try:
            service = DrilledService(KubeCluster(Api(client)), ref, SystemRandom(), limit_seconds=1, gateway=NAME)
            await service._roll_gateway(())  # noqa: SLF001 - here are no pods
        finally:
            await client.close()  # type: ignore[no-untyped-call]

    def template() -> Manifest:
        found: Manifest = workspace.get("deployment", f"{NAME}-gateway")["spec"]["template"]
        return found

    apply(workspace)
    eventually(lambda: workspace.exists("deployment", f"{NAME}-gateway"), seconds=SECONDS, what="its pods")
    before = template()
    asyncio.run(roll())
    rolled = template()
    assert rolled["metadata"]["annotations"].keys() - before["metadata"]["annotations"].keys() == {RESTARTED}
    workspace.create("qwen", QWEN)
    eventually(lambda: "qwen" in listed(workspace), seconds=SECONDS, what="the operator has decided again")
    assert template() == rolled


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"aliases": [{"name": "x", "targets": []}]}, "should have at least 1 items"),
        ({"aliases": [{"name": "x", "targets": [{"name": "a", "fallback": True}]}]}, "without `fallback: true`"),
        ({"aliases": [{"name": "x", "targets": [{"name": "a", "fallback": True, "weight": 1}]}]}, "has no effect"),
        ({"aliases": [{"name": "a b", "targets": [{"name": "a"}]}]}, "must start with a letter or digit"),
        ({"httpRoute": {"parentRefs": [{"name": "g"}], "modelHeader": "X-Model"}}, "must be removed"),
        ({"podTemplate": {}}, "unknown field"),
        ({"replicas": 0}, "greater than or equal to 1"),
    ],
)
def test_the_api_server_refuses_what_cannot_be(workspace: Workspace, spec: Manifest, text: str) -> None:
    with pytest.raises((ClusterError, subprocess.CalledProcessError), match=text):
        apply(workspace, **spec)


def test_fields_of_a_gateway_need_the_rights_that_those_of_routers_need(workspace: Workspace) -> None:
    group = "modelgateways.inference-operator.dev"
    for user, more in (("plain", ()), ("reader", ("--resource=secrets", "--verb=get"))):
        verbs = "--verb=get,list,create,update,patch"
        workspace.kubectl("create", "role", user, f"--resource={group}", verbs)
        workspace.kubectl("create", "rolebinding", user, f"--role={user}", f"--user={user}")
        if more:
            workspace.kubectl("create", "role", f"{user}-more", *more)
            workspace.kubectl("create", "rolebinding", f"{user}-more", f"--role={user}-more", f"--user={user}")
    harmless = {"aliases": [{"name": "x", "targets": [{"name": "a"}]}], "replicas": 3, "maxBodySize": "1Mi"}
    assert apply_as(workspace, "plain", **harmless) == ""
    secret = {"secretRef": {"name": "known"}}
    for spec, text in (
        ({"keys": secret}, "the Secret known requires"),
        ({"tls": secret}, "the Secret known requires"),
        ({"service": {"type": "NodePort"}}, "create services"),
        ({"ingress": {"host": "a.example"}}, "create ingresses"),
        ({"httpRoute": {"parentRefs": [{"name": "g"}]}}, "create httproutes"),
        ({"scheduling": {"priorityClassName": "high"}}, "create pods"),
        ({"scheduling": {"tolerations": [{"operator": "Exists"}]}}, "create pods"),
    ):
        assert text in apply_as(workspace, "plain", **spec), spec
    assert apply_as(workspace, "reader", keys=secret) == ""
