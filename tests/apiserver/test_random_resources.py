"""Thousands of random resources from the schema: each is refused with a reason or gets valid children."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

import pytest

from e2e.localkube.handle import LocalCluster
from inference_operator.controller.cluster import ClusterError, RejectedError
from inference_operator.controller.drift import first_drift
from inference_operator.kube.client import Api, connect
from inference_operator.kube.cluster import KubeCluster
from inference_operator.manifest import (
    API_VERSION,
    CHILD_KINDS,
    INFERENCE_DEPLOYMENT,
    JOB,
    KIND,
    SERVICE,
    Manifest,
    Ref,
)
from inference_operator.objects.child import DESIRED_HASH_ANNOTATION
from inference_operator.objects.names import NAME_LABEL
from inference_operator.workload.eviction.rollout import ROLLOUT_ANNOTATION
from tests.testing.listings import listing
from tests.testing.operator_process import OperatorProcess
from tests.testing.random_specs import Specs
from tests.testing.schemas import validate

NAMESPACE = "random"
BATCH = 100
AT_ONCE = 8
UNTYPED = "failed to create typed patch object"
"""Server-side apply's answer to a field or type that the schema does not have, with HTTP status 500."""
DONE_SECONDS, LOOK_SECONDS = 300, 0.5
OF_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")
OF_THE_MOMENT = (ROLLOUT_ANNOTATION.key, DESIRED_HASH_ANNOTATION)
"""How a rollout is carried out is decided when it begins, by the GPUs that are free then (`eviction/rollout.py`)."""


@pytest.fixture(scope="session")
def namespace(kubernetes: LocalCluster, operator: OperatorProcess) -> Iterator[str]:
    """A namespace in which no pod may be: what is proved here is about children, and pods would only cost time."""
    assert operator.is_running()
    kubernetes.kubectl("create", "namespace", NAMESPACE)
    kubernetes.kubectl("--namespace", NAMESPACE, "create", "quota", "no-pods", "--hard=pods=0")
    yield NAMESPACE
    kubernetes.kubectl("delete", "namespace", NAMESPACE, "--wait=false")


@pytest.fixture
async def cluster(kubernetes: LocalCluster, namespace: str) -> AsyncIterator[KubeCluster]:
    assert namespace == NAMESPACE
    client = await connect(kubernetes.kubeconfig)
    yield KubeCluster(Api(client))
    await client.close()  # type: ignore[no-untyped-call]  # the client's own


def ref(name: str) -> Ref:
    return Ref(INFERENCE_DEPLOYMENT, NAMESPACE, name)


async def ask(cluster: KubeCluster, name: str, spec: Manifest) -> str:
    """Apply a resource; returns why it was refused, or nothing."""
    meta = {"name": name, "namespace": NAMESPACE}
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec}
    try:
        await cluster.apply(ref(name), body, force=True)
    except RejectedError as error:
        return str(error)
    except ClusterError as error:
        if UNTYPED not in str(error):
            raise
        return str(error)
    return ""


async def ask_all(cluster: KubeCluster, asked: dict[str, Manifest]) -> dict[str, str]:
    """Apply many, a few at once; returns the refusals by name."""
    few = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, spec: Manifest) -> tuple[str, str]:
        async with few:
            return name, await ask(cluster, name, spec)

    return {name: why for name, why in await asyncio.gather(*(one(*item) for item in asked.items())) if why}


async def listed(cluster: KubeCluster) -> list[Manifest]:
    return list((await listing(cluster, INFERENCE_DEPLOYMENT, namespace=NAMESPACE)).items)


async def answered(cluster: KubeCluster) -> dict[str, Manifest]:
    """Every resource, once the operator has told of its latest generation."""
    for _ in range(int(DONE_SECONDS / LOOK_SECONDS)):
        found = await listed(cluster)
        waiting = [one for one in found if one["status"]["observedGeneration"] != one["metadata"]["generation"]]
        if not waiting:
            return {one["metadata"]["name"]: one for one in found}
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"without an answer: {waiting[0]}")


