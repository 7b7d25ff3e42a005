"""`infd plan --diff`: what it predicts is what the operator writes, on a real API server."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.api.resource import resource
from inference_operator.api.spec import Spec
from inference_operator.cli.operator_settings import FoundSettings
from inference_operator.cli.plan.cluster import stored_edit
from inference_operator.cli.plan.prediction import Prediction, live_inputs, predicted
from inference_operator.controller.cluster import ClusterError
from inference_operator.controller.drift import first_drift
from inference_operator.engines.registry import ENGINES
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import API_VERSION, INFERENCE_DEPLOYMENT, KIND, Manifest, Ref
from inference_operator.planning.role_plan import spec_hash
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.settings import Settings
from tests.testing.infd_command import infd
from tests.testing.operated_cluster import SETTINGS, temporary_workspace, token_kubeconfig
from tests.testing.operator_process import OperatorProcess
from tests.testing.random_specs import Specs
from tests.testing.workspace import QUIET_SECONDS, QWEN, Workspace, manifest, served

EDITS = 3
SEEN_SECONDS = 120
OF_UID = re.compile("(?<=-engine-key-)[0-9a-f]{8}$")
OF_THE_OWNER = ("ownerReferences", "annotations")
TELLING = frozenset({"inferencedeployments/status", "events", "pods"})
"""Resources in which the operator reports, and pods, whose traffic is no matter of the specification."""
OPERATOR = FoundSettings(Settings(**{name.lower(): value for name, value in SETTINGS.items()}))  # type: ignore[arg-type]


@pytest.fixture
async def connection(kubernetes: LocalCluster) -> AsyncIterator[KubeCluster]:
    client = await connect(kubernetes.kubeconfig)
    yield KubeCluster(Api(client))
    await client.close()  # type: ignore[no-untyped-call]  # the client's own


@pytest.fixture
def without_pods(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[str]:
    """A namespace in which no pod may be: pods and Jobs stand still, as the prediction assumes."""
    assert operator.is_running()
    with temporary_workspace(kubernetes, "predicted") as found:
        found.kubectl("create", "quota", "no-pods", "--hard=pods=0")
        yield found.namespace


def document(name: str, spec: Manifest, namespace: str) -> Manifest:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec}


async def foretold(connection: KubeCluster, wanted: Manifest) -> Prediction:
    """The prediction for an apply, as `infd plan --diff` makes it."""
    meta = wanted["metadata"]
    live = await connection.get(Ref(INFERENCE_DEPLOYMENT, meta["namespace"], meta["name"]))
    edited = await stored_edit(connection, wanted, live)
    now = connection.api.clock.now()
    inputs, _ = await live_inputs(connection, live or edited, OPERATOR, ENGINES, now=now)
    return (await predicted(connection, replace(inputs, resource=resource(edited))))[0]


async def apply(connection: KubeCluster, wanted: Manifest) -> None:
    """Apply it as `kubectl apply --server-side` does, and wait until the operator has told of it."""
    ref = Ref(INFERENCE_DEPLOYMENT, wanted["metadata"]["namespace"], wanted["metadata"]["name"])
    query = {"fieldManager": "kubectl", "force": "true"}
    await connection.api.request("PATCH", ref.path, ref.kind, query=query, body=wanted)
    for _ in range(SEEN_SECONDS * 4):
        live = await connection.get(ref)
        assert live is not None
        if live["status"].get("observedGeneration") == live["metadata"]["generation"]:
            return
        await asyncio.sleep(0.25)
    raise AssertionError(f"the operator has not seen {ref}")


def written(audit: AuditLog, mark: int, namespace: str) -> set[tuple[str, str, str]]:
    """The writes of the operator that changed something, as verb, kind and name."""
    writes = [one for one in audit.writes(mark, namespace=namespace) if one.resource not in TELLING and one.code < 400]
    return {("delete" if one.verb == "delete" else "apply", one.resource, named(one.name)) for one in writes}


def named(name: str) -> str:
    """A name without the owner's uid, which a resource that does not exist yet has not."""
    return OF_UID.sub("", name)


def names_owner(found: Prediction) -> bool:
    """Whether pods name a Secret by the owner's uid."""
    return any(OF_UID.search(one.ref.name) for one in found.writes)


def told(found: Prediction) -> set[tuple[str, str, str]]:
    return {("apply" if one.desired else "delete", one.ref.kind.plural, named(one.ref.name)) for one in found.writes}


def content(desired: Manifest) -> Manifest:
    """What is applied, without what contains the owner's uid: a resource that does not exist yet has none."""
    metadata = {name: value for name, value in desired["metadata"].items() if name not in OF_THE_OWNER}
    return {**desired, "metadata": metadata}


