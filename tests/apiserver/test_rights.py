"""The rights in the chart's Role equal those that the operator uses."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from e2e.go_modules import coscheduling_definition
from e2e.localkube.audit_log import AuditLog
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.manifest import API_VERSION
from tests.apiserver.hung_engine import let_an_engine_stand_still, let_an_engine_stand_still_for_a_while
from tests.apiserver.inspection import MINE, MODEL, let_it_say
from tests.testing.gateway_api import http_route_crd, inference_pool_crd
from tests.testing.keda import scaled_object_crd
from tests.testing.operated_cluster import RELEASE, STALL_SECONDS, SYSTEM, optional_kinds
from tests.testing.operator_process import OperatorProcess
from tests.testing.volcano import volcano_groups
from tests.testing.workspace import QWEN, Workspace

EXPOSED = {
    "ingress": {"host": "llm.example.com"},
    "httpRoute": {"parentRefs": [{"name": "gw"}]},
    "keys": {"secretRef": {"name": "users"}},
}
POOLED = {"strategy": "External", "inferencePool": {"endpointPickerRef": {"name": "epp"}}}
CREATED = 201
FORBIDDEN = 403


@pytest.fixture
def every_kind(kubernetes: LocalCluster, operator: OperatorProcess, tmp_path: Path) -> Iterator[None]:
    """The CRDs of all optional kinds, while the operator runs."""
    groups = (coscheduling_definition(), volcano_groups(tmp_path))
    with optional_kinds(kubernetes, operator, http_route_crd(), inference_pool_crd(), scaled_object_crd(), *groups):
        yield


@pytest.mark.usefixtures("every_kind")
def test_the_operator_uses_every_right_of_its_role_and_no_other(workspace: Workspace, audit: AuditLog) -> None:
    """Everything is done once here, so that the test needs no other one before it."""
    workspace.create("qwen", {**QWEN, "replicas": 2})
    workspace.settled("qwen")
    let_an_engine_stand_still_for_a_while(workspace, "qwen")
    _let_another_operator_be_gone(workspace)
    workspace.patch("qwen", {"engine": {"args": ["--seed=8"]}})
    workspace.settled("qwen", "Reconciling", "False")
    workspace.kubectl("scale", "infd/qwen", "--replicas=1")
    workspace.patch("qwen", {"scheduling": {"evictionWait": "0s"}})
    eventually(lambda: not workspace.exists("pdb", "qwen-engine"), seconds=10, what="no budget for one engine")

    _inspect_a_model(workspace)
    _await_garbage_collection(workspace)
    _find_names_taken(workspace, "left", {**QWEN, "router": EXPOSED}, "httproute")
    _find_names_taken(workspace, "left-pool", {**QWEN, "router": POOLED}, "inferencepool")
    _leave_routing_to_others(workspace)
    for backend, kind in (("HPA", "horizontalpodautoscaler"), ("KEDA", "scaledobject")):
        _leave_scaling_to_others(workspace, backend, kind)
    for scheduler, version in (("gpus", "scheduling.x-k8s.io/v1alpha1"), ("volcano", "scheduling.volcano.sh/v1beta1")):
        _need_fewer_groups(workspace, scheduler, version)
    _find_names_taken(workspace, "left-mine", MINE, "job")
    _divide_an_engine_over_nodes(workspace)
    _keep_a_model(workspace)
    _serve_all_models_at_one_address(workspace)
    let_an_engine_stand_still(workspace, "qwen", within=6 * STALL_SECONDS)
    _let_an_engine_fail(workspace)
    _let_an_engine_be_killed(workspace)

    rules = [
        *workspace.get("clusterrole", RELEASE)["rules"],
        *Workspace(workspace.cluster, SYSTEM).get("role", f"{RELEASE}-lease")["rules"],
    ]
    granted = {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    requests = [r for r in audit.requests() if r.resource]
    used = {(r.group, r.resource, r.verb) for r in requests}
    # A patch that creates needs both rights (Kubernetes documentation, Server-Side Apply, "Authorization").
    used |= {(r.group, r.resource, "create") for r in requests if r.verb == "patch" and r.code == CREATED}
    assert used - granted == set()
    assert granted - used == set()
    # In namespaces that are being deleted admission forbids to create, whatever the rights.
    assert [str(r) for r in requests if r.code == FORBIDDEN and r.namespace == workspace.namespace] == []


def _let_another_operator_be_gone(workspace: Workspace) -> None:
    """A status of an operator that has no rights any more, about which this one asks."""
    gone = {"account": "system:serviceaccount:gone:inference-operator", "since": "2000-01-01T00:00:00Z"}
    patch = json.dumps({"status": {"operator": gone}})
    workspace.kubectl("patch", "infd", "qwen", "--subresource=status", "--type=merge", f"--patch={patch}")
    eventually(
        lambda: workspace.get("infd", "qwen")["status"]["operator"] != gone, seconds=20, what="this operator's name"
    )


def _await_garbage_collection(workspace: Workspace) -> None:
    """Wait until the garbage collector knows the optional kinds: it looks for new ones every 30 s.

    Until then it leaves the owner in objects that should become orphans, and deletes them once it knows their kind.
    """
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    meta = {"name": "probe", "namespace": workspace.namespace, "ownerReferences": [owner]}
    scaled = {"scaleTargetRef": {"name": "nothing"}, "triggers": [{"type": "cpu", "metadata": {"value": "1"}}]}
    for version, kind, spec in (
        ("gateway.networking.k8s.io/v1", "HTTPRoute", {}),
        ("keda.sh/v1alpha1", "ScaledObject", scaled),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", {"minMember": 1}),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", {"minMember": 1}),
    ):
        probe = {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
        workspace.kubectl("create", "--filename=-", input=json.dumps(probe))
        plural = f"{kind.lower()}s.{version.partition('/')[0]}"
        eventually(partial(_is_gone, workspace, plural, "probe"), seconds=90, what=f"{plural} are collected")


def _inspect_a_model(workspace: Workspace) -> None:
    """A model that no catalogue knows, and then one that it does."""
    workspace.create("mine", {**MINE, "replicas": 0})
    let_it_say(workspace, MODEL)
    workspace.settled("mine", "ModelResolved", "True", "ModelKnown")
    eventually(lambda: not workspace.kubectl("get", "jobs", "--output=name"), seconds=20, what="no Job any more")
    workspace.patch("mine", QWEN)
    gone = "--selector=app.kubernetes.io/component=inspection"
    eventually(lambda: not workspace.kubectl("get", "cm", gone, "--output=name"), seconds=20, what="nothing kept of it")
    workspace.kubectl("delete", "infd", "mine")


def _leave_routing_to_others(workspace: Workspace) -> None:
    """A router that is exposed, and then nothing of it."""
    limits = {"keys": {"secretRef": {"name": "users"}, "maxConcurrent": 8}}
    workspace.create("shown", {**QWEN, "router": {**EXPOSED, **limits}})
    eventually(lambda: workspace.exists("httproute", "shown"), seconds=20, what="the HTTPRoute")
    fields = {**POOLED, "ingress": None, "httpRoute": None, "keys": None}
    workspace.patch("shown", {"router": fields})
    eventually(lambda: workspace.exists("inferencepool", "shown"), seconds=20, what="the InferencePool")
    workspace.patch("shown", {"router": {"inferencePool": None}})
    routers = (("deployment", "shown-router"), ("service", "shown-routers"))
    for kind, name in (("ingress", "shown"), ("httproute", "shown"), ("inferencepool", "shown"), *routers):
        eventually(partial(_is_gone, workspace, kind, name), seconds=20, what=f"{kind} is gone")
    workspace.kubectl("delete", "infd", "shown")


def _leave_scaling_to_others(workspace: Workspace, backend: str, kind: str) -> None:
    """Another autoscaler, whose object has a taken name, and then none."""
    name = f"by-{backend.lower()}"
    spec = {**QWEN, "autoscaling": {"backend": backend, "maxReplicas": 2}}
    _find_names_taken(workspace, name, spec, kind)
    workspace.kubectl("delete", kind, name, "--ignore-not-found")
    workspace.create(name, spec)
    eventually(lambda: workspace.exists(kind, name), seconds=20, what=f"{kind} of {name}")
    workspace.patch(name, {"autoscaling": None})
    eventually(partial(_is_gone, workspace, kind, name), seconds=20, what=f"{kind} is gone")
    workspace.kubectl("delete", "infd", name)


def _need_fewer_groups(workspace: Workspace, scheduler: str, version: str) -> None:
    """Groups for a gang scheduler: the names of the first are taken, then there are two, then one less."""
    kind, taken = f"podgroups.{version.partition('/')[0]}", {"name": f"{scheduler}-engine-0"}
    labels = {"app": "theirs"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    theirs = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    for made in (
        {"apiVersion": version, "kind": "PodGroup", "metadata": taken, "spec": {"minMember": 1}},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": taken, "spec": theirs},
    ):
        workspace.kubectl("create", "--filename=-", input=json.dumps(made))
    sized = {"parallelism": {"tensor": 1, "nodes": 2}, "scheduling": {"schedulerName": scheduler}}
    workspace.create(scheduler, {**QWEN, **sized, "replicas": 2})
    workspace.settled(scheduler, "Stalled", "True", "NameConflict")
    workspace.kubectl("delete", f"{kind},statefulsets.apps", taken["name"])
    of_groups = f"inference-operator.dev/name={scheduler}"
    for replicas in (2, 1):
        workspace.kubectl("scale", f"infd/{scheduler}", f"--replicas={replicas}")
        for what in (kind, "statefulset"):
            eventually(partial(_has, workspace, what, of_groups, replicas), seconds=30, what=f"{replicas} {what}")
    workspace.kubectl("delete", "infd", scheduler)


def _serve_all_models_at_one_address(workspace: Workspace) -> None:
    gateway = {"apiVersion": API_VERSION, "kind": "ModelGateway", "metadata": {"name": "all"}, "spec": {}}
    workspace.kubectl("create", "--filename=-", input=json.dumps(gateway))
    eventually(lambda: workspace.get("mgw", "all").get("status", {}).get("conditions"), seconds=20, what="a status")
    workspace.kubectl("delete", "mgw", "all")


def _keep_a_model(workspace: Workspace) -> None:
    """A claim that stays without its resource, one that goes with it, and one of the users', which is looked up."""
    workspace.create("left", {**QWEN, "cache": {"size": "40Gi", "whenDeleted": "Retain"}})
    workspace.create("kept", {**QWEN, "cache": {"size": "40Gi", "whenDeleted": "Retain"}})
    eventually(lambda: workspace.exists("persistentvolumeclaim", "left-cache"), seconds=20, what="the claim")
    workspace.kubectl("delete", "infd", "left")
    eventually(lambda: workspace.exists("persistentvolumeclaim", "kept-cache"), seconds=20, what="the claim")
    workspace.patch("kept", {"cache": {"whenDeleted": "Delete"}})
    eventually(partial(_is_owned, workspace, "kept-cache"), seconds=20, what="an owner of the claim")
    workspace.patch("kept", {"cache": {"size": None, "whenDeleted": None, "claimName": "models"}})
    workspace.settled("kept", "Reconciling", "True", saying="to the claim models")  # that it lacks is said soon
    workspace.kubectl("delete", "infd", "kept")
    eventually(partial(_is_gone, workspace, "persistentvolumeclaim", "kept-cache"), seconds=20, what="no claim")
    assert workspace.exists("persistentvolumeclaim", "left-cache"), "it is retained"


