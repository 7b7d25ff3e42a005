"""What somebody can do who has stolen the token of the operator's ServiceAccount, on a real API server.

Each attack is refused by RBAC or by one of the admission policies of the operator's account. The message says which.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.admission.operator_policy import (
    ACCOUNTS_ANNOTATION,
    GUARDED_KINDS,
    REPORTING_CONTROLLER,
    SYSTEM_NAMESPACES,
)
from inference_operator.manifest import (
    API_VERSION,
    CLAIM,
    CONFIG_MAP,
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    HORIZONTAL_POD_AUTOSCALER,
    INFERENCE_POOL,
    JOB,
    KIND,
    NETWORK_POLICY,
    OPTIONAL_KINDS,
    POD,
    SCALED_OBJECT,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    Kind,
    Manifest,
)
from inference_operator.objects.child import RETAIN_ANNOTATION
from inference_operator.objects.engine_key import KEY_TYPE
from inference_operator.objects.names import MANAGED_BY_LABEL, NAME_LABEL, labels
from tests.chart.helm import Helm
from tests.testing.gateway_api import inference_pool_crd
from tests.testing.keda import scaled_object_crd
from tests.testing.operated_cluster import RELEASE, SYSTEM, new_workspace, optional_kinds
from tests.testing.operator_process import OperatorProcess
from tests.testing.requests_of import STRATEGIC, Answer, RequestsOf
from tests.testing.workspace import QWEN, Workspace

OWNER = {"apiVersion": API_VERSION, "kind": KIND, "name": "qwen", "controller": True, "blockOwnerDeletion": False}
NOBODY = "00000000-0000-0000-0000-000000000000"
"""The uid of no object: a policy cannot look up an owner."""
FORBIDDEN = 403
IN_FORCE_SECONDS = 60
"""Longer than an API server takes to compile a new policy on a busy machine."""
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod(**changes: Any) -> Manifest:  # noqa: ANN401 - JSON
    """The specification of a pod of the level restricted, with changes."""
    return {
        "automountServiceAccountToken": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container()],
        **changes,
    }


def container(**changes: Any) -> Manifest:  # noqa: ANN401 - JSON
    return {"name": "engine", "image": "example.com/engine:1", "securityContext": RESTRICTED, **changes}


def with_context(**changes: Any) -> Manifest:  # noqa: ANN401 - JSON
    return {"securityContext": {**RESTRICTED, **changes}}


def child(kind: Kind, name: str, content: Manifest, **meta: Any) -> Manifest:  # noqa: ANN401 - JSON
    """A child of the operator, with a forged owner."""
    whole = {"name": name, "labels": labels("qwen", "engine"), "ownerReferences": [{**OWNER, "uid": NOBODY}], **meta}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": whole, **content}


def workload(kind: Kind, spec: Manifest, **template_meta: Any) -> Manifest:  # noqa: ANN401 - JSON
    """A Deployment, a StatefulSet or a Job with that pod."""
    template = {"metadata": {"labels": labels("qwen", "engine"), **template_meta}, "spec": spec}
    if kind is JOB:
        return child(kind, "stolen", {"spec": {"template": {**template, "spec": {"restartPolicy": "Never", **spec}}}})
    service = {"serviceName": "theirs"} if kind is STATEFUL_SET else {}
    selector = {"matchLabels": labels("qwen", "engine")}
    return child(kind, "stolen", {"spec": {**service, "selector": selector, "template": template}})


CONTENT: dict[str, Manifest] = {
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "ConfigMap": {"data": {"a": "b"}},
    "Service": {"spec": {"ports": [{"port": 80}], "selector": labels("qwen", "engine")}},
    "Deployment": {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels("qwen", "engine")},
            "template": {"metadata": {"labels": labels("qwen", "engine")}, "spec": pod()},
        }
    },
    "StatefulSet": {
        "spec": {
            "replicas": 0,
            "serviceName": "theirs",
            "selector": {"matchLabels": labels("qwen", "engine")},
            "template": {"metadata": {"labels": labels("qwen", "engine")}, "spec": pod()},
        }
    },
    "PodDisruptionBudget": {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels("qwen", "engine")}}},
    "Job": {"spec": {"suspend": True, "template": {"spec": {**pod(), "restartPolicy": "Never"}}}},
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "theirs", "port": {"number": 80}}}}},
    "HorizontalPodAutoscaler": {
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"apiVersion": API_VERSION, "kind": KIND, "name": "qwen"}}
    },
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": labels("qwen", "engine")}, "policyTypes": ["Ingress"]}},
    "HTTPRoute": {"spec": {}},
    "InferencePool": {
        "spec": {"selector": {"matchLabels": labels("qwen", "engine")}, "targetPorts": [{"number": 8000}]}
    },
    "ScaledObject": {
        "spec": {
            "scaleTargetRef": {"name": "theirs"},
            "triggers": [{"type": "cpu", "metadata": {"value": "1"}}],
        }
    },
}
"""The smallest content of an object of each kind."""
ALWAYS = [kind for kind in GUARDED_KINDS if kind not in OPTIONAL_KINDS]


def foreign(kind: Kind, name: str = "theirs", **meta: Any) -> Manifest:  # noqa: ANN401 - JSON
    """An object of somebody else."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, **meta},
        **CONTENT[kind.name],
    }


def refused_by(part: str) -> str:
    return f"ValidatingAdmissionPolicy '{part}.{SYSTEM}.{RELEASE}'"


