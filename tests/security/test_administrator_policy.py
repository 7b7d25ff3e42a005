"""What the owner does not allow is refused at a real API server, in the operator's own words."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from kubernetes.aio.client.api_client import ApiClient

from e2e.localkube.errors import ClusterError
from e2e.localkube.handle import LocalCluster
from e2e.localkube.waiting import eventually
from inference_operator.admission.administrator_policy import PolicyScope, administrator_policy
from inference_operator.admission.administrator_refusals import refusal_of_policy
from inference_operator.admission.administrator_rules import parameters
from inference_operator.api.administrator_policy import AdministratorPolicy
from inference_operator.api.refusal import Refusal
from inference_operator.api.spec import Spec
from inference_operator.kube.client import connect
from inference_operator.manifest import API_VERSION, INFERENCE_DEPLOYMENT, KIND, Manifest
from tests.testing.operated_cluster import SYSTEM, new_workspace
from tests.testing.random_specs import Specs
from tests.testing.workspace import Workspace, manifest

DOMAIN = "cluster.local"
CREATED = 201
AT_ONCE = 8
DIGEST = f"@sha256:{'0' * 64}"
KEY = "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----\n"
SENTENCE = "Ask platform@example.com."
COST = "cost"
"""What the API server says of a policy that exceeds its budget has this word."""

POLICIES: tuple[Manifest, ...] = (
    {"modelSources": {"allowed": ["hf://Qwen/", "oci://registry.example/models/"], "message": SENTENCE}},
    {
        "modelSources": {"allowed": ["hf://Qwen", "s3://models/a", "oci://registry.example:5000/m", "pvc://models"]},
        "images": {"allowed": ["docker.io/", "registry.example/own"], "message": SENTENCE},
        "s3Endpoints": {"allowed": ["http://minio.storage.svc:9000"]},
    },
    {
        "modelSources": {"allowed": ["hf://Qwen/Qwen3-8B", "oci://", "pvc://", "s3://"]},
        "images": {"allowed": ["registry.example:5000/", "docker.io/library/busybox"], "digests": True},
        "hubs": {"allowed": ["https://hub.example", "http://mirror:8080"], "message": SENTENCE},
        "s3Endpoints": {"allowed": ["Public", "http://169.254.169.254"], "message": SENTENCE},
        "gpus": {"most": 16},
        "vllmVersion": {"least": "0.31.0", "message": SENTENCE},
    },
    {
        "modelSources": {"allowed": ["hf://", "s3://", "pvc://", "oci://"]},
        "hubs": {"allowed": ["https://hub.example"]},
        "gpus": {"most": 4, "message": SENTENCE},
        "s3Endpoints": {"allowed": ["https://s3.eu-1.example.com"]},
    },
    {
        "evictionWait": {"most": "20m", "message": SENTENCE},
        "autoscalingBackends": {"allowed": ["BuiltIn"]},
        "modelSources": {"allowed": ["hf://", "s3://", "pvc://", "oci://registry.example/"]},
        "gpus": {"most": 60},
    },
    {"signatures": {"key": KEY, "message": SENTENCE}, "s3Endpoints": {"allowed": ["Public", "http://minio.storage"]}},
)
SOURCES = (
    *("hf://Qwen/Qwen3-8B", "hf://Qwen/Qwen3-8B-evil", "hf://Qwen-evil/a", "hf://qwen/a", "hf://Qwen", "hf://"),
    *("s3://models/a", "s3://models/ab", "s3://models/a/b", "s3://models", "pvc://models/a", "pvc://models-2/a"),
    *("oci://registry.example/models/a:1", f"oci://registry.example/models/a{DIGEST}", "oci://registry.example.evil/a"),
    *("oci://registry.example:5000/m:1", "oci://registry.example:5000/mm", "oci://registry.example:50/m", "oci://a"),
    *("oci://busybox:1", f"oci://busybox{DIGEST}", "oci://org/a", "oci://registry.example/models-evil/a"),
)
IMAGES = (
    *("busybox", "busybox:1", f"busybox{DIGEST}", "org/a:1", "docker.io/a/b", "index.docker.io/a/b", "Docker.io/a/b"),
    *("localhost/a", "localhost:5000/a", "EVIL/a", "registry.example/own:1", "registry.example/own-evil", "é/a"),
    *(f"registry.example:5000/a{DIGEST}", "registry.example:5000/a:1", "registry.example.evil/own", "a//b", "/a", "a/"),
    *("docker.io/vllm/a:v0.31.0", "docker.io/a/b:0.31.0-x86_64", f"docker.io/a/b:v0.30.9{DIGEST}", "a/b:v0.9.99"),
    *(
        "a/b:v1.0.0",
        "a/b:v0.31",
        "a/b:v0.31.00000",
        "a/b:xv0.31.0",
        "v0.31.0",
        "a:v0.31.0/b:v0.3.0",
        "a/b:v0.31.0é",
        "a:v0.31.0@x:v0.3.0",
    ),
    *(f"registry.example/own/x{DIGEST}", "registry.example/own@sha256:12", "[::1]:5000/a", "docker.io", "$(A)/b"),
)
ENDPOINTS = (
    *("http://169.254.169.254", "http://[fe80::1]", "http://127.0.0.1:9000", "http://[::1]:9", "http://2130706433"),
    *("http://0x7f.0.0.1", "http://0177.0.0.1", "http://1.2.3.0x4", "http://10.0.0.1", "http://[::ffff:10.0.0.1]"),
    *("http://localhost", "http://a.localhost:1", "http://minio", "http://minio.storage:9000", "http://MINIO.a.SVC"),
    *("http://minio.storage.svc:9000", "http://minio.storage.svc.cluster.local", "http://a.b.svc.other.domain"),
    *("http://metadata.google.internal", "https://s3.eu-1.example.com", "https://S3.EU-1.example.com", "http://a..b.c"),
    *(
        "https://s3.eu-1.example.com:443",
        "https://s3.eu-1.example.com:44399",
        "https://a.example.com.",
        "http://a_b.c.d",
    ),
    *("https://s3.eu-1.example.community", "http://a.b.c-", "http://1.2.3.4", "http://1.2.3.4a", "http://a.b.4c"),
)
VALUES = (
    *ENDPOINTS,
    *("https://hub.example", "https://hub.example/a", "https://hub.example@evil.com", "https://hub.example:8443"),
    *("http://mirror:8080", "http://mirror:80801", "HTTPS://HUB.EXAMPLE", "", " ", "a b", "https://hub.example /x"),
    *("https://s3.eu-1.example.com/", "https://s3.eu-1.example.com/a", "https://a.b.example.com x", "é", "true"),
)
VARIABLES = (
    *("HF_ENDPOINT", "hf_endpoint", "AWS_ENDPOINT_URL", "AWS_endpoint_url_s3", "aws_endpoint", "AWS_ENDPOINT_URL_STS"),
    *("AWS_METADATA_ENDPOINT", "VLLM_USE_MODELSCOPE", "HUGGINGFACE_CO_STAGING", "HF_TOKEN", "OTHER", "X_AWS_ENDPOINT"),
)

WAITS = ("0s", "20m", "1200s", "20m1s", "1h", "1h30m", "24h")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server answers to a resource."""

    status: int
    message: str