def _divide_an_engine_over_nodes(workspace: Workspace) -> None:
    """A group, whose name is taken first, and then none."""
    spec = {**QWEN, "parallelism": {"tensor": 1, "nodes": 2}}
    _find_names_taken(workspace, "wide", spec, "statefulset")
    workspace.kubectl("delete", "statefulset", "wide-engine-0", "--ignore-not-found")
    own = "inference-operator.dev/name=wide,app.kubernetes.io/component=engine"
    for kind in ("statefulset", "pods"):  # a new group gets no name that a pod of a former one still has
        eventually(partial(_has, workspace, kind, own, 0), seconds=60, what=f"no {kind} of the former resources")
    workspace.create("wide", spec)
    eventually(partial(_has, workspace, "statefulset", own, 1), seconds=60, what="the group")
    workspace.patch("wide", {"parallelism": {"nodes": None}})
    eventually(partial(_has, workspace, "statefulset", own, 0), seconds=60, what="no group any more")
    workspace.kubectl("delete", "infd", "wide")


def _is_owned(workspace: Workspace, claim: str) -> bool:
    return bool(workspace.get("persistentvolumeclaim", claim)["metadata"].get("ownerReferences"))


def _has(workspace: Workspace, what: str, selector: str, count: int) -> bool:
    return len(workspace.all(what, selector)) == count


