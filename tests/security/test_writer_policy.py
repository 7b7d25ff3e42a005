"""Attacks of people who may write InferenceDeployments and nothing else, on a real API server."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from e2e.localkube.errors import ClusterError
from e2e.localkube.waiting import eventually
from tests.testing.operated_cluster import new_workspace
from tests.testing.workspace import QWEN, Workspace

PLAIN, POD_MAKER, READER, PUBLISHER = "plain", "pod-maker", "reader", "publisher"
"""May write InferenceDeployments, and: nothing else; create pods; get the Secret and the ConfigMap `known` and every
claim; create Services, Ingresses, HTTPRoutes and InferencePools."""

SHARED = "shared"
"""A claim that everybody may use."""
IMAGE = {"engine": {"image": "example.com/own:1"}}
VARIABLE = {"engine": {"env": [{"name": "LD_PRELOAD", "value": "1"}]}}


def token(name: str, key: str = "token") -> dict[str, Any]:
    """The variable that anybody may set, from a Secret."""
    return {"engine": {"env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": name, "key": key}}}]}}


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who writes InferenceDeployments in one namespace."""

    name: str
    workspace: Workspace

    def refusal(self, name: str, asked: dict[str, Any]) -> str:
        """What the API server answers to an apply; empty if it accepts it. The operator makes no children."""
        return _refusal(lambda: self.workspace.create(name, {**QWEN, "paused": True, **asked}, user=self.name))

    def scale(self, name: str, replicas: int) -> str:
        scale = (f"--as={self.name}", "scale", f"infd/{name}", f"--replicas={replicas}")
        return _refusal(lambda: self.workspace.kubectl(*scale))

    def patch(self, name: str, asked: dict[str, Any]) -> str:
        return _refusal(lambda: self.workspace.patch(name, asked, user=self.name))


def _refusal(write: Callable[[], object]) -> str:
    try:
        write()
    except ClusterError as error:
        return str(error)
    return ""


def lend(user: User, plural: str, name: str) -> None:
    """Give a user the verb `use` on an object, which kubectl does not know."""
    rule = {"apiGroups": [""], "resources": [plural], "resourceNames": [name], "verbs": ["use"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name}, "rules": [rule]}
    user.workspace.kubectl("apply", "--filename=-", input=json.dumps(role))
    user.workspace.kubectl("create", "rolebinding", f"{name}-{user.name}", f"--role={name}", f"--user={user.name}")


def may_share(user: User) -> bool:
    return not user.refusal("shares", {"cache": {"claimName": SHARED}})


@pytest.fixture(scope="module")
def users(kubernetes: Any, operator: Any) -> Iterator[dict[str, User]]:  # noqa: ANN401 - the session's fixtures
    assert operator.is_running()
    found = new_workspace(kubernetes, "guarded")
    rules = {
        PLAIN: (),
        POD_MAKER: (["--verb=create", "--resource=pods"],),
        PUBLISHER: (
            ["--verb=create", "--resource=services,ingresses.networking.k8s.io"],
            ["--verb=create", "--resource=horizontalpodautoscalers.autoscaling,poddisruptionbudgets.policy"],
        ),
        READER: (
            ["--verb=get", "--resource=secrets", "--resource-name=known"],
            ["--verb=get", "--resource=configmaps", "--resource-name=known"],
            ["--verb=get", "--resource=persistentvolumeclaims"],
        ),
    }
    for user, roles in rules.items():
        for number, role in enumerate([_WRITER, *roles]):
            found.kubectl("create", "role", f"{user}-{number}", *role)
            found.kubectl("create", "rolebinding", f"{user}-{number}", f"--role={user}-{number}", f"--user={user}")
    # kubectl refuses to write a Role for a kind whose CRD is not installed.
    kinds = {"gateway.networking.k8s.io": "httproutes", "inference.networking.k8s.io": "inferencepools"}
    rights = [{"apiGroups": [group], "resources": [plural], "verbs": ["create"]} for group, plural in kinds.items()]
    meta = {"name": "publisher-routes"}
    routes = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rights}
    found.kubectl("apply", "--filename=-", input=json.dumps(routes))
    found.kubectl("create", "rolebinding", "publisher-routes", "--role=publisher-routes", f"--user={PUBLISHER}")
    made = {user: User(user, found) for user in rules}
    eventually(lambda: not made[PLAIN].refusal("ready", {}), seconds=20, what="rights are known")
    route = {"router": {"httpRoute": {"parentRefs": [{"name": "gw"}]}}}
    eventually(lambda: not made[PUBLISHER].refusal("publishes", route), seconds=20, what="rights are known")
    eventually(lambda: not made[READER].refusal("reads", token("known")), seconds=20, what="rights are known")
    for user in (PLAIN, READER):
        lend(made[user], "persistentvolumeclaims", SHARED)
        eventually(partial(may_share, made[user]), seconds=20, what="the claim is lent")
    yield made
    kubernetes.kubectl("delete", "namespace", found.namespace, "--wait=false")