def dry(kind: Kind, namespace: str) -> str:
    """The URL path for a try to create an object of a kind."""
    return f"{kind.path(namespace)}?dryRun=All"


@pytest.fixture(scope="module")
def thief(kubernetes: LocalCluster, account: Path) -> RequestsOf:
    """Somebody with the operator's token. Every policy is in force."""
    found = RequestsOf(account)
    workspace = new_workspace(kubernetes, "policies-in-force")
    eventually(lambda: _has_default_account(workspace), seconds=30, what="the ServiceAccount default")
    theirs = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs"}, "spec": pod()}
    workspace.kubectl("create", "--filename=-", input=json.dumps(theirs))

    def answers() -> list[str]:
        namespace = workspace.namespace
        bad = workload(DEPLOYMENT, pod(hostNetwork=True))
        events = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events?dryRun=All"
        requests = (
            found.post(dry(DEPLOYMENT, namespace), {**bad, "metadata": {"name": "stolen"}}),
            found.post(dry(DEPLOYMENT, namespace), bad),
            found.post(lease_path(SYSTEM), a_lease("other")),
            found.post(events, an_event(namespace, POD.name)),
            found.patch(f"{POD.path(namespace)}/theirs", {"metadata": {"annotations": {"a": "b"}}}),
        )
        return [answer.message for answer in requests]

    def all_refused() -> bool:
        return all("ValidatingAdmissionPolicy" in answer for answer in answers())

    eventually(all_refused, seconds=IN_FORCE_SECONDS, what=lambda: f"the policies are in force: {answers()}")
    kubernetes.kubectl("delete", "namespace", workspace.namespace, "--wait=false")
    return found


@pytest.fixture(scope="module")
def victim(kubernetes: LocalCluster, thief: RequestsOf) -> Iterator[Workspace]:  # noqa: ARG001 - policies in force
    """A namespace with objects of others, a Secret, and pods of the operator and of others."""
    found = new_workspace(kubernetes, "victim")
    objects = [foreign(kind) for kind in ALWAYS]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "database"}, "stringData": {"password": "x"}}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": marks}, "spec": pod()}
        for name, marks in (("ours", labels("qwen", "engine")), ("theirs", {"app": "theirs"}))
    ]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "admin"}}
    found.kubectl("create", "--filename=-", input=yaml.safe_dump_all([account, *objects, secret]))
    eventually(lambda: _has_default_account(found), seconds=30, what="the ServiceAccount default")
    found.kubectl("create", "--filename=-", input=yaml.safe_dump_all(pods))
    yield found
    kubernetes.kubectl("delete", "namespace", found.namespace, "--wait=false")


def _has_default_account(workspace: Workspace) -> bool:
    return "serviceaccount/default" in workspace.kubectl("get", "serviceaccounts", "--output=name")


def an_event(namespace: str, kind: str, controller: str = REPORTING_CONTROLLER) -> Manifest:
    version = API_VERSION if kind == KIND else "v1"
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "stolen"},
        "eventTime": "2026-01-02T03:00:00.000000Z",
        "reportingController": controller,
        "reportingInstance": "a",
        "action": "Reconcile",
        "type": "Normal",
        "reason": "Told",
        "note": "told",
        "regarding": {"apiVersion": version, "kind": kind, "name": "qwen", "namespace": namespace},
    }


def lease_path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases?dryRun=All"


def a_lease(name: str) -> Manifest:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}


# The policies themselves


def test_the_policies_of_the_operators_account_bind_nobody_else(victim: Workspace) -> None:
    bad = workload(DEPLOYMENT, pod(hostNetwork=True, serviceAccountName="admin"))
    victim.kubectl("create", "--dry-run=server", "--filename=-", input=json.dumps(bad))
    victim.kubectl("--as=somebody", "--as-group=system:masters", "label", "--dry-run=server", "pod/theirs", "a=b")


# Pod templates

BAD_PODS: dict[str, tuple[Manifest, str]] = {
    "hostNetwork": ({"hostNetwork": True}, "hostNetwork"),
    "hostPID": ({"hostPID": True}, "hostPID"),
    "hostIPC": ({"hostIPC": True}, "hostIPC"),
    "hostPath": ({"volumes": [{"name": "host", "hostPath": {"path": "/"}}]}, "volumes of the types"),
    "a writable volume of a CSI driver": (
        {"volumes": [{"name": "a", "csi": {"driver": "nfs.csi.k8s.io", "readOnly": False}}]},
        "must be read-only",
    ),
    "a volume of a CSI driver, writable by default": (
        {"volumes": [{"name": "a", "csi": {"driver": "nfs.csi.k8s.io"}}]},
        "must be read-only",
    ),
    "nfs": ({"volumes": [{"name": "a", "nfs": {"server": "a", "path": "/"}}]}, "volumes of the types"),
    "a projected token": (
        {"volumes": [{"name": "a", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]},
        "volumes of the types",
    ),
    "a mounted token": ({"automountServiceAccountToken": True}, "automountServiceAccountToken: false"),
    "a token by default": ({"automountServiceAccountToken": None}, "automountServiceAccountToken: false"),
    "root by default": ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, "runAsNonRoot"),
    "root": (
        {"securityContext": {**pod()["securityContext"], "runAsUser": 0}},
        "may not run as user 0",
    ),
    "no seccomp": ({"securityContext": {"runAsNonRoot": True}}, "seccomp profile"),
    "seccomp unconfined": (
        {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "Unconfined"}}},
        "seccomp profile",
    ),
    "sysctls": (
        {
            "securityContext": {
                **pod()["securityContext"],
                "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}],
            }
        },
        "sysctls",
    ),
    "SELinux": (
        {"securityContext": {**pod()["securityContext"], "seLinuxOptions": {"type": "spc_t"}}},
        "seLinuxOptions",
    ),
    "AppArmor": (
        {"securityContext": {**pod()["securityContext"], "appArmorProfile": {"type": "Unconfined"}}},
        "appArmorProfile",
    ),
    "Windows": (
        {"securityContext": {**pod()["securityContext"], "windowsOptions": {"runAsUserName": "a"}}},
        "windowsOptions",
    ),
    "procMount": ({"hostUsers": False, "containers": [container(**with_context(procMount="Unmasked"))]}, "procMount"),
}
"""Changes of a pod, and words of the refusal."""