@pytest.mark.parametrize("resources", [4, pytest.param(60, marks=pytest.mark.full)])
async def test_what_is_predicted_for_random_edits_is_what_the_operator_writes(
    connection: KubeCluster, without_pods: str, audit: AuditLog, resources: int
) -> None:
    source, compared, refused = Specs(seed=35), 0, 0
    for number in range(resources):
        for _ in range(EDITS):
            wanted = document(f"r{number}", {**source.valid(), "paused": False}, without_pods)
            audit.quiet(QUIET_SECONDS, namespace=without_pods)
            try:
                found = await foretold(connection, wanted)
            except ClusterError:
                refused += 1
                continue
            mark = audit.mark()
            await apply(connection, wanted)
            audit.quiet(QUIET_SECONDS, namespace=without_pods)
            assert told(found) == written(audit, mark, without_pods), wanted
            contents = () if names_owner(found) else found.writes
            for one in contents:
                live = await connection.get(one.ref)
                assert (live is None) is (one.desired is None), one.ref
                assert one.desired is None or first_drift(live, content(one.desired)) is None, (one.ref, wanted)
            compared += bool(found.writes)
    assert compared > resources / 2  # other edits are refused, or change nothing that is written
    assert refused < resources * EDITS / 3


def diff(workspace: Workspace, folder: Path, spec: Manifest, *arguments: str) -> tuple[Manifest, str]:
    """What `infd plan --diff` says to programs, and to people."""
    file = folder / "qwen.yaml"
    file.write_text(manifest("qwen", spec))
    command = ("plan", "-f", str(file), "--diff", f"--namespace={workspace.namespace}", *arguments)
    status, shown, complaints = infd(workspace.cluster, *command, "--output=json")
    assert status == 0, complaints
    status, said, complaints = infd(workspace.cluster, *command)
    assert (status, complaints) == (0, "")
    (found,) = json.loads(shown)["items"]
    return found, said


def test_an_edit_of_a_service_that_runs_is_told_with_its_consequences(qwen: Workspace, tmp_path: Path) -> None:
    same, said = diff(qwen, tmp_path, QWEN)
    assert (same["changes"], same["accepted"], same["new"]) == ([], True, False)
    assert said.startswith(f"{qwen.namespace}/qwen: the operator would write nothing.\nNo engine restarts.\n")
    generation = qwen.get("infd", "qwen")["metadata"]["generation"]

    edited, said = diff(qwen, tmp_path, {**QWEN, "engine": {"args": ["--seed=8"]}, "replicas": 2})
    names = {(one["action"], one["kind"], one["name"]) for one in edited["changes"]}
    assert ("change", "Deployment", "qwen-engine") in names
    (engines,) = edited["engines"]
    figures = ("enginesBefore", "enginesAfter", "gpusBefore", "gpusAfter", "gpusMost", "restarts", "strategy")
    assert [engines[name] for name in figures] == [1, 2, 1, 2, 3, 1, "Surge"]
    assert engines["requests"] == "NoLoss"
    assert "1 engine restarts, one at a time (Surge): a node has free GPUs for one more." in said
    assert ".spec.template.spec.containers[engine].args: none -> --seed=8\n" in said
    assert ".spec.replicas: 1 -> 2\n" in said
    assert "Routers stay." in said

    routers, said = diff(qwen, tmp_path, {**QWEN, "router": {"podTemplate": {"annotations": {"a": "b"}}}})
    assert routers["engines"][0]["restarts"] == 0
    assert "2 routers are replaced one by one, a new one first. No request is lost." in said
    assert qwen.get("infd", "qwen")["metadata"]["generation"] == generation, "a prediction writes nothing"


def test_a_replacement_of_the_only_engine_tells_what_becomes_of_requests(qwen: Workspace, tmp_path: Path) -> None:
    wanted = {**QWEN, "rollout": {"strategy": "Replace"}, "engine": {"args": ["--seed=8"]}}
    found, said = diff(qwen, tmp_path, wanted)
    (engines,) = found["engines"]
    assert (engines["strategy"], engines["gpusMost"]) == ("Replace", 1)
    assert engines["requests"] in ("Held", "MayBeRefused")
    assert "(Replace): as `spec.rollout.strategy` says. No engine answers in between" in said


def test_a_refused_edit_and_a_new_resource_are_told(workspace: Workspace, tmp_path: Path) -> None:
    new, said = diff(workspace, tmp_path, QWEN)
    assert new["new"]
    assert {one["action"] for one in new["changes"]} == {"create"}
    assert said.startswith(f"{workspace.namespace}/qwen (new): the operator would write ")
    file = tmp_path / "wrong.yaml"
    for spec, why in (
        ({**QWEN, "replicas": -1}, "The API server refuses it:"),
        ({**QWEN, "replica": 2}, "The API server refuses it:"),
        ({**QWEN, "engine": {"args": ["--max-model-length=1"]}}, "The operator refuses it:"),
    ):
        file.write_text(manifest("qwen", spec))
        status, said, complaints = infd(workspace.cluster, "plan", "-f", str(file), "--diff", "-n", workspace.namespace)
        assert (status, said) == (1, "")
        assert complaints.startswith(f"{workspace.namespace}/qwen: {why}"), complaints