_WRITER = [
    "--verb=get,create,update,patch",
    "--resource=inferencedeployments.inference-operator.dev",
    "--resource=inferencedeployments.inference-operator.dev/scale",
]

GUARDED: dict[str, dict[str, Any]] = {
    "engine.image": IMAGE,
    "engine.multimodal.allowedDomains": {"engine": {"multimodal": {"allowedDomains": ["inside.example"]}}},
    "model.s3.endpoint": {
        "model": {"source": "s3://models/qwen", "s3": {"endpoint": "https://s3.eu-1.example.com"}},
        "cache": {"claimName": SHARED},
    },
    "model.allowPickle": {"model": {"source": "hf://a/b", "revision": "0" * 40, "allowPickle": True}},
    "podTemplate": {"podTemplate": {"labels": {"a": "b"}}},
    "hardware.network.resource": {"hardware": {"network": {"resource": "rdma/ib"}}},
    "hardware.network.ipcLock": {"hardware": {"network": {"ipcLock": True}}},
    "scheduling.tolerations": {"scheduling": {"tolerations": [{"operator": "Exists"}]}},
    "scheduling.priorityClassName": {"scheduling": {"priorityClassName": "system-node-critical"}},
    "scheduling.runtimeClassName": {"scheduling": {"runtimeClassName": "privileged"}},
    "scheduling.schedulerName": {"scheduling": {"schedulerName": "own"}},
    "router.podTemplate": {"router": {"podTemplate": {"labels": {"a": "b"}}}},
    "router.scheduling.tolerations": {"router": {"scheduling": {"tolerations": [{"operator": "Exists"}]}}},
    "router.scheduling.priorityClassName": {"router": {"scheduling": {"priorityClassName": "system-node-critical"}}},
    "router.scheduling.runtimeClassName": {"router": {"scheduling": {"runtimeClassName": "privileged"}}},
    "router.scheduling.schedulerName": {"router": {"scheduling": {"schedulerName": "own"}}},
}


def test_a_user_without_further_rights_may_create_a_plain_inference_deployment(users: dict[str, User]) -> None:
    asked = {"model": {"source": "oci://example.com/model:1"}, "engine": {"args": ["--seed=4096"]}}
    assert users[PLAIN].refusal("plain", {**asked, "scheduling": {"nodeSelector": {"pool": "a"}}, "replicas": 2}) == ""


@pytest.mark.parametrize("field", GUARDED)
def test_fields_that_shape_the_pod_need_the_right_to_create_pods(users: dict[str, User], field: str) -> None:
    name = field.replace(".", "-").lower()
    said = users[PLAIN].refusal(name, GUARDED[field])
    assert f"spec.{field}: requires the right to create pods in namespace {users[PLAIN].workspace.namespace}" in said
    assert users[POD_MAKER].refusal(name, GUARDED[field]) == ""


POD_PARTS: dict[str, dict[str, Any]] = {
    "a service account": {"serviceAccountName": "admin"},
    "a pull Secret": {"imagePullSecrets": [{"name": "known"}]},
    "variables of a Secret": {"envFrom": [{"secretRef": {"name": "known"}}]},
    "variables of a ConfigMap": {"envFrom": [{"configMapRef": {"name": "known"}}]},
    "a volume of a Secret": {"volumes": [{"name": "a", "secret": {"secretName": "known"}}]},
    "a volume of a CSI driver": {
        "volumes": [{"name": "a", "csi": {"driver": "secrets-store.csi.k8s.io", "readOnly": True}}]
    },
    "an init container": {"initContainers": [{"name": "first", "image": "example.com/own:1"}]},
}


