"""An account is refused at a real API server exactly if `required_rights` names a right that it lacks."""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from kubernetes.aio.client.api_client import ApiClient

from e2e.localkube.handle import LocalCluster
from inference_operator.admission.rights import MAX_NAMED, Requirement, Right, required_rights
from inference_operator.engines.registry import ENGINES
from inference_operator.kube.client import connect
from inference_operator.manifest import API_VERSION, GROUP, INFERENCE_DEPLOYMENT, KIND, PLURAL, Manifest
from tests.testing.random_specs import FEW, Specs

NAMESPACE = "rights"
OPTIONS = ENGINES.option_classes
AT_ONCE = 8
CREATED, FORBIDDEN, INVALID = 201, 403, (400, 422)
COST = "cost"
"""What the API server says of a policy that exceeds its budget has this word."""

_LETTERS = "abcxyz019"
NAMES = tuple("".join(letters) for length in range(1, FEW + 1) for letters in product(_LETTERS, repeat=length))
"""All names of objects that random resources have."""
LENT, SHOWN = NAMES[::2], NAMES[::3]

GRANTS: Mapping[str, tuple[Right, ...]] = {
    "nobody": (),
    "pods": (Right("create", "pods"),),
    "publisher": (
        Right("create", "services"),
        Right("create", "ingresses", "networking.k8s.io"),
        Right("create", "httproutes", "gateway.networking.k8s.io"),
        Right("create", "inferencepools", "inference.networking.k8s.io"),
        Right("create", "persistentvolumeclaims"),
        Right("create", "horizontalpodautoscalers", "autoscaling"),
        Right("create", "scaledobjects", "keda.sh"),
        Right("create", "poddisruptionbudgets", "policy"),
    ),
    "borrower": tuple(
        Right("use", plural, name=name)
        for plural in ("secrets", "configmaps", "persistentvolumeclaims")
        for name in (*LENT, "models")
    ),
    "reader": tuple(
        Right("get", plural, name=name)
        for plural in ("secrets", "configmaps", "persistentvolumeclaims")
        for name in SHOWN
    ),
    "all": (),
}
"""Accounts with their rights beside those on InferenceDeployments. `all` gets those of the others."""

