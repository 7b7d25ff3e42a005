"""The chart's admission policy on a real API server, with users of different rights."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.cluster.errors import ClusterError
from e2e.waiting import eventually
from tests.testing.operated_cluster import new_workspace
from tests.testing.workspace import QWEN, Workspace, manifest

PLAIN, POD_MAKER, READER, PUBLISHER = "plain", "pod-maker", "secret-reader", "publisher"
"""May write InferenceDeployments; may also create pods; may also get the Secret `known`; may create Services, Ingresses
and HTTPRoutes."""

IMAGE = {"engine": {"image": "example.com/own:1"}}
VARIABLE = {"engine": {"env": [{"name": "A", "value": "1"}]}}


def secret(*names: str) -> dict[str, Any]:
    refs = [{"secretKeyRef": {"name": name, "key": "token"}} for name in names]
    return {"engine": {"env": [{"name": f"S{n}", "valueFrom": ref} for n, ref in enumerate(refs)]}}


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who writes InferenceDeployments in one namespace."""

    name: str
    workspace: Workspace

    def refusal(self, name: str, asked: dict[str, Any]) -> str:
        """What the API server answers to an apply; empty if it accepts it."""
        return self._try("apply", "--filename=-", input=manifest(name, {**QWEN, **asked}))

    def scale(self, name: str, replicas: int) -> str:
        return self._try("scale", f"infd/{name}", f"--replicas={replicas}")

    def patch(self, name: str, asked: dict[str, Any]) -> str:
        return self._try("patch", "infd", name, "--type=merge", f"--patch={json.dumps({'spec': asked})}")

    def _try(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess's own name
        try:
            self.workspace.kubectl(f"--as={self.name}", *arguments, input=input)
        except ClusterError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
def users(kubernetes: Any, operator: Any) -> Iterator[dict[str, User]]:  # noqa: ANN401 - the session's fixtures
    assert operator.is_running()
    found = new_workspace(kubernetes, "guarded")
    rules = {
        PLAIN: (),
        POD_MAKER: (["--verb=create", "--resource=pods"],),
        PUBLISHER: (["--verb=create", "--resource=services,ingresses.networking.k8s.io"],),
        READER: (["--verb=create", "--resource=pods"], ["--verb=get", "--resource=secrets", "--resource-name=known"]),
    }
    for user, roles in rules.items():
        for number, role in enumerate([_WRITER, *roles]):
            found.kubectl("create", "role", f"{user}-{number}", *role)
            found.kubectl("create", "rolebinding", f"{user}-{number}", f"--role={user}-{number}", f"--user={user}")
    # kubectl refuses to write a Role for a kind whose CRD is not installed.
    rule = {"apiGroups": ["gateway.networking.k8s.io"], "resources": ["httproutes"], "verbs": ["create"]}
    meta = {"name": "publisher-routes"}
    routes = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": [rule]}
    found.kubectl("apply", "--filename=-", input=json.dumps(routes))
    found.kubectl("create", "rolebinding", "publisher-routes", "--role=publisher-routes", f"--user={PUBLISHER}")
    made = {user: User(user, found) for user in rules}
    eventually(lambda: not made[PLAIN].refusal("ready", {}), seconds=20, what="rights are known")
    route = {"router": {"httpRoute": {"parentRefs": [{"name": "gw"}]}}}
    eventually(lambda: not made[PUBLISHER].refusal("publishes", route), seconds=20, what="rights are known")
    eventually(lambda: not made[READER].refusal("reads", secret("known")), seconds=20, what="rights are known")
    yield made
    kubernetes.kubectl("delete", "namespace", found.namespace, "--wait=false")


_WRITER = [
    "--verb=get,create,update,patch",
    "--resource=inferencedeployments.inference-operator.dev",
    "--resource=inferencedeployments.inference-operator.dev/scale",
]

GUARDED: dict[str, dict[str, Any]] = {
    "engine.image": IMAGE,
    "engine.env": VARIABLE,
    "podTemplate": {"podTemplate": {"labels": {"a": "b"}}},
    "scheduling.tolerations": {"scheduling": {"tolerations": [{"operator": "Exists"}]}},
    "scheduling.priorityClassName": {"scheduling": {"priorityClassName": "system-node-critical"}},
    "scheduling.runtimeClassName": {"scheduling": {"runtimeClassName": "privileged"}},
    "scheduling.schedulerName": {"scheduling": {"schedulerName": "own"}},
    "router.podTemplate": {"router": {"podTemplate": {"labels": {"a": "b"}}}},
    "router.tls": {"router": {"tls": {"secretName": "llm-tls"}}},
    "router.scheduling.tolerations": {"router": {"scheduling": {"tolerations": [{"operator": "Exists"}]}}},
    "router.scheduling.priorityClassName": {"router": {"scheduling": {"priorityClassName": "system-node-critical"}}},
    "router.scheduling.runtimeClassName": {"router": {"scheduling": {"runtimeClassName": "privileged"}}},
    "router.scheduling.schedulerName": {"router": {"scheduling": {"schedulerName": "own"}}},
}


def test_the_api_server_finds_no_type_error_in_the_admission_policy(users: dict[str, User]) -> None:
    found = users[PLAIN].workspace.get("validatingadmissionpolicy", "inferencedeployments.inference-operator.dev")
    assert not found.get("status", {}).get("typeChecking", {}).get("expressionWarnings")


def test_a_user_without_further_rights_may_create_a_plain_inference_deployment(users: dict[str, User]) -> None:
    asked = {"model": {"source": "oci://example.com/model:1"}, "engine": {"args": ["--seed=4096"]}}
    assert users[PLAIN].refusal("plain", {**asked, "scheduling": {"nodeSelector": {"pool": "a"}}, "replicas": 2}) == ""


@pytest.mark.parametrize("field", GUARDED)
def test_fields_that_shape_the_pod_need_the_right_to_create_pods(users: dict[str, User], field: str) -> None:
    name = field.replace(".", "-").lower()
    said = users[PLAIN].refusal(name, GUARDED[field])
    assert f"spec.{field}: requires the right to create pods in namespace {users[PLAIN].workspace.namespace}" in said
    assert users[POD_MAKER].refusal(name, GUARDED[field]) == ""


EXPOSED: dict[str, tuple[str, dict[str, Any]]] = {
    "router.service": ("services", {"router": {"service": {"type": "LoadBalancer"}}}),
    "router.ingress": ("ingresses", {"router": {"ingress": {"host": "llm.example.com"}}}),
    "router.httpRoute": ("httproutes", {"router": {"httpRoute": {"parentRefs": [{"name": "gw"}]}}}),
}


@pytest.mark.parametrize("field", EXPOSED)
def test_a_field_that_becomes_an_object_needs_the_right_to_create_such_objects(
    users: dict[str, User], field: str
) -> None:
    plural, asked = EXPOSED[field]
    name = field.replace(".", "-").lower()
    said = users[PLAIN].refusal(name, asked)
    assert f"spec.{field}: requires the right to create {plural} in namespace" in said
    assert users[PUBLISHER].refusal(name, asked) == ""
    assert users[PLAIN].patch(name, {"replicas": 2}) == "", "not what is there"


def amounts(part: str, **named: str) -> dict[str, Any]:
    return {"engine": {"resources": {part: {name.replace("_", "/"): amount for name, amount in named.items()}}}}


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_an_extended_resource_needs_the_right_to_create_pods(users: dict[str, User], part: str) -> None:
    name = f"devices-{part}"
    assert users[PLAIN].refusal(name, amounts(part, cpu="4", memory="8Gi")) == ""
    said = users[PLAIN].refusal(name, amounts(part, cpu="4", devices_kvm="1"))
    assert f"spec.engine.resources.{part}: extended resources require the right to create pods" in said
    assert users[POD_MAKER].refusal(name, amounts(part, cpu="4", devices_kvm="1")) == ""
    assert users[PLAIN].refusal(name, amounts(part, cpu="5", devices_kvm="1")) == "", "not the one that is there"
    assert "extended resources" in users[PLAIN].refusal(name, amounts(part, cpu="5", devices_kvm="2"))


def test_a_gpu_resource_of_another_vendor_needs_the_right_to_create_pods(users: dict[str, User]) -> None:
    def gpus(name: str) -> dict[str, Any]:
        return {"hardware": {"gpu": {"resourceName": name}}}

    assert users[PLAIN].refusal("slices", gpus("nvidia.com/mig-1g.10gb")) == ""
    said = users[PLAIN].refusal("slices", gpus("devices/kvm"))
    assert "spec.hardware.gpu.resourceName: a resource outside nvidia.com/ requires the right to create pods" in said
    assert users[POD_MAKER].refusal("slices", gpus("devices/kvm")) == ""
    assert users[PLAIN].patch("slices", {"replicas": 2}) == ""


def test_a_model_in_a_claim_needs_the_right_to_create_pods_or_the_verb_use_on_the_claim(users: dict[str, User]) -> None:
    def claim(path: str) -> dict[str, Any]:
        return {"model": {"source": f"pvc://{path}"}}

    plain = users[PLAIN]
    said = plain.refusal("claimed", claim("models/qwen"))
    assert "spec: the claim models requires the right to create pods, or the verb use" in said
    assert users[POD_MAKER].refusal("claimed", claim("models/qwen")) == ""
    assert plain.patch("claimed", claim("models/other")) == "", "the same claim"
    assert "the claim secrets requires" in plain.patch("claimed", claim("secrets"))
    rule = {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "resourceNames": ["lent"], "verbs": ["use"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "lent"}, "rules": [rule]}
    plain.workspace.kubectl("apply", "--filename=-", input=json.dumps(role))
    plain.workspace.kubectl("create", "rolebinding", "lent", "--role=lent", f"--user={PLAIN}")
    eventually(lambda: plain.refusal("lent", claim("lent/qwen")) == "", seconds=20, what="the verb suffices")
    assert "the claim models requires" in plain.refusal("not-lent", claim("models"))


def test_a_cache_needs_the_right_to_use_its_claim_or_to_create_one(users: dict[str, User]) -> None:
    plain = users[PLAIN]
    assert "spec: the claim models requires" in plain.refusal("cached", {"cache": {"pvc": "models"}})
    assert "spec.cache.size: requires the right to create persistentvolumeclaims" in plain.refusal(
        "cached", {"cache": {"size": "40Gi"}}
    )
    assert users[POD_MAKER].refusal("cached", {"cache": {"pvc": "models"}}) == ""


def test_a_secret_reference_needs_the_right_to_get_that_secret(users: dict[str, User]) -> None:
    said = users[POD_MAKER].refusal("secret", secret("known"))
    assert "the Secret known requires the right to get this Secret" in said
    assert users[READER].refusal("secret", secret("known")) == ""
    assert "the Secret other requires the right" in users[READER].refusal("secret", secret("known", "other"))
    sidecar = {"name": "a", "image": "b", **secret("other")["engine"]}
    beside = {"podTemplate": {"sidecars": [{"name": "c", "image": "b"}, sidecar]}}
    for where in (beside, {"router": beside}):
        assert "the Secret other requires the right" in users[READER].refusal("beside", where)
    keys = {"router": {"keys": {"secretName": "other"}}}
    assert "the Secret other requires the right" in users[READER].refusal("keys", keys)
    assert users[READER].refusal("keys", {"router": {"keys": {"secretName": "known"}}}) == ""


def test_more_than_16_secret_references_need_the_right_to_get_every_secret(users: dict[str, User]) -> None:
    assert users[READER].refusal("many", secret(*["known"] * 16)) == ""
    said = users[READER].refusal("too-many", secret(*["known"] * 17))
    assert "more than 16 new Secrets require the right to get all Secrets" in said


def test_the_admission_policy_checks_only_fields_that_an_update_changes(users: dict[str, User]) -> None:
    plain, owner = users[PLAIN], users[READER]
    assert owner.refusal("owned", {**IMAGE, **secret("known")}) == ""
    assert owner.patch("owned", IMAGE) == ""
    assert plain.patch("owned", {"replicas": 2, "model": {"servedName": "chat"}}) == ""
    assert plain.scale("owned", 3) == ""
    assert "spec.engine.image" in plain.patch("owned", {"engine": {"image": "example.com/other:1"}})
    assert "spec.engine.env" in plain.patch("owned", VARIABLE)
    assert plain.patch("owned", {"engine": {"image": None, "env": None}}) == ""


def test_the_admission_policy_does_not_apply_to_status_writes_of_the_operator(users: dict[str, User]) -> None:
    """It may not create pods either, and tells the status of what others asked for."""
    assert users[READER].refusal("told", {**IMAGE, **secret("known")}) == ""
    users[READER].workspace.settled("told", "Stalled", "False")