def namespace_of(number: int) -> str:
    return f"owned-{number}"


def scope_of(number: int) -> PolicyScope:
    return PolicyScope(SYSTEM, f"owner-{number}")


def config_map(scope: PolicyScope, policy: Manifest, *namespaces: str) -> Manifest:
    reference, data = scope.parameters, parameters(AdministratorPolicy.model_validate(policy), DOMAIN, namespaces)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": reference.name, "namespace": reference.namespace},
        "data": dict(data),
    }


def apply(cluster: LocalCluster, *objects: Manifest) -> None:
    for one in objects:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", input=json.dumps(one))


@pytest.fixture(scope="module")
def owned(kubernetes: LocalCluster, account: object) -> Iterator[LocalCluster]:
    """A namespace for each policy, beside the policy of the installed chart."""
    assert account, "the chart is installed"
    for number, policy in enumerate(POLICIES):
        kubernetes.kubectl("create", "namespace", namespace_of(number))
        parameter = config_map(scope_of(number), policy, namespace_of(number))
        apply(kubernetes, parameter, *administrator_policy(scope_of(number)))
    yield kubernetes
    for number in range(len(POLICIES)):
        for one in administrator_policy(scope_of(number)):
            kubernetes.kubectl("delete", one["kind"], one["metadata"]["name"])
        kubernetes.kubectl("delete", "namespace", namespace_of(number), "--wait=false")