PROBE_OF_A_HOST = {"httpGet": {"host": "169.254.169.254", "port": 80}}
SOCKET_OF_A_HOST = {"tcpSocket": {"host": "169.254.169.254", "port": 80}}
BAD_CONTAINERS: dict[str, tuple[Manifest, str]] = {
    "privileged": (with_context(privileged=True, allowPrivilegeEscalation=True), "may not be privileged"),
    "privilege escalation": (with_context(allowPrivilegeEscalation=True), "allowPrivilegeEscalation: false"),
    "no security context": ({"securityContext": None}, "allowPrivilegeEscalation: false"),
    "an added capability": (with_context(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), "NET_BIND_SERVICE"),
    "no dropped capability": (with_context(capabilities={"add": ["NET_BIND_SERVICE"]}), "drop ALL"),
    "not as non-root": (with_context(runAsNonRoot=False), "runAsNonRoot"),
    "as root": (with_context(runAsUser=0), "may not run as user 0"),
    "seccomp unconfined": (with_context(seccompProfile={"type": "Unconfined"}), "seccomp profile"),
    "SELinux": (with_context(seLinuxOptions={"level": "s0"}), "seLinuxOptions"),
    "AppArmor": (with_context(appArmorProfile={"type": "RuntimeDefault"}), "appArmorProfile"),
    "hostPort": ({"ports": [{"containerPort": 80, "hostPort": 80}]}, "hostPort"),
    "readiness probe of a host": ({"readinessProbe": PROBE_OF_A_HOST}, "may not name a host"),
    "liveness probe of a host": ({"livenessProbe": SOCKET_OF_A_HOST}, "may not name a host"),
    "startup probe of a host": ({"startupProbe": SOCKET_OF_A_HOST}, "may not name a host"),
    "preStop hook of a host": ({"lifecycle": {"preStop": PROBE_OF_A_HOST}}, "may not name a host"),
    "postStart hook of a host": ({"lifecycle": {"postStart": PROBE_OF_A_HOST}}, "may not name a host"),
}
"""Changes of a container, and words of the refusal."""


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET, JOB], ids=lambda kind: kind.name)
def test_a_restricted_pod_template_of_the_operator_is_accepted(
    thief: RequestsOf, victim: Workspace, kind: Kind
) -> None:
    added = with_context(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}, procMount="Default", runAsUser=1)
    spec = pod(
        serviceAccountName="default",
        initContainers=[
            container(name="first", envFrom=[{"configMapRef": {"name": "proxies"}}]),
            container(name="sidecar", restartPolicy="Always"),
        ],
        containers=[container(**added, readinessProbe={"httpGet": {"port": 80}}, ports=[{"containerPort": 80}])],
        imagePullSecrets=[{"name": "registry"}],
        volumes=[
            {"name": "a", "emptyDir": {}},
            {"name": "b", "secret": {"secretName": "database"}},
            {"name": "c", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}},
        ],
    )
    assert thief.post(dry(kind, victim.namespace), workload(kind, spec)).accepted


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET, JOB], ids=lambda kind: kind.name)
@pytest.mark.parametrize("attack", BAD_PODS)
def test_a_pod_template_beyond_the_level_restricted_is_refused_to_the_operator(
    thief: RequestsOf, victim: Workspace, attack: str, kind: Kind
) -> None:
    changes, words = BAD_PODS[attack]
    answer = thief.post(dry(kind, victim.namespace), workload(kind, pod(**changes)))
    assert refused_by("templates") in answer.message
    assert words in answer.message


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET], ids=lambda kind: kind.name)
@pytest.mark.parametrize("place", ["containers", "initContainers"])
@pytest.mark.parametrize("attack", BAD_CONTAINERS)
def test_a_container_beyond_the_level_restricted_is_refused_to_the_operator(
    thief: RequestsOf, victim: Workspace, attack: str, place: str, kind: Kind
) -> None:
    changes, words = BAD_CONTAINERS[attack]
    bad = container(**{"name": "bad", "restartPolicy": "Always", **changes})
    if place == "containers":
        del bad["restartPolicy"]
    spec = pod()
    spec[place] = [*spec.get(place, []), bad]
    answer = thief.post(dry(kind, victim.namespace), workload(kind, spec))
    assert refused_by("templates") in answer.message
    assert words in answer.message


