"""An engine that reports too little memory, from its pod's status to the corrected Deployment."""

import pytest

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import POD, Manifest, Ref
from inference_operator.roles.pinned_plan import PLAN_ANNOTATION
from inference_operator.views.lookups import FreeGpusLookup, Unavailable
from inference_operator.views.pod import TEMPLATE_HASH_ANNOTATION, pod_template_hash
from tests.controller.world import RESOURCE, World
from tests.planning.test_healing import crashed, too_small
from tests.testing.builders import ENGINES, pod, ready_pod
from tests.testing.memory_cluster import SYSTEM_METADATA, Request

LEFT_TO_THE_ENGINE = ""
SHORT = crashed(too_small(40960, 5.6, 1.5, 10_500))
STATUS = Request("status", RESOURCE)
APPLY = Request("apply", ENGINES)


def add_pod(world: World, name: str, status: Manifest, *, node: str = "") -> None:
    """Add a pod of the live template, as its ReplicaSet, the scheduler and the kubelet do."""
    made = pod(name=name, status=status)
    if node:
        made = {**made, "spec": {**made.get("spec", {}), "nodeName": node}}
    meta = {key: value for key, value in made["metadata"].items() if key not in SYSTEM_METADATA}
    template = pod_template_hash(world.live(ENGINES)["spec"]["template"]["metadata"])
    meta["annotations"] = {TEMPLATE_HASH_ANNOTATION: template}
    ref = Ref.of(world.cluster.apply_as("kube-controller-manager", {**made, "metadata": meta}))
    world.cluster.set_status(ref, status)


def context(world: World) -> str:
    (container,) = world.live(ENGINES)["spec"]["template"]["spec"]["containers"]
    arguments: list[str] = container["args"]
    return next((argument for argument in arguments if argument.startswith("--max-model-len")), LEFT_TO_THE_ENGINE)


def know_gpus(world: World) -> None:
    world.cache.put_lookup(FreeGpusLookup("nvidia.com/gpu"), Unavailable(""))


@pytest.fixture
async def failing(world: World) -> World:
    """A resource whose first engine reports too little memory."""
    world.ask()
    await world.settle()
    add_pod(world, "first", SHORT)
    know_gpus(world)
    return world


async def test_the_deployment_gets_the_corrected_sizes_and_the_status_says_why(failing: World) -> None:
    assert context(failing) == LEFT_TO_THE_ENGINE
    writes = await failing.settle()
    assert (writes.count(APPLY), writes.count(Request("delete", Ref(POD, "default", "first")))) == (1, 0)
    assert context(failing) == "--max-model-len=9968"
    condition = failing.status().condition(ConditionType.SIZED)
    assert condition is not None
    assert "the context was reduced from 40,960 to 9,968 tokens" in condition.message
    assert await failing.settle() == []


async def test_the_correction_survives_a_restart_of_the_operator_and_is_made_once(failing: World) -> None:
    await failing.settle()
    await failing.restart()
    know_gpus(failing)
    assert await failing.settle() == []
    add_pod(failing, "second", crashed(too_small(9968, 1.4, 1.3, 9000)))
    assert APPLY not in await failing.settle()
    assert context(failing) == "--max-model-len=9968"
    assert failing.conditions()["Reconciling"] == ("True", "KvCacheTooSmall")


async def test_an_edit_of_the_sizes_drops_what_was_learned(failing: World) -> None:
    await failing.settle()
    failing.ask(engine={"kvCacheDtype": "fp8"})
    await failing.settle()
    assert context(failing) == LEFT_TO_THE_ENGINE
    plan = PLAN_ANNOTATION.read(failing.live(ENGINES))
    assert plan is not None
    assert plan.plan.learned is None


async def test_an_engine_that_serves_is_not_corrected(failing: World) -> None:
    add_pod(failing, "second", ready_pod())
    assert APPLY not in await failing.settle()
    assert context(failing) == LEFT_TO_THE_ENGINE
