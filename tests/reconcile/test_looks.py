"""What has to be looked up, from the pod that failed to the status that tells why."""

from inference_operator.api.reasons import ConditionType
from inference_operator.kube.looks import look_up
from inference_operator.manifest import POD, Manifest, Ref
from tests.builders import pod, waiting
from tests.memory_cluster import SYSTEM_METADATA, Request
from tests.reconcile.world import RESOURCE, World

NAME = "qwen-engine-7c9f-abcde"
ENGINE_POD = Ref(POD, "default", NAME)
END: Manifest = {"terminated": {"exitCode": 1}}
CYCLE: list[Manifest] = [
    {"state": END, "lastState": {}},
    {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": END},
    {"state": {"running": {}}, "started": False, "lastState": END},
]
"""What the kubelet shows of a container that ends again and again; a restart is counted when it runs again."""


async def round_with_looks(world: World) -> None:
    """A round, what it wants looked up, and the rounds that this brings about."""
    await world.settle()
    again = await world.reconcile()
    for look in again.looks if again else ():
        world.cache.see(look, await look_up(world.cluster, look))
    await world.settle()


def made(world: World) -> None:
    manifest = pod(name=NAME)
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    world.cluster.apply_as("replicaset", {**manifest, "metadata": meta})


def shown(world: World, container: Manifest) -> None:
    status = waiting("", "")
    status["containerStatuses"] = [{**status["containerStatuses"][0], **container}]
    world.cluster.set_status(ENGINE_POD, status)


async def test_a_crash_loop_is_told_with_its_log_and_not_again_for_every_restart(settled: World) -> None:
    made(settled)
    settled.cluster.say(NAME, "Loading\nValueError: no\n")
    before = len(settled.cluster.writes)
    for turn in range(5):
        for number, phase in enumerate(CYCLE):
            shown(settled, {**phase, "restartCount": turn + (number == 2)})
            await round_with_looks(settled)
    assert settled.cluster.writes[before:] == [Request("status", RESOURCE)] * 2
    told = settled.status().condition(ConditionType.RECONCILING)
    assert told is not None
    assert told.message == (
        f"Pod {NAME} does not run: container `engine` ended with exit code 1: Loading ValueError: no"
    )


async def test_what_was_seen_goes_with_its_reason(settled: World) -> None:
    made(settled)
    shown(settled, {"state": END})
    await round_with_looks(settled)
    again = await settled.reconcile()
    assert again is not None
    (look,) = again.looks
    settled.cluster.remove(ENGINE_POD)
    after = await settled.reconcile()
    assert after is None or after.looks == ()
    settled.cache.see(look, None)
    told = settled.status().condition(ConditionType.RECONCILING)
    assert told is not None
    assert told.reason == "Starting"