@pytest.mark.parametrize("part", POD_PARTS)
@pytest.mark.parametrize("field", ["podTemplate", "router.podTemplate"])
def test_each_part_of_a_pod_template_needs_the_right_to_create_pods(
    users: dict[str, User], field: str, part: str
) -> None:
    asked = {"podTemplate": POD_PARTS[part]}
    spec = asked if field == "podTemplate" else {"router": asked}
    name = f"{field.replace('.', '-')}-{part.replace(' ', '-')}".lower()
    assert f"spec.{field}" in users[PLAIN].refusal(name, spec), "the policy of references may be the first"
    said = users[READER].refusal(name, spec)
    assert f"spec.{field}: requires the right to create pods" in said, "although the reader sees what it names"
    assert users[POD_MAKER].refusal(name, spec) == ""


def test_a_template_of_somebody_else_may_stay_and_may_not_change(users: dict[str, User]) -> None:
    assert users[POD_MAKER].refusal("kept", {"podTemplate": {"serviceAccountName": "models"}}) == ""
    assert users[READER].patch("kept", {"replicas": 2}) == ""
    for change in ({"serviceAccountName": "admin"}, {"imagePullSecrets": [{"name": "known"}]}):
        said = users[READER].patch("kept", {"podTemplate": change})
        assert "spec.podTemplate: requires the right to create pods" in said, change


_EXACT = "requiredDuringSchedulingIgnoredDuringExecution"
_WEIGHTED = "preferredDuringSchedulingIgnoredDuringExecution"
_OTHERS: tuple[dict[str, Any], ...] = ({"namespaces": ["kube-system"]}, {"namespaceSelector": {}})


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize("section", ["scheduling", "router.scheduling"])
def test_a_term_about_pods_of_other_namespaces_needs_the_right_to_create_pods(
    users: dict[str, User], section: str, kind: str
) -> None:
    def spec(term: dict[str, Any], how: str) -> dict[str, Any]:
        whole = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, **term}
        terms = [whole] if how == _EXACT else [{"weight": 1, "podAffinityTerm": whole}]
        asked = {"scheduling": {"affinity": {kind: {how: terms}}}}
        return asked if section == "scheduling" else {"router": asked}

    name = f"{section.replace('.', '-')}-{kind.lower()}"
    for how in (_EXACT, _WEIGHTED):
        for term in _OTHERS:
            said = users[PLAIN].refusal(name, spec(term, how))
            assert f"spec.{section}.affinity.{kind}: requires the right to create pods" in said, (how, term)
            assert users[POD_MAKER].refusal(f"{name}-theirs", spec(term, how)) == ""
        assert users[PLAIN].refusal(name, spec({}, how)) == "", "pods of the same namespace are the writer's own"


EXPOSED: dict[str, tuple[str, dict[str, Any]]] = {
    "router.service": ("services", {"router": {"service": {"type": "LoadBalancer"}}}),
    "router.ingress": ("ingresses", {"router": {"ingress": {"host": "llm.example.com"}}}),
    "router.httpRoute": ("httproutes", {"router": {"httpRoute": {"parentRefs": [{"name": "gw"}]}}}),
    "router.inferencePool": ("inferencepools", {"router": {"strategy": "External", "inferencePool": {}}}),
    "autoscaling.backend": ("horizontalpodautoscalers", {"autoscaling": {"maxReplicas": 2, "backend": "HPA"}}),
    "scheduling.evictionWait": ("poddisruptionbudgets", {"scheduling": {"evictionWait": "31m"}}),
}


@pytest.mark.parametrize("field", EXPOSED)
def test_a_field_that_becomes_an_object_needs_the_right_to_create_such_objects(
    users: dict[str, User], field: str
) -> None:
    plural, asked = EXPOSED[field]
    name = field.replace(".", "-").lower()
    said = users[PLAIN].refusal(name, asked)
    assert re.search(rf"spec\.{field}: (\S+ )*requires? the right to create {plural}", said), said
    assert users[PUBLISHER].refusal(name, asked) == ""
    assert users[PLAIN].patch(name, {"engine": {"args": ["--seed=8"]}}) == "", "not what is there"