HOSTILE_ARGUMENTS = (
    *("--seed=8", "--seed", "8", "-1", "--enforce-eager", "--no-enable-prefix-caching", "--port=1", "-tp=2"),
    *("--middleware=a.b", "--log-config-file", "/a", "--compilation-config.mode=3", "--compilation-config.backend=a.b"),
    *(
        '--compilation-config={"mode": 3}',
        '{"mode": 3}',
        " \t[1]",
        "--seed= {1",
        "--seed_x",
        "--see=8",
        "-O3",
        "-O",
        "-",
    ),
    *(
        "--",
        "--=1",
        "-cc.mode=3",
        "-cc.backend=a",
        "--kv_cache_metrics",
        "a=b",
        "é",
        "$(A)",
        "--seed=$(A)",
        "=",
        "-1.5e3",
    ),
)
VARIABLES = ("OMP_NUM_THREADS", "HF_TOKEN", "HOME", "LD_PRELOAD", "OWN", "https_proxy", "VLLM_PORT", "hf_token")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server answers to a resource."""

    status: int
    text: str


def is_allowed(account: str, need: Requirement) -> bool:
    granted = GRANTS[account] if account != "all" else tuple(one for grants in GRANTS.values() for one in grants)
    return any(right in granted for right in need.any_of)


def role(grants: tuple[Right, ...]) -> list[Manifest]:
    """The rules of a role."""
    named: dict[tuple[str, str, str], list[str]] = {}
    for right in grants:
        named.setdefault((right.verb, right.group, right.plural), []).extend([right.name] if right.name else [])
    found = [
        {"apiGroups": [group], "resources": [plural], "verbs": [verb], **({"resourceNames": names} if names else {})}
        for (verb, group, plural), names in named.items()
    ]
    return [{"apiGroups": [GROUP], "resources": [PLURAL], "verbs": ["create"]}, *found]


@pytest.fixture(scope="module")
def rights(kubernetes: LocalCluster, account: object) -> Iterator[LocalCluster]:
    assert account, "the chart is installed, and so its policies"
    kubernetes.kubectl("create", "namespace", NAMESPACE)
    for name, grants in GRANTS.items():
        rules = role(grants if name != "all" else tuple(one for each in GRANTS.values() for one in each))
        meta = {"name": name, "namespace": NAMESPACE}
        made = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": meta, "rules": rules}
        kubernetes.kubectl("apply", "--server-side", "--filename=-", input=json.dumps(made))
        kubernetes.kubectl("--namespace", NAMESPACE, "create", "rolebinding", name, f"--role={name}", f"--user={name}")
    yield kubernetes
    kubernetes.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
async def client(rights: LocalCluster) -> AsyncIterator[ApiClient]:
    found = await connect(rights.kubeconfig)
    for name in GRANTS:
        await _until(found, name, CREATED, {})
    await _until(found, "nobody", FORBIDDEN, {"engine": {"image": "example.com/engine:1"}})
    yield found
    await found.close()  # type: ignore[no-untyped-call]  # the client's own


async def _until(client: ApiClient, account: str, status: int, spec: Manifest) -> None:
    """Wait until the API server knows the role or the policies, which it reads a moment after they are written."""
    for _ in range(200):
        if (await ask(client, account, {"model": {"source": "hf://Qwen/Qwen3-8B"}, **spec})).status == status:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{account} gets no {status}")


async def ask(client: ApiClient, account: str, spec: Manifest) -> Answer:
    """What the API server answers to a new resource of this account, which it does not store."""
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "asked"}, "spec": spec}
    headers = {"Impersonate-User": account, "Accept": "application/json", "Content-Type": "application/json"}
    path = f"{INFERENCE_DEPLOYMENT.path(NAMESPACE)}?dryRun=All"
    call = await client.param_serialize("POST", path, header_params=headers, body=body, auth_settings=["BearerToken"])
    response = await client.call_api(*call, _request_timeout=30)
    content: bytes = await response.read()  # type: ignore[no-untyped-call]  # the client's own
    return Answer(response.status, content.decode())


class Hostile:
    """A source of specs in which arguments and variables are of all kinds."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same ones each time
        self._specs = Specs(seed)

    def spec(self) -> Manifest:
        spec = self._specs.valid()
        engine: dict[str, Any] = spec.setdefault("engine", {})
        if self._random.random() < 1 / 2:
            engine["args"] = self._random.choices(HOSTILE_ARGUMENTS, k=self._random.randint(1, 3))
        for variable in engine.get("env", ()):
            variable["name"] = self._random.choice(VARIABLES)
        if self._random.random() < 1 / 8:
            spec.setdefault("hardware", {}).setdefault("gpu", {})["resourceName"] = "devices/kvm"
        engine["env"] = list({one["name"]: one for one in engine.get("env", ())}.values())
        for part in ("podTemplate", "router"):
            if self._random.random() < 1 / 2:  # else nearly all would need the right to create pods
                spec.pop(part, None)
        return spec


async def compare(client: ApiClient, seed: int) -> tuple[str, str]:
    """One resource of one account: the account, and what became of it; raises if the two disagree."""
    hostile = Hostile(seed)
    spec, account = hostile.spec(), random.Random(seed).choice(list(GRANTS))  # noqa: S311 - the same ones each time
    answer = await ask(client, account, spec)
    assert COST not in answer.text, answer.text
    lacking = [need for need in required_rights(spec, OPTIONS) if not is_allowed(account, need)]
    if answer.status in INVALID:
        return account, "invalid"
    assert (answer.status == FORBIDDEN) == bool(lacking), (
        f"seed {seed}: {account} {answer} {lacking} {json.dumps(spec)}"
    )
    assert answer.status in (CREATED, FORBIDDEN), answer
    return account, "refused" if lacking else "accepted"


async def agreement(client: ApiClient, seeds: range) -> Counter[tuple[str, str]]:
    few = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> tuple[str, str]:
        async with few:
            return await compare(client, seed)

    return Counter(await asyncio.gather(*map(one, seeds)))


async def test_an_account_is_refused_exactly_if_it_lacks_a_right_that_is_required(client: ApiClient) -> None:
    found = await agreement(client, range(500))
    assert sum(count for (_, what), count in found.items() if what == "invalid") < 100
    for account in GRANTS:
        assert found[account, "accepted"], (account, found)
        assert found[account, "refused"] or account == "all", (account, found)


@pytest.mark.full
async def test_many_accounts_are_refused_exactly_if_they_lack_a_right(client: ApiClient) -> None:
    found = await agreement(client, range(1_000, 21_000))
    assert sum(found.values()) == 20_000