LOCKING = with_context(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK"]})
GROUP_LABEL = "inference-operator.dev/group"


def group(spec: Manifest, label: str = "stolen") -> Manifest:
    """A StatefulSet whose pods have this label of a group."""
    template = {"metadata": {"labels": {**labels("qwen", "engine"), GROUP_LABEL: label}}, "spec": spec}
    selector = {"matchLabels": labels("qwen", "engine")}
    return child(STATEFUL_SET, "stolen", {"spec": {"serviceName": "a", "selector": selector, "template": template}})


def test_only_the_engine_of_a_group_may_lock_memory(thief: RequestsOf, victim: Workspace) -> None:
    def answer(kind: Kind, made: Manifest) -> Answer:
        return thief.post(dry(kind, victim.namespace), made)

    locking = pod(containers=[container(**LOCKING), container(name="loader")])
    assert answer(STATEFUL_SET, group(locking)).accepted
    more = with_context(capabilities={"drop": ["ALL"], "add": ["IPC_LOCK", "SYS_ADMIN"]})
    attacks = (
        (DEPLOYMENT, workload(DEPLOYMENT, locking)),
        (JOB, workload(JOB, locking)),
        (STATEFUL_SET, group(locking, label="other")),
        (STATEFUL_SET, group(pod(containers=[container(), container(name="other", **LOCKING)]))),
        (STATEFUL_SET, group(pod(initContainers=[container(name="first", **LOCKING)]))),
    )
    for kind, made in attacks:
        said = answer(kind, made).message
        assert refused_by("templates") in said
        assert "may add IPC_LOCK" in said
    said = answer(STATEFUL_SET, group(pod(containers=[container(**more)]))).message
    assert "may add only NET_BIND_SERVICE and IPC_LOCK" in said


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_a_group_that_locks_memory_is_refused_in_words_where_its_pods_would_be(
    thief: RequestsOf, kubernetes: LocalCluster, level: str
) -> None:
    there = new_workspace(kubernetes, f"level-{level}")
    locking = group(pod(containers=[container(**LOCKING)]))
    assert thief.post(dry(STATEFUL_SET, there.namespace), locking).accepted
    kubernetes.kubectl("label", "namespace", there.namespace, f"pod-security.kubernetes.io/enforce={level}")
    words = "This namespace enforces the Pod Security level baseline or restricted"
    eventually(
        lambda: words in thief.post(dry(STATEFUL_SET, there.namespace), locking).message,
        seconds=30,
        what="the group is refused",
    )
    assert thief.post(dry(STATEFUL_SET, there.namespace), group(pod())).accepted
    kubernetes.kubectl("delete", "namespace", there.namespace, "--wait=false")


def test_the_former_annotation_of_app_armor_is_refused_to_the_operator(thief: RequestsOf, victim: Workspace) -> None:
    bad = workload(
        DEPLOYMENT, pod(), annotations={"container.apparmor.security.beta.kubernetes.io/engine": "unconfined"}
    )
    assert refused_by("templates") in thief.post(dry(DEPLOYMENT, victim.namespace), bad).message


# ServiceAccounts of pods


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_another_service_account_is_refused_to_the_operator_until_the_namespace_names_it(
    thief: RequestsOf, kubernetes: LocalCluster, field: str
) -> None:
    there, elsewhere = (new_workspace(kubernetes, name) for name in ("accounts", "accounts-elsewhere"))

    def asked(workspace: Workspace, account: str = "admin") -> Answer:
        spec = pod(**{field: account})
        return thief.post(dry(DEPLOYMENT, workspace.namespace), workload(DEPLOYMENT, spec))

    assert refused_by("templates") in asked(there).message
    kubernetes.kubectl("annotate", "namespace", there.namespace, f"{ACCOUNTS_ANNOTATION}=other, admin")
    eventually(lambda: asked(there).accepted, seconds=30, what="the ServiceAccount is allowed")
    for answer in (asked(there, "third"), asked(elsewhere)):
        assert refused_by("templates") in answer.message
        assert f"those in the annotation {ACCOUNTS_ANNOTATION} of its namespace" in answer.message
    for workspace in (there, elsewhere):
        kubernetes.kubectl("delete", "namespace", workspace.namespace, "--wait=false")


# Objects of others


@pytest.mark.parametrize("kind", ALWAYS, ids=lambda kind: kind.name)
def test_the_operator_may_neither_change_nor_adopt_nor_delete_an_object_of_others(
    thief: RequestsOf, victim: Workspace, kind: Kind
) -> None:
    path = f"{kind.path(victim.namespace)}/theirs"
    adopted = {"labels": labels("qwen", "engine"), "ownerReferences": [{**OWNER, "uid": NOBODY}]}
    for change in ({"metadata": {"annotations": {"a": "b"}}}, {"metadata": adopted}):
        _refused_as_foreign(kind, thief.patch(path, change))
    _refused_as_foreign(kind, thief.delete(path))


def _refused_as_foreign(kind: Kind, answer: Answer) -> None:
    assert answer.code == FORBIDDEN
    # The operator never deletes a claim: RBAC does not even let it try.
    rbac = f'cannot delete resource "{kind.plural}"', f'cannot patch resource "{kind.plural}"'
    assert refused_by("children") in answer.message or (
        kind.name == "PersistentVolumeClaim" and any(words in answer.message for words in rbac)
    )


@pytest.mark.parametrize("kind", ALWAYS, ids=lambda kind: kind.name)
def test_the_operator_may_create_no_object_without_its_labels_and_an_inference_deployment_as_controller(
    thief: RequestsOf, victim: Workspace, kind: Kind
) -> None:
    content, path = CONTENT[kind.name], dry(kind, victim.namespace)
    assert thief.post(path, child(kind, "stolen", content)).accepted
    other = {**OWNER, "uid": NOBODY, "apiVersion": "apps/v1", "kind": "Deployment"}
    for meta, words in (
        ({"labels": {}}, "only objects with its labels"),
        ({"labels": {**labels("qwen", "engine"), MANAGED_BY_LABEL: "Helm"}}, "only objects with its labels"),
        ({"ownerReferences": []}, "only objects whose controller"),
        ({"ownerReferences": [other]}, "only objects whose controller"),
        ({"ownerReferences": [{**OWNER, "uid": NOBODY, "controller": False}]}, "only objects whose controller"),
        ({"ownerReferences": [{**OWNER, "uid": NOBODY, "name": "other"}]}, "only objects whose controller"),
    ):
        answer = thief.post(path, child(kind, "stolen", content, **meta))
        assert refused_by("children") in answer.message
        assert words in answer.message


def test_a_retained_claim_needs_no_owner_but_the_operators_labels_and_annotation(
    thief: RequestsOf, victim: Workspace
) -> None:
    path, content = dry(CLAIM, victim.namespace), CONTENT[CLAIM.name]
    kept = {"ownerReferences": [], "annotations": {RETAIN_ANNOTATION: "true"}}
    assert thief.post(path, child(CLAIM, "stolen", content, **kept)).accepted
    assert refused_by("children") in thief.post(path, child(CLAIM, "stolen", content, **{**kept, "labels": {}})).message
    other = child(CONFIG_MAP, "stolen", {}, **kept)
    assert refused_by("children") in thief.post(dry(CONFIG_MAP, victim.namespace), other).message


@pytest.mark.parametrize("namespace", SYSTEM_NAMESPACES)
def test_the_operator_may_write_no_child_in_a_namespace_of_kubernetes_itself(
    thief: RequestsOf, kubernetes: LocalCluster, namespace: str
) -> None:
    assert namespace in kubernetes.kubectl("get", "namespaces", "--output=name")
    answer = thief.post(dry(DEPLOYMENT, namespace), workload(DEPLOYMENT, pod()))
    assert refused_by("children") in answer.message
    assert "Create the InferenceDeployment or ModelGateway in another namespace." in answer.message


def test_the_service_account_of_a_resource_is_refused_with_its_cure_until_the_namespace_names_it(
    thief: RequestsOf, kubernetes: LocalCluster, operator: OperatorProcess
) -> None:
    assert thief, "the operator is bound by its policies"
    assert operator.is_running()
    there = new_workspace(kubernetes, "identities")
    there.create("qwen", {**QWEN, "podTemplate": {"serviceAccountName": "cloud"}})
    there.settled("qwen", "Stalled", "True", "ChildRejected", saying=ACCOUNTS_ANNOTATION)
    kubernetes.kubectl("annotate", "namespace", there.namespace, f"{ACCOUNTS_ANNOTATION}=cloud")
    there.settled("qwen", "Stalled", "False")
    pod = there.get("deployment", "qwen-engine")["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("cloud", False)
    kubernetes.kubectl("delete", "namespace", there.namespace, "--wait=false")


@pytest.mark.usefixtures("thief")
def test_users_see_why_an_engine_that_locks_memory_gets_no_pods_in_a_restricted_namespace(
    kubernetes: LocalCluster, operator: OperatorProcess
) -> None:
    assert operator.is_running()
    name, level = "locks-memory", "pod-security.kubernetes.io/enforce=restricted"
    kubernetes.kubectl("create", "namespace", name)
    kubernetes.kubectl("label", "namespace", name, level)
    there = Workspace(kubernetes, name)
    there.create("qwen", {**QWEN, "parallelism": {"tensor": 1, "nodes": 2}, "hardware": {"network": {"ipcLock": True}}})
    words = "Remove spec.hardware.network.ipcLock, or use a namespace with the level privileged."
    there.settled("qwen", "Stalled", "True", "ChildRejected", saying=words)
    assert "StatefulSet" in there.get("infd", "qwen")["status"]["message"]
    assert not there.exists("statefulset", "qwen-engine-0")
    there.patch("qwen", {"hardware": {"network": {"ipcLock": False}}})
    there.settled("qwen")
    kubernetes.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.usefixtures("thief")
def test_users_see_why_an_inference_deployment_in_a_namespace_of_kubernetes_itself_gets_no_children(
    kubernetes: LocalCluster, operator: OperatorProcess
) -> None:
    assert operator.is_running()
    public = Workspace(kubernetes, "kube-public")
    public.create("misplaced", QWEN)
    words = "Create the InferenceDeployment or ModelGateway in another namespace."
    public.settled("misplaced", "Stalled", "True", "ChildRejected", saying=words)
    assert public.children("misplaced") == set()
    public.kubectl("delete", "infd", "misplaced")


def test_the_operator_may_make_no_object_by_which_a_controller_acts_on_objects_of_others(
    thief: RequestsOf, victim: Workspace
) -> None:
    def refused(part: str, kind: Kind, spec: Manifest) -> bool:
        content = CONTENT[kind.name]["spec"]
        answer = thief.post(dry(kind, victim.namespace), child(kind, "stolen", {"spec": {**content, **spec}}))
        return refused_by(part) in answer.message

    theirs = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs"}
    assert refused("autoscalers", HORIZONTAL_POD_AUTOSCALER, {"scaleTargetRef": theirs})
    other = {"apiVersion": API_VERSION, "kind": KIND, "name": "other"}
    assert refused("autoscalers", HORIZONTAL_POD_AUTOSCALER, {"scaleTargetRef": other})
    adopting = {"metadata": {"labels": {"app": "db"}}, "spec": pod()}
    selecting = {"selector": {"matchLabels": {"app": "db"}}, "template": adopting}
    assert refused("templates", DEPLOYMENT, selecting)
    selected = {"manualSelector": True, "selector": {"matchLabels": {"app": "db"}}}
    assert refused(
        "templates", JOB, {**selected, "template": {**adopting, "spec": {**pod(), "restartPolicy": "Never"}}}
    )
    # The controller takes claims that have such names and no owner, and deletes them (Kubernetes 1.36, StatefulSet).
    claim = {"metadata": {"name": "data"}, **CONTENT[CLAIM.name]}
    deleting = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"}}
    assert refused("templates", STATEFUL_SET, {"volumeClaimTemplates": [claim], **deleting})
    assert refused("services", SERVICE, {"externalIPs": ["192.0.2.1"]})
    assert refused("services", SERVICE, {"type": "ExternalName", "externalName": "example.com"})


def test_the_operator_may_neither_publish_nor_cut_off_nor_hold_pods_of_others(
    thief: RequestsOf, victim: Workspace
) -> None:
    theirs, forged = {"app": "theirs"}, {"matchLabels": {NAME_LABEL: "other"}}
    held: Manifest = {"minAvailable": 1, "maxUnavailable": None}
    attacks: list[tuple[Kind, Manifest]] = [
        *((SERVICE, {"type": "LoadBalancer", "selector": pods}) for pods in (theirs, forged["matchLabels"], None)),
        *((NETWORK_POLICY, {"podSelector": pods}) for pods in ({}, {"matchLabels": theirs}, forged)),
        *((DISRUPTION_BUDGET, {**held, "selector": pods}) for pods in ({}, None, forged)),
        (DISRUPTION_BUDGET, {"selector": {"matchExpressions": [{"key": NAME_LABEL, "operator": "Exists"}]}}),
    ]
    for kind, change in attacks:
        content = CONTENT[kind.name]["spec"]
        answer = thief.post(dry(kind, victim.namespace), child(kind, "stolen", {"spec": {**content, **change}}))
        assert refused_by("selectors") in answer.message, (kind, change, answer)


def test_an_inference_pool_of_the_operator_publishes_no_pods_of_others(
    thief: RequestsOf, victim: Workspace, kubernetes: LocalCluster, operator: OperatorProcess
) -> None:
    def answer(pods: Manifest) -> Answer:
        spec = {**CONTENT[INFERENCE_POOL.name]["spec"], "selector": {"matchLabels": pods}}
        return thief.post(dry(INFERENCE_POOL, victim.namespace), child(INFERENCE_POOL, "stolen", {"spec": spec}))

    with optional_kinds(kubernetes, operator, inference_pool_crd()):
        eventually(lambda: answer(labels("qwen", "engine")).accepted, seconds=60, what="the kind is there")
        for pods in ({"app": "theirs"}, {NAME_LABEL: "other"}):
            assert refused_by("selectors") in answer(pods).message, pods


def test_keda_asks_only_the_prometheus_of_the_settings_for_a_scaled_object_of_the_operator(
    thief: RequestsOf, victim: Workspace, kubernetes: LocalCluster, operator: OperatorProcess
) -> None:
    """KEDA sends what it resolves from a Secret or a variable of a pod to the address of the trigger."""
    target = {"apiVersion": API_VERSION, "kind": KIND, "name": "qwen"}
    usual: Manifest = {
        "type": "prometheus",
        "metadata": {
            "serverAddress": "https://prometheus.example:9092",
            "query": "up",
            "threshold": "1",
            "authModes": "bearer",
            "namespace": victim.namespace,
        },
        "authenticationRef": {"name": "thanos", "kind": "ClusterTriggerAuthentication"},
    }
    cron: Manifest = {"type": "cron", "metadata": {"timezone": "UTC", "start": "0 8 * * *", "end": "0 9 * * *"}}

    def changed(**changes: str | None) -> Manifest:
        metadata = {**usual["metadata"], **changes}
        return {**usual, "metadata": {key: value for key, value in metadata.items() if value is not None}}

    def answer(trigger: Manifest, target: Manifest = target, **more: Any) -> Answer:  # noqa: ANN401 - JSON
        spec = {"spec": {"scaleTargetRef": target, "triggers": [trigger], **more}}
        return thief.post(dry(SCALED_OBJECT, victim.namespace), child(SCALED_OBJECT, "stolen", spec))

    with optional_kinds(kubernetes, operator, scaled_object_crd()):
        eventually(lambda: answer(usual).accepted, seconds=60, what=lambda: answer(usual).message)
        assert answer(cron).accepted
        for trigger in (
            {"type": "redis", "metadata": {"address": "attacker.example:6379", "passwordFromEnv": "PASSWORD"}},
            changed(serverAddress="https://attacker.example"),
            changed(serverAddress="https://prometheus.example:9092@attacker.example"),
            changed(serverAddress=None, serverAddressFromEnv="ADDRESS"),
            changed(passwordFromEnv="PASSWORD"),
            changed(authModes="basic"),
            changed(authModes=None),
            changed(namespace="kube-system"),
            changed(namespace=None),
            changed(queryParameters="namespace=kube-system"),
            changed(customHeaders="X-Scope-OrgID=theirs"),
            changed(unsafeSsl="true"),
            {**usual, "authenticationRef": {"name": "stolen", "kind": "ClusterTriggerAuthentication"}},
            {**usual, "authenticationRef": {"name": "thanos", "kind": "TriggerAuthentication"}},
            {**usual, "authenticationRef": {"name": "thanos"}},
            {key: value for key, value in usual.items() if key != "authenticationRef"},
            {**cron, "authenticationRef": {"name": "thanos", "kind": "ClusterTriggerAuthentication"}},
            {**cron, "metadata": {**cron["metadata"], "startFromEnv": "START"}},
        ):
            assert refused_by("autoscalers") in answer(trigger).message
        deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "theirs"}
        assert refused_by("autoscalers") in answer(usual, deployment).message
        named = {"horizontalPodAutoscalerConfig": {"name": "theirs"}}  # KEDA overwrites it, and deletes it once renamed
        assert refused_by("autoscalers") in answer(usual, advanced=named).message


# Pods


def test_the_operator_may_change_labels_of_its_pods_and_nothing_else(thief: RequestsOf, victim: Workspace) -> None:
    path = f"{POD.path(victim.namespace)}/ours?dryRun=All"
    assert thief.patch(path, {"metadata": {"labels": {"inference-operator.dev/traffic": "false"}}}).accepted
    image = {"spec": {"containers": [{"name": "engine", "image": "example.com/stolen:1"}]}}
    for change in (
        image,
        {"metadata": {"labels": {MANAGED_BY_LABEL: None}}},
        {"metadata": {"labels": labels("other", "engine")}},
        {"metadata": {"ownerReferences": [{**OWNER, "uid": NOBODY}]}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
    ):
        answer = thief.patch(path, change, STRATEGIC)
        assert refused_by("pods") in answer.message
        assert "only labels and annotations of a pod" in answer.message
    assert thief.delete(path).accepted


def test_the_operator_may_neither_change_nor_adopt_nor_delete_a_pod_of_others(
    thief: RequestsOf, victim: Workspace
) -> None:
    path = f"{POD.path(victim.namespace)}/theirs"
    changes = ({"metadata": {"annotations": {"a": "b"}}}, {"metadata": {"labels": labels("qwen", "engine")}})
    for answer in (*(thief.patch(path, change) for change in changes), thief.delete(path)):
        assert refused_by("pods") in answer.message
        assert f"only pods with its label {MANAGED_BY_LABEL}" in answer.message


# Lease, Events, status


def test_the_operator_may_create_only_its_own_lease(thief: RequestsOf, victim: Workspace) -> None:
    assert refused_by("leases") in thief.post(lease_path(SYSTEM), a_lease("other")).message
    elsewhere = thief.post(lease_path(victim.namespace), a_lease(RELEASE))
    assert 'cannot create resource "leases"' in elsewhere.message
    own = thief.post(lease_path(SYSTEM), a_lease(RELEASE))
    assert own.accepted or "already exists" in own.message


def test_the_operator_may_write_only_events_of_its_own_about_inference_deployments(
    thief: RequestsOf, victim: Workspace
) -> None:
    path = f"/apis/events.k8s.io/v1/namespaces/{victim.namespace}/events"
    for event in (an_event(victim.namespace, POD.name), an_event(victim.namespace, KIND, controller="kubelet")):
        assert refused_by("events") in thief.post(path, event).message
    assert thief.post(path, an_event(victim.namespace, KIND)).accepted
    theirs = an_event(victim.namespace, KIND, controller="kubelet")
    theirs["metadata"] = {"name": "theirs", "namespace": victim.namespace}
    victim.kubectl("create", "--filename=-", input=json.dumps(theirs))
    change = {"series": {"count": 2, "lastObservedTime": theirs["eventTime"]}}
    assert refused_by("events") in thief.patch(f"{path}/theirs", change).message


def test_the_operator_may_write_the_status_of_an_inference_deployment_and_not_its_spec(
    thief: RequestsOf, victim: Workspace
) -> None:
    victim.create("qwen", {**QWEN, "paused": True})
    path = f"/apis/{API_VERSION}/namespaces/{victim.namespace}/inferencedeployments/qwen"
    assert thief.patch(f"{path}/status?dryRun=All", {"status": {"observedGeneration": 1}}).accepted
    assert 'cannot patch resource "inferencedeployments"' in thief.patch(path, {"spec": {"replicas": 9}}).message


# Secrets


def test_the_operator_may_create_only_secrets_with_keys_of_engines_and_read_none(
    thief: RequestsOf, victim: Workspace
) -> None:
    key: Manifest = {"type": KEY_TYPE, "stringData": {"key": "x"}}
    there = dry(SECRET, victim.namespace)
    assert thief.post(there, child(SECRET, "stolen", key)).accepted
    account = {"annotations": {"kubernetes.io/service-account.name": "admin"}}
    for answer in (
        thief.post(there, child(SECRET, "stolen", {"type": "kubernetes.io/service-account-token"}, **account)),
        thief.post(there, child(SECRET, "stolen", {"stringData": {"key": "x"}})),
        thief.post(there, child(SECRET, "stolen", key, ownerReferences=[])),
        thief.post(there, child(SECRET, "stolen", key, labels={})),
        thief.post(dry(SECRET, SYSTEM_NAMESPACES[-1]), child(SECRET, "stolen", key)),
    ):
        assert refused_by("secrets") in answer.message
    named = f"{SECRET.path(victim.namespace)}/database"
    for answer in (thief.get(named), thief.get(SECRET.path(victim.namespace)), thief.delete(named)):
        assert (answer.code, 'resource "secrets"' in answer.message) == (FORBIDDEN, True)


# What RBAC refuses


def rbac_attacks(namespace: str) -> dict[str, tuple[str, str, Manifest | None, str]]:
    """Method, path, body and the refusal of each attack."""
    core, rights = f"/api/v1/namespaces/{namespace}", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "stolen"}, "roleRef": role}
    a_pod = {"metadata": {"name": "stolen"}, "spec": pod()}
    ephemeral = {"spec": {"ephemeralContainers": [container(name="debug")]}}
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    return {
        "get a Secret": ("get", f"{core}/secrets/database", None, 'get resource "secrets"'),
        "list Secrets": ("get", f"{core}/secrets", None, 'list resource "secrets"'),
        "change a Secret": (
            "patch",
            f"{core}/secrets/database",
            {"stringData": {"a": "b"}},
            'patch resource "secrets"',
        ),
        "delete a Secret": ("delete", f"{core}/secrets/database", None, 'delete resource "secrets"'),
        "create a pod": ("post", f"{core}/pods", a_pod, 'create resource "pods"'),
        "run a command": ("post", f"{core}/pods/ours/exec?command=id", None, 'create resource "pods/exec"'),
        "debug a pod": (
            "patch",
            f"{core}/pods/ours/ephemeralcontainers",
            ephemeral,
            'patch resource "pods/ephemeralcontainers"',
        ),
        "bind a role": ("post", f"{rights}/rolebindings", binding, 'create resource "rolebindings"'),
        "a token of another account": (
            "post",
            f"{core}/serviceaccounts/admin/token",
            token,
            'create resource "serviceaccounts/token"',
        ),
        "allow a ServiceAccount": (
            "patch",
            f"/api/v1/namespaces/{namespace}",
            {"metadata": {"annotations": {ACCOUNTS_ANNOTATION: "admin"}}},
            'patch resource "namespaces"',
        ),
        "turn the policy off": (
            "delete",
            f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/children.{SYSTEM}.{RELEASE}",
            None,
            'delete resource "validatingadmissionpolicybindings"',
        ),
    }