def test_a_new_name_that_a_gateway_sends_to_a_model_needs_the_right_to_create_httproutes(
    users: dict[str, User],
) -> None:
    """It could be the name of another model at the same Gateway, which takes the older of two routes."""
    route = {"parentRefs": [{"name": "gw"}], "modelHeader": "X-Gateway-Model-Name"}
    adapters = [{"name": "sql", "source": "hf://a/sql"}]
    model = {"source": "hf://a/b", "adapters": adapters}
    asked = {"model": model, "cache": {"size": "40Gi"}, "router": {"httpRoute": route}}
    users[PUBLISHER].workspace.create("by-name", {**QWEN, "paused": True, **asked})
    theirs = {"name": "other", "source": "hf://a/sql"}
    for change in ({"servedName": "theirs"}, {"source": "hf://their/model"}, {"adapters": [*adapters, theirs]}):
        said = users[PLAIN].patch("by-name", {"model": change})
        assert (
            "spec.router.httpRoute.modelHeader: a new name of the model requires the right to create httproutes" in said
        )
        assert users[PUBLISHER].patch("by-name", {"model": change}) == "", "and it is no new one after that"
        assert users[PLAIN].patch("by-name", {"replicas": 2}) == ""
    assert users[PLAIN].patch("by-name", {"model": {"adapters": adapters}}) == "", "fewer names"


def test_a_drain_may_be_held_by_anybody_for_as_long_as_the_operator_does_by_itself(users: dict[str, User]) -> None:
    assert users[PLAIN].refusal("half-an-hour", {"scheduling": {"evictionWait": "30m"}}) == ""


def amounts(part: str, **named: str) -> dict[str, Any]:
    return {"engine": {"resources": {part: {name.replace("_", "/"): amount for name, amount in named.items()}}}}


@pytest.mark.parametrize("part", ["requests", "limits"])
def test_an_extended_resource_needs_the_right_to_create_pods(users: dict[str, User], part: str) -> None:
    name = f"devices-{part}"
    assert users[PLAIN].refusal(name, amounts(part, cpu="4", memory="8Gi")) == ""
    said = users[PLAIN].refusal(name, amounts(part, cpu="4", devices_kvm="1"))
    assert f"spec.engine.resources.{part}: an extended resource requires the right to create pods" in said
    assert users[POD_MAKER].refusal(name, amounts(part, cpu="4", devices_kvm="1")) == ""
    assert users[PLAIN].refusal(name, amounts(part, cpu="5", devices_kvm="1")) == "", "not the one that is there"
    assert "an extended resource" in users[PLAIN].refusal(name, amounts(part, cpu="5", devices_kvm="2"))


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
    assert (
        "spec.model.source: the PersistentVolumeClaim models requires the right to create pods, or the verb use" in said
    )
    assert users[POD_MAKER].refusal("claimed", claim("models/qwen")) == ""
    assert plain.patch("claimed", claim("models/other")) == "", "the same claim"
    assert "the PersistentVolumeClaim secrets requires" in plain.patch("claimed", claim("secrets"))
    lend(plain, "persistentvolumeclaims", "lent")
    eventually(lambda: plain.refusal("lent", claim("lent/qwen")) == "", seconds=20, what="the verb suffices")
    assert "the PersistentVolumeClaim models requires" in plain.refusal("not-lent", claim("models"))


def test_a_cache_needs_the_right_to_use_its_claim_or_to_create_one(users: dict[str, User]) -> None:
    plain = users[PLAIN]
    assert "spec.cache.claimName: the PersistentVolumeClaim models requires" in plain.refusal(
        "cached", {"cache": {"claimName": "models"}}
    )
    assert "spec.cache: requires the right to create persistentvolumeclaims" in plain.refusal(
        "cached", {"cache": {"size": "40Gi"}}
    )
    assert users[POD_MAKER].refusal("cached", {"cache": {"claimName": "models"}}) == ""


