"""Lookups, from the failing pod to the status that names the cause."""

from datetime import timedelta

from inference_operator.api.reasons import ConditionType
from inference_operator.diagnosis.startup_progress import REPORT_AFTER
from inference_operator.kube.lookup_poller import look_up
from inference_operator.manifest import POD, Manifest, Ref
from tests.controller.world import RESOURCE, World
from tests.engines.test_vllm_phase import START
from tests.status.situations import starting
from tests.testing.builders import pod, waiting
from tests.testing.memory_cluster import SYSTEM_METADATA, Request

NAME = "qwen-engine-7c9f-abcde"
ENGINE_POD = Ref(POD, "default", NAME)
END: Manifest = {"terminated": {"exitCode": 1}}
CYCLE: list[Manifest] = [
    {"state": END, "lastState": {}},
    {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": END},
    {"state": {"running": {}}, "started": False, "lastState": END},
]
"""The pod status of a crash loop; the kubelet counts a restart when the container runs again."""


async def round_with_looks(world: World) -> None:
    """Reconcile, run the requested lookups, and reconcile again until nothing changes."""
    await world.settle()
    again = await world.reconcile()
    for look in again.lookups if again else ():
        world.cache.put_lookup(look, await look_up(world.cluster, look))
    await world.settle()


def made(world: World) -> None:
    manifest = pod(name=NAME)
    meta = {name: value for name, value in manifest["metadata"].items() if name not in SYSTEM_METADATA}
    world.cluster.apply_as("replicaset", {**manifest, "metadata": meta})


def shown(world: World, container: Manifest) -> None:
    status = waiting("", "")
    status["containerStatuses"] = [{**status["containerStatuses"][0], **container}]
    world.cluster.set_status(ENGINE_POD, status)


async def test_a_crash_loop_is_in_the_status_with_its_log_and_not_written_again_at_each_restart(settled: World) -> None:
    made(settled)
    settled.cluster.say(NAME, "Loading\nValueError: no\n")
    before = len(settled.cluster.writes)
    for turn in range(5):
        for number, phase in enumerate(CYCLE):
            shown(settled, {**phase, "restartCount": turn + (number == 2)})
            await round_with_looks(settled)
    assert settled.cluster.writes[before:] == [Request("status", RESOURCE)] * 2  # the end, and its cause
    told = settled.status().condition(ConditionType.RECONCILING)
    assert told is not None
    assert told.message == (
        f"Pod {NAME} does not run: container `engine` ended with exit code 1: ValueError: no."
        f" `kubectl logs -n default {NAME} -c engine --previous` prints all of its output."
    )


async def test_a_lookup_result_leaves_the_status_together_with_its_reason(settled: World) -> None:
    made(settled)
    shown(settled, {"state": END})
    await round_with_looks(settled)
    again = await settled.reconcile()
    assert again is not None
    (look,) = again.lookups
    settled.cluster.remove(ENGINE_POD)
    after = await settled.reconcile()
    assert after is None or after.lookups == ()
    settled.cache.put_lookup(look, None)
    told = settled.status().condition(ConditionType.RECONCILING)
    assert told is not None
    assert told.reason == "Starting"


async def test_each_phase_of_an_engine_start_takes_one_status_write(settled: World) -> None:
    """The log grows line by line like a recorded one, and is read after each line."""
    made(settled)
    before = len(settled.cluster.writes)
    words: list[str] = []

    async def show(status: Manifest) -> None:
        settled.cluster.set_status(ENGINE_POD, status)
        await round_with_looks(settled)
        words.append(settled.status().message.removeprefix("0 of 1 engine is ready.").strip())

    await show(starting())
    settled.now += REPORT_AFTER
    await show(starting())
    await show(starting(state={"waiting": {"reason": "ContainerCreating"}}))
    since = [condition.last_transition_time for condition in settled.status().conditions]
    lines = START.splitlines(keepends=True)
    for number in range(len(lines) + 1):
        settled.now += timedelta(seconds=1)
        settled.cluster.say(NAME, "".join(lines[:number]))
        await show(starting(state={"running": {}}, started=False, restartCount=0))
    told = list(dict.fromkeys(words))
    assert told == [
        "",
        f"Pod {NAME} waits for its network, its volumes or its images.",
        f"Pod {NAME} pulls its images.",
        f"Pod {NAME} starts its engine.",
        f"Pod {NAME} sets up its engine.",
        f"Pod {NAME} loads the weights.",
        f"Pod {NAME} warms up.",
    ]
    assert settled.cluster.writes[before:] == [Request("status", RESOURCE)] * (len(told) - 1)
    assert [condition.last_transition_time for condition in settled.status().conditions] == since


async def test_the_weights_that_are_loaded_take_one_status_write_for_each_tenth(settled: World) -> None:
    made(settled)
    settled.now += REPORT_AFTER
    running = starting(state={"running": {}}, started=False, restartCount=0)
    shards = "Loading safetensors checkpoint shards: {0:3}% Completed | {0}/100 [00:07<{1:02}:00,  3.6s/it]\n"
    settled.cluster.say(NAME, shards.format(0, 0))
    settled.cluster.set_status(ENGINE_POD, running)
    await round_with_looks(settled)
    before, told = len(settled.cluster.writes), []
    for percent in range(101):
        settled.now += timedelta(seconds=1)
        settled.cluster.say(NAME, shards.format(percent, (105 - percent) // 5))
        await round_with_looks(settled)
        told.append(settled.status().message)
    assert list(dict.fromkeys(told))[-1].endswith(f"Pod {NAME} loads the weights (90 %, 3 min left).")
    assert settled.cluster.writes[before:] == [Request("status", RESOURCE)] * 9