@pytest.fixture
async def client(owned: LocalCluster) -> AsyncIterator[ApiClient]:
    found = await connect(owned.kubeconfig)
    for number in range(len(POLICIES)):
        await until_bound(found, number)
    yield found
    await found.close()  # type: ignore[no-untyped-call]  # the client's own


async def until_bound(client: ApiClient, number: int) -> None:
    """Wait until the API server has read the policy and its parameters: it alone refuses this resource."""
    asked = {"model": {"source": "hf://no/such"}, "replicas": 64}
    for _ in range(300):
        if scope_of(number).name in (await ask(client, number, asked)).message:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"policy {number} is not bound")


async def ask(client: ApiClient, number: int, spec: Manifest) -> Answer:
    """What the API server answers to a new resource, which it does not store."""
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "asked"}, "spec": spec}
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    path = f"{INFERENCE_DEPLOYMENT.path(namespace_of(number))}?dryRun=All"
    call = await client.param_serialize("POST", path, header_params=headers, body=body, auth_settings=["BearerToken"])
    response = await client.call_api(*call, _request_timeout=30)
    content: bytes = await response.read()  # type: ignore[no-untyped-call]  # the client's own
    return Answer(response.status, json.loads(content).get("message", ""))


class Owned:
    """A source of specs whose sources, images, endpoints and hubs are of all kinds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same ones each time
        self._specs = Specs(seed)

    def spec(self) -> Manifest:
        draw = self._random
        spec = self._specs.valid()
        model: Manifest = {"source": draw.choice(SOURCES)}
        if draw.random() < 1 / 3:
            model["adapters"] = [{"name": f"a/{n}", "source": draw.choice(SOURCES)} for n in range(draw.randint(1, 3))]
        if model["source"].startswith("s3://") and draw.random() < 2 / 3:
            model["s3"] = {"endpoint": draw.choice(ENDPOINTS)}
        spec["model"] = model
        spec.pop("cache", None)
        if "adapters" in model or model["source"].startswith("s3://"):
            spec["cache"] = {"claimName": "models"}
        engine: Manifest = spec.setdefault("engine", {})
        engine.pop("adapterSlots", None)
        engine["env"] = [self._variable(name) for name in draw.sample(VARIABLES, draw.choice((0, 0, 0, 1, 2)))]
        if draw.random() < 1 / 4:
            engine["image"] = draw.choice(IMAGES)
        else:
            engine.pop("image", None)
        spec.setdefault("hardware", {}).pop("network", None)
        for template in self._templates(spec):
            self._fill(template)
        if draw.random() < 1 / 4:
            spec["scheduling"] = {**spec.get("scheduling", {}), "evictionWait": draw.choice(WAITS)}
        return spec

    def _variable(self, name: str) -> Manifest:
        if self._random.random() < 1 / 5:
            return {"name": name, "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
        return {"name": name, "value": self._random.choice(VALUES)}

    def _templates(self, spec: Manifest) -> Iterator[Manifest]:
        for parent in (spec, spec.get("router", {})):
            if self._random.random() < 1 / 2:
                parent.pop("podTemplate", None)
            elif "podTemplate" in parent:
                yield parent["podTemplate"]

    def _fill(self, template: Manifest) -> None:
        containers = [one for name in ("sidecars", "initContainers") for one in template.get(name, ())]
        images = [volume["image"] for volume in template.get("volumes", ()) if "image" in volume]
        for one in containers:
            one["image"] = self._random.choice(IMAGES)
        for one in images:
            one["reference"] = self._random.choice(IMAGES)


def refusals(spec: Manifest, policy: Manifest) -> tuple[Refusal, ...]:
    found = refusal_of_policy(Spec.model_validate(spec), AdministratorPolicy.model_validate(policy), DOMAIN)
    return found.mistakes if found else ()


async def compare(client: ApiClient, seed: int) -> str:
    """What becomes of one resource; raises if the API server and the operator disagree about it."""
    number, spec = seed % len(POLICIES), Owned(seed).spec()
    answer = await ask(client, number, spec)
    by_policy = "ValidatingAdmissionPolicy" in answer.message
    if answer.status != CREATED and not by_policy:
        return "invalid"
    own, installed = refusals(spec, POLICIES[number]), refusals(spec, {})
    said = f"seed {seed}: {answer} {own} {installed} {json.dumps(spec)}"
    assert by_policy == bool(own or installed), said
    if by_policy:
        assert any(one.message in answer.message for one in (*own, *installed)), said
    return "refused" if by_policy else "accepted"


async def agreement(client: ApiClient, seeds: range) -> Counter[str]:
    few = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> str:
        async with few:
            return await compare(client, seed)

    return Counter(await asyncio.gather(*map(one, seeds)))


async def test_the_api_server_and_the_operator_refuse_the_same_resources_in_the_same_words(client: ApiClient) -> None:
    found = await agreement(client, range(400))
    assert found["refused"] > 100, found
    assert found["accepted"] > 40, found


@pytest.mark.full
async def test_the_api_server_and_the_operator_refuse_the_same_of_many_resources(client: ApiClient) -> None:
    found = await agreement(client, range(1_000, 21_000))
    assert sum(found.values()) == 20_000


def largest() -> Manifest:
    """A resource with the most adapters, variables and images, none of which any entry allows."""

    def template() -> Manifest:
        reference = f"registry.example/{'x' * 490}"
        containers = [{"name": f"c{n}", "image": f"{reference}{n}"} for n in range(4)]
        inits = [{"name": f"i{n}", "image": f"{reference}{n}"} for n in range(4)]
        volumes = [{"name": f"v{n}", "image": {"reference": f"{reference}{n}"}} for n in range(16)]
        return {"sidecars": containers, "initContainers": inits, "volumes": volumes}

    def source(number: int) -> str:
        return f"oci://registry.example/{'x' * 990}{number}"

    adapters = [{"name": f"{'a' * 120}{n}", "source": source(n)} for n in range(64)]
    names = [f"AWS_ENDPOINT_{'x' * 230}{number}" for number in range(64)]
    return {
        "model": {"source": source(0), "adapters": adapters},
        "cache": {"claimName": "models"},
        "engine": {
            "image": source(1)[6:500],
            "env": [{"name": name, "value": f"https://{'h.' * 900}example.com"} for name in names],
        },
        "podTemplate": template(),
        "router": {"podTemplate": template()},
    }


WIDEST: Manifest = {
    "modelSources": {"allowed": [f"oci://registry.example/{'x' * 50}{n:02}y" for n in range(32)]},
    "images": {"allowed": [f"registry.example/{'x' * 50}{n:02}y" for n in range(32)], "digests": True},
    "hubs": {"allowed": [f"https://{'h' * 50}{n:02}.example" for n in range(32)]},
    "s3Endpoints": {"allowed": [f"https://{'h' * 50}{n:02}.example" for n in range(32)]},
    "gpus": {"most": 1},
    "signatures": {"key": KEY},
}
"""A policy with the most entries, of a usual length."""


async def test_the_largest_resource_and_policy_stay_within_the_cost_budget(
    owned: LocalCluster, client: ApiClient
) -> None:
    """A policy that exceeds its budget refuses with a message about its cost, and not with its own."""
    apply(owned, config_map(scope_of(0), WIDEST, namespace_of(0)))
    for _ in range(300):
        answer = await ask(client, 0, {"model": {"source": "hf://Qwen/Qwen3-8B"}})
        if answer.status != CREATED:
            break
        await asyncio.sleep(0.1)
    answer = await ask(client, 0, largest())
    apply(owned, config_map(scope_of(0), POLICIES[0], namespace_of(0)))
    assert COST not in answer.message, answer
    assert scope_of(0).name in answer.message, answer
    assert "does not allow this" in answer.message, answer


# The policy of the installed chart


INSTALLED = PolicyScope(SYSTEM, "inference-operator")
BUCKET: Manifest = {"source": "s3://models/qwen"}


def tried(workspace: Workspace, *arguments: str, body: str | None = None) -> str:
    """What the API server answers; empty if it accepts."""
    try:
        workspace.kubectl(*arguments, input=body)
    except ClusterError as error:
        return str(error)
    return ""


def created(workspace: Workspace, name: str, spec: Manifest) -> str:
    return tried(workspace, "apply", "--filename=-", body=manifest(name, spec))


def probed(workspace: Workspace, spec: Manifest) -> str:
    """What the API server answers to a resource that it does not store."""
    return tried(workspace, "create", "--dry-run=server", "--filename=-", body=manifest("probe", spec))


@pytest.fixture(scope="module")
def workspace(kubernetes: LocalCluster, account: object) -> Iterator[Workspace]:
    assert account, "the chart is installed, and so its policy"
    found = new_workspace(kubernetes, "installed")
    yield found
    kubernetes.kubectl("delete", "namespace", found.namespace, "--wait=false")


@pytest.mark.parametrize("endpoint", ["http://169.254.169.254", "http://[::1]:9000", "https://kubernetes.default.svc"])
def test_without_a_setting_an_endpoint_inside_the_cluster_is_refused(workspace: Workspace, endpoint: str) -> None:
    spec = {"model": {**BUCKET, "s3": {"endpoint": endpoint}}, "cache": {"claimName": "models"}}
    assert "spec.model.s3.endpoint: The policy of this cluster (`s3Endpoints`)" in created(workspace, "inside", spec)


def test_without_a_setting_everything_else_is_allowed(workspace: Workspace) -> None:
    spec = {
        "model": {**BUCKET, "s3": {"endpoint": "https://s3.eu-1.example.com"}},
        "cache": {"claimName": "models"},
        "engine": {"image": "anywhere.example/a:1", "env": [{"name": "HF_ENDPOINT", "value": "http://hub"}]},
        "replicas": 64,
    }
    assert not created(workspace, "outside", spec)


def test_a_resource_that_a_later_policy_does_not_allow_can_be_labelled_paused_and_scaled_down_but_not_go_further(
    kubernetes: LocalCluster, workspace: Workspace
) -> None:
    spec: Manifest = {"model": {"source": "hf://org/a"}, "replicas": 3, "paused": True}
    assert not created(workspace, "earlier", spec)
    tight = {"modelSources": {"allowed": ["hf://Qwen/"], "message": SENTENCE}, "gpus": {"most": 1}}
    try:
        apply(kubernetes, config_map(INSTALLED, tight))
        eventually(
            lambda: SENTENCE in probed(workspace, {"model": {"source": "hf://org/b"}}),
            seconds=60,
            what="the API server knows the parameters",
        )
        assert not tried(workspace, "label", "infd", "earlier", "team=a")
        assert not created(workspace, "earlier", {**spec, "replicas": 2, "drainTimeout": "1m"})
        assert "asks for at least 4" in created(workspace, "earlier", {**spec, "replicas": 4})
        assert "spec.model.source" in created(workspace, "earlier", {**spec, "model": {"source": "hf://org/b"}})
        assert not tried(workspace, "delete", "infd", "earlier")
    finally:
        apply(kubernetes, config_map(INSTALLED, {}))
    eventually(
        lambda: not probed(workspace, {"model": {"source": "hf://org/b"}}),
        seconds=60,
        what="the API server knows the parameters",
    )