def test_a_name_of_a_secret_or_config_map_needs_a_right_on_it(users: dict[str, User]) -> None:
    """Each of these once gave any Secret of the namespace to who may only write InferenceDeployments."""
    hub, keys = {"name": "database", "key": "password"}, {"configMapRef": {"name": "database"}}
    image = f"oci://example.com/model@sha256:{'0' * 64}"
    named: dict[str, dict[str, Any]] = {
        "model.tokenSecretRef.name": {"model": {"source": "hf://a/b", "tokenSecretRef": hub}},
        "engine.env": token("database"),
        "router.keys.secretRef.name": {"router": {"keys": {"secretRef": {"name": "database"}}}},
        "router.tls.secretRef.name": {"router": {"tls": {"secretRef": {"name": "database"}}}},
        "model.verify.configMapRef.name": {"model": {"source": image, "verify": keys}},
    }
    for number, (field, asked) in enumerate(named.items()):
        for user in (PLAIN, READER):
            said = users[user].refusal(f"names-{number}", asked)
            assert f"spec.{field}: the " in said
            assert "database requires the right to create pods, or the verb use or get on it" in said
        known = json.loads(json.dumps(asked).replace("database", "known"))
        assert users[READER].refusal(f"knows-{number}", known) == ""
        assert users[POD_MAKER].refusal(f"names-{number}", asked) == ""


def test_a_secret_of_a_bucket_needs_a_right_on_it(users: dict[str, User]) -> None:
    def bucket(secret: str) -> dict[str, Any]:
        return {
            "model": {"source": "s3://models/qwen", "s3": {"credentialsSecretRef": {"name": secret}}},
            "cache": {"claimName": SHARED},
        }

    assert "spec.model.s3.credentialsSecretRef.name: the Secret other requires" in users[READER].refusal(
        "bucket", bucket("other")
    )
    assert users[READER].refusal("bucket", bucket("known")) == ""


def test_a_known_secret_must_not_move_to_another_field_or_key(users: dict[str, User]) -> None:
    """Else a certificate of the routers could be sent to the hub as a token."""
    owner, plain = users[POD_MAKER], users[PLAIN]
    assert owner.refusal("moved", {"router": {"tls": {"secretRef": {"name": "web"}}}, **token("hub")}) == ""
    assert plain.patch("moved", {"model": {"servedName": "chat"}}) == ""
    assert "spec.model.tokenSecretRef.name: the Secret web" in plain.patch(
        "moved", {"model": {"tokenSecretRef": {"name": "web", "key": "tls.key"}}, "engine": {"env": None}}
    )
    assert "spec.engine.env: the Secret hub" in plain.patch("moved", token("hub", key="password"))


KEPT: dict[str, dict[str, Any]] = {
    "model.allowPickle": {"model": {"source": "hf://a/b", "revision": "0" * 40, "allowPickle": True}},
    "engine.args": {"model": {"source": "hf://a/b"}, "engine": {"args": ["--trust-remote-code"]}},
    "engine.env": {"model": {"source": "hf://a/b"}, **VARIABLE},
    "model.tokenSecretRef.name": {"model": {"source": "hf://a/b", "tokenSecretRef": {"name": "hub", "key": "token"}}},
    "podTemplate.volumes": {
        "model": {"source": "hf://a/b"},
        "podTemplate": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    },
}


@pytest.mark.parametrize("field", KEPT)
def test_what_somebody_allowed_for_one_model_is_not_allowed_for_another(users: dict[str, User], field: str) -> None:
    """Else a tenant could let code of their own model run by consent that was given to another one."""
    name = f"kept-{field.replace('.', '-').lower()}"
    assert users[POD_MAKER].refusal(name, KEPT[field]) == ""
    assert users[PLAIN].patch(name, {"replicas": 2}) == ""
    for change in ({"source": "hf://attacker/b"}, {"revision": "1" * 40}):
        assert f"spec.{field}: " in users[PLAIN].patch(name, {"model": change})
    assert users[POD_MAKER].patch(name, {"model": {"source": "hf://attacker/b"}}) == ""


ADAPTER = {"name": "known", "source": "hf://a/known"}
OTHER = {"name": "other", "source": "hf://attacker/other"}
STORE = {
    "model": {"source": "s3://bucket/a", "s3": {"credentialsSecretRef": {"name": "store"}}, "adapters": [ADAPTER]},
    "cache": {"claimName": SHARED},
}
"""A resource whose model has the keys of a bucket."""