@pytest.mark.parametrize("attack", rbac_attacks(""))
def test_rbac_refuses_the_operator_what_it_never_needs(thief: RequestsOf, victim: Workspace, attack: str) -> None:
    method, path, body, words = rbac_attacks(victim.namespace)[attack]
    send = getattr(thief, method)
    answer = send(path) if method in ("get", "delete") else send(path, body)
    assert answer.code == FORBIDDEN
    assert f"cannot {words}" in answer.message


# Limits


def test_limit_a_forged_owner_reference_is_accepted_because_a_policy_cannot_look_up_an_owner(
    thief: RequestsOf, victim: Workspace
) -> None:
    assert not any("ghost" in one for one in victim.kubectl("get", "infd", "--output=name").split())
    owner = [{**OWNER, "name": "ghost", "uid": NOBODY}]
    forged = child(CONFIG_MAP, "forged", {}, labels=labels("ghost", "engine"), ownerReferences=owner)
    assert thief.post(dry(CONFIG_MAP, victim.namespace), forged).accepted


def test_limit_a_secret_can_be_mounted_into_a_restricted_pod_and_be_read_from_its_log(
    thief: RequestsOf, victim: Workspace
) -> None:
    variable = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "database", "key": "password"}}}
    spec = pod(containers=[container(env=[variable], command=["printenv", "A"])])
    assert thief.post(dry(JOB, victim.namespace), workload(JOB, spec)).accepted
    log = thief.get(f"{POD.path(victim.namespace)}/ours/log")
    assert log.code != FORBIDDEN, "RBAC lets it read; here the simulated node has no log"