async def children(cluster: KubeCluster) -> dict[str, list[Manifest]]:
    """All children by the resource that they belong to."""
    found: dict[str, list[Manifest]] = {}
    for kind in CHILD_KINDS:
        for child in (await listing(cluster, kind, namespace=NAMESPACE, selector=NAME_LABEL)).items:
            found.setdefault(child["metadata"]["labels"][NAME_LABEL], []).append(child)
    return found


async def clear(cluster: KubeCluster, kubernetes: LocalCluster) -> None:
    """Delete every resource and the claims that are retained, and wait until the garbage collector has followed."""
    for kind in ("infd", "persistentvolumeclaims"):
        kubernetes.kubectl("--namespace", NAMESPACE, "delete", kind, "--all", "--wait=true")
    for _ in range(int(DONE_SECONDS / LOOK_SECONDS)):
        if not await children(cluster):
            return
        await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError("children are left over")


def condition(resource: Manifest, kind: str) -> Manifest:
    found: Manifest = next(c for c in resource["status"]["conditions"] if c["type"] == kind)
    return found


def stalled(resource: Manifest) -> Manifest:
    return condition(resource, "Stalled")


def is_inspected(resource: Manifest) -> bool:
    """The reason may be that of the Job's pod: no node has room for it here."""
    return bool(condition(resource, "ModelResolved")["message"] == "The model is being inspected.")


def judge(resource: Manifest, made: Sequence[Manifest], valid: set[str]) -> str:
    """What became of a resource that the API server accepted; fails if it is neither refused in words nor served."""
    paused = resource["spec"].get("paused", False)
    told = stalled(resource)
    if told["status"] == "True":
        assert told["message"].strip()
        return f"refused by the operator: {told['reason']}"
    if paused:
        return "paused"
    inspected = is_inspected(resource)
    served = 3 if resource["spec"].get("router", {}).get("strategy") == "External" else 5
    least = 1 if inspected else served
    assert len(made) >= least, f"{resource['spec']}: {[child['metadata']['name'] for child in made]}"
    for child in made:
        stamp = f"{child['kind']} {child['metadata']['annotations'][DESIRED_HASH_ANNOTATION]}"
        if stamp not in valid:
            validate(child)
            valid.add(stamp)
    return "inspected by a valid Job" if inspected else "served by valid children"


async def run(cluster: KubeCluster, kubernetes: LocalCluster, operator: OperatorProcess, number: int) -> Counter[str]:
    """Ask for that many resources and edits, in batches; returns what became of them."""
    source, found, valid = Specs(seed=number), Counter[str](), set[str]()
    while found["resources and edits"] < number:
        for _ in ("created", "edited"):
            asked = {f"r{n}": source.any() for n in range(min(BATCH, number - found["resources and edits"]))}
            refused = await ask_all(cluster, asked)
            assert all("spec" in why for why in refused.values()), refused
            known, made = await answered(cluster), await children(cluster)
            found["resources and edits"] += len(asked)
            found["refused by the API server"] += len(refused)
            found.update(judge(known[name], made.get(name, []), valid) for name in asked if name not in refused)
            assert operator.is_running(), operator.log()
        await clear(cluster, kubernetes)
        print(dict(found.most_common()), flush=True)  # noqa: T201 - a long run says how far it is
    return found


@pytest.mark.parametrize("number", [80, pytest.param(10_000, marks=pytest.mark.full)])
async def test_random_resources_are_refused_with_a_reason_or_get_valid_children(
    cluster: KubeCluster, kubernetes: LocalCluster, operator: OperatorProcess, number: int
) -> None:
    found = await run(cluster, kubernetes, operator, number)
    print("\n".join(f"{count:6} {what}" for what, count in found.most_common()))  # noqa: T201 - the run's report
    assert found["resources and edits"] == number
    assert found["refused by the API server"] > number / 5
    assert found["served by valid children"] + found["inspected by a valid Job"] > number / 10