@pytest.mark.parametrize("field", KEPT)
def test_what_somebody_lent_for_a_model_reaches_no_adapter_of_somebody_else(users: dict[str, User], field: str) -> None:
    """Else a tenant could read other repositories with the token, and bring other files to the code of the engine."""
    name, plain = f"item-{field.replace('.', '-').lower()}", users[PLAIN]
    first, cache = {"model": {"adapters": [ADAPTER]}}, {"cache": {"claimName": SHARED}}
    model = {**KEPT[field]["model"], **first["model"]}
    assert users[POD_MAKER].refusal(name, {**KEPT[field], **cache, "model": model}) == ""
    for adapters in (
        [ADAPTER, OTHER],
        [OTHER],
        [{**ADAPTER, "source": "hf://attacker/other"}],
        [{**ADAPTER, "revision": "1" * 40}],
        [ADAPTER, {"name": "bucket", "source": "s3://finance/secret"}],
    ):
        refusal = plain.patch(name, {"model": {"adapters": adapters}})
        of_token = field == "model.tokenSecretRef.name"
        reached = not of_token or any(
            adapter["source"].startswith("hf://") for adapter in adapters if adapter != ADAPTER
        )
        assert (f"spec.{field}: " in refusal) == reached, (adapters, refusal)
        if not reached:
            assert refusal == ""
            assert users[POD_MAKER].patch(name, {"model": {"adapters": [ADAPTER]}}) == ""
    assert plain.patch(name, {"model": {"adapters": [{**ADAPTER, "name": "renamed"}]}}) == "", "the files stay"
    assert plain.patch(name, {"model": {"adapters": []}}) == ""
    assert users[POD_MAKER].patch(name, {"model": {"adapters": [ADAPTER, OTHER]}}) == ""


def test_an_adapter_with_a_token_of_its_own_asks_for_no_right_to_that_of_the_model(users: dict[str, User]) -> None:
    model = {"source": "hf://a/b", "tokenSecretRef": {"name": "hub"}}
    assert users[POD_MAKER].refusal("own-token", {"model": model, "cache": {"claimName": SHARED}}) == ""
    own = {**OTHER, "tokenSecretRef": {"name": "known"}}
    assert users[READER].patch("own-token", {"model": {"adapters": [own]}}) == ""
    refusal = users[READER].patch("own-token", {"model": {"adapters": [OTHER]}})
    assert "spec.model.tokenSecretRef.name: " in refusal, "without its own token it would get that of the model"
    assert "spec.model.adapters: " in users[PLAIN].patch(
        "own-token", {"model": {"adapters": [{**own, "source": "hf://attacker/third"}]}}
    ), "the token of an adapter is lent for its files too"


def test_the_keys_of_a_bucket_reach_no_other_folder_as_an_adapter(users: dict[str, User]) -> None:
    assert users[POD_MAKER].refusal("store", STORE) == ""
    secret = {"name": "secret", "source": "s3://finance/secret"}
    refusal = users[PLAIN].patch("store", {"model": {"adapters": [ADAPTER, secret]}})
    assert "spec.model.s3.credentialsSecretRef.name: " in refusal
    assert users[PLAIN].patch("store", {"model": {"adapters": [ADAPTER, OTHER]}}) == "", "a hub gets no key of a bucket"


def test_the_most_and_longest_adapters_stay_within_the_cost_budget_of_a_change(users: dict[str, User]) -> None:
    """A policy that exceeds its budget refuses everybody, so that an accepted change was within it."""

    def adapters(letter: str) -> list[dict[str, Any]]:
        token = {"name": "t" * 253, "key": "k" * 253}
        return [
            {
                "name": f"a{number:0>127}",
                "source": f"hf://org/{number:0>2}{letter * 1010}",
                "revision": f"{letter * 250}{number:0>2}",
                "tokenSecretRef": token,
            }
            for number in range(64)
        ]

    def asked(letter: str) -> dict[str, Any]:
        model = {**KEPT["model.tokenSecretRef.name"]["model"], "adapters": adapters(letter)}
        return {"model": model, "cache": {"claimName": SHARED}}

    maker = users[POD_MAKER]
    assert maker.refusal("longest", asked("a")) == ""
    assert maker.refusal("longest", asked("b")) == "", "all are changed"
    assert maker.refusal("longest", asked("b")) == ""
    refusal = users[PLAIN].refusal("longest", asked("c"))
    assert "requires the right to create pods" in refusal
    assert "cost" not in refusal