def _is_gone(workspace: Workspace, kind: str, name: str) -> bool:
    return not workspace.exists(kind, name)


def _find_names_taken(workspace: Workspace, name: str, spec: dict[str, Any], kind: str) -> None:
    """What a deleted owner has left behind has the names of its successor's children, which are then looked at."""
    selector = f"--selector=inference-operator.dev/name={name}"
    workspace.create(name, spec)
    eventually(lambda: workspace.kubectl("get", kind, selector, "--output=name"), seconds=20, what=f"{kind} of {name}")
    workspace.kubectl("delete", "infd", name, "--cascade=orphan")
    workspace.create(name, spec)
    workspace.settled(name, "Stalled", "True", "NameConflict")
    workspace.kubectl("delete", "infd", name)


def _let_an_engine_fail(workspace: Workspace) -> None:
    """Show an engine whose container has ended without a word, as its kubelet would; nobody has its log."""
    _show_an_end(workspace, exitCode=1)
    _told(workspace, "its log cannot be read: its node does not answer")


def _let_an_engine_be_killed(workspace: Workspace) -> None:
    """Show one that its kubelet has ended, which tells why in an Event."""
    pod = _show_an_end(workspace, exitCode=137, startedAt="2026-01-02T03:00:00Z", finishedAt="2026-01-02T03:30:01Z")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "killed"},
        "involvedObject": {"kind": "Pod", "namespace": workspace.namespace, **pod},
        "reason": "Killing",
        "message": "Container engine failed startup probe, will be restarted",
    }
    workspace.kubectl("create", "--filename=-", input=json.dumps(event))
    _told(workspace, "container `engine` did not answer within 30 minutes")


def _show_an_end(workspace: Workspace, **end: object) -> dict[str, str]:
    """Show that the engine has ended; returns its pod's name and uid."""
    selector = "--selector=inference-operator.dev/name=qwen,app.kubernetes.io/component=engine"
    meta = json.loads(workspace.kubectl("get", "pods", selector, "--output=json"))["items"][0]["metadata"]
    container = {
        "name": "engine",
        "image": "engine",
        "imageID": "",
        "ready": False,
        "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": end},
    }
    ready = {"type": "Ready", "status": "False"}
    patch = json.dumps({"status": {"conditions": [ready], "containerStatuses": [container]}})
    workspace.kubectl("patch", "pod", meta["name"], "--subresource=status", "--type=strategic", f"--patch={patch}")
    return {"name": meta["name"], "uid": meta["uid"]}


def _told(workspace: Workspace, words: str) -> None:
    eventually(
        lambda: words in workspace.condition("qwen", "Reconciling").get("message", ""),
        seconds=40,
        what=lambda: f"`{words}`: {workspace.get('infd', 'qwen')['status']}",
    )