def timeless(child: Manifest) -> Manifest:
    """Without what differs between any two objects of the same content."""
    meta = {name: value for name, value in child["metadata"].items() if name not in OF_THE_SERVER}
    passing = OF_THE_MOMENT if ROLLOUT_ANNOTATION.key in meta["annotations"] else ()
    meta["annotations"] = {
        name: value
        for name, value in meta["annotations"].items()
        if name not in passing and not name.startswith("deployment.kubernetes.io/")
    }
    # A Job's pods are found by its uid, which is in its selector and its template.
    of_a_job = ("selector", "template") if child["kind"] == JOB.name else ()
    given = ("clusterIP", "clusterIPs", "healthCheckNodePort", *of_a_job, *(("strategy",) if passing else ()))
    spec = {name: value for name, value in child.get("spec", {}).items() if name not in given}
    if child["kind"] == SERVICE.name:
        spec["ports"] = [{**port, "nodePort": None} for port in spec.get("ports", ())]
    return {**{name: value for name, value in child.items() if name != "status"}, "metadata": meta, "spec": spec}


def whole(spec: Manifest) -> Manifest:
    """Without empty objects: applied where there was something, they become null, and the API server refuses that."""
    kept = {name: whole(value) if isinstance(value, dict) else value for name, value in spec.items()}
    return {name: value for name, value in kept.items() if value != {}}


def is_decided(resource: Manifest) -> bool:
    """Whether its children are what it asks for, and not those of what it was before."""
    return not resource["spec"].get("paused") and not is_inspected(resource)


def of_one_kind(spec: Manifest) -> Manifest:
    """With at most one kind of GPU: of several, engines keep the one that they have."""
    gpu = spec.get("hardware", {}).get("gpu", {})
    kept = {**gpu, "products": gpu["products"][:1]} if "products" in gpu else gpu
    return {**spec, "hardware": {**spec["hardware"], "gpu": kept}} if gpu else spec


def with_router(spec: Manifest) -> Manifest:
    """Not `External`: after it the Service selects engines until a router is ready, which none is without pods.

    Nor with API keys: engines mount a Secret whose name has the uid of the resource.
    """
    router = spec.get("router", {})
    other = router.get("strategy") == "External" or "keys" in router
    return {name: value for name, value in spec.items() if name != "router"} if other else spec


def without_cache(spec: Manifest) -> Manifest:
    """Without adapters too. Engines that exist stay until a Job has ended, which none does without a node."""
    own = {"model": {"adapters"}, "engine": {"adapterSlots"}}
    kept = {name: value for name, value in spec.items() if name != "cache"}
    for part, gone in own.items():
        if part in kept:
            kept[part] = {name: value for name, value in kept[part].items() if name not in gone}
    return kept


def by_name(made: Sequence[Manifest]) -> dict[str, Manifest]:
    return {f"{child['kind']}/{child['metadata']['name']}": timeless(child) for child in made}


def with_number_of(last: Manifest, spec: Manifest) -> Manifest:
    """A specification with what decides the number of engines in the last one."""
    scaled = {"autoscaling": last["autoscaling"]} if "autoscaling" in last else {}
    kept = {name: value for name, value in spec.items() if name != "autoscaling"}
    return {**kept, "replicas": last.get("replicas", 1), **scaled}


async def test_children_depend_on_the_spec_and_not_on_earlier_specs(
    cluster: KubeCluster, kubernetes: LocalCluster
) -> None:
    source = Specs(seed=8)
    last = {f"h{n}": without_cache(with_router(whole(of_one_kind(source.valid())))) for n in range(20)}
    for step in range(3):
        # Routers keep the server slots of the most engines that there were, and an autoscaler the number that it
        # decided. So the number of engines is the same.
        earlier = {
            name: with_number_of(spec, without_cache(with_router(whole(source.valid())))) for name, spec in last.items()
        }
        refused = await ask_all(cluster, earlier if step < 2 else last)
        assert not refused
        await answered(cluster)
    with_history = await children(cluster)
    known = await answered(cluster)
    served = [name for name, one in known.items() if stalled(one)["status"] == "False" and is_decided(one)]
    assert len(served) > len(last) / 8
    await clear(cluster, kubernetes)
    assert not await ask_all(cluster, last)
    await answered(cluster)
    without = await children(cluster)
    for name in served:
        one, other = by_name(with_history[name]), by_name(without[name])
        assert (first_drift(one, other), first_drift(other, one)) == (None, None), last[name]
        assert one == other