def test_keys_and_certificates_of_the_routers_stay_when_the_model_changes(users: dict[str, User]) -> None:
    exposed = {"router": {"keys": {"secretRef": {"name": "keys"}}, "tls": {"secretRef": {"name": "web"}}}}
    assert users[POD_MAKER].refusal("routed", exposed) == ""
    assert users[PLAIN].patch("routed", {"model": {"source": "hf://a/b"}}) == ""


@pytest.mark.parametrize("name", ["VLLM_SYSTEM_START_DATE", "VLLM_PP_LAYER_PARTITION", "OMP_NUM_THREADS"])
def test_a_lent_secret_fills_only_variables_that_are_made_for_one(users: dict[str, User], name: str) -> None:
    """An engine puts one of these into its system prompt, and another into an error."""
    ref = {"secretKeyRef": {"name": "known", "key": "token"}}
    said = users[READER].refusal("shows", {"engine": {"env": [{"name": name, "valueFrom": ref}]}})
    assert f"spec.engine.env: {name} requires the right to create pods" in said
    assert users[READER].refusal("hides", token("known")) == ""
    assert users[PLAIN].refusal("plain-value", {"engine": {"env": [{"name": name, "value": "1"}]}}) == ""


def test_another_kind_asks_for_the_right_to_the_same_arguments_again(users: dict[str, User]) -> None:
    """Transformers refuses `--tokenizer` to everybody, and vLLM loads another repository with it."""
    plain, asked = users[PLAIN], {"kind": "Transformers", "args": ["--tokenizer=org/other"]}
    assert plain.refusal("kinds", {"engine": asked}) == ""
    for kind in ("VLLM", "Auto"):
        said = plain.patch("kinds", {"engine": {"kind": kind}})
        assert "spec.engine.args: --tokenizer requires the right to create pods" in said, kind
    assert "requires the right" in plain.patch("kinds", {"engine": {"kind": None}}), "which means Auto"
    assert users[POD_MAKER].patch("kinds", {"engine": {"kind": "VLLM"}}) == ""


@pytest.mark.parametrize("kind", ["Auto", "Transformers"])
def test_with_auto_a_name_needs_no_right_only_if_it_needs_none_for_every_engine(
    users: dict[str, User], kind: str
) -> None:
    plain = users[PLAIN]
    template = {"kind": kind, "args": ["--chat-template-kwargs=x"]}
    assert "--chat-template-kwargs requires the right" in plain.refusal(f"t-{kind.lower()}", {"engine": template})
    for name in ("LD_PRELOAD", "HF_ENDPOINT", "PYTHONPATH"):
        shaped = {"kind": kind, "env": [{"name": name, "value": "x"}]}
        assert f"{name} requires the right" in plain.refusal(f"v-{kind.lower()}", {"engine": shaped})
    assert (
        plain.refusal(f"s-{kind.lower()}", {"engine": {"kind": kind, "env": [{"name": "HF_TOKEN", "value": "x"}]}})
        == ""
    )


def test_the_verb_use_lends_a_secret(users: dict[str, User]) -> None:
    plain = users[PLAIN]
    assert "the Secret lent-token requires" in plain.refusal("lent-token", token("lent-token"))
    lend(plain, "secrets", "lent-token")
    eventually(lambda: plain.refusal("lent-token", token("lent-token")) == "", seconds=20, what="the verb suffices")


def test_the_right_to_get_a_claim_is_not_enough_to_read_its_files(users: dict[str, User]) -> None:
    for asked in ({"model": {"source": "pvc://models/a"}}, {"cache": {"claimName": "models"}}):
        assert "the PersistentVolumeClaim models requires" in users[READER].refusal("viewed", asked)