def test_limit_the_operators_pods_are_published_held_and_first_by_its_token(
    thief: RequestsOf, victim: Workspace
) -> None:
    changes: list[tuple[Kind, Manifest]] = [
        (SERVICE, {"type": "LoadBalancer"}),
        (NETWORK_POLICY, {"ingress": [{}]}),
        (DISRUPTION_BUDGET, {"maxUnavailable": 0}),
    ]
    for kind, change in changes:
        made = child(kind, "stolen", {"spec": {**CONTENT[kind.name]["spec"], **change}})
        assert thief.post(dry(kind, victim.namespace), made).accepted
    first = workload(DEPLOYMENT, pod(priorityClassName="system-node-critical"))
    assert thief.post(dry(DEPLOYMENT, victim.namespace), first).accepted


def test_the_limits_are_narrowed_by_the_namespaces_of_the_scope_and_by_the_setting_read_logs(
    kubernetes: LocalCluster, tmp_path: Path
) -> None:
    helm = Helm(kubernetes.binary("helm"), tmp_path)
    rendered = helm.objects("scope.namespaces={team-a}", "settings.readLogs=false")
    roles = [one for one in rendered if one["kind"] in ("Role", "ClusterRole") and one["metadata"]["name"] == RELEASE]
    assert [(one["kind"], one["metadata"].get("namespace")) for one in roles] == [("Role", "team-a")]
    assert not any("pods/log" in rule["resources"] for rule in roles[0]["rules"])
