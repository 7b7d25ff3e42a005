"""A pod on a node with hardware errors, from its status to its one deletion."""

from inference_operator.api.reasons import ConditionType
from inference_operator.manifest import POD, Ref
from inference_operator.workload.eviction.hardware_errors import MOVED_ANNOTATION, RECORD_TIME
from tests.controller.world import World
from tests.testing.builders import ENGINES, pod
from tests.testing.memory_cluster import SYSTEM_METADATA, Request
from tests.workload.test_hardware_errors import ECC, crashed


def add_pod(world: World, name: str, *, restarts: int) -> Ref:
    """Add a pod on the only node, as scheduler and kubelet do."""
    status = crashed(ECC, restarts=restarts)
    made = pod(name=name, status=status)
    meta = {key: value for key, value in made["metadata"].items() if key not in SYSTEM_METADATA}
    manifest = {**made, "metadata": meta, "spec": {"nodeName": "h100-a"}}
    ref = Ref.of(world.cluster.apply_as("kube-controller-manager", manifest))
    world.cluster.set_status(ref, status)
    return ref


async def test_the_pod_is_deleted_once_and_the_next_one_on_the_same_node_stays(world: World) -> None:
    world.ask()
    await world.settle()
    first = add_pod(world, "a", restarts=1)
    writes = await world.settle()
    assert Request("delete", first) not in writes
    condition = world.status().condition(ConditionType.RECONCILING)
    assert condition is not None
    assert condition.reason == "GpuHardwareError"
    assert "Pod a does not run on node `h100-a`: a GPU reports an uncorrectable ECC error" in condition.message
    world.cluster.set_status(first, crashed(ECC, restarts=2))
    requeue = await world.reconcile()
    assert requeue is not None
    assert requeue.seconds == RECORD_TIME.total_seconds()
    assert [write for write in await world.settle() if write.verb == "delete"] == [Request("delete", first)]
    await world.restart()
    second = add_pod(world, "b", restarts=5)
    assert Request("delete", second) not in await world.settle()
    assert world.cluster.peek(Ref(POD, "default", "b")) is not None
    assert "h100-a" in world.live(ENGINES)["metadata"]["annotations"][MOVED_ANNOTATION.key]


async def test_an_operator_that_ends_between_record_and_deletion_deletes_the_pod_after_its_start(world: World) -> None:
    world.ask()
    await world.settle()
    first = add_pod(world, "a", restarts=2)
    await world.reconcile()
    await world.restart()
    assert Request("delete", first) in await world.settle()