def test_an_edit_of_a_service_that_this_release_would_refuse_is_told_and_strands_nothing(
    workspace: Workspace, tmp_path: Path
) -> None:
    """The plan is recorded as an earlier release has made it, which did not compare the method with the model's."""
    source = {"model": {"source": "hf://Qwen/Qwen3-8B-AWQ"}}
    asked, why = {"quantization": "gptq"}, "the model is quantized with `awq`, not `gptq`"
    workspace.create("qwen", source)
    workspace.settled("qwen")
    workspace.patch("qwen", {"paused": True, "engine": asked})
    workspace.settled("qwen", "Ready", "True", "Paused")
    spec, pinned = (
        resource(workspace.get("infd", "qwen")).spec,
        PLAN_ANNOTATION.read(workspace.get("deployment", "qwen-engine")),
    )
    assert isinstance(spec, Spec)
    assert pinned
    earlier = PLAN_ANNOTATION.write(replace(pinned, spec_hash=spec_hash(spec, ENGINES[ENGINES.default])))
    workspace.kubectl("annotate", "deployment", "qwen-engine", "--overwrite", f"{PLAN_ANNOTATION.key}={earlier}")
    workspace.patch("qwen", {"paused": False})
    workspace.settled(
        "qwen", "Sized", "True", saying=f"would be refused for a new specification: spec.engine.quantization: {why}"
    )
    workspace.settled("qwen")
    workspace.settled("qwen", "Reconciling", "False")
    before = workspace.versions("qwen")

    edited = {**source, "engine": {**asked, "maxModelLen": 4096}}
    file = tmp_path / "qwen.yaml"
    file.write_text(manifest("qwen", edited))
    status, said, complaints = infd(workspace.cluster, "plan", "-f", str(file), "--diff", "-n", workspace.namespace)
    assert (status, said) == (1, "")
    assert f"The operator refuses it: spec.engine.quantization: {why}" in complaints
    assert complaints.rstrip().endswith("What runs stays."), complaints
    workspace.create("qwen", edited)
    workspace.settled("qwen", saying="1 of 1 engine is ready. The last edit is refused.")
    assert workspace.versions("qwen") == before


def test_a_plain_user_is_told_which_rights_are_missing_and_what_is_assumed(
    qwen: Workspace, tmp_path: Path, kubernetes: LocalCluster
) -> None:
    where = qwen.namespace
    qwen.kubectl("create", "serviceaccount", "plain")
    bind = ("create", "rolebinding", f"--serviceaccount={where}:plain")
    qwen.kubectl(*bind, "--clusterrole=view", "plain-view")
    kubeconfig = token_kubeconfig(kubernetes, where, "plain", tmp_path / "kubeconfig")
    file = tmp_path / "qwen.yaml"
    file.write_text(manifest("qwen", {**QWEN, "engine": {"args": ["--seed=8"]}}))
    command = ("plan", "-f", str(file), "--diff", f"--namespace={where}", f"--kubeconfig={kubeconfig}")
    status, _, complaints = infd(kubernetes, *command)
    assert (status, "You have no right to patch InferenceDeployments" in complaints) == (4, True), complaints

    rights = ("create", "role", "plain-patch", "--verb=get,patch", "--resource=inferencedeployments")
    qwen.kubectl(*rights)
    qwen.kubectl(*bind, "--role=plain-patch", "plain-patch")
    said = eventually(lambda: _when_allowed(kubernetes, command), seconds=SEEN_SECONDS, what="the right is known")
    assert "(Surge): free GPUs are unknown" in str(said)
    for assumed in ("the operator's settings. The defaults", "no right to list nodes"):
        assert f"{assumed}" in str(said), said


def _when_allowed(kubernetes: LocalCluster, command: tuple[str, ...]) -> str | None:
    status, said, complaints = infd(kubernetes, *command)
    assert status == 0 or "no right to patch" in complaints, complaints
    return said if status == 0 else None


def test_what_waits_while_a_resource_is_paused_is_told(workspace: Workspace, tmp_path: Path) -> None:
    served(workspace)
    workspace.patch("qwen", {"paused": True})
    workspace.settled("qwen", "Ready", "True", "Paused")
    found, said = diff(workspace, tmp_path, {**QWEN, "paused": True, "replicas": 2})
    assert found["paused"]
    assert [(one["kind"], one["name"]) for one in found["changes"]].count(("Deployment", "qwen-engine")) == 1
    assert "`spec.paused` is true: the operator writes this once it is false (`infd resume`)." in said