def largest() -> Manifest:
    """A resource with the most arguments, variables and references that it may have, close to the largest request."""

    def variable(number: int) -> Manifest:
        which = "secretKeyRef" if number % 2 else "configMapKeyRef"
        return {"name": f"V{number}{'x' * 250}", "valueFrom": {which: {"name": "a" * 253, "key": "k" * 253}}}

    def template(kind: str) -> Manifest:
        sidecars = [
            {"name": f"c{n}", "image": "a", "env": [variable(number) for number in range(32)]} for n in range(4)
        ]
        source = (
            {"configMap": {"name": "b" * 253}} if kind == "a" else {"persistentVolumeClaim": {"claimName": "c" * 253}}
        )
        return {"sidecars": sidecars, "volumes": [{"name": f"v{n}", **source} for n in range(16)]}

    args = [f"--{'s' * 4000}{number}={'x' * 80}" for number in range(64)]
    return {
        "model": {"source": "hf://Qwen/Qwen3-8B", "tokenSecretRef": {"name": "a" * 253, "key": "k"}},
        "engine": {"args": args, "env": [variable(number) for number in range(64)], "resources": _many()},
        "cache": {"claimName": "d" * 253},
        "podTemplate": template("a"),
        "router": {
            "podTemplate": template("b"),
            "keys": {"secretRef": {"name": "e" * 253}},
            "tls": {"secretRef": {"name": "f" * 253}},
            "ingress": {"host": "a.example.com", "tlsSecretRef": {"name": "g" * 253}},
            "httpRoute": {"parentRefs": [{"name": "gw"}]},
            "service": {"type": "LoadBalancer"},
        },
    }


def _many() -> Manifest:
    amounts = {f"example.com/{'d' * 40}{number}": "1" for number in range(16)}
    return {"requests": amounts, "limits": amounts}


async def test_the_largest_resource_stays_within_the_cost_budget_of_each_policy(client: ApiClient) -> None:
    """A policy that exceeds its budget refuses everybody, so that an accepted resource was within it."""
    spec = largest()
    refused = await ask(client, "nobody", spec)
    assert refused.status == FORBIDDEN
    assert COST not in refused.text, refused.text
    accepted = await ask(client, "all", spec)
    assert accepted.status == CREATED, accepted.text


async def test_the_most_arguments_and_variables_that_need_no_right_stay_within_the_cost_budget(
    client: ApiClient,
) -> None:
    last = max(OPTIONS["Auto"].safe)
    names = sorted(OPTIONS["Auto"].safe_variables - {"HF_TOKEN"}, reverse=True)[:64]
    engine = {
        "args": [f"{last}={'x' * (4095 - len(last))}" for _ in range(64)],
        "env": [{"name": name, "value": "x" * 8192} for name in names],
    }
    answer = await ask(client, "nobody", {"model": {"source": "hf://a/b"}, "engine": engine})
    assert answer.status == CREATED, answer.text


async def test_the_most_references_that_are_checked_by_name_stay_within_the_cost_budget(client: ApiClient) -> None:
    """The most authorizer checks: none is skipped, because the account may not create pods, and may not `use`."""
    name = next(name for name in SHOWN if name not in LENT)
    variables = [
        {"name": variable, "valueFrom": {"configMapKeyRef": {"name": name, "key": "k" * 253}}}
        for variable in sorted(OPTIONS["Auto"].safe_variables)[: MAX_NAMED + 1]
    ]
    asked = {"model": {"source": "hf://a/b"}, "engine": {"env": variables[:-1]}}
    answer = await ask(client, "reader", asked)
    assert answer.status == CREATED, answer.text
    refused = await ask(client, "reader", {**asked, "engine": {"env": variables}})
    assert refused.status == FORBIDDEN
    assert f"more than {MAX_NAMED} new names of configmaps" in refused.text


async def test_all_variables_that_are_made_for_a_secret_stay_within_the_cost_budget(client: ApiClient) -> None:
    name = next(name for name in SHOWN if name not in LENT)
    selector = {"secretKeyRef": {"name": name, "key": "k" * 253}}
    env = [{"name": variable, "valueFrom": selector} for variable in sorted(OPTIONS["Auto"].secret_variables)]
    router = {"keys": {"secretRef": {"name": name}}, "tls": {"secretRef": {"name": name}}}
    answer = await ask(client, "reader", {"model": {"source": "hf://a/b"}, "engine": {"env": env}, "router": router})
    assert answer.status == CREATED, answer.text