HOSTILE: dict[str, list[str]] = {
    "--logging-config": [
        "--logging-config.pylogging_config_file=/models/logging.json",
        '--logging-config={"pylogging_config_file": "/models/logging.json"}',
        "--logging_config.pylogging_config_file=/models/logging.json",
        "--logging-c.pylogging_config_file=/models/logging.json",
    ],
    "--model-class-overrides": ['--model-class-overrides={"a": "b:C"}', "--model-class-overrides.a=b:C"],
    "--distributed-executor-backend": ["--distributed-executor-backend=os.system", "--distributed-executor=a.b"],
    "--compilation-config": [
        '--compilation-config={"backend": "a.b"}',
        "--compilation-config.backend=a.b",
        "--compilation_config.backend=a.b",
        "-cc.backend=a.b",
    ],
    "--kv-events-config": ["--kv-events-config.endpoint=tcp://*:5557", '--kv-events-config={"publisher": "zmq"}'],
    "--model-loader-extra-config": ["--model-loader-extra-config.a=b", '--model-loader-extra-config={"a": "b"}'],
    "--limit-mm-per-prompt": ['--limit-mm-per-prompt.image={"count": 1}'],
    "--chat-template": ["--chat-template=/proc/self/environ", "--chat-templ=/proc/self/environ"],
    "--otlp-traces-endpoint": ["--otlp-traces-endpoint=http://attacker.example/", "--otlp_traces_endpoint=http://a/"],
    "--log-config-file": ["--log-config-file=/models/logging.json"],
    "--unknown-to-this-version": ["--unknown-to-this-version=a"],
}


@pytest.mark.parametrize("option", HOSTILE)
def test_an_argument_that_is_not_known_as_harmless_needs_the_right_to_create_pods(
    users: dict[str, User], option: str
) -> None:
    forms = [[one] for one in HOSTILE[option]] + [one.split("=", 1) for one in HOSTILE[option] if "=" in one]
    for args in forms:
        said = users[PLAIN].refusal("hostile", {"engine": {"args": ["--seed=1", *args]}}).partition("denied request")[2]
        assert "spec.engine.args: " in said, args
        assert "requires the right to create pods in namespace" in said
        assert "/" not in said, "no value"
    assert users[POD_MAKER].refusal("hostile", {"engine": {"args": HOSTILE[option]}}) == "", "the operator judges it"


def test_harmless_and_managed_arguments_and_variables_need_no_right(users: dict[str, User]) -> None:
    args = ["--seed=8", "--seed", "-1", "--enforce-eager", "--no-enable-prefix-caching", "--compilation-config.mode=3"]
    env = [{"name": "OMP_NUM_THREADS", "value": "8"}]
    assert users[PLAIN].refusal("harmless", {"engine": {"args": args, "env": env}}) == ""
    assert users[PLAIN].refusal("managed", {"engine": {"args": ["--port=1"]}}) == "", "the operator refuses it"


def test_a_variable_that_is_not_known_as_harmless_needs_the_right_to_create_pods(users: dict[str, User]) -> None:
    for name in ("LD_PRELOAD", "PYTHONPATH", "HF_ENDPOINT", "https_proxy", "OWN"):
        asked = {"engine": {"env": [{"name": name, "value": "secret-value"}]}}
        said = users[PLAIN].refusal("variable", asked)
        assert f"spec.engine.env: {name} requires the right to create pods" in said
        assert "secret-value" not in said
        assert users[POD_MAKER].refusal(f"variable-{name.lower().replace('_', '-')}", asked) == ""


def test_the_admission_policy_checks_only_fields_that_an_update_changes(users: dict[str, User]) -> None:
    plain, owner = users[PLAIN], users[POD_MAKER]
    assert owner.refusal("owned", {"engine": {**IMAGE["engine"], **token("known")["engine"]}}) == ""
    assert plain.patch("owned", {"replicas": 2, "model": {"servedName": "chat"}}) == ""
    assert plain.scale("owned", 3) == ""
    assert "spec.engine.image" in plain.patch("owned", {"engine": {"image": "example.com/other:1"}})
    assert "spec.engine.env" in plain.patch("owned", VARIABLE)
    assert plain.patch("owned", {"engine": {"image": None, "env": None}}) == ""


def test_the_admission_policy_does_not_apply_to_status_writes_of_the_operator(users: dict[str, User]) -> None:
    """It may not create pods either, and tells the status of what others asked for."""
    assert users[POD_MAKER].refusal("told", {**IMAGE, "paused": False}) == ""
    users[POD_MAKER].workspace.settled("told", "Stalled", "False")
